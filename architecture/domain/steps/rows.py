"""Steps as rows of a preview: what they are, as JSON, and back."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from architecture.domain.states.tables import ColumnSpec, ObservedColumn, TableSpec
from architecture.domain.steps.step import Rehashed, Retyped, Step, TableShape


def as_row(step: Step) -> dict[str, Any]:
    """Everything a step is; ``of_row`` reads it back."""
    return asdict(step)


def of_row(row: Mapping[str, Any]) -> Step:
    """The step that ``as_row`` wrote, JSON in between or not. TypeError for fields that are none of its."""
    column = row["column"]
    return Step(
        **{
            **row,
            "table": _table(row["table"]),
            "column": None if column is None else _column(column),
            "retyped": tuple(Retyped(**one) for one in row["retyped"]),
            "rehashed": tuple(Rehashed(**{**one, "parts": _pairs(one["parts"])}) for one in row.get("rehashed", ())),
            "stamps": _pairs(row["stamps"]),
            "untied": tuple(row["untied"]),
            "restored": _shape(row["restored"]),
            "assumes": _shape(row["assumes"]),
        }
    )


def _table(row: Mapping[str, Any]) -> TableSpec:
    columns = tuple(_column(column) for column in row["columns"])
    return TableSpec(**{**row, "columns": columns, "partition_by": tuple(row["partition_by"])})


def _column(row: Mapping[str, Any]) -> ColumnSpec:
    return ColumnSpec(**{**row, "hash_of": _pairs(row.get("hash_of", ()))})


def _pairs(rows: Iterable[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((one, other) for one, other in rows)


def _shape(row: Mapping[str, Any] | None) -> TableShape | None:
    if row is None:
        return None
    columns = tuple(ObservedColumn(**column) for column in row["columns"])
    return TableShape(**{**row, "columns": columns, "partition_by": tuple(row["partition_by"])})
