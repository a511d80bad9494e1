"""Checks of the data that schedules wait for, without Spark: files are listed and rows counted as pages do it."""

from collections.abc import Iterable
from uuid import UUID

from elevata.core.errors import MetadataError
from loader.contract.refusals import Refusal
from loader.models import DatasetRun, Schedule
from loader.schedules.waits import FILES, Answer, Wait, answer_of_files, answer_of_rows
from loader.selectors.source_state import deliveries
from loader.services.loads.plans import plan_load
from loader.sources.page_limits import database_of
from loader.sources.postgresql import count_rows
from loader.sources.systems import delivery
from metadata.domain.scope import Scope
from metadata.domain.types import DATE, TIMESTAMP
from metadata.models import SourceDataset, System

# Kinds of systems with files or rows to wait for; messages and endpoints are only read by a load.
WAIT_KINDS = (System.Kind.FILES, System.Kind.JDBC)


def sources_of_waits(schedules: Iterable[Schedule]) -> dict[str, SourceDataset]:
    """Return the sources that schedules wait for, by stable key; sources that were deleted are left out."""
    keys = {schedule.wait["source"] for schedule in schedules if schedule.wait}
    rows = SourceDataset.objects.filter(key__in=keys).select_related("system") if keys else ()
    return {str(source.key): source for source in rows}


def source_of_wait(wait: Wait) -> SourceDataset | None:
    """Return the source that is waited for; None if there is none of this key."""
    try:
        UUID(wait.source)
    except ValueError:
        return None
    return SourceDataset.objects.filter(key=wait.source).select_related("system").first()


def check_wait(schedule: Schedule) -> None:
    """Raise MetadataError for a condition that cannot be checked, or about a source that the runs do not read."""
    wait = Wait.from_json(schedule.wait)
    if wait is None:
        return
    if schedule.kind != Schedule.Kind.LOAD:
        raise MetadataError("bad_wait", "goes with loads only", "wait.for")
    source = source_of_wait(wait)
    if source is None or not source.active:
        raise MetadataError("bad_wait", "is no active source", "wait.source")
    keys = {key for step in plan_load(Scope.from_json(schedule.scope)).steps for key in step.dataset.inputs}
    if str(source.key) not in keys:
        raise MetadataError("bad_wait", f"{source} is not read by the runs of this schedule", "wait.source")
    if source.system.kind not in WAIT_KINDS:
        kind = source.system.get_kind_display()
        message = f"{source} is of a {kind}: only files and database tables can be waited for"
        raise MetadataError("bad_wait", message, "wait.source")
    of_files = source.system.kind == System.Kind.FILES
    if of_files != (wait.kind == FILES):
        has = "files" if of_files else "rows"
        raise MetadataError("bad_wait", f"{source} has {has}: wait for them instead", "wait.for")
    if not of_files:
        _check_rows(source, wait)


def _check_rows(source: SourceDataset, wait: Wait) -> None:
    try:
        database_of(source.system)
    except Refusal as refusal:
        raise MetadataError("bad_wait", refusal.message, "wait.source") from refusal
    if wait.newer:
        column = source.columns.filter(name=wait.newer, active=True).first()
        if column is None or column.type.name not in (DATE, TIMESTAMP):
            raise MetadataError("bad_wait", f"names no date or timestamp of {source}", "wait.newer")


def check_data(schedule: Schedule, wait: Wait, *, last_check: str) -> Answer:
    """Return what the source has now. A refusal of the source is an answer, too: it is tried again until the deadline.

    ``last_check`` is the signature of the files at the check before.
    """
    source = source_of_wait(wait)
    if source is None:
        return Answer("The source was deleted.")
    try:
        if wait.kind == FILES:
            seen = delivery(source.system, source.location)
            return answer_of_files(
                files=seen.files,
                newest=seen.newest,
                signature=seen.signature,
                expected=source.options.get("expected_files") or 0,
                last_check=last_check,
                last_run=schedule.last_delivery,
            )
        loaded = deliveries(source).filter(status=DatasetRun.Status.SUCCEEDED).first() if wait.newer else None
        since = loaded.run.load_timestamp if loaded is not None else None
        return answer_of_rows(
            rows=count_rows(source, at_most=wait.rows, newer=wait.newer, since=since), wanted=wait.rows
        )
    except Refusal as refusal:
        return Answer(refusal.message)
