"""Requests and work of maintenance runs.

Each is a load run of its own kind, claimed, fenced, cancelled and repeated like any other. A request that cannot be
performed is refused before there is a run; if only the tables can show it, by the runner.

All but compactions need a user with the permission (Refused ``NO_PERSON``, ``NOT_PERMITTED``). ``user`` defaults
to the current actor.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from architecture.domain.tables import TableSpec, history_table, tables_of
from architecture.models import ChangeReport
from architecture.services.automatic_changes import Pending
from architecture.services.states import current_environment
from architecture.services.undo import ways_of
from elevata.core.database import retried
from elevata.jobs import states
from loader.domain.dependencies import DATASET, Scope, is_loaded
from loader.domain.manifest import AcceptManifest, CompactManifest, PruneManifest, RevertManifest, VacuumManifest
from loader.domain.reference.batch_files import FILES
from loader.domain.refusals import Refusal
from loader.domain.run_states import ACCEPT, BRINGING, COMPACT, HISTORY_BATCH, PRUNE, REVERT, VACUUM
from loader.domain.vacuum import SAFE_HOURS, Need, refuse_short
from loader.models import DatasetRun, LoadRun
from loader.services.attempts import LoadAttempt
from loader.services.load_runs import Asked, RequestedRun, request_run
from loader.services.manifests import (
    LoadPlan,
    applied_rows,
    maintenance_load,
    plan_history_batch,
    plan_named,
    plan_one,
    stands_at,
)
from loader.services.runner.worker import Conversation
from metadata.domain.history_policy import CDC, EFFECTIVE, HistoryPolicy
from metadata.domain.locations import parse_location
from metadata.domain.state import DatasetState
from metadata.domain.types import BIGINT, DATE, INTEGER, parse

FORMATS, COMPRESSIONS = ("csv", "parquet"), ("none", "zstd")


def request_history_batch(
    *,
    dataset: str,
    files: Mapping[str, Sequence[str]],
    format: str = "csv",
    compression: str = "none",
    run_id: str | None = None,
    at: datetime | None = None,
    reason: str = "",
    user: Any = None,
    wake_worker: bool = True,
) -> RequestedRun:
    """Request that batch files are applied to a dataset's history: ``files`` by kind, paths or URIs.

    A reason may be given, but is not required.
    """
    asked = _asked_files(files, format, compression)
    wanted = Asked(
        kind=HISTORY_BATCH,
        scope=_scope(dataset),
        load_timestamp=at,
        asked=asked,
        check=lambda: plan_history_batch(dataset),
        reason=reason.strip(),
    )
    return request_run(wanted, run_id=run_id, user=user, wake_worker=wake_worker)


def _asked_files(files: Mapping[str, Sequence[str]], format: str, compression: str) -> dict[str, Any]:
    unknown = [kind for kind in files if kind not in FILES]
    if unknown:
        raise Refusal("UNKNOWN_FILE", f"there is no {unknown[0]} file", hint=f"known: {', '.join(FILES)}")
    if format not in FORMATS or compression not in COMPRESSIONS:
        raise Refusal(
            "BAD_OPTION",
            f"batch files cannot be {format} with compression {compression}",
            hint=f"formats are {' and '.join(FORMATS)}, compressions {' and '.join(COMPRESSIONS)}",
        )
    if (format, compression) == ("parquet", "zstd"):
        raise Refusal("BAD_OPTION", "Parquet files say themselves how they are compressed", hint="leave it out")
    chosen = {kind: [_followed(stands_at(path)) for path in files[kind]] for kind in FILES if files.get(kind)}
    if not chosen:
        raise Refusal("NO_FILES", "a history batch needs at least one file", hint=f"of {', '.join(FILES)}")
    return {"files": chosen, "format": format, "compression": compression}


def _followed(place: str) -> str:
    """Return a local place with its links resolved, so that a link that is changed later has no effect."""
    location = parse_location(place, folder="/")
    if not location.is_local:
        return place
    rest = location.segments[len(location.fixed.segments) :]
    return os.path.join(os.path.realpath(location.fixed.path), *rest)


@dataclass(frozen=True)
class Reversion:
    """Revert of one run, as far as the control database has its facts.

    ``refusal`` is why it is not possible any more, unless it was done already, which only the table shows.
    """

    row: DatasetRun
    newest_applied_at: str | None
    later_runs: tuple[str, ...]
    refusal: Refusal | None = None


def request_revert(
    *,
    of_run: str,
    dataset: str,
    reason: str,
    run_id: str | None = None,
    user: Any = None,
    wake_worker: bool = True,
) -> RequestedRun:
    """Request the revert of one run in one dataset's history. A revert that did not succeed is queued again."""
    _check_reason(reason)
    name = plan_one(dataset).steps[0].dataset.qualified_name
    asked = {"run_id": of_run}
    wanted = Asked(
        kind=REVERT,
        scope=_scope(name),
        asked=asked,
        check=lambda: _check_revertible(of_run, dataset),
        reason=reason.strip(),
    )
    if run_id is None:
        unfinished = LoadRun.objects.filter(kind=REVERT).exclude(status=states.SUCCEEDED).order_by("-pk")
        same = (run for run in unfinished if run.scope["name"] == name and run.details.get("asked") == asked)
        run_id = next((run.run_id for run in same), None)
    return request_run(wanted, run_id=run_id, user=user, wake_worker=wake_worker)


