"""Life cycle of a load run: requested, claimed, cancelled, lost.

Every change of state is one compare-and-set along ``loader.domain.runs.run_states``.
"""

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from architecture.domain.reports import workflow
from architecture.report_places import here
from architecture.services import current_environment
from architecture.services.actors import must_be_permitted
from architecture.services.executions.leases import Holder, release_leases
from architecture.services.reports.automatic_changes import finish_execution
from elevata.core.database import silent_before
from loader.domain.runs import run_states as states
from loader.domain.runs.dependencies import Scope
from loader.domain.runs.maintenance import COMPACT, GOVERNED, LOAD
from loader.domain.runs.refusals import Refusal
from loader.models import DatasetRun, LoadRun, RunEvent
from loader.services.maintenance.records import seal_end
from loader.services.runner.processes import is_gone
from loader.services.runs.attempts import Attempt, end_datasets
from loader.services.runs.manifests import plan_load
from loader.services.runs.notifications import tell_run_ended
from loader.services.runs.wakeup import WAKE_RUN, wake
from metadata.domain.roles import Permission
from metadata.services.actor import current_actor

# Kind of a lease's holder; its id is the run's.
LOAD_RUN = "load run"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,99}")


@dataclass(frozen=True)
class Asked:
    """A run as it is requested. ``asked`` holds the details of its kind (``loader.domain.runs.maintenance``).

    ``check`` refuses a new run that cannot be performed; a known one was checked when it was new.
    """

    kind: str = LOAD
    scope: Scope | None = None
    load_timestamp: datetime | None = None
    allow_empty: bool = False
    allow_deletes: bool = False
    asked: Mapping[str, Any] | None = None
    check: Callable[[], Any] = field(default=lambda: None)
    reason: str = ""


@dataclass
class RequestedRun:
    """Result of a request. ``wakeup_sent`` is None until the transaction around it commits.

    ``requested`` says whether the request changed anything: a succeeded or active run stays as it is.
    """

    run: LoadRun
    requested: bool
    wakeup_sent: bool | None = None
    reason: str = ""

    def send_wakeup(self) -> None:
        self.reason = wake(WAKE_RUN, self.run.pk)
        self.wakeup_sent = not self.reason
        if self.reason:
            note_not_told(run=self.run, reason=self.reason)

    @property
    def notice(self) -> str:
        """A message for the user if the wake-up could not be sent; else empty."""
        if self.wakeup_sent is not False:
            return ""
        return f"queued; the broker does not answer: {self.reason}; the scheduler sends it again"


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
    """Request a load run; the same run id again means the same run. ``reason`` stays with a new one.

    Without a scope everything is loaded. A run that succeeded or is under way is returned as it is;
    one that failed, was blocked, cancelled or lost is queued again, and its log holds the reason. Raise Refusal for a
    scope that names nothing, and for the run id of a run with another scope or time. Without
    ``wake_worker`` no worker is woken: the caller claims the run in the same transaction.
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
    """Request a run of any kind; see ``request_load_run``, and ``loader.services.maintenance`` for the others.

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
        if (known or wanted).kind in GOVERNED or user is not None:
            must_be_permitted(user, Permission.START_LOAD, on=here)
        if known is None:
            wanted.check()
            known, created = _create(run_id, wanted, user, requester)
        else:
            created = False
        if created:
            result = RequestedRun(known, requested=True)
        else:
            _refuse_another(known, wanted)
            _refuse_reverted(known)
            result = _ask_again(known, wanted, user)
        if result.requested and wake_worker:
            transaction.on_commit(result.send_wakeup)
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
    """Raise Refusal RUN_REVERTED: a reverted run is not applied again; its rows come with a run of another id."""
    row = DatasetRun.objects.filter(run=run, reverted_by__isnull=False).select_related("reverted_by").first()
    if row is not None:
        raise Refusal(
            "RUN_REVERTED",
            f"run {run.run_id} was reverted on {row.qualified_name} by run {row.reverted_by}",
            hint="load the delivery again with a run of its own",
        )


def _ask_again(run: LoadRun, wanted: Asked, user: Any) -> RequestedRun:
    mark_lost(run_pk=run.pk)
    # The next attempt of a maintenance run may be another user's than the first.
    again = {}
    if run.kind in GOVERNED:
        again["details"] = {"asked": run.details.get("asked", {}), "repeated_by": user.get_username()}
    queued = LoadRun.objects.filter(pk=run.pk, status__in=states.may_become(states.QUEUED)).update(
        status=states.QUEUED,
        allow_empty=run.allow_empty or wanted.allow_empty,
        allow_deletes=run.allow_deletes or wanted.allow_deletes,
        error=None,
        phase="",
        claimed_by="",
        heartbeat_at=None,
        started_at=None,
        finished_at=None,
        queued_at=timezone.now(),
        **again,
    )
    run.refresh_from_db()
    if queued and wanted.reason:
        # The run's own reason stays that of the first request.
        _note(run, f"asked for again{_by(user)}: {wanted.reason}")
    for decision, said in (("allow_empty", "empty deliveries"), ("allow_deletes", "deletes beyond the guard")):
        if queued and getattr(wanted, decision):
            _note(run, f"{said} allowed{_by(user)}")
    return RequestedRun(run, requested=bool(queued))


