"""Checks of a delivery before anything is written; each raises the database's own error with the rule's code."""

from collections.abc import Iterator

from loader.dialects.dialect import indented
from loader.dialects.runs import AppliedRuns
from loader.dialects.stage import CONTENT, Stage
from loader.domain.historization.load_guards import EMPTY_SNAPSHOT, TOO_MANY_DELETES, DeleteGuard
from loader.domain.sources.schema_changes import VALUE_DOES_NOT_FIT
from metadata.domain.history.history_policy import APPEND

NOT_LATER, NULL_KEY, CONFLICTING_ROWS = "NOT_LATER", "NULL_KEY", "CONFLICTING_ROWS"
CODES = (NOT_LATER, VALUE_DOES_NOT_FIT, NULL_KEY, CONFLICTING_ROWS, EMPTY_SNAPSHOT, TOO_MANY_DELETES)
# Characters of a message, of which no database shows more.
_LONGEST_LIST = 1000


def checks(stage: Stage, applied: AppliedRuns, *, allow_empty: bool, allow_deletes: bool) -> Iterator[str]:
    """Yield the checks of a load; those of a repeated run find nothing."""
    dialect, name, new = stage.dialect, stage.load.name, applied.is_new
    if stage.policy.input != APPEND:
        query = f"{applied.later} AND {new}"
        yield dialect.refuse_if(NOT_LATER, f"{name}: the run is not later than the newest applied one", query)
    columns, misfits = stage.misfits
    if misfits:
        message = f"{name}: values do not fit the types of {', '.join(columns)[:_LONGEST_LIST]}"
        query = f"SELECT 1 FROM (\n{indented(misfits)}\n) AS t\nWHERE {new}"
        yield dialect.refuse_if(VALUE_DOES_NOT_FIT, message, query)
    if not stage.load.entity_key:
        return
    parts = " OR ".join(f"t.{dialect.identifier(part.column)} IS NULL" for part in stage.load.entity_key)
    query = f"SELECT 1 FROM (\n{indented(stage.typed())}\n) AS t\nWHERE ({parts}) AND {new}"
    yield dialect.refuse_if(NULL_KEY, f"{name}: rows have no value in their business key", query)
    key, content = dialect.identifier(stage.entity_key), dialect.identifier(CONTENT)
    query = (
        f"SELECT k.{key} FROM (\n{indented(stage.hashed())}\n) AS k\nWHERE {new}\n"
        f"GROUP BY k.{key} HAVING COUNT(DISTINCT k.{content}) > 1"
    )
    yield dialect.refuse_if(CONFLICTING_ROWS, f"{name}: keys have rows that differ", query)
    if stage.policy.closes_absent:
        yield from _deletes(stage, applied, allow_empty=allow_empty, allow_deletes=allow_deletes)


def _deletes(stage: Stage, applied: AppliedRuns, *, allow_empty: bool, allow_deletes: bool) -> Iterator[str]:
    dialect, name, new = stage.dialect, stage.load.name, applied.is_new
    stored = open_keys(stage)
    if not allow_empty:
        query = f"SELECT 1 FROM (\n{indented(stored)}\n) AS h\nWHERE NOT {stage.has_rows()} AND {new}"
        message = f"{name}: the snapshot is empty and would close open versions"
        yield dialect.refuse_if(EMPTY_SNAPSHOT, message, query)
    if allow_deletes:
        return
    guard, key = DeleteGuard(), dialect.identifier(stage.entity_key)
    least = round(1 / guard.share)
    gone = "c.open_keys - c.delivered_keys"
    query = (
        f"SELECT 1 FROM (\n  SELECT COUNT(*) AS open_keys, COUNT(s.{key}) AS delivered_keys\n  FROM (\n"
        f"{indented(indented(stored))}\n  ) AS h\n  LEFT JOIN (\n{indented(indented(stage.keys()))}\n"
        f"  ) AS s ON s.{key} = h.{key}\n) AS c\n"
        f"WHERE {gone} > {guard.keys} AND ({gone}) * {least} > c.open_keys AND {stage.has_rows()} AND {new}"
    )
    message = f"{name}: the snapshot lacks more than a share of {guard.share} of the open keys"
    yield dialect.refuse_if(TOO_MANY_DELETES, message, query)


def open_keys(stage: Stage) -> str:
    """Return the query of the live keys of the leading table."""
    dialect, leading = stage.dialect, stage.load.leading
    key = dialect.identifier(stage.entity_key)
    query = f"SELECT v.{key} FROM {dialect.table(leading.qualified_name)} AS v"
    if stage.load.history is None:
        return query
    return f"{query} WHERE v.{dialect.identifier(leading.column('segment').name)} = 'open'"
