"""Checks of table data that a step depends on: read-only, with counts and samples in refusals."""

import json

from architecture.domain.steps.statements import lost_values
from architecture.domain.steps.step import (
    CHECK_NOT_NULL,
    DROP_COLUMN,
    REBUILD_TABLE,
    RESTORE_TABLE,
    RETYPE_COLUMN,
    Step,
)
from loader.contract.refusals import Refusal
from loader.engine.pyspark_types import row_of
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier

_SAMPLES = 5
_SHOWN_COLUMNS = 4
EXECUTION = "execution"


def asks(step: Step) -> bool:
    """Return True if a step must be checked against the table's rows or its log."""
    return _casts_values(step) or step.op in (CHECK_NOT_NULL, RESTORE_TABLE) or step.only_empty


def _casts_values(step: Step) -> bool:
    return bool(step.retyped) and (step.rewrites or step.op in (REBUILD_TABLE, RETYPE_COLUMN))


def check(step: Step, table: DeltaTable) -> None:
    """Raise Refusal for a step that the table's rows do not permit."""
    if _casts_values(step):
        _check_casts(step, table)
    elif step.op == CHECK_NOT_NULL and step.column is not None:
        _check_no_nulls(step.column.name, table)
    elif step.op == DROP_COLUMN and step.only_empty and step.column is not None:
        _check_all_null(step.column.name, table)
    elif step.op == RESTORE_TABLE and step.version is not None:
        _check_not_written_since(step, table)


def _check_casts(step: Step, table: DeltaTable) -> None:
    """Raise Refusal CAST_FAILS if a cast to a new type would lose a value."""
    broken = dict(zip(step.retyped, lost_values(step), strict=True))
    counters = (f"count_if({test}) AS c{place}" for place, test in enumerate(broken.values()))
    counts = row_of(table.frame().selectExpr(*counters).first())
    for (change, test), count in zip(broken.items(), counts, strict=True):
        if count:
            name = quote_identifier(change.name)
            shown = f"hex({name})" if change.from_type == "binary" else f"CAST({name} AS STRING)"
            rows = table.frame().where(test).selectExpr(f"{shown} AS value").distinct().limit(_SAMPLES).collect()
            raise Refusal(
                "CAST_FAILS",
                f"{step.dataset}.{change.name}: {count} values do not fit {change.to_type}",
                hint="correct these values first, or choose a wider type",
                column=change.name,
                count=count,
                samples=tuple(sorted(repr(row.value) for row in rows)),
            )


def _check_no_nulls(column: str, table: DeltaTable) -> None:
    name = quote_identifier(column)
    empty = table.frame().where(f"{name} IS NULL")
    count = empty.count()
    if count:
        shown = ", ".join(quote_identifier(column) for column in empty.columns[:_SHOWN_COLUMNS])
        rows = empty.selectExpr(f"to_json(struct({shown})) AS value").limit(_SAMPLES).collect()
        raise Refusal(
            "NULLS_FOUND",
            f"{column}: {count} rows have no value",
            hint="fill them first, or leave the column nullable",
            column=column,
            count=count,
            samples=tuple(sorted(row.value for row in rows)),
        )


def _check_all_null(column: str, table: DeltaTable) -> None:
    count = table.frame().where(f"{quote_identifier(column)} IS NOT NULL").count()
    if count:
        raise Refusal(
            "COLUMN_NOT_EMPTY",
            f"{column} holds {count} values by now, so it is not undone",
            hint="retire the column, or drop it by a report of its own",
            column=column,
            count=count,
        )


def _check_not_written_since(step: Step, table: DeltaTable) -> None:
    """Raise Refusal WRITTEN_SINCE if a RESTORE would lose rows written after its version."""
    newest = table.version()
    for version in range((step.version or 0) + 1, newest + 1):
        actions = table.commit(version)
        if actions is None or _writes_rows(actions):
            raise Refusal(
                "WRITTEN_SINCE",
                f"{step.dataset}: rows were written after version {step.version} (version {version}), "
                "which going back to it would take away",
                hint="change the table forward by a report of its own",
            )


def _writes_rows(actions: list[dict]) -> bool:
    """Return True if a commit changed rows and does not belong to an execution."""
    changed = any(
        part["dataChange"] for action in actions for part in (action.get("add"), action.get("remove")) if part
    )
    return changed and not any(is_of_execution(action.get("commitInfo")) for action in actions)


def is_of_execution(commit_info: dict | None) -> bool:
    metadata = (commit_info or {}).get("userMetadata") or ""
    return metadata.startswith("{") and json.loads(metadata).get("what") == EXECUTION
