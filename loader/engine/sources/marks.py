"""Marks in the commits of tables: those that a source is read from, and those that a load writes.

``loader.domain.sources.marks`` has the rules.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from elevata.core.errors import MetadataError
from loader.contract.manifest.loads import LoadManifest, RawcoreLoad, RawLoad
from loader.contract.refusals import Refusal
from loader.domain.sources.marks import Mark, Reading, Window, advance_mark, marks_in, marks_note
from loader.engine.sources.key_lists import KeyList
from loader.engine.tables.run_commits import RunCommit
from loader.engine.tables.table_files import TableMoved
from loader.engine.tables.tables import DeltaTable
from metadata.domain.history.history_policy import NONE, HistoryPolicy
from metadata.domain.sources.intake import Intake
from metadata.domain.types import parse


def reading_of(session: SparkSession, warehouse: str, load: RawLoad, manifest: LoadManifest) -> Reading | None:
    """Return the request to read the source from the marks of the run's readers; None without a watermark.

    Raise Refusal BAD_INTAKE.
    """
    intake = Intake.from_dict(load.source.intake)
    if not intake.watermark:
        return None
    try:
        columns = {column.name: parse(column.type) for column in load.source.columns}
        intake.check_against(load.source.format, columns, load.source.options)
    except MetadataError as problem:
        hint = "Correct the intake of the source dataset."
        raise Refusal("BAD_INTAKE", f"{load.source.name}: {problem.field} {problem.message}", hint=hint) from None
    marks: list[Mark | None] = []
    for reader in manifest.rawcore:
        if any(stage_input.table.key == load.table.key for stage_input in reader.inputs):
            commit = DeltaTable(session, warehouse, reader.leading.key).newest_run_commit()
            marks.append(marks_in(commit.notes if commit else None).get(load.table.key))
    at = datetime.fromisoformat(manifest.load_timestamp)
    return Reading(intake, tuple(marks), manifest.full, manifest.since, at if at.tzinfo else at.replace(tzinfo=UTC))


@dataclass(frozen=True)
class DeliveredWindow:
    """Window and key list of the rows in a raw table, and the version of the table that has them."""

    raw: DeltaTable
    version: int
    window: Window | None
    run_id: str
    key_list: KeyList | None = None

    @classmethod
    def of(cls, raw: DeltaTable) -> "DeliveredWindow":
        commit = raw.newest_run_commit()
        version = raw.version()
        if commit is None:
            return cls(raw, version, None, "")
        return cls(raw, version, Window.of_note(commit.notes), commit.run_id, KeyList.of_note(commit.notes))


def delivered_windows(session: SparkSession, warehouse: str, load: RawcoreLoad) -> list[DeliveredWindow]:
    """Return the windows of the raw tables that a load reads, if they are incremental or show deletes.

    Call it before their rows are read.
    """
    detects = HistoryPolicy.from_dict(load.policy).delete_detection != NONE
    keys = dict.fromkeys(stage_input.table.key for stage_input in load.inputs if stage_input.incremental or detects)
    return [DeliveredWindow.of(DeltaTable(session, warehouse, key)) for key in keys]


def next_marks(windows: list[DeliveredWindow], last_run: RunCommit | None, run_id: str) -> dict[str, str]:
    """Return the note with the marks of a load's next commit, which has the rows of these windows.

    ``last_run`` is the newest commit of a run in the leading table. Raise TableMoved if a raw table was written since.
    """
    known, marks = marks_in(last_run.notes if last_run else None), {}
    for delivered in windows:
        raw = delivered.raw
        if raw.version() != delivered.version:
            raise TableMoved("TABLE_MOVED", f"another writer changed the raw table {raw.key}")
        mark = known.get(raw.key)
        if delivered.window is not None:
            mark = advance_mark(mark, delivered.window, own=delivered.run_id == run_id)
        if mark is not None:
            marks[raw.key] = mark
    return marks_note(marks)
