"""Evaluation of quality checks: results computed from the numbers of one pass."""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from elevata.core.words import counted
from loader.contract.check_outcomes import Result, outcome_of
from loader.contract.manifest.checks import CheckSpec
from loader.domain.quality.bands import LEAST_RUNS, Band, learned_band
from loader.domain.quality.checks import FAILED, INCOMPUTABLE, TOTAL, VALUE, CompiledCheck
from metadata.domain.quality import check_kinds
from metadata.domain.quality.check_kinds import DEFAULT_DEVIATIONS, DEFAULT_TOLERANCE, is_number

_MICROSECONDS_PER_HOUR = 3_600_000_000


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
