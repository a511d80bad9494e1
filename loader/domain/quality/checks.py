"""Quality checks as Spark SQL: the condition of failing rows, the numbers of one pass, and their evaluation."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

from architecture.domain.tables import TableSpec
from elevata.core.errors import ProductError
from elevata.core.words import counted
from loader.domain.quality.bands import LEAST_RUNS, Band, learned_band
from loader.domain.quality.results import BROKEN, OF_VALUES, Result, outcome_of, without_number
from loader.domain.queries.select_statements import columns_choosing_rows
from metadata.domain.quality import check_kinds
from metadata.domain.quality.check_kinds import DEFAULT_DEVIATIONS, DEFAULT_TOLERANCE, QualityRule, is_number, literal
from metadata.domain.sql import bind_placeholders, quote_identifier, quote_text
from metadata.domain.types import DataType

FAILED, TOTAL, VALUE = "failed", "total", "value"
# Number of rows for which the condition of a check cannot be computed.
INCOMPUTABLE = "incomputable"
_MICROSECONDS_PER_HOUR = 3_600_000_000


@dataclass(frozen=True)
class CheckSpec:
    """Check of a dataset, in a manifest.

    ``other`` is the table of the other dataset. ``other_sensitive`` are the names in lower case of its sensitive
    columns, or of those of the tables that the query reads, with columns that hash them; ``sensitive_by_table`` has
    them by the names in lower case of all tables that the query reads.
    ``past`` are the row counts of the last runs. ``query`` is a SELECT over temporary views, ``views`` their tables;
    ``own_view`` has the checked rows. ``problem`` is the reason why the check cannot run.
    """

    key: str
    name: str
    kind: str
    severity: str
    arguments: dict[str, Any] = field(default_factory=dict)
    other: TableSpec | None = None
    other_sensitive: tuple[str, ...] = ()
    sensitive_by_table: tuple[tuple[str, tuple[str, ...]], ...] = ()
    past: tuple[int, ...] = ()
    query: str = ""
    views: tuple[tuple[str, TableSpec], ...] = ()
    own_view: str = ""
    problem: str = ""

    @cached_property
    def rule(self) -> QualityRule:
        return QualityRule.from_dict(self.kind, self.arguments)

    @property
    def datasets_read(self) -> tuple[str, ...]:
        """Return the stable keys of the datasets whose tables the check reads besides the checked rows."""
        tables = (*((self.other,) if self.other else ()), *(table for _, table in self.views))
        return tuple(dict.fromkeys(table.dataset_key for table in tables))

    def result(self, outcome: str, **values: Any) -> Result:
        """Return a result of this check."""
        return Result(self.key, self.name, self.kind, self.severity, outcome, **values)

    def broken(self, reason: str) -> Result:
        """Return the result of a check that could not run."""
        return self.result(BROKEN, message=f"could not run: {reason}")


@dataclass(frozen=True)
class CompiledCheck:
    """Check as SQL. ``fails`` is the condition of a failing row, empty for checks that more than a row decides.

    ``compared`` is the condition of the rows that a check compares with others, empty for other checks. ``numbers`` are
    aggregates by name, all of them for one SELECT. ``error`` is the first error of the condition, if it cannot be
    computed for some rows; these rows fail.
    """

    spec: CheckSpec
    fails: str
    numbers: Mapping[str, str]
    compared: str = ""
    error: str = ""

    @property
    def condition(self) -> str:
        """Return the condition that is computed for each row; empty if the check has none."""
        return self.fails or self.compared

    @property
    def rule(self) -> QualityRule:
        return self.spec.rule


def compile_check(spec: CheckSpec, types: Mapping[str, DataType], fill: Mapping[str, str]) -> CompiledCheck:
    """Return the check as SQL over columns of these types. Raise QualityProblem if a column is missing.

    ``fill`` are the values of placeholders as SQL.
    """
    rule = spec.rule
    rule.check_types(types)
    where = bind_placeholders(rule.where, fill) if rule.where else ""
    count = f"count_if({where})" if where else "count(1)"
    if rule.kind in _CONDITIONS:
        by_name = {name.lower(): type_ for name, type_ in types.items()}
        fails = _CONDITIONS[rule.kind](rule, by_name)
        if rule.kind == check_kinds.CONDITION:
            fails = f"NOT ({bind_placeholders(rule.condition, fill)})"
        fails = f"({where}) AND ({fails})" if where else fails
        if rule.kind == check_kinds.NOT_NULL and len(rule.columns) == 1 and not where:
            # Counting values is cheaper than testing a condition.
            return CompiledCheck(
                spec, fails, {FAILED: f"count(1) - count({quote_identifier(rule.column)})", TOTAL: count}
            )
        return CompiledCheck(spec, fails, {FAILED: f"count_if({fails})", TOTAL: count})
    if rule.kind in (check_kinds.UNIQUE, check_kinds.RELATIONSHIP):
        compared = compared_rows(rule, fill)
        return CompiledCheck(spec, "", {TOTAL: f"count_if({compared})"}, compared)
    if rule.kind in (check_kinds.ROW_COUNT, check_kinds.ROW_COUNT_CHANGE):
        return CompiledCheck(spec, "", {VALUE: count})
    if rule.kind == check_kinds.QUERY:
        return CompiledCheck(spec, "", {})
    column = quote_identifier(rule.column)
    column = f"CASE WHEN {where} THEN {column} END" if where else column
    if rule.kind == check_kinds.FRESHNESS:
        return CompiledCheck(spec, "", {VALUE: f"unix_micros(CAST(max({column}) AS TIMESTAMP))"})
    return CompiledCheck(spec, "", {VALUE: aggregate(rule.aggregate, column)})


def aggregate(name: str, column: str) -> str:
    """Return an aggregate of a column as text."""
    return f"CAST({name}({column}) AS STRING)"


def compared_rows(rule: QualityRule, fill: Mapping[str, str]) -> str:
    """Return the condition of the rows that are compared by value: those in question that have all values."""
    present = " AND ".join(f"{quote_identifier(name)} IS NOT NULL" for name in rule.columns)
    return f"({bind_placeholders(rule.where, fill)}) AND {present}" if rule.where else present


# Conditions of failing rows; NULL where a value is NULL, which does not fail.


def _not_null(rule: QualityRule, types: Mapping[str, DataType]) -> str:
    return " OR ".join(f"{quote_identifier(name)} IS NULL" for name in rule.columns)


def _accepted_values(rule: QualityRule, types: Mapping[str, DataType]) -> str:
    type_ = types[rule.column.lower()]
    values = ", ".join(literal(value, type_, "values") for value in rule.values)
    return f"{quote_identifier(rule.column)} NOT IN ({values})"


def _range(rule: QualityRule, types: Mapping[str, DataType]) -> str:
    type_, column = types[rule.column.lower()], quote_identifier(rule.column)
    parts = [f"{column} < {literal(rule.minimum, type_, 'minimum')}"] if rule.minimum else []
    parts += [f"{column} > {literal(rule.maximum, type_, 'maximum')}"] if rule.maximum else []
    return " OR ".join(parts)


def _pattern(rule: QualityRule, types: Mapping[str, DataType]) -> str:
    return f"NOT ({quote_identifier(rule.column)} RLIKE {quote_text(whole_text(rule.pattern))})"


def whole_text(pattern: str) -> str:
    """Return the regular expression that matches a whole text."""
    return rf"\A(?:{pattern})\z"


def _length(rule: QualityRule, types: Mapping[str, DataType]) -> str:
    length = f"char_length({quote_identifier(rule.column)})"
    parts = [f"{length} < {int(rule.minimum)}"] if rule.minimum else []
    parts += [f"{length} > {int(rule.maximum)}"] if rule.maximum else []
    return " OR ".join(parts)


_CONDITIONS: dict[str, Callable[[QualityRule, Mapping[str, DataType]], str]] = {
    check_kinds.NOT_NULL: _not_null,
    check_kinds.ACCEPTED_VALUES: _accepted_values,
    check_kinds.RANGE: _range,
    check_kinds.PATTERN: _pattern,
    check_kinds.LENGTH: _length,
    check_kinds.CONDITION: lambda rule, types: rule.condition,
}


# Evaluation of the numbers.


def evaluate(check: CompiledCheck, numbers: Mapping[str, Any], *, at: datetime, other: str | None = None) -> Result:
    """Return the result of a check from its numbers. ``at`` is the run's time, ``other`` the other dataset's total."""
    match check.rule.kind:
        case check_kinds.FRESHNESS:
            return _freshness(check, numbers[VALUE], at)
        case check_kinds.ROW_COUNT:
            return _row_count(check, numbers[VALUE])
        case check_kinds.ROW_COUNT_CHANGE:
            return _row_count_change(check, numbers[VALUE])
        case check_kinds.TOTAL:
            return _total(check, numbers[VALUE], other)
    failed = int(numbers[FAILED] or 0)
    spec, total = check.spec, numbers.get(TOTAL)
    result = spec.result(outcome_of(spec.severity, failed=failed > 0), failed=failed, total=total)
    incomputable = int(numbers.get(INCOMPUTABLE) or 0)
    if not incomputable:
        return result
    message = f"{result.share}, {incomputable:,} of them could not be computed: {check.error}"
    return replace(result, message=message)


def _freshness(check: CompiledCheck, newest: int | None, at: datetime) -> Result:
    spec, hours = check.spec, check.rule.hours or 0
    if newest is None:
        message = f"{check.rule.column} has no value"
        return spec.result(outcome_of(spec.severity, failed=True), high=float(hours), message=message)
    age = (at.timestamp() * 1_000_000 - newest) / _MICROSECONDS_PER_HOUR
    message = f"the newest {check.rule.column} is older than {hours} h: {age:.1f} h" if age > hours else ""
    outcome = outcome_of(spec.severity, failed=age > hours)
    return spec.result(outcome, value=round(age, 3), high=float(hours), message=message)


def _row_count(check: CompiledCheck, count: int) -> Result:
    low, high = (int(text) if text else None for text in (check.rule.minimum, check.rule.maximum))
    band = Band(-math.inf if low is None else low, math.inf if high is None else high)
    return _in_band(check.spec, count, band, f"{counted(count, 'row')}, expected {_limits(low, high)}")


def _limits(low: int | None, high: int | None) -> str:
    parts = [f"at least {low:,}"] if low is not None else []
    return " and ".join([*parts, *([f"at most {high:,}"] if high is not None else [])])


def _row_count_change(check: CompiledCheck, count: int) -> Result:
    spec, deviations = check.spec, float(check.rule.deviations or DEFAULT_DEVIATIONS)
    band = learned_band(spec.past, deviations)
    if band is None:
        message = f"learns from the first {LEAST_RUNS} runs, {len(spec.past)} so far"
        return spec.result(outcome_of(spec.severity, failed=False), value=float(count), message=message)
    return _in_band(
        spec, count, band, f"{counted(count, 'row')}, the last runs had {band.low:,.0f} to {band.high:,.0f}"
    )


def _in_band(spec: CheckSpec, value: int, band: Band, message: str) -> Result:
    low, high = (None if math.isinf(limit) else float(limit) for limit in (band.low, band.high))
    inside = band.holds(value)
    outcome = outcome_of(spec.severity, failed=not inside)
    return spec.result(outcome, value=float(value), low=low, high=high, message="" if inside else message)


def _total(check: CompiledCheck, own: str | None, other: str | None) -> Result:
    rule, spec = check.rule, check.spec
    value: float | None = None
    low: float | None = None
    high: float | None = None
    numeric = own is not None and other is not None and is_number(own) and is_number(other)
    if own is not None and other is not None and numeric:
        ours, theirs = Decimal(own), Decimal(other)
        allowed = abs(theirs) * Decimal(rule.tolerance or DEFAULT_TOLERANCE)
        value, low, high = float(ours), float(theirs - allowed), float(theirs + allowed)
        same = abs(ours - theirs) <= allowed
    else:
        same = own == other
    there = f"{rule.dataset}.{rule.other_columns[0]}"
    message = "" if same else f"{rule.aggregate} of {rule.column} differs from that of {there}"
    if numeric and not same:
        message += f": {own} and {other}"
    return spec.result(outcome_of(spec.severity, failed=not same), value=value, low=low, high=high, message=message)


# Results without values of sensitive columns.


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


def waits_for_checks(
    depends_on: Mapping[str, Iterable[str]], reads: Mapping[str, Iterable[str]]
) -> dict[str, tuple[str, ...]]:
    """Return for each dataset those of the run that its checks read and that it can wait for.

    ``depends_on`` are the datasets that each one waits for anyway. A dataset that waits for the reader itself is left
    out: the check then reads the table as it is.
    """
    waiting = {key: set(upstreams) for key, upstreams in depends_on.items()}
    after: dict[str, tuple[str, ...]] = {}
    for key in sorted(reads):
        chosen = []
        for other in sorted(set(reads[key]) & waiting.keys() - {key}):
            if key in waiting and not _reaches(waiting, other, key):
                waiting[key].add(other)
                chosen.append(other)
        if chosen:
            after[key] = tuple(chosen)
    return after


def _reaches(waiting: Mapping[str, set[str]], start: str, end: str) -> bool:
    seen, pending = set(), [start]
    while pending:
        key = pending.pop()
        if key == end:
            return True
        if key not in seen:
            seen.add(key)
            pending += waiting.get(key, ())
    return False
