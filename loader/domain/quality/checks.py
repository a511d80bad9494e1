"""Quality checks as Spark SQL: the condition of failing rows, and the numbers of one pass."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from loader.contract.manifest.checks import CheckSpec
from metadata.domain.quality import check_kinds
from metadata.domain.quality.check_kinds import QualityRule, literal
from metadata.domain.sql import bind_placeholders, quote_identifier, quote_text
from metadata.domain.types import DataType

FAILED, TOTAL, VALUE = "failed", "total", "value"
# Number of rows for which the condition of a check cannot be computed.
INCOMPUTABLE = "incomputable"


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