def _check_revertible(of_run: str, dataset: str) -> None:
    found = reversion(of_run, dataset)
    if found.refusal is not None:
        raise found.refusal


def reversion(of_run: str, dataset: str, by: LoadRun | None = None) -> Reversion:
    """Return the revert of a run.

    Raise Refusal UNKNOWN_RUN, NOT_REVERTIBLE, ALREADY_REVERTED (unless by the run ``by``), NOT_APPLIED or RUN_ACTIVE.
    """
    state = plan_one(dataset).steps[0].dataset
    name = state.qualified_name
    run = LoadRun.objects.filter(run_id=of_run).first()
    if run is None:
        raise Refusal("UNKNOWN_RUN", f"there is no run {of_run}")
    if run.kind not in BRINGING:
        raise Refusal("NOT_REVERTIBLE", f"run {of_run} is a {run.get_kind_display().lower()}, which brought no rows")
    row = DatasetRun.objects.filter(run=run, dataset_key=state.key).select_related("reverted_by", "run").first()
    if row is not None and row.reverted_by is not None and row.reverted_by != by:
        raise Refusal("ALREADY_REVERTED", f"run {of_run} was reverted on {name} by run {row.reverted_by}")
    if row is None or row.status != states.SUCCEEDED or row.sequence is None:
        raise Refusal(
            "NOT_APPLIED", f"run {of_run} is not applied to {name}", hint="only what a run finished can be reverted"
        )
    if not run.is_finished:
        raise Refusal("RUN_ACTIVE", f"run {of_run} is still under way", hint="wait for its end, or cancel it")
    others = applied_rows().filter(dataset_key=state.key, run__environment=run.environment).exclude(pk=row.pk)
    later = others.filter(sequence__gt=row.sequence)
    refusal = _pruned_since(row, name) or _rested_upon(state, row, later)
    newest = others.order_by("-run__load_timestamp").values_list("run__load_timestamp", flat=True).first()
    runs = tuple(later.values_list("run__run_id", flat=True))
    return Reversion(row, newest.isoformat() if newest else None, runs, refusal)


def _pruned_since(row: DatasetRun, name: str) -> Refusal | None:
    pruned = DatasetRun.objects.filter(
        dataset_key=row.dataset_key, run__kind=PRUNE, status=states.SUCCEEDED, sequence__gt=row.sequence
    ).select_related("run")
    prune = pruned.first()
    if prune is None:
        return None
    return Refusal(
        "PRUNED_SINCE",
        f"{name} was pruned by run {prune.run} since: what the run closed may be gone",
        hint="load a delivery that corrects it",
    )


