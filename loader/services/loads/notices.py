"""Notices about load runs that failed, were blocked or lost, written in the transaction that ends the run."""

from typing import Any

from django.urls import reverse

from elevata.accounts.access import holders
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission
from elevata.jobs import states
from elevata.notifications.kinds import Kind
from elevata.notifications.services import has_webhook, mark_settled, tell
from loader.domain.queries.masking import without_examples
from loader.models import LoadRun
from metadata.domain.scope import Scope

_BECAME = {
    states.FAILED: "failed",
    states.BLOCKED: "is blocked: pending changes need approval",
    states.LOST: "lost its worker",
}


def tell_run_ended(run_pk: int) -> None:
    """Notify operators and the requesting user if the run failed, was blocked or lost, and webhooks of every end."""
    run = LoadRun.objects.select_related("environment", "requested_by").get(pk=run_pk)
    environment, error = run.environment.name, run.error or {}
    run_end: dict[str, Any] = {
        "subject_kind": "load run",
        "subject_key": run.run_id,
        "subject_name": run.run_id,
        "link": reverse("run_page", args=[run.run_id]),
        "environment": environment,
        "facts": {"kind": run.kind, "status": str(run.status), "error": error.get("code", ""), "attempt": run.attempt},
    }
    if has_webhook(Kind.LOAD_ENDED):
        tell(event=Kind.LOAD_ENDED, title=f"{_name(run)} {run.run_id} in {environment}: {run.status}", **run_end)
    if run.status == states.SUCCEEDED:
        _settle_failures(run)
    if run.status not in _BECAME:
        return
    reason = (without_examples(error, "") or {}).get("message", "")
    message = f": {reason}" if reason and run.status != states.BLOCKED else ""
    tell(
        event=Kind.LOAD_FAILED,
        title=f"{_name(run)} {run.run_id} in {environment} {_BECAME[run.status]}{message}",
        users=[*holders(Permission.START_LOAD, Place(environment=environment)), run.requested_by],
        **run_end,
    )


def _settle_failures(run: LoadRun) -> None:
    """Mark notices about former failures as read: runs of the same kind and scope, or of any if it loads everything."""
    former = LoadRun.objects.filter(environment=run.environment, kind=run.kind, pk__lte=run.pk)
    if run.kind != LoadRun.Kind.LOAD or Scope.from_json(run.scope) != Scope():
        former = former.filter(scope=run.scope)
    mark_settled(subject_kind="load run", subject_key=former.values("run_id"), kinds=(Kind.LOAD_FAILED,))


def _name(run: LoadRun) -> str:
    return "Load run" if run.kind == LoadRun.Kind.LOAD else f"{run.get_kind_display()} run"
