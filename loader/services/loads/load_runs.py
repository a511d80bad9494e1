"""Life cycle of a load run: request, cancel, loss.

``elevata.jobs`` changes the states of its job.
"""

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction
from django.utils import timezone

from architecture.domain.refusals import Refused
from architecture.permissions import must_be_permitted, must_still_be_permitted, refuse_elsewhere
from architecture.services.automatic_changes import finish_execution
from architecture.services.environments import current_environment
from architecture.services.leases import release_leases
from elevata.accounts.actors import current_actor
from elevata.accounts.roles import Permission
from elevata.jobs import services as jobs
from elevata.jobs import states
from elevata.jobs.models import Job
from elevata.jobs.submission import Submitted
from loader.contract.refusals import Refusal
from loader.contract.run_states import AUTOMATIC, LOAD, MAINTENANCE
from loader.domain.historization.load_guards import check_not_ahead
from loader.models import DatasetRun, LoadRun, RunEvent
from loader.services.loads.attempts import end_datasets, holder_of
from loader.services.loads.notices import tell_run_ended
from loader.services.loads.plans import LoadPlan, plan_load
from loader.services.maintenance.approvals import (
    REPETITION,
    is_unapproved,
    missing_approvals,
    next_repetition,
    refuse_unapproved,
)
from loader.services.maintenance.records import seal_end
from loader.services.sources.specs import source_datasets
from metadata.domain.scope import Scope
from metadata.domain.sources.formats import reads_changes
from metadata.permissions import here

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,99}")


@dataclass(frozen=True)
class Asked:
    """Request for a run. ``asked`` has the details of its kind (``loader.contract.run_states``).

    ``check`` raises Refusal for a run that cannot be performed; it is called for new runs only.
    """

    kind: str = LOAD
    scope: Scope | None = None
    load_timestamp: datetime | None = None
    allow_empty: bool = False
    allow_deletes: bool = False
    full: bool = False
    since: str = ""
    asked: Mapping[str, Any] | None = None
    check: Callable[[], Any] = field(default=lambda: None)
    reason: str = ""


class RequestedRun(Submitted[LoadRun]):
    """Result of requesting a run; a succeeded or active run is unchanged."""

    @property
    def run(self) -> LoadRun:
        return self.job


def new_run_id(*, at: datetime | None = None) -> str:
    """Return a readable run id that sorts by time: ``20261121T081500Z-3f9c2a``."""
    at = (at or timezone.now()).astimezone(UTC)
    return f"{at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def request_load_run(
    *,
    scope: Scope | None = None,
    load_timestamp: datetime | None = None,
    run_id: str | None = None,
    allow_empty: bool = False,
    allow_deletes: bool = False,
    full: bool = False,
    since: str = "",
    user: Any = None,
    wake_worker: bool = True,
    reason: str = "",
) -> RequestedRun:
    """Request a load run; an existing run id repeats its run. ``reason`` is stored with a new run.

    Without a scope all datasets are loaded. A run that succeeded or is active is returned unchanged; one that failed,
    was blocked, cancelled or lost is queued again, and the reason is added to its log. Sources with a watermark are
    read from their marks, with ``full`` whole, with ``since`` from this value on. Raise Refusal for an empty scope, for
    the run id of a run with another scope or time, and for ``full`` or ``since`` without such a source, or if the run
    has read all of them. Without ``wake_worker`` no worker is woken: the caller claims the run in the same
    transaction.
    """
    since = since.strip()
    if full and since:
        raise Refusal("FULL_OR_SINCE", "a run reads sources whole or from a value on, not both", hint="Leave out one.")
    wanted = Asked(
        scope=scope,
        load_timestamp=load_timestamp,
        allow_empty=allow_empty,
        allow_deletes=allow_deletes,
        full=full,
        since=since,
        check=lambda: _check_plan(plan_load(scope or Scope()), full=full, since=since),
        reason=reason,
    )
    return request_run(wanted, run_id=run_id, user=user, wake_worker=wake_worker)


def _check_plan(plan: LoadPlan, *, full: bool, since: str) -> None:
    """Raise Refusal NO_WATERMARK if a user sets from where sources are read, and none of them has a mark.

    A full load also computes all rows of models with an increment.
    """
    if not (full or since) or (full and any(step.dataset.select for step in plan.steps)):
        return
    sources = source_datasets(step.dataset for step in plan.steps)
    if not _incremental(plan) and not (full and any(reads_changes(s.format, s.options) for s in sources.values())):
        raise Refusal(
            "NO_WATERMARK",
            "no source of this load has a watermark: all of them are read whole anyway",
            hint="Leave out Read whole and Read since (--full, --since), or set a watermark in the intake of a source "
            "dataset.",
        )


def _incremental(plan: LoadPlan) -> dict[str, str]:
    """Return the names of the raw datasets whose source has a watermark, by key."""
    sources = source_datasets(step.dataset for step in plan.steps)
    wanted = {key for key, source in sources.items() if source.intake.get("watermark")}
    raw = (step.dataset for step in plan.steps if step.dataset.layer == "raw")
    return {state.key: state.qualified_name for state in raw if wanted.intersection(state.inputs)}


