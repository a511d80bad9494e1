"""Life cycle of a load run: request, claim, cancel, loss, broken leases.

The states of its job are changed by ``elevata.jobs``.
"""

import re
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from architecture.models import Environment, Lease
from architecture.permissions import here, must_be_permitted
from architecture.services.automatic_changes import finish_execution
from architecture.services.leases import Holder, break_lease, release_leases
from architecture.services.states import current_environment
from elevata.accounts.permissions import current_actor
from elevata.accounts.roles import Permission
from elevata.jobs import services as jobs
from elevata.jobs import states
from elevata.jobs.models import Job
from elevata.jobs.services import Submitted, give_up
from loader.domain.dependencies import Scope
from loader.domain.refusals import Refusal
from loader.domain.run_states import COMPACT, LOAD, MAINTENANCE, OF_FILES
from loader.models import DatasetRun, LoadRun, RunEvent
from loader.services.attempts import LoadAttempt, end_datasets, seal_end, tell_run_ended
from loader.services.manifests import plan_load

# Kind of a lease's holder; its id is the run's.
LOAD_RUN = "load run"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,99}")


@dataclass(frozen=True)
class Asked:
    """Requested run. ``asked`` has the details of its kind (``loader.domain.run_states``).

    ``check`` refuses a new run that cannot be performed; an existing one was checked when it was new.
    """

    kind: str = LOAD
    scope: Scope | None = None
    load_timestamp: datetime | None = None
    allow_empty: bool = False
    allow_deletes: bool = False
    asked: Mapping[str, Any] | None = None
    check: Callable[[], Any] = field(default=lambda: None)
    reason: str = ""


class RequestedRun(Submitted[LoadRun]):
    """Result of requesting a run; a succeeded or active run stays as it is."""

    @property
    def run(self) -> LoadRun:
        return self.job


def new_run_id(*, at: datetime | None = None) -> str:
    """Return a run id that sorts by time and reads well: ``20261121T081500Z-3f9c2a``."""
    at = (at or timezone.now()).astimezone(UTC)
    return f"{at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def request_load_run(
    *,
    scope: Scope | None = None,
    load_timestamp: datetime | None = None,
    run_id: str | None = None,
    allow_empty: bool = False,
    allow_deletes: bool = False,
    user: Any = None,
    wake_worker: bool = True,
    reason: str = "",
) -> RequestedRun:
    """Request a load run; the same run id again means the same run. ``reason`` is stored with a new one.

    Without a scope everything is loaded. A run that succeeded or is active is returned unchanged; one that failed,
    was blocked, cancelled or lost is queued again, and its log has the reason. Raises Refusal for an empty scope,
    and for the run id of a run with another scope or time. Without ``wake_worker`` no worker is woken: the caller
    claims the run in the same transaction.
    """
    wanted = Asked(
        scope=scope,
        load_timestamp=load_timestamp,
        allow_empty=allow_empty,
        allow_deletes=allow_deletes,
        check=lambda: plan_load(scope or Scope()),
        reason=reason,
    )
    return request_run(wanted, run_id=run_id, user=user, wake_worker=wake_worker)


def request_run(
    wanted: Asked, *, run_id: str | None = None, user: Any = None, requester: str = "", wake_worker: bool = True
) -> RequestedRun:
    """Request a run of any kind; see ``request_load_run``, and ``loader.services.maintenance_runs`` for the others.

    ``user`` is the current actor, if it is not given. Raise Refused NOT_PERMITTED for a user who may not start loads
    here, NO_PERSON for a maintenance run without a user, be it new or repeated.
    """
    if user is None and not requester and wanted.kind != COMPACT:
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
        known = LoadRun.objects.filter(run_id=run_id).first() if run_id else None
        # A schedule starts runs for the user who made it.
        if ((known or wanted).kind in MAINTENANCE and not requester) or user is not None:
            must_be_permitted(user, Permission.START_LOAD, on=here)
        if known is None:
            wanted.check()
            known, created = _create(run_id, wanted, user, requester)
        else:
            created = False
        if created:
            result = RequestedRun(known)
        else:
            _refuse_another(known, wanted)
            _refuse_reverted(known)
            result = _ask_again(known, wanted, user)
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
                requested_by=user,
                requester=requester,
                reason=wanted.reason,
                details={"asked": dict(wanted.asked)} if wanted.asked is not None else {},
            )
        return run, True
    except IntegrityError:  # the same id was requested at the same moment
        return LoadRun.objects.get(run_id=run_id), False


