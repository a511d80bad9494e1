"""Steps as JSON in the rows of a preview."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from architecture.domain.steps.step import (
    Rehashed,
    Retyped,
    Step,
    TableShape,
)
from architecture.domain.tables import ColumnSpec, ObservedColumn, TableSpec


def as_row(step: Step) -> dict[str, Any]:
    """Return all fields of a step as a dict, the inverse of ``of_row``."""
    return asdict(step)


def of_row(row: Mapping[str, Any]) -> Step:
    """Return the step of a dict by ``as_row``, also if it was read from JSON. Raise TypeError for unknown fields."""
    column = row["column"]
    return Step(
        **{
            **row,
            "table": _table(row["table"]),
            "column": None if column is None else _column(column),
            "retyped": tuple(Retyped(**item) for item in row["retyped"]),
            "rehashed": tuple(map(_rehashed, row.get("rehashed", ()))),
            "stamps": _pairs(row["stamps"]),
            "untied": tuple(row["untied"]),
            "features": tuple(row.get("features", ())),
            "restored": _shape(row["restored"]),
            "assumes": _shape(row["assumes"]),
        }
    )


def _table(row: Mapping[str, Any]) -> TableSpec:
    columns = tuple(_column(column) for column in row["columns"])
    return TableSpec(**{**row, "columns": columns, "partition_by": tuple(row["partition_by"])})


def _column(row: Mapping[str, Any]) -> ColumnSpec:
    return ColumnSpec(**{**row, "hash_of": _pairs(row.get("hash_of", ()))})


def _rehashed(item: Mapping[str, Any]) -> Rehashed:
    return Rehashed(**{**item, "parts": _pairs(item["parts"]), "types": _pairs(item.get("types", ()))})


def _pairs(rows: Iterable[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((first, other) for first, other in rows)


def _shape(row: Mapping[str, Any] | None) -> TableShape | None:
    if row is None:
        return None
    columns = tuple(ObservedColumn(**column) for column in row["columns"])
    lists = {name: tuple(row.get(name, ())) for name in ("partition_by", "features", "closing")}
    return TableShape(**{**row, **lists, "columns": columns})