def _rested_upon(state: DatasetState, row: DatasetRun, later: QuerySet[DatasetRun]) -> Refusal | None:
    """Return a refusal if later runs depend on this one.

    They do not if each delivered rows with a time of their own, and refused none as late because of this run.
    """
    policy = HistoryPolicy.from_dict(state.history_policy)
    runs = list(later.select_related("run").order_by("sequence"))
    if not runs:
        return None
    hint = "revert them first, the newest before the others"
    if policy.input not in (EFFECTIVE, CDC) or policy.closes_absent:
        named = ", ".join(run.run.run_id for run in runs[:3]) + (" …" if len(runs) > 3 else "")
        return Refusal(
            "LATER_RUNS",
            f"{len(runs)} later runs were applied to {state.qualified_name}, and rest upon run {row.run}: {named}",
            hint=hint,
            count=len(runs),
        )
    turned_away = [
        run for run in runs if any(run.counts.get(name) for name in ("late_ignored", "beyond_horizon", "refused"))
    ]
    if not turned_away:
        return None
    return Refusal(
        "LATER_RUNS",
        f"run {turned_away[0].run} turned late rows away, perhaps because of run {row.run}",
        hint=hint,
        count=len(turned_away),
    )


def request_prune(
    *,
    dataset: str,
    reason: str,
    ended_before: str | None = None,
    older_than_days: int | None = None,
    archive: str | None = None,
    run_id: str | None = None,
    user: Any = None,
    wake_worker: bool = True,
) -> RequestedRun:
    """Request the removal of closed versions that ended before a date, or before so many days ago."""
    _check_reason(reason)
    state = plan_one(dataset).steps[0].dataset
    before = _ended_before(state, ended_before, older_than_days)
    asked = {"ended_before": before, "archive": stands_at(archive) if archive else None}
    known = LoadRun.objects.filter(run_id=run_id, kind=PRUNE).first() if run_id else None
    if known is not None and older_than_days is not None:
        asked["ended_before"] = known.details["asked"]["ended_before"]  # the days count back from the first request
    wanted = Asked(kind=PRUNE, scope=_scope(state.qualified_name), asked=asked, reason=reason.strip())
    return request_run(wanted, run_id=run_id, user=user, wake_worker=wake_worker)


def archive_place(dataset: str) -> str:
    """Return the folder for a history's pruned versions if none is named: beside the warehouse's tables."""
    state = plan_one(dataset).steps[0].dataset
    return f"{settings.WAREHOUSE.rstrip('/')}/.archive/{state.history_key}"


def _ended_before(state: DatasetState, text: str | None, days: int | None) -> str:
    """Return the limit as a value of the type that versions are dated in."""
    type_ = parse(history_table(state).column("ended_at").type).name
    if (text is None) == (days is None):
        raise Refusal("NO_DATE", "say either a date or a number of days")
    if type_ in (BIGINT, INTEGER):
        if text is None or not text.strip().lstrip("-").isdigit():
            raise Refusal("BAD_DATE", f"versions of {state.qualified_name} are dated by a number: say one")
        return str(int(text))
    now = timezone.now()
    if days is not None:
        if days < 0:
            raise Refusal("BAD_DATE", f"{days} days lie in the future")
        instant = now - timedelta(days=days)
    else:
        try:
            instant = datetime.fromisoformat(text or "")
        except ValueError:
            raise Refusal("BAD_DATE", f"{text!r} is no date like 2024-01-31") from None
        instant = instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
        if instant > now:
            raise Refusal("BAD_DATE", f"{text} lies in the future", hint="only the past can be pruned")
    found: date = instant.date() if type_ == DATE else instant
    return found.isoformat()


def request_accept(
    *, dataset: str, reason: str, run_id: str | None = None, user: Any = None, wake_worker: bool = True
) -> RequestedRun:
    """Request that a table is accepted as it is, though runs applied to it are missing; they count as reverted then."""
    _check_reason(reason)
    state = _loaded(dataset)
    wanted = Asked(kind=ACCEPT, scope=_scope(state.qualified_name), asked={}, reason=reason.strip())
    return request_run(wanted, run_id=run_id, user=user, wake_worker=wake_worker)


def request_compaction(
    *, dataset_key: str, run_id: str | None = None, reason: str = "", wake_worker: bool = True
) -> RequestedRun | None:
    """Request the compaction of a dataset's small files; None if one is queued or under way."""
    row = DatasetRun.objects.filter(dataset_key=dataset_key).order_by("-pk").first()
    if row is None:
        raise Refusal("UNKNOWN_DATASET", f"no run ever loaded {dataset_key}")
    waiting = LoadRun.objects.filter(kind=COMPACT, status__in=states.ACTIVE)
    if any(run.scope["name"] == row.qualified_name for run in waiting):
        return None
    wanted = Asked(kind=COMPACT, scope=_scope(row.qualified_name), asked={}, reason=reason)
    return request_run(wanted, run_id=run_id, wake_worker=wake_worker)


