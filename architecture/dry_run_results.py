"""Result of a dry run for its page: each table before and after, broken queries, errors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from architecture.models import Rehearsal
from architecture.report_places import place_of_report
from elevata.jobs import states
from metadata.classification import classifications
from metadata.domain.roles import Permission
from metadata.domain.sensitivity import MASK
from metadata.models import TargetDataset
from metadata.permissions import may

SAMPLES_SHOWN = 5


@dataclass(frozen=True)
class ColumnPair:
    """One column before and after (``name type``); None where it was not, or is not any more."""

    before: str | None
    after: str | None

    @property
    def differs(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True)
class Side:
    """A table at one time: its name, what it holds, and some of its rows."""

    name: str
    rows: int | None
    size: int | None
    columns: tuple[str, ...]
    samples: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True)
class TablePair:
    """A table before and after; a side is None where there is no table."""

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
        """True if rows were lost or added that no operation accounts for."""
        return self.before is not None and self.after is not None and self.before.rows != self.after.rows


@dataclass(frozen=True)
class Rehearsed:
    """A rehearsal's result. ``broken`` are (name, what Spark says) of queries that break by the report."""

    succeeded: bool
    error: dict[str, Any] | None
    steps: int
    tables: tuple[TablePair, ...]
    broken: tuple[tuple[str, str], ...]
    queries: int


def readable_result(rehearsal: Rehearsal, user: Any) -> dict[str, Any] | None:
    """Return what a rehearsal saw; without rows for a user who may not read the data it is about.

    Rows of a table whose column was classified since are left out for everybody.
    """
    result = rehearsal.result
    if result is None:
        return None
    may_read = may(user, Permission.READ_DATA, on=place_of_report(rehearsal.preview.report))
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
    """Return the keys of tables in whose samples a column that is sensitive now has a value that is not masked."""
    sides = [(key, side) for key, both in tables.items() for side in both.values() if side]
    keys = {side["name"]: key for key, side in sides}
    rows = TargetDataset.objects.filter(name__in={name.rpartition(".")[2] for name in keys}).select_related("schema")
    bases = {keys[str(row)]: row.history_of_id or row.pk for row in rows if str(row) in keys}
    found = classifications(set(bases.values()))
    return {key for key, side in sides if key in bases and _unmasked(side) & found[bases[key]].sensitive_names}


def _unmasked(side: Mapping[str, Any]) -> set[str]:
    names = [column["name"].lower() for column in side["columns"]]
    return {name for row in side.get("samples", ()) for name, value in zip(names, row, strict=False) if value != MASK}


def rehearsed(rehearsal: Rehearsal | None, user: Any) -> Rehearsed | None:
    """Return the result of a rehearsal that is finished, as a user may see it; None while there is none."""
    if rehearsal is None or rehearsal.status != states.SUCCEEDED or rehearsal.result is None:
        return None
    result = readable_result(rehearsal, user) or {}
    queries = result.get("queries", [])
    return Rehearsed(
        succeeded=bool(result.get("succeeded")),
        error=result.get("error"),
        steps=len(result.get("steps", [])),
        tables=tuple(_pair(key, sides) for key, sides in result.get("tables", {}).items()),
        broken=tuple((one["name"], one["after"]) for one in queries if one["breaks"]),
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
    """Columns matched by stable key, or by name where they have none; gone ones last."""
    was, now = _by_identity(before), _by_identity(after)
    kept = [ColumnPair(was.get(identity), text) for identity, text in now.items()]
    return (*kept, *(ColumnPair(text, None) for identity, text in was.items() if identity not in now))


def _by_identity(side: Mapping[str, Any] | None) -> dict[str, str]:
    columns = side["columns"] if side is not None else []
    return {column.get("key") or f"name:{column['name']}": f"{column['name']} {column['type']}" for column in columns}
