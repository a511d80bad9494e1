"""Result of a history policy on its sample: the final versions, each with the row that opened it.

The reference engine computes the versions; this module implements no rule.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from elevata.core.words import counted
from loader.contract.refusals import Refusal
from loader.domain.historization.history import DELETED as DELETED_STATE
from loader.domain.historization.policy_sample import (
    ASIDE,
    CHANGED,
    DELETED,
    LATE,
    NEW,
    REWIND,
    Sample,
    SampleBatch,
    SampleRow,
)
from loader.domain.reference import Header, ReferenceEngine
from loader.domain.reference.batch_files import ACTIVE, DELETE, EARLIEST, END
from loader.domain.reference.values import as_json, typed
from metadata.domain.history.history_columns import layout_of, open_end, time_type
from metadata.domain.history.history_policy import BATCH_FILES, NONE, TOMBSTONE, HistoryPolicy
from metadata.domain.types import DataType, parse

NULL = "NULL"
# Fields that the engine adds to a version; columns of the data may have the same names.
_ENGINES = ("state", "active", "opened_by", "closed_by", "valid_from", "valid_to")


@dataclass(frozen=True)
class SampleVersion:
    """Version of the sample as text. ``opened_by``, ``closed_by`` and ``updated_by`` are numbers of rows.

    ``opened_in`` and ``closed_in`` are the batch that opened or closed it by a key's absence. ``active`` is None if
    the layout has no such column.
    """

    number: int
    values: tuple[tuple[str, str], ...]
    started: str
    ended: str
    is_open: bool
    state: str = ""
    active: bool | None = None
    opened_by: int | None = None
    closed_by: int | None = None
    opened_in: str = ""
    closed_in: str = ""
    updated_by: tuple[int, ...] = ()


@dataclass(frozen=True)
class Fate:
    """Row of the sample: what it demonstrates, and its effect. ``cells`` correspond to ``columns``."""

    row: SampleRow
    cells: tuple[str, ...]
    shows: str
    became: str
    refused: bool = False
    columns: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[tuple[str, str], ...]:
        """Return the cells with their columns' names."""
        return tuple(zip(self.columns, self.cells, strict=True))


@dataclass(frozen=True)
class BatchFate:
    """Batch of the sample: effects of its rows and on an absent key, and the refusal if it was refused."""

    batch: SampleBatch
    at: str
    rows: tuple[Fate, ...]
    absent: str = ""
    refusal: Refusal | None = None


@dataclass(frozen=True)
class Outcome:
    """Result of a sample. ``names`` are the history's columns for start, end, state and, if it has one, active."""

    sample: Sample
    batches: tuple[BatchFate, ...]
    versions: tuple[SampleVersion, ...]
    names: Mapping[str, str]

    @property
    def summary(self) -> str:
        """Return a summary in one line."""
        refused = sum(batch.refusal is not None for batch in self.batches)
        rows, versions, batches = len(self.sample.rows), len(self.versions), len(self.batches)
        line = f"{rows} rows in {batches} deliveries make {counted(versions, 'version')}"
        return f"{line}; {refused} of the deliveries is refused." if refused else f"{line}."


def outcome(sample: Sample) -> Outcome:
    """Apply the batches of a sample in order and return the result."""
    return _Application(sample).outcome()


Place = tuple[tuple[str, ...], Any]
OPENS, ENDS, UPDATES = "Opens", "Ends", "Updates"


@dataclass
class _StoredVersion:
    """Version of the engine, identified by its place (key and start)."""

    key: tuple[str, ...]
    row: Mapping[str, Any]

    @property
    def place(self) -> Place:
        return self.key, self.row["valid_from"]


@dataclass(frozen=True)
class _Change:
    """Change of a version by a row, or by a key's absence from the batch (``row`` None)."""

    run_id: str
    row: int | None
    verb: str
    place: Place