def _check_repetition(run: LoadRun, wanted: Asked) -> None:
    """Raise Refusal READ_ALREADY if a user sets from where sources are read after the run has read all of them.

    A repetition does not read them again.
    """
    if not (wanted.full or wanted.since) or (wanted.full, wanted.since) == (run.full, run.since):
        return
    names = _incremental(plan_load(Scope.from_json(run.scope)))
    rows = DatasetRun.objects.filter(run=run, dataset_key__among=names, status=DatasetRun.Status.SUCCEEDED)
    if names and rows.count() == len(names):
        raise Refusal(
            "READ_ALREADY",
            f"run {run.run_id} has already read {', '.join(sorted(names.values()))}, and does not read it again",
            hint="Start another run with Read whole or Read since (--full, --since), or repeat this one without them.",
        )


def request_run(
    wanted: Asked, *, run_id: str | None = None, user: Any = None, requester: str = "", wake_worker: bool = True
) -> RequestedRun:
    """Request a run of any kind; see ``request_load_run``, and ``loader.services.maintenance`` for the others.

    ``user`` defaults to the current actor. A maintenance run that others must approve by the environment's policy is
    blocked, and queued with its last approval. Raise Refused NOT_PERMITTED for a user who may not start loads in this
    environment, NO_PERSON for a new or repeated maintenance run without a user, OTHER_ENVIRONMENT for the run id of a
    run of another environment, and Refusal LOAD_TIMESTAMP_AHEAD for a new run dated more than a day ahead.
    """
    if user is None and not requester and wanted.kind not in AUTOMATIC:
        user = current_actor().user
    if wanted.load_timestamp is not None and wanted.load_timestamp.tzinfo is None:
        wanted = replace(wanted, load_timestamp=wanted.load_timestamp.replace(tzinfo=UTC))
    if run_id is not None and not _RUN_ID.fullmatch(run_id):
        raise Refusal(
            "BAD_RUN_ID",
            f"{run_id[:120]!r} cannot be a run id",
            hint="up to 100 letters, digits and . _ : + -, beginning with a letter or digit",
        )
    with transaction.atomic():
        run = LoadRun.objects.filter(run_id=run_id).first() if run_id else None
        # Runs of a schedule (``requester``) belong to the environment, not to the user who created it.
        if ((run or wanted).kind in MAINTENANCE and not requester) or user is not None:
            must_be_permitted(user, Permission.START_LOAD, on=here)
        if run is None:
            if wanted.load_timestamp is not None:
                check_not_ahead(wanted.load_timestamp, now=timezone.now())
            wanted.check()
            run, created = _create(run_id, wanted, user, requester)
        else:
            created = False
            refuse_elsewhere(run.environment, f"run {run.run_id}")
        if created:
            result = RequestedRun(run, requested=_await_approval(run))
        else:
            _refuse_another(run, wanted)
            _refuse_reverted(run)
            result = _ask_again(run, wanted, user)
        if wake_worker:
            result.wake_after_commit()
    return result


def _create(run_id: str | None, wanted: Asked, user: Any, requester: str) -> tuple[LoadRun, bool]:
    now = timezone.now()
    try:
        with transaction.atomic():
            run = LoadRun.objects.create(
                run_id=run_id or new_run_id(at=now),
                environment=current_environment(),
                kind=wanted.kind,
                scope=(wanted.scope or Scope()).as_json(),
                load_timestamp=wanted.load_timestamp or now,
                allow_empty=wanted.allow_empty,
                allow_deletes=wanted.allow_deletes,
                full=wanted.full,
                since=wanted.since,
                requested_by=user,
                requester=requester,
                reason=wanted.reason,
                details={"asked": dict(wanted.asked)} if wanted.asked is not None else {},
            )
        return run, True
    except IntegrityError:  # the same id was requested at the same moment
        return LoadRun.objects.get(run_id=run_id), False


def _await_approval(run: LoadRun) -> bool:
    """Block a queued run that others must approve first; return False if it is blocked."""
    try:
        refuse_unapproved(run)
    except Refused as refused:
        if refused.code != "RUN_UNAPPROVED":
            raise
        jobs.block(job_pk=run.pk, error=refused.as_json())
        run.refresh_from_db()
        return False
    return True


def _refuse_another(run: LoadRun, wanted: Asked) -> None:
    differs, scope, at = [], wanted.scope, wanted.load_timestamp
    if wanted.kind != run.kind and (wanted.scope is not None or wanted.kind != LOAD):
        differs.append(f"it is a {run.get_kind_display().lower()}, not a {LoadRun.Kind(wanted.kind).label.lower()}")
    elif scope is not None and scope != Scope.from_json(run.scope):
        differs.append(f"it {_verb_of(run.kind)} {Scope.from_json(run.scope)}, not {scope}")
    elif wanted.asked is not None and dict(wanted.asked) != run.details.get("asked"):
        differs.append("it was requested with other details")
    if at is not None and at != run.load_timestamp:
        differs.append(f"it is dated {run.load_timestamp.isoformat()}, not {at.isoformat()}")
    if differs:
        raise Refusal(
            "RUN_ID_TAKEN",
            f"run {run.run_id} is another one: {' and '.join(differs)}",
            hint="leave the scope and time out to repeat that run, or give this one an id of its own",
        )


