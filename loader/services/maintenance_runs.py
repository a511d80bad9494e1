"""Requests and work of maintenance runs.

A maintenance run is a load run of its own kind: it is claimed, fenced, cancelled and repeated like any other. A
request that cannot be performed is refused before a run is created, or by the runner if that depends on the tables.

All but compactions need a user with the permission (Refused ``NO_PERSON``, ``NOT_PERMITTED``). ``user`` defaults
to the current actor.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from architecture.domain.tables import TableSpec, event_log_table, history_table, tables_of
from architecture.models import ChangeReport
from architecture.services.automatic_changes import Pending
from architecture.services.states import current_environment
from architecture.services.undo import ways_of
from elevata.core.database import retried
from elevata.jobs import states
from loader.domain.dependencies import DATASET, Scope, is_loaded
from loader.domain.manifest import (
    AcceptManifest,
    CompactManifest,
    PruneManifest,
    QuarantineManifest,
    RevertManifest,
    VacuumManifest,
)
from loader.domain.reference.batch_files import FILES
from loader.domain.refusals import Refusal
from loader.domain.run_states import (
    ACCEPT,
    BRINGING,
    COMPACT,
    DECISIONS,
    HISTORY_BATCH,
    PRUNE,
    QUARANTINE,
    REVERT,
    VACUUM,
)
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
    plan_prunable,
    plan_revertible,
    stands_at,
)
from loader.services.runner.worker import Conversation
from metadata.domain.history_policy import APPEND, CDC, EFFECTIVE, HistoryPolicy
from metadata.domain.raw_keeping import Keeping
from metadata.domain.sources.locations import parse_location
from metadata.domain.state import DatasetState
from metadata.domain.types import BIGINT, DATE, INTEGER, parse
from metadata.models import TargetDataset

FORMATS, COMPRESSIONS = ("csv", "parquet"), ("none", "zstd")


def request_history_batch(
    *,
    dataset: str,
    files: Mapping[str, Sequence[str]],
    format: str = "csv",
    compression: str = "none",
    reading: Mapping[str, Any] | None = None,
    run_id: str | None = None,
    at: datetime | None = None,
    reason: str = "",
    user: Any = None,
    wake_worker: bool = True,
) -> RequestedRun:
    """Request a history batch for a dataset. ``files`` are paths or URIs, by kind.

    ``reading`` are further fields of ``loader.domain.manifest.HistoryFiles``, as JSON. The reason is optional.
    """
    details = _file_details(files, format, compression, reading or {})
    wanted = Asked(
        kind=HISTORY_BATCH,
        scope=_scope(dataset),
        load_timestamp=at,
        asked=details,
        check=lambda: plan_history_batch(dataset),
        reason=reason.strip(),
    )
    return request_run(wanted, run_id=run_id, user=user, wake_worker=wake_worker)


def _file_details(
    files: Mapping[str, Sequence[str]], format: str, compression: str, reading: Mapping[str, Any]
) -> dict[str, Any]:
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
    chosen = {kind: [_resolve_links(stands_at(path)) for path in files[kind]] for kind in FILES if files.get(kind)}
    if not chosen and not reading.get("rows"):
        raise Refusal("NO_FILES", "a history batch needs at least one file", hint=f"of {', '.join(FILES)}")
    details = {"files": chosen, "format": format, "compression": compression}
    return details | {"reading": dict(reading)} if reading else details


def _resolve_links(place: str) -> str:
    """Return a local path with its links resolved, so that later changes of a link have no effect."""
    location = parse_location(place, folder="/")
    if not location.is_local:
        return place
    rest = location.segments[len(location.fixed.segments) :]
    return os.path.join(os.path.realpath(location.fixed.path), *rest)


@dataclass(frozen=True)
class Reversion:
    """Facts about the revert of one run from the control database.

    ``refusal`` is why the revert is impossible, unless it was already done, which only the table shows.
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
    """Request the revert of one run in one dataset. A revert that did not succeed is queued again."""
    _check_reason(reason)
    name = plan_revertible(dataset).steps[0].dataset.qualified_name
    details = {"run_id": of_run}
    wanted = Asked(
        kind=REVERT,
        scope=_scope(name),
        asked=details,
        check=lambda: _check_revertible(of_run, dataset),
        reason=reason.strip(),
    )
    if run_id is None:
        unfinished = LoadRun.objects.filter(kind=REVERT).exclude(status=states.SUCCEEDED).order_by("-pk")
        same = (run for run in unfinished if run.scope["name"] == name and run.details.get("asked") == details)
        run_id = next((run.run_id for run in same), None)
    return request_run(wanted, run_id=run_id, user=user, wake_worker=wake_worker)


