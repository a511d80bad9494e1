"""Comparison of two versions of a quality check: the rows that pass the new one must pass the old one."""

from collections.abc import Collection, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from metadata.domain.quality.check_kinds import DEFAULT_DEVIATIONS, DEFAULT_RUNS, KINDS, RANGE, SEVERITIES, is_number
from metadata.domain.state import CheckState

_EQUAL = ("condition", "dataset", "other_columns", "aggregate", "pattern", "sql")


def is_at_least_as_strict(after: CheckState, before: CheckState, texts: Collection[str] = ()) -> bool:
    """Return True if data that ``after`` accepts is also accepted by ``before``, with the same consequences or more.

    A change whose effect is not known, such as another condition, is not. ``texts`` are names of text columns in lower
    case: their limits are text, of which no order is assumed.
    """
    order = list(SEVERITIES)
    if after.kind != before.kind or order.index(after.severity) < order.index(before.severity):
        return False
    now, was = after.arguments, before.arguments
    return (
        all(now.get(name) == was.get(name) for name in _EQUAL)
        and _is_scope_kept(after.kind, now.get("where", ""), was.get("where", ""))
        and _columns_are_as_strict(after.kind, now.get("columns", ()), was.get("columns", ()))
        and ("values" not in was or set(now.get("values", ())) <= set(was["values"]))
        and _are_limits_kept(was, now, is_text=after.kind == RANGE and _is_text(now, texts))
        and now.get("hours", 0) <= was.get("hours", 0)
        and Decimal(now.get("tolerance") or 0) <= Decimal(was.get("tolerance") or 0)
        and now.get("runs", DEFAULT_RUNS) == was.get("runs", DEFAULT_RUNS)
        and Decimal(now.get("deviations") or DEFAULT_DEVIATIONS) <= Decimal(was.get("deviations") or DEFAULT_DEVIATIONS)
    )


def _is_scope_kept(kind: str, now: str, was: str) -> bool:
    """Compare conditions of the rows that are checked: more rows are stricter if the check finds those that fail."""
    return now == was or (not now and KINDS[kind].finds_rows)


def _columns_are_as_strict(kind: str, now: Any, was: Any) -> bool:
    """Compare columns: fewer unique columns, and more columns without NULL, are stricter."""
    if kind == "unique":
        return set(now) <= set(was)
    return set(was) <= set(now) if kind == "not_null" else list(now) == list(was)


def _is_text(arguments: Mapping[str, Any], texts: Collection[str]) -> bool:
    return any(name.lower() in texts for name in arguments.get("columns", ()))


def _are_limits_kept(was: Mapping[str, Any], now: Mapping[str, Any], *, is_text: bool) -> bool:
    sides = ((was.get(name, ""), now.get(name, ""), name == "minimum") for name in ("minimum", "maximum"))
    return all(not old or old == new if is_text else _is_limit_kept(old, new, lower=low) for old, new, low in sides)


def _is_limit_kept(was: str, now: str, *, lower: bool) -> bool:
    """Return True if the new limit allows no value that the old one refuses; an empty one allows all."""
    if not was or not now:
        return not was
    smaller, larger = (was, now) if lower else (now, was)
    if is_number(was) and is_number(now):
        return Decimal(smaller) <= Decimal(larger)
    try:
        return date.fromisoformat(smaller) <= date.fromisoformat(larger)
    except ValueError:
        return was == now
