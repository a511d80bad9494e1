"""Notices about load runs that failed, were blocked or lost. Written in the transaction that ends the run."""

from django.urls import reverse

from elevata.jobs import states
from loader.models import LoadRun
from metadata.domain.notices import Kind
from metadata.domain.roles import Permission, Place
from metadata.permissions import people_who_may
from metadata.services.notices import tell

_BECAME = {
    states.FAILED: "failed",
    states.BLOCKED: "is blocked: pending changes need a person",
    states.LOST: "lost its worker",
}


def tell_run_ended(run_pk: int) -> None:
    """Notify operators and the requesting user if the run failed, was blocked or lost. Other ends have no notice."""
    run = LoadRun.objects.select_related("environment", "requested_by").get(pk=run_pk)
    if run.status not in _BECAME:
        return
    environment, error = run.environment.name, run.error or {}
    message = f": {error['message']}" if error.get("message") and run.status != states.BLOCKED else ""
    tell(
        event=Kind.LOAD_FAILED,
        subject_kind="load run",
        subject_key=run.run_id,
        subject_name=run.run_id,
        title=f"{_name(run)} {run.run_id} in {environment} {_BECAME[run.status]}{message}",
        link=reverse("run_page", args=[run.run_id]),
        people=[*people_who_may(Permission.START_LOAD, Place(environment=environment)), run.requested_by],
        environment=environment,
        facts={"kind": run.kind, "status": str(run.status), "error": error.get("code", ""), "attempt": run.attempt},
    )


def _name(run: LoadRun) -> str:
    return "Load run" if run.kind == LoadRun.Kind.LOAD else f"{run.get_kind_display()} run"