def _refuse_another(run: LoadRun, wanted: Asked) -> None:
    differs, scope, at = [], wanted.scope, wanted.load_timestamp
    if wanted.kind != run.kind and (wanted.scope is not None or wanted.kind != LOAD):
        differs.append(f"it is a {run.get_kind_display().lower()}, not a {LoadRun.Kind(wanted.kind).label.lower()}")
    elif scope is not None and scope != Scope.from_json(run.scope):
        differs.append(f"it {_does(run.kind)} {Scope.from_json(run.scope)}, not {scope}")
    elif wanted.asked is not None and dict(wanted.asked) != run.details.get("asked"):
        differs.append("it was asked with other details")
    if at is not None and at != run.load_timestamp:
        differs.append(f"it is dated {run.load_timestamp.isoformat()}, not {at.isoformat()}")
    if differs:
        raise Refusal(
            "RUN_ID_TAKEN",
            f"run {run.run_id} is another one: {' and '.join(differs)}",
            hint="leave the scope and time out to repeat that run, or give this one an id of its own",
        )


def _does(kind: str) -> str:
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
    # The next attempt of a maintenance run may be another user's than the first.
    again = {}
    if run.kind in MAINTENANCE:
        by = user.get_username() if user is not None else None
        again["details"] = {"asked": run.details.get("asked", {}), "repeated_by": by}
    queued = jobs.queue_again(job_pk=run.pk, started_at=None)
    if queued:
        LoadRun.objects.filter(pk=run.pk).update(
            allow_empty=run.allow_empty or wanted.allow_empty,
            allow_deletes=run.allow_deletes or wanted.allow_deletes,
            **again,
        )
    run.refresh_from_db()
    if queued and wanted.reason:
        # The run's own reason stays that of the first request.
        _note(run, f"asked for again{_by(user)}: {wanted.reason}")
    for decision, text in (("allow_empty", "empty deliveries"), ("allow_deletes", "deletes beyond the guard")):
        if queued and getattr(wanted, decision):
            _note(run, f"{text} allowed{_by(user)}")
    return RequestedRun(run, requested=queued)


def _by(user: Any) -> str:
    return f" by {user}" if user is not None else ""


def _note(run: LoadRun, said: str) -> None:
    RunEvent.objects.create(run_id=run.pk, attempt=run.attempt, message=said)


def claim(*, run_pk: int, worker: str) -> LoadRun | None:
    """Claim a queued run; return None if another worker has it, or it is not queued any more."""
    if jobs.claim(job_pk=run_pk, worker=worker) is None:
        return None
    LoadRun.objects.filter(pk=run_pk).update(execution=None)
    return LoadRun.objects.select_related("environment").get(pk=run_pk)


def attempt_of(run: LoadRun) -> LoadAttempt:
    """Return the attempt of a claimed run."""
    return LoadAttempt(run.pk, run.attempt)


@transaction.atomic
def request_cancel(*, run: LoadRun, user: Any = None, reason: str = "") -> LoadRun:
    """Request that a run stops: a queued one is cancelled at once, a running one when its worker reads it.

    A run that is finished stays as it is; another one records the user and, if it is given, the reason.
    """
    who = f"cancelled by {user}" if user is not None else "cancelled"
    error = {"code": "CANCELED", "message": f"{who}: {reason}" if reason else who}
    if jobs.request_cancel(job_pk=run.pk, error=error) == states.CANCELED:
        end_datasets(run_pk=run.pk, end=states.CANCELED)
    run.refresh_from_db()
    return run