def _verb_of(kind: str) -> str:
    return "loads" if kind == LOAD else "is about"


def _refuse_reverted(run: LoadRun) -> None:
    """Raise Refusal RUN_REVERTED: a reverted run is not applied again; its rows need a run with another id."""
    row = DatasetRun.objects.filter(run=run, reverted_by__isnull=False).select_related("reverted_by").first()
    if row is not None:
        raise Refusal(
            "RUN_REVERTED",
            f"run {run.run_id} was reverted on {row.qualified_name} by run {row.reverted_by}",
            hint="load the delivery again with a run of its own",
        )


def _ask_again(run: LoadRun, wanted: Asked, user: Any) -> RequestedRun:
    jobs.mark_lost(job_pk=run.pk)
    # Locked, so that the run is not approved between its check and its new state.
    Job.objects.select_for_update().get(pk=run.pk)
    run.refresh_from_db()
    if is_unapproved(run) and missing_approvals(run):
        return RequestedRun(run, requested=False)
    # Another user may repeat a run.
    kept = {name: run.details[name] for name in ("asked", REPETITION) if name in run.details}
    kept |= {} if is_unapproved(run) else next_repetition(run)
    again = {"details": {**kept, "repeated_by": user.get_username() if user is not None else None}}
    queued = jobs.queue_again(job_pk=run.pk, started_at=None)
    if queued:
        _check_repetition(run, wanted)
        LoadRun.objects.filter(pk=run.pk).update(
            allow_empty=run.allow_empty or wanted.allow_empty,
            allow_deletes=run.allow_deletes or wanted.allow_deletes,
            full=wanted.full or (run.full and not wanted.since),
            since=wanted.since or ("" if wanted.full else run.since),
            **again,
        )
    run.refresh_from_db()
    if queued and wanted.reason:
        # The reason in the run's row stays that of the first request.
        _note(run, f"asked for again{_by(user)}: {wanted.reason}")
    for decision, text in (("allow_empty", "empty deliveries"), ("allow_deletes", "deletes beyond the guard")):
        if queued and getattr(wanted, decision):
            _note(run, f"{text} allowed{_by(user)}")
    if queued and (wanted.full or wanted.since):
        start = f"from {wanted.since} on" if wanted.since else "whole"
        _note(run, f"sources with a watermark are read {start}{_by(user)}")
    return RequestedRun(run, requested=queued and _await_approval(run))


def _by(user: Any) -> str:
    return f" by {user}" if user is not None else ""


def _note(run: LoadRun, message: str) -> None:
    RunEvent.objects.create(run_id=run.pk, attempt=run.attempt, message=message)


def must_still_start(run: LoadRun) -> None:
    """Raise Refused NOT_PERMITTED if the user who requested or repeated the run may not start loads any more.

    The same holds for a user who repeated it and does not exist any more, under this name.
    """
    user = run.requested_by
    if "repeated_by" in run.details:
        name = run.details["repeated_by"]
        user = get_user_model().objects.filter(username=name).first()
        if user is None and name is not None:
            message = f"{name}, who requested it again, is no user any more"
            raise Refused("NOT_PERMITTED", message, "have a user with the permission start it again")
    if user is not None:
        must_still_be_permitted(user, Permission.START_LOAD, on=here)


@transaction.atomic
def request_cancel(*, run: LoadRun, user: Any = None, reason: str = "") -> LoadRun:
    """Cancel a queued run at once; ask the worker of a running one to stop.

    A finished run is unchanged. Otherwise the user and the reason, if given, are recorded in the run. Raise Refused
    OTHER_ENVIRONMENT for a run of another environment.
    """
    refuse_elsewhere(run.environment, f"run {run.run_id}")
    who = f"cancelled by {user}" if user is not None else "cancelled"
    error = {"code": "CANCELED", "message": f"{who}: {reason}" if reason else who}
    if jobs.request_cancel(job_pk=run.pk, error=error) == states.CANCELED:
        end_datasets(run_pk=run.pk, end=states.CANCELED)
    run.refresh_from_db()
    return run


def end_lost_run(job: Job, error: dict[str, Any]) -> None:
    """End the datasets and execution of a lost run, seal its record, release its leases and send notices."""
    run = LoadRun.objects.select_related("execution", "environment").get(pk=job.pk)
    end_datasets(run_pk=run.pk, end=states.LOST, error=error)
    seal_end(run_pk=run.pk, attempt=run.attempt)
    tell_run_ended(run.pk)
    if run.execution is not None:
        finish_execution(execution=run.execution)
    release_leases(environment=run.environment, holder=holder_of(run))


def log_failed_wakeup(job: Job, reason: str) -> None:
    """Log in a run that no worker could be woken for it."""
    message = f"queued: the broker does not respond ({reason}); nothing started"
    RunEvent.objects.create(run_id=job.pk, attempt=job.attempt, level="warning", message=message)