def _by(user: Any) -> str:
    return f" by {user}" if user is not None else ""


def _note(run: LoadRun, said: str) -> None:
    RunEvent.objects.create(run_id=run.pk, attempt=run.attempt, message=said)


@transaction.atomic
def note_not_told(*, run: LoadRun, reason: str) -> None:
    """Record in a queued run's row and log that no worker could be woken, until one was or claims it."""
    queued = LoadRun.objects.filter(pk=run.pk, status=states.QUEUED).exclude(phase=workflow.BROKER_AWAY)
    if queued.update(phase=workflow.BROKER_AWAY):
        said = f"queued, but no worker could be told: the broker does not answer ({reason}); nothing was started"
        RunEvent.objects.create(run_id=run.pk, attempt=run.attempt, level="warning", message=said)


def note_told() -> None:
    """Clear the broker's failure from the phase of all queued runs: it takes messages again."""
    LoadRun.objects.filter(status=states.QUEUED, phase=workflow.BROKER_AWAY).update(phase="")


def claim(*, run_pk: int, worker: str) -> LoadRun | None:
    """Claim a queued run; return None if another worker has it, or it is not queued any more."""
    now = timezone.now()
    claimed = LoadRun.objects.filter(pk=run_pk, status=states.QUEUED).update(
        status=states.RUNNING,
        attempt=F("attempt") + 1,
        claimed_by=worker,
        heartbeat_at=now,
        started_at=now,
        finished_at=None,
        execution=None,
        error=None,
        phase="waiting for Spark",
    )
    return LoadRun.objects.select_related("environment").get(pk=run_pk) if claimed else None


def attempt_of(run: LoadRun) -> Attempt:
    """Return the attempt of a claimed run."""
    return Attempt(run.pk, run.attempt)


def request_cancel(*, run: LoadRun, user: Any = None, reason: str = "") -> LoadRun:
    """Request that a run stops: a queued one is cancelled at once, a running one when its worker reads it.

    A run that is finished stays as it is; another one records the user and, if it is given, the reason.
    """
    who = f"cancelled by {user}" if user is not None else "cancelled"
    error = {"code": "CANCELED", "message": f"{who}: {reason}" if reason else who}
    with transaction.atomic():
        canceled = LoadRun.objects.filter(pk=run.pk, status=states.QUEUED).update(
            status=states.CANCELED, finished_at=timezone.now(), error=error
        )
        if canceled:
            end_datasets(run_pk=run.pk, end=states.CANCELED)
        else:
            LoadRun.objects.filter(pk=run.pk, status=states.RUNNING).update(status=states.CANCELING, error=error)
    run.refresh_from_db()
    return run


def mark_lost(*, run_pk: int | None = None, older_than: timedelta = states.LOST_AFTER) -> list[str]:
    """Mark runs as lost whose worker has been silent for too long, or has ended for certain; return their run ids."""
    held = LoadRun.objects.filter(status__in=states.may_become(states.LOST), heartbeat_at__isnull=False).select_related(
        "execution", "environment"
    )
    if run_pk is not None:
        held = held.filter(pk=run_pk)
    latest = silent_before(older_than)
    return [run.run_id for run in held if (run.heartbeat_at < latest or is_gone(run.claimed_by)) and _lose(run)]


def _lose(run: LoadRun) -> bool:
    error = {
        "code": "WORKER_LOST",
        "message": f"worker {run.claimed_by} was last heard of at {run.heartbeat_at:%Y-%m-%d %H:%M:%S} UTC",
        "hint": "start the run again under the same id: what it had finished is not done twice",
    }
    return give_up_run(run=run, error=error, heartbeat_at=run.heartbeat_at)


@transaction.atomic
def give_up_run(*, run: LoadRun, error: dict[str, Any], **seen: Any) -> bool:
    """Mark a run as lost: none of the writes of the attempt that holds it finds the run any more.

    ``seen`` are fields that must be unchanged. Return False if the run is not held, or has changed.
    """
    held = LoadRun.objects.filter(pk=run.pk, attempt=run.attempt, **seen)
    lost = held.filter(status__in=states.may_become(states.LOST)).update(
        status=states.LOST, error=error, finished_at=timezone.now(), phase=""
    )
    if lost:
        end_datasets(run_pk=run.pk, end=states.LOST, error=error)
        seal_end(run_pk=run.pk, attempt=run.attempt)
        tell_run_ended(run.pk)
        if run.execution is not None:
            finish_execution(execution=run.execution)
        release_leases(environment=run.environment, holder=Holder(LOAD_RUN, run.run_id, run.attempt))
    return bool(lost)