def request_vacuum(
    *,
    dataset: str,
    reason: str,
    retention_hours: int = SAFE_HOURS,
    dry_run: bool = False,
    run_id: str | None = None,
    user: Any = None,
    requester: str = "",
    wake_worker: bool = True,
) -> RequestedRun:
    """Request the removal of files that a dataset's tables have not named for so many hours, or a list of them.

    Raise Refusal RETENTION_TOO_SHORT below the safe minimum, and below what an open undo or a queued revert needs.
    """
    _check_reason(reason)
    state = _loaded(dataset)
    wanted = Asked(
        kind=VACUUM,
        scope=_scope(state.qualified_name),
        asked={"retention_hours": retention_hours, "dry_run": dry_run},
        check=lambda: refuse_short(retention_hours, _needs(state), now=timezone.now()),
        reason=reason.strip(),
    )
    return request_run(wanted, run_id=run_id, user=user, requester=requester, wake_worker=wake_worker)


def _needs(state: DatasetState) -> list[Need]:
    """Return what needs former files of a dataset: undo reports that restore a version, and reverts not done yet."""
    environment = current_environment()
    open_ = (ChangeReport.Status.OPEN, ChangeReport.Status.APPROVED, ChangeReport.Status.BLOCKED)
    reports = ChangeReport.objects.filter(environment=environment, undo_of__isnull=False, status__in=open_)
    needs = [
        Need(report.undo_of.execution.started_at or report.undo_of.created_at, f"undo {report}")
        for report in reports.select_related("undo_of__execution")
        if any(way.goes_to_version and way.dataset_key == state.key for way in ways_of(report.undo_of))
    ]
    queued = LoadRun.objects.filter(kind=REVERT, environment=environment, status__in=states.ACTIVE)
    for run in (run for run in queued if run.scope["name"] == state.qualified_name):
        reverted = LoadRun.objects.filter(run_id=run.details["asked"]["run_id"]).first()
        if reverted is not None:
            needs.append(Need(reverted.started_at or reverted.requested_at, f"revert {run.run_id}"))
    return needs


def _loaded(dataset: str) -> DatasetState:
    """Return a dataset that runs load. Raise Refusal NOT_LOADED."""
    state = plan_named(dataset).steps[0].dataset
    if not is_loaded(state):
        raise Refusal("NOT_LOADED", f"{state.qualified_name} is not loaded by runs: it has no table of its own")
    return state


def _scope(dataset: str) -> Scope:
    return Scope(DATASET, dataset, target_only=True)


def _check_reason(reason: str) -> None:
    if not reason.strip():
        raise Refusal("NO_REASON", "enter a reason: changing a history needs one")


# Work of reverts, prunes, compactions, acceptances and vacuums: the runner does each in one request.


# In the runner's answer: the number of the newest run that an accepted table holds, and that of the run itself.
HELD, SEQUENCE = "held", "sequence"


class RunWork(Protocol):
    """Work of one attempt of a run, as maintenance needs it (``loader.services.load_work.LoadWork``)."""

    @property
    def run(self) -> LoadRun: ...

    attempt: LoadAttempt
    talk: Conversation

    def pending(self, todo: LoadPlan) -> Pending: ...
    def store(self, event: dict[str, Any]) -> None: ...
    def keep_commits(self, finished: dict[str, Any]) -> None: ...
    def must_answer(self, finished: dict[str, Any]) -> str: ...


def govern(work: RunWork) -> str:
    """Perform a maintenance run; return the runner's result: succeeded or failed."""
    manifest = _MANIFESTS[work.run.kind](work)
    work.attempt.enter(_PHASES[work.run.kind])
    finished = work.talk.ask(work.run.kind, manifest, work.store)
    work.keep_commits(finished)
    answer = finished.get("answer") or {}
    if "tables" in answer:
        details = {**work.run.details, "tables": answer["tables"]}
        retried(lambda: LoadRun.objects.filter(pk=work.run.pk).update(details=details))
    status = work.must_answer(finished)
    if status == states.SUCCEEDED and work.run.kind == REVERT:
        retried(lambda: _mark_reverted(work.run))
    if status == states.SUCCEEDED and isinstance(manifest, AcceptManifest):
        (table,) = (table for table in answer["tables"].values() if HELD in table)
        retried(lambda: _take_over(work.run, table[HELD], table[SEQUENCE]))
    return status