def _check_revertible(of_run: str, dataset: str) -> None:
    revert = reversion(of_run, dataset)
    if revert.refusal is not None:
        raise revert.refusal


def reversion(of_run: str, dataset: str, by: LoadRun | None = None) -> Reversion:
    """Return the facts about the revert of a run.

    Raise Refusal UNKNOWN_RUN, NOT_REVERTIBLE, ALREADY_REVERTED (unless by the run ``by``), NOT_APPLIED or RUN_ACTIVE.
    """
    state = plan_revertible(dataset).steps[0].dataset
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
    refusal = _pruned_refusal(row, name) or _later_runs_refusal(state, row, later)
    newest = others.order_by("-run__load_timestamp").values_list("run__load_timestamp", flat=True).first()
    runs = tuple(later.values_list("run__run_id", flat=True))
    return Reversion(row, newest.isoformat() if newest else None, runs, refusal)


def _pruned_refusal(row: DatasetRun, name: str) -> Refusal | None:
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


def _later_runs_refusal(state: DatasetState, row: DatasetRun, later: QuerySet[DatasetRun]) -> Refusal | None:
    """Return a refusal if later runs depend on this one.

    Runs of rows with a time of their own depend on it only if they ignored or refused late rows, appends never.
    """
    policy = HistoryPolicy.from_dict(state.history_policy)
    if policy.input == APPEND:
        return None
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
    ignoring_late_rows = [
        run for run in runs if any(run.counts.get(name) for name in ("late_ignored", "beyond_horizon", "refused"))
    ]
    if not ignoring_late_rows:
        return None
    return Refusal(
        "LATER_RUNS",
        f"run {ignoring_late_rows[0].run} ignored or refused late rows, perhaps because of run {row.run}",
        hint=hint,
        count=len(ignoring_late_rows),
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
    """Request the removal of closed versions that ended before a date, or more than a number of days ago.

    Of an upsert of dated rows, the events are removed that only rows before that date could need.
    """
    _check_reason(reason)
    state = plan_prunable(dataset).steps[0].dataset
    if archive and not state.historize:
        raise Refusal("NO_HISTORY", f"{state.qualified_name} keeps no versions that could be archived")
    before = _ended_before(state, ended_before, older_than_days)
    details = {"ended_before": before, "archive": stands_at(archive) if archive else None}
    earlier = LoadRun.objects.filter(run_id=run_id, kind=PRUNE).first() if run_id else None
    if earlier is not None and older_than_days is not None:
        details["ended_before"] = earlier.details["asked"]["ended_before"]  # the days count back from the first request
    wanted = Asked(kind=PRUNE, scope=_scope(state.qualified_name), asked=details, reason=reason.strip())
    return request_run(wanted, run_id=run_id, user=user, wake_worker=wake_worker)


def archive_place(dataset: str) -> str:
    """Return the default folder for a history's pruned versions, in the warehouse."""
    state = plan_one(dataset).steps[0].dataset
    return f"{settings.WAREHOUSE.rstrip('/')}/.archive/{state.history_key}"


def _ended_before(state: DatasetState, text: str | None, days: int | None) -> str:
    """Return the limit as text in the type of the versions' or events' times."""
    event_log = event_log_table(state)
    dated = event_log.column("event_at") if event_log else history_table(state).column("ended_at")
    type_ = parse(dated.type).name
    if (text is None) == (days is None):
        raise Refusal("NO_DATE", "give either a date or a number of days")
    if type_ in (BIGINT, INTEGER):
        if text is None or not text.strip().lstrip("-").isdigit():
            raise Refusal("BAD_DATE", f"versions of {state.qualified_name} are dated by a number: give a number")
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
    limit: date = instant.date() if type_ == DATE else instant
    return limit.isoformat()


def request_accept(
    *, dataset: str, reason: str, run_id: str | None = None, user: Any = None, wake_worker: bool = True
) -> RequestedRun:
    """Request the acceptance of a table that lacks runs applied to it; these are then marked as reverted."""
    _check_reason(reason)
    state = _loaded_dataset(dataset)
    wanted = Asked(kind=ACCEPT, scope=_scope(state.qualified_name), asked={}, reason=reason.strip())
    return request_run(wanted, run_id=run_id, user=user, wake_worker=wake_worker)


def request_compaction(
    *, dataset_key: str, run_id: str | None = None, reason: str = "", wake_worker: bool = True
) -> RequestedRun | None:
    """Request the compaction of a dataset's small files; return None if one is queued or running."""
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
    """Request a vacuum of a dataset's tables; a dry run only lists the files.

    Raise Refusal RETENTION_TOO_SHORT for fewer hours than the safe minimum, or than an undo report or a revert needs.
    """
    _check_reason(reason)
    state = _loaded_dataset(dataset)
    wanted = Asked(
        kind=VACUUM,
        scope=_scope(state.qualified_name),
        asked={"retention_hours": retention_hours, "dry_run": dry_run},
        check=lambda: refuse_short(retention_hours, _needs(state), now=timezone.now()),
        reason=reason.strip(),
    )
    return request_run(wanted, run_id=run_id, user=user, requester=requester, wake_worker=wake_worker)


def request_quarantine(
    *,
    dataset: str,
    decision: str,
    reason: str,
    entries: Sequence[str] = (),
    of_run: str = "",
    run_id: str | None = None,
    user: Any = None,
    wake_worker: bool = True,
) -> RequestedRun:
    """Request that waiting rows of a dataset's quarantine are released into the next load, or dropped.

    ``entries`` are their identities; without any, all waiting rows are meant, or those of the run ``of_run``.
    """
    _check_reason(reason)
    state = _loaded_dataset(dataset)
    if decision not in DECISIONS:
        raise Refusal("BAD_DECISION", f"{decision!r} is not one of {', '.join(DECISIONS)}")
    if not all(re.fullmatch(r"[0-9a-f]{64}", entry) for entry in entries):
        raise Refusal(
            "BAD_ENTRY", "an entry is 64 hexadecimal digits", hint="The quarantine of the dataset lists them."
        )
    if of_run and not LoadRun.objects.filter(run_id=of_run).exists():
        raise Refusal("UNKNOWN_RUN", f"there is no run {of_run}")
    asked = {"decision": decision, "entries": sorted(entries), "of_run": of_run}
    wanted = Asked(kind=QUARANTINE, scope=_scope(state.qualified_name), asked=asked, reason=reason.strip())
    return request_run(wanted, run_id=run_id, user=user, wake_worker=wake_worker)


def _needs(state: DatasetState) -> list[Need]:
    """Return the undo reports and the unfinished reverts that need former files of a dataset."""
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


def _loaded_dataset(dataset: str) -> DatasetState:
    """Return a dataset that has a table loaded by runs. Raise Refusal NOT_LOADED."""
    state = plan_named(dataset).steps[0].dataset
    if not is_loaded(state):
        raise Refusal("NOT_LOADED", f"{state.qualified_name} is not loaded by runs: it has no table of its own")
    return state


def _scope(dataset: str) -> Scope:
    return Scope(DATASET, dataset, target_only=True)


def _check_reason(reason: str) -> None:
    if not reason.strip():
        raise Refusal("NO_REASON", "enter a reason: changing a history needs one")


# Work of reverts, prunes, compactions, acceptances, vacuums and quarantine decisions: one request to the runner each.


# Fields of the runner's answer: the sequence of the newest run in an accepted table, and that of the run itself.
HELD, SEQUENCE = "held", "sequence"


class RunWork(Protocol):
    """Interface of ``loader.services.load_work.LoadWork`` that maintenance runs use."""

    @property
    def run(self) -> LoadRun: ...

    attempt: LoadAttempt
    talk: Conversation

    def pending(self, plan: LoadPlan) -> Pending: ...
    def store(self, event: dict[str, Any]) -> None: ...
    def keep_commits(self, finished: dict[str, Any]) -> None: ...
    def must_answer(self, finished: dict[str, Any]) -> str: ...


def perform_run(work: RunWork) -> str:
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
    """Set the run's sequence to the accepted table's, and mark runs that the table lacks as reverted."""
    row = run.datasets.get()
    lost = applied_rows().filter(dataset_key=row.dataset_key, run__environment=run.environment, sequence__gt=held)
    DatasetRun.objects.filter(pk__in=list(lost.values_list("pk", flat=True))).update(reverted_by=run)
    DatasetRun.objects.filter(pk=row.pk).update(sequence=sequence)


def _revert(work: RunWork) -> RevertManifest:
    of_run, plan, rows = work.run.details["asked"]["run_id"], *_prepare(work, plan_revertible)
    facts = retried(lambda: reversion(of_run, plan.steps[0].dataset.qualified_name, by=work.run))
    return RevertManifest(
        run_id=work.run.run_id,
        load=retried(lambda: maintenance_load(run=work.run, plan=plan, rows=rows)),
        reverted_run=of_run,
        reverted_sequence=facts.row.sequence or 0,
        newest_applied_at=facts.newest_applied_at,
        later_runs=facts.later_runs,
        refused=facts.refusal.as_json() if facts.refusal else None,
    )


def _prune(work: RunWork) -> PruneManifest:
    asked, (plan, rows) = work.run.details["asked"], _prepare(work, plan_prunable)
    return PruneManifest(
        run_id=work.run.run_id,
        load=retried(lambda: maintenance_load(run=work.run, plan=plan, rows=rows)),
        ended_before=asked["ended_before"],
        archive=asked["archive"],
    )


def _accept(work: RunWork) -> AcceptManifest:
    plan, rows = _prepare(work, plan_named)
    return AcceptManifest(work.run.run_id, retried(lambda: maintenance_load(run=work.run, plan=plan, rows=rows)))


def _prepare(work: RunWork, planned: Callable[[str], LoadPlan]) -> tuple[LoadPlan, dict[str, DatasetRun]]:
    """Return the plan and its rows. Raise Refusal TABLES_DIFFER if changes of the tables are pending."""
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
        keeping=retried(lambda: _keeping(state)),
    )


def _keeping(state: DatasetState) -> Keeping | None:
    """Return the keeping of a raw dataset, None for another one."""
    row = TargetDataset.objects.filter(key=state.key).first() if state.layer == "raw" else None
    return row.keeping if row is not None else None


def _quarantine(work: RunWork) -> QuarantineManifest:
    asked, plan = work.run.details["asked"], retried(lambda: plan_named(work.run.scope["name"]))
    rows = work.attempt.prepare(steps=plan.steps, numbered=False)
    return QuarantineManifest(
        work.run.run_id,
        retried(lambda: maintenance_load(run=work.run, plan=plan, rows=rows)),
        asked["decision"],
        tuple(asked["entries"]),
        asked["of_run"],
    )


_MANIFESTS = {
    REVERT: _revert,
    PRUNE: _prune,
    COMPACT: _compact,
    ACCEPT: _accept,
    VACUUM: _vacuum,
    QUARANTINE: _quarantine,
}
_PHASES = {
    REVERT: "reverting",
    PRUNE: "pruning",
    COMPACT: "compacting",
    ACCEPT: "accepting the table",
    VACUUM: "removing former files and outdated deliveries",
    QUARANTINE: "deciding on quarantined rows",
}