@dataclass
class _Application:
    """Application of a sample. ``aliases`` rename data columns whose names the engine uses itself."""

    sample: Sample
    aliases: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, Refusal] = field(default_factory=dict)
    counts: dict[str, Mapping[str, int]] = field(default_factory=dict)
    changes: list[_Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        types = self.sample.types
        self.aliases = {name: _free(name, types) for name in types if name in _ENGINES}
        header = Header(
            tuple(map(self._alias, self.sample.keys)),
            {self._alias(name): type_ for name, type_ in types.items()},
            self.policy.renamed(self.aliases),
            "the sample",
        )
        self.engine = ReferenceEngine(header)

    @property
    def policy(self) -> HistoryPolicy:
        return self.sample.policy

    def outcome(self) -> Outcome:
        stored: list[_StoredVersion] = []
        for batch in self.sample.batches:
            before, stored = stored, self._apply(batch)
            self._record_changes(batch, before, stored)
        versions = tuple(self._version(number, row) for number, row in enumerate(stored, start=1))
        numbers = {row.place: number for number, row in enumerate(stored, start=1)}
        batches = tuple(self._batch_fate(batch, numbers) for batch in self.sample.batches)
        return Outcome(self.sample, batches, versions, self._names())

    # --- execution of the sample -----------------------------------------------------------------

    def _apply(self, batch: SampleBatch) -> list[_StoredVersion]:
        rows_by_file = batch.as_batch()
        if self.sample.policy.delete_detection != NONE:
            rows_by_file["keys"] = [{name: row.values[name] for name in self.sample.keys} for row in batch.rows]
        for name, rows in rows_by_file.items():
            if isinstance(rows, list):
                rows_by_file[name] = [{self._alias(column): value for column, value in row.items()} for row in rows]
        try:
            self.counts[batch.run_id] = self.engine.apply(rows_by_file)["counts"]
        except Refusal as refusal:
            self.refusals[batch.run_id] = refusal
        stored = [_StoredVersion(self._key(row), row) for row in self.engine.rows()]
        return sorted(stored, key=lambda row: row.place)

    def _record_changes(self, batch: SampleBatch, before: list[_StoredVersion], after: list[_StoredVersion]) -> None:
        rows_before = {row.place: row.row for row in before}
        for version in after:
            old = rows_before.get(version.place)
            changes = {
                ENDS: old is not None and old["valid_to"] != version.row["valid_to"],
                OPENS: old is None,
                UPDATES: old is not None and self._values(old) != self._values(version.row),
            }
            for verb in (verb for verb, happened in changes.items() if happened):
                row = self._row_of(batch, version.key, opens=verb != ENDS)
                self.changes.append(_Change(batch.run_id, row, verb, version.place))

    def _alias(self, name: str) -> str:
        return self.aliases.get(name, name)

    def _key(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(_display(row[self._alias(name)]) for name in self.sample.keys)

    def _values(self, row: Mapping[str, Any]) -> list[str]:
        return [_display(row.get(self._alias(name))) for name in self.sample.attributes]

    # --- describing versions -----------------------------------------------------------------------

    def _version(self, number: int, stored: _StoredVersion) -> SampleVersion:
        row, files = stored.row, self.policy.input == BATCH_FILES
        names = (*self.sample.keys, *self.sample.attributes)
        is_open = bool(row["active"]) if files else row["valid_to"] is None
        opened_by = self._maker(row["opened_by"], stored.key, opens=True)
        closed_by = self._maker(row["closed_by"], stored.key, opens=False)
        updates = [change.row for change in self.changes if change.verb == UPDATES and change.place == stored.place]
        ended = _display(row["valid_to"]) if row["valid_to"] is not None else self._open_end()
        tombstone = self.policy.deletes == TOMBSTONE and row.get("state") == DELETED_STATE
        return SampleVersion(
            number,
            tuple((name, _display(row.get(self._alias(name)))) for name in names),
            _display(row["valid_from"]),
            ended,
            is_open,
            state="" if files else self.policy.label(row["state"]),
            active=(is_open and not tombstone) if "active" in self._names() else None,
            opened_by=opened_by,
            closed_by=closed_by,
            opened_in=row["opened_by"] if opened_by is None else "",
            closed_in=row["closed_by"] or "" if closed_by is None else "",
            updated_by=tuple(row for row in updates if row is not None),
        )

    def _maker(self, run_id: str | None, key: tuple[str, ...], *, opens: bool) -> int | None:
        batch = next((batch for batch in self.sample.batches if batch.run_id == run_id), None)
        return self._row_of(batch, key, opens=opens) if batch else None

    def _row_of(self, batch: SampleBatch, key: tuple[str, ...], *, opens: bool) -> int | None:
        """Return the number of a batch's row for a key; with ``opens``, of a row that can open versions."""
        own = [row for row in batch.rows if self._delivered_key(row) == key]
        fitting = [row for row in own if not (opens and row.file in (EARLIEST, DELETE))]
        return fitting[0].number if fitting else None

    def _delivered_key(self, row: SampleRow) -> tuple[str, ...]:
        return tuple(_display(typed(row.values[name], self.sample.types[name])) for name in self.sample.keys)

    def _open_end(self) -> str:
        end = open_end(self.policy, self._time_type())
        return NULL if end is None else _display(typed(end, parse(self._time_type())))

    def _time_type(self) -> str:
        return time_type(self.policy, {name: str(type_) for name, type_ in self.sample.types.items()})

    def _names(self) -> dict[str, str]:
        """Return the names of the columns for start, end, state and active."""
        shown = ("started_at", "ended_at", "state", "active")
        return {purpose: name for purpose, name, _ in layout_of(self.policy).columns if purpose in shown}

    # --- describing rows ---------------------------------------------------------------------------

    def _batch_fate(self, batch: SampleBatch, numbers: Mapping[Place, int]) -> BatchFate:
        refusal = self.refusals.get(batch.run_id)
        rows = tuple(self._fate(batch, row, numbers) for row in batch.rows)
        return BatchFate(batch, batch.at[:16].replace("T", " "), rows, self._absence(batch, numbers), refusal)

    def _absence(self, batch: SampleBatch, numbers: Mapping[Place, int]) -> str:
        """Return the effect of a key's absence from a batch; empty if none is absent or the batch was refused."""
        keys = {self._delivered_key(row) for row in self.sample.rows}
        missing = keys - {self._delivered_key(row) for row in batch.rows}
        if not missing or batch.run_id in self.refusals:
            return ""
        key = ", ".join(f"{name} {value}" for name, value in zip(self.sample.keys, min(missing), strict=True))
        message = _sentence(change for change in self._phrases(numbers) if change[:2] == (batch.run_id, None))
        return f"{key} is absent. {message or 'That means nothing.'}"

    def _fate(self, batch: SampleBatch, row: SampleRow, numbers: Mapping[Place, int]) -> Fate:
        cells = tuple(self._cell(row, name) for name in self.sample.columns)
        refused = batch.run_id in self.refusals
        message = _sentence(change for change in self._phrases(numbers) if change[1] == row.number)
        became = "Refused, with the whole delivery." if refused else message or self._no_effect(batch, row)
        return Fate(row, cells, self._shows(row), became, refused, self.sample.columns)

    def _phrases(self, numbers: Mapping[Place, int]) -> Iterator[tuple[str, int | None, str]]:
        """Yield each change as run id, row number and phrase with the number of the version in the result."""
        for change in self.changes:
            version = (
                f"version {numbers[change.place]}" if change.place in numbers else "a version that is gone by the end"
            )
            yield change.run_id, change.row, f"{change.verb} {version}{' in place' if change.verb == UPDATES else ''}"

    def _cell(self, row: SampleRow, name: str) -> str:
        if name not in row.values:
            return ""
        value = row.values[name]
        try:
            return _display(typed(value, self._type(name))) if value is not None else NULL
        except ValueError:
            return str(value)  # markers of batch files have no type

    def _type(self, name: str) -> DataType:
        if self.policy.input == BATCH_FILES and name in (self.policy.time, END):
            return parse("timestamp")
        return self.sample.types.get(name) or parse("boolean" if name == ACTIVE else "string")

    def _shows(self, row: SampleRow) -> str:
        texts = {
            NEW: "A new key",
            CHANGED: f"{self.sample.changing} changes",
            ASIDE: f"{self.sample.aside} changes, which is not tracked",
            DELETED: "The key is deleted",
            LATE: "Comes late: it holds from before what came last",
            REWIND: "Rewinds the key to this start",
        }
        return texts.get(row.kind, "Says nothing new")

    def _no_effect(self, batch: SampleBatch, row: SampleRow) -> str:
        """Return the effect of a row that changed no version."""
        counts = self.counts.get(batch.run_id, {})
        if row.kind == LATE and counts.get("late_ignored"):
            return "Counted and left out."
        if row.kind == LATE and counts.get("beyond_horizon"):
            return "Turned away and counted: nothing so old is remembered."
        if row.kind == DELETED and counts.get("skipped_deletes"):
            return "Skipped and counted."
        return "Opens nothing and changes nothing."


def _sentence(changes: Iterable[tuple[str, int | None, str]]) -> str:
    parts = [what for *_, what in changes]
    return ", ".join([parts[0], *(part[0].lower() + part[1:] for part in parts[1:])]) + "." if parts else ""


def _free(name: str, taken: Iterable[str]) -> str:
    spelled = f"{name}_"
    return _free(spelled, taken) if spelled in {*taken, *_ENGINES} else spelled


def _display(value: Any) -> str:
    """Return a typed value as text for pages."""
    match value:
        case None:
            return NULL
        case datetime():
            parts = "milliseconds" if value.microsecond else "seconds"
            text = value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", parts)
            return text.removesuffix(":00")
        case date():
            return value.isoformat()
        case bool():
            return "true" if value else "false"
    return str(as_json(value))