@transaction.atomic
def _mark_reverted(run: LoadRun) -> None:
    """Mark the reverted run as no longer applied."""
    key = run.datasets.get().dataset_key
    DatasetRun.objects.filter(run__run_id=run.details["asked"]["run_id"], dataset_key=key).update(reverted_by=run)


@transaction.atomic
def _take_over(run: LoadRun, held: int, sequence: int) -> None:
    """Set the run's number to the accepted table's, and mark runs that the table lacks as reverted."""
    row = run.datasets.get()
    lost = applied_rows().filter(dataset_key=row.dataset_key, run__environment=run.environment, sequence__gt=held)
    DatasetRun.objects.filter(pk__in=list(lost.values_list("pk", flat=True))).update(reverted_by=run)
    DatasetRun.objects.filter(pk=row.pk).update(sequence=sequence)


def _revert(work: RunWork) -> RevertManifest:
    of_run, plan, rows = work.run.details["asked"]["run_id"], *_ready(work)
    found = retried(lambda: reversion(of_run, plan.steps[0].dataset.qualified_name, by=work.run))
    return RevertManifest(
        run_id=work.run.run_id,
        load=retried(lambda: maintenance_load(run=work.run, plan=plan, rows=rows)),
        reverted_run=of_run,
        reverted_sequence=found.row.sequence or 0,
        newest_applied_at=found.newest_applied_at,
        later_runs=found.later_runs,
        refused=found.refusal.as_json() if found.refusal else None,
    )


def _prune(work: RunWork) -> PruneManifest:
    asked, (plan, rows) = work.run.details["asked"], _ready(work)
    return PruneManifest(
        run_id=work.run.run_id,
        load=retried(lambda: maintenance_load(run=work.run, plan=plan, rows=rows)),
        ended_before=asked["ended_before"],
        archive=asked["archive"],
    )


def _accept(work: RunWork) -> AcceptManifest:
    plan, rows = _ready(work, plan_named)
    return AcceptManifest(work.run.run_id, retried(lambda: maintenance_load(run=work.run, plan=plan, rows=rows)))


def _ready(work: RunWork, planned: Callable[[str], LoadPlan] = plan_one) -> tuple[LoadPlan, dict[str, DatasetRun]]:
    """Return the plan and its rows. Raise Refusal TABLES_DIFFER while the tables are not as described."""
    plan = retried(lambda: planned(work.run.scope["name"]))
    rows = work.attempt.prepare(steps=plan.steps, comes_last=True)
    operations = work.pending(plan).operations
    if operations:
        raise Refusal(
            "TABLES_DIFFER",
            f"the tables of {work.run.scope['name']} are not as the metadata describe them: "
            f"{operations[0].describe()} is pending",
            hint="load it first, so that they are",
        )
    return plan, rows


def _compact(work: RunWork) -> CompactManifest:
    plan = retried(lambda: plan_named(work.run.scope["name"]))
    state = plan.steps[0].dataset
    work.attempt.prepare(steps=plan.steps, numbered=False)
    tables: tuple[TableSpec, ...] = tables_of(state)
    return CompactManifest(work.run.run_id, state.key, state.qualified_name, tables)


def _vacuum(work: RunWork) -> VacuumManifest:
    asked, plan = work.run.details["asked"], retried(lambda: plan_named(work.run.scope["name"]))
    state = plan.steps[0].dataset
    work.attempt.prepare(steps=plan.steps, numbered=False)
    retried(lambda: refuse_short(asked["retention_hours"], _needs(state), now=timezone.now()))
    return VacuumManifest(
        run_id=work.run.run_id,
        dataset=state.key,
        name=state.qualified_name,
        tables=tables_of(state),
        retention_hours=asked["retention_hours"],
        dry_run=asked["dry_run"],
    )


_MANIFESTS = {REVERT: _revert, PRUNE: _prune, COMPACT: _compact, ACCEPT: _accept, VACUUM: _vacuum}
_PHASES = {
    REVERT: "reverting",
    PRUNE: "pruning",
    COMPACT: "compacting",
    ACCEPT: "accepting the table",
    VACUUM: "removing former files",
}