def end_lost_run(job: Job, error: dict[str, Any]) -> None:
    """Settle a run that was marked as lost: its datasets, its execution, its record, its leases and its notices."""
    run = LoadRun.objects.select_related("execution", "environment").get(pk=job.pk)
    end_datasets(run_pk=run.pk, end=states.LOST, error=error)
    seal_end(run_pk=run.pk, attempt=run.attempt)
    tell_run_ended(run.pk)
    if run.execution is not None:
        finish_execution(execution=run.execution)
    release_leases(environment=run.environment, holder=Holder(LOAD_RUN, run.run_id, run.attempt))


def log_failed_wakeup(job: Job, reason: str) -> None:
    """Add a line to a run's log: no worker could be woken for it."""
    message = f"queued: the broker does not respond ({reason}); nothing started"
    RunEvent.objects.create(run_id=job.pk, attempt=job.attempt, level="warning", message=message)


# Runs that wrote rows, which architecture must know before it restores a table to an older version.


def runs_that_wrote(
    *, environment: Environment, dataset_keys: Collection[str], after: datetime
) -> Mapping[str, Sequence[str]]:
    """Return ids of the runs that ended on a dataset after a time and moved its table, oldest first, by dataset key.

    A compaction moves the table's version, but no row of it; a vacuum neither.
    """
    moved = Q(table_version_before__isnull=True) | Q(table_version_after__gt=F("table_version_before"))
    rows = DatasetRun.objects.filter(
        moved,
        dataset_key__among=dataset_keys,
        run__environment=environment,
        table_version_after__isnull=False,
        finished_at__gt=after,
    ).exclude(run__kind__in=OF_FILES)
    found: dict[str, list[str]] = {}
    for key, run_id in rows.order_by("finished_at", "pk").values_list("dataset_key", "run__run_id"):
        found.setdefault(str(key), []).append(run_id)
    return found


# Breaking of leases: the holder is shut out at once, not only with its next heartbeat.


LEASE_BROKEN = "LEASE_BROKEN"


@transaction.atomic
def shut_out_holder(*, lease: Lease, fence: int, user: Any, reason: str) -> Lease:
    """Break a lease, and mark its holder (run or execution) as lost, which frees its other leases.

    ``fence`` is the lease's number on the user's page: Refusal LEASE_MOVED if it was released or taken since.
    Refused for a user without the permission, and without a reason. Writes a change-log entry. The holder's commits
    stay; it can be started again and continues from there.
    """
    held = Lease.objects.select_for_update(of=("self",)).select_related("environment").get(pk=lease.pk)
    if not held.holder_kind or held.fence != fence:
        now = f"{held.holder_kind} {held.holder_id} has it" if held.holder_kind else "it is free"
        raise Refusal("LEASE_MOVED", f"the lease is not what you have seen: {now} by now", hint="nothing was broken")
    kind, name, attempt = held.holder_kind, held.holder_id, held.holder_attempt
    broken = break_lease(lease=held, user=user, reason=reason)
    error = {
        "code": LEASE_BROKEN,
        "message": f"{user.get_username()} broke one of its leases: {reason.strip()}",
        "hint": "remove the cause, then start it again; finished parts are not repeated",
    }
    for job in _jobs_of(kind, name, attempt):
        give_up(job=job, error=error)
    return broken


def _jobs_of(kind: str, name: str, attempt: int) -> QuerySet[Job]:
    """Return the job of a lease's holder, if this is still its attempt."""
    jobs = Job.objects.filter(attempt=attempt)
    return jobs.filter(load_run_row__run_id=name) if kind == LOAD_RUN else jobs.filter(execution_row__pk=int(name))
