"""Results of dry runs for pages: each table before and after, broken queries and errors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from architecture.models import DryRun
from architecture.permissions import place_of_report
from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.jobs import states
from metadata.domain.sensitivity import MASK
from metadata.models import TargetDataset
from metadata.selectors.classification import classifications

SAMPLES_SHOWN = 5


@dataclass(frozen=True)
class ColumnPair:
    """Column before and after (``name type``); None if it does not exist."""

    before: str | None
    after: str | None

    @property
    def differs(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True)
class Side:
    """Table before or after: its name, size and a sample of rows."""

    name: str
    rows: int | None
    size: int | None
    columns: tuple[str, ...]
    samples: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True)
class TablePair:
    """Table before and after; None if it does not exist."""

    key: str
    before: Side | None
    after: Side | None
    columns: tuple[ColumnPair, ...]

    @property
    def name(self) -> str:
        side = self.after or self.before
        return side.name if side is not None else ""

    @property
    def sides(self) -> tuple[tuple[Side | None, str], ...]:
        return ((self.before, "before"), (self.after, "after"))

    @property
    def differing(self) -> tuple[ColumnPair, ...]:
        return tuple(pair for pair in self.columns if pair.differs)

    @property
    def lost_rows(self) -> bool:
        """Return True if the number of rows differs, which no operation explains."""
        return self.before is not None and self.after is not None and self.before.rows != self.after.rows


@dataclass(frozen=True)
class DryRunResult:
    """Result of a dry run. ``broken`` are (name, Spark's message) of queries that the report breaks."""

    succeeded: bool
    error: dict[str, Any] | None
    steps: int
    tables: tuple[TablePair, ...]
    broken: tuple[tuple[str, str], ...]
    queries: int


def readable_result(dry_run: DryRun, user: Any) -> dict[str, Any] | None:
    """Return the result of a dry run, without rows if the user may not read the data.

    Rows of a table with a column that was classified since are left out for all users.
    """
    result = dry_run.result
    if result is None:
        return None
    may_read = may(user, Permission.READ_DATA, on=place_of_report(dry_run.preview.report))
    tables = result.get("tables", {})
    withheld = _classified_since(tables) if may_read else set(tables)
    if may_read and not withheld:
        return result
    tables = {
        key: {name: side and ({**side, "samples": []} if key in withheld else side) for name, side in sides.items()}
        for key, sides in tables.items()
    }
    error = result.get("error")
    return {**result, "tables": tables, "error": error and {**error, "samples": []}}


def _classified_since(tables: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the keys of tables whose samples contain unmasked values of columns that are sensitive now."""
    sides = [(key, side) for key, both in tables.items() for side in both.values() if side]
    keys = {side["name"]: key for key, side in sides}
    rows = TargetDataset.objects.filter(name__in={name.rpartition(".")[2] for name in keys}).select_related("schema")
    bases = {keys[str(row)]: row.history_of_id or row.pk for row in rows if str(row) in keys}
    by_dataset = classifications(set(bases.values()))
    return {key for key, side in sides if key in bases and _unmasked(side) & by_dataset[bases[key]].sensitive_names}


def _unmasked(side: Mapping[str, Any]) -> set[str]:
    names = [column["name"].lower() for column in side["columns"]]
    return {name for row in side.get("samples", ()) for name, value in zip(names, row, strict=False) if value != MASK}


def dry_run_result(dry_run: DryRun | None, user: Any) -> DryRunResult | None:
    """Return the part of a dry run's result that the user may read; None while there is none."""
    if dry_run is None or dry_run.status != states.SUCCEEDED or dry_run.result is None:
        return None
    result = readable_result(dry_run, user) or {}
    queries = result.get("queries", [])
    return DryRunResult(
        succeeded=bool(result.get("succeeded")),
        error=result.get("error"),
        steps=len(result.get("steps", [])),
        tables=tuple(_pair(key, sides) for key, sides in result.get("tables", {}).items()),
        broken=tuple((query["name"], query["after"]) for query in queries if query["breaks"]),
        queries=len(queries),
    )


def _pair(key: str, sides: Mapping[str, Any]) -> TablePair:
    before, after = sides.get("before"), sides.get("after")
    return TablePair(key, _side(before), _side(after), _columns(before, after))


def _side(side: Mapping[str, Any] | None) -> Side | None:
    if side is None:
        return None
    names = tuple(column["name"] for column in side["columns"])
    samples = tuple(tuple(row) for row in side.get("samples", [])[:SAMPLES_SHOWN])
    return Side(side["name"], side.get("rows"), side.get("bytes"), names, samples)


def _columns(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> tuple[ColumnPair, ...]:
    """Return the columns matched by stable key, or without one by name; removed columns last."""
    was, now = _by_identity(before), _by_identity(after)
    kept = [ColumnPair(was.get(identity), text) for identity, text in now.items()]
    return (*kept, *(ColumnPair(text, None) for identity, text in was.items() if identity not in now))


def _by_identity(side: Mapping[str, Any] | None) -> dict[str, str]:
    columns = side["columns"] if side is not None else []
    return {column.get("key") or f"name:{column['name']}": f"{column['name']} {column['type']}" for column in columns}
