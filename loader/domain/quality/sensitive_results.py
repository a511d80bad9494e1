"""Results of quality checks without values of sensitive columns."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from elevata.core.errors import ProductError
from loader.contract.check_outcomes import OF_VALUES, Result, without_number
from loader.contract.manifest.checks import CheckSpec
from loader.domain.queries.select_statements import columns_choosing_rows
from metadata.domain.quality import check_kinds


def without_sensitive(
    results: Iterable[Result], specs: Iterable[CheckSpec], sensitive: Collection[str], *, own: str = ""
) -> list[Result]:
    """Return results as they are stored: without values of sensitive columns, that is without samples, totals and ages.

    ``sensitive`` are names of the dataset's columns in lower case, ``own`` its stable key. Numbers of rows are stored
    with the datasets whose values they reveal, and shown to users who may read those values
    (``loader.selectors.readable_results``).
    """
    hidden = {spec.key: spec.datasets_read for spec in specs if is_sensitive(spec, sensitive)}
    shown = [
        replace(result, samples=()) if sensitive or result.kind == check_kinds.QUERY else result for result in results
    ]
    return [_stored(result, (own, *hidden[result.key])) if result.key in hidden else result for result in shown]


def _stored(result: Result, datasets: Iterable[str]) -> Result:
    """Return a result as it is stored, with the datasets whose sensitive values its numbers reveal."""
    if result.kind in OF_VALUES:
        return replace(result, **without_number(result))
    return replace(result, samples=(), tells=tuple(dict.fromkeys(key for key in datasets if key)))


def without_revealing_numbers(results: Iterable[Result]) -> list[Result]:
    """Return stored results as every reader of a run sees them: without numbers that reveal sensitive values."""
    return [replace(result, **without_number(result)) if result.tells else result for result in results]


def is_sensitive(spec: CheckSpec, sensitive: Collection[str]) -> bool:
    """Return True if the numbers of a check reveal values of a sensitive column.

    Those are totals and ages of such a column, and numbers of rows that are chosen by one: in a condition, in ``where``
    or in a SELECT. The number of rows whose own value is missing, repeated or not as it should be reveals none.
    """
    if not sensitive and not spec.other_sensitive:
        return False
    try:
        if spec.kind == check_kinds.QUERY:
            return _query_reveals(spec, sensitive)
        own = spec.rule.chosen_by
    except ProductError:
        return True
    if spec.kind in OF_VALUES:
        own |= {name.lower() for name in spec.rule.columns}
        if any(name.lower() in spec.other_sensitive for name in spec.rule.other_columns):
            return True
    return not own.isdisjoint(sensitive)


def _query_reveals(spec: CheckSpec, sensitive: Collection[str]) -> bool:
    """Return True if a sensitive column decides the number of rows of a query."""
    columns, tables = columns_choosing_rows(spec.rule.sql), spec.rule.tables
    known = dict(spec.sensitive_by_table)
    everything = () if tables <= known.keys() else (*sensitive, *spec.other_sensitive)
    by_table = {table: everything or known.get(table, ()) for table in tables}
    if not any(by_table.values()):
        return False
    return columns is None or any(name in by_table[table] for own, name in columns for table in own)
