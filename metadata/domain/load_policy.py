"""Load policy in a dataset's state: rules besides filter and inputs that decide which rows a load brings.

It is a mapping for state files, with these parts, each left out while it has its default:

* ``keep``, ``keep_days``, ``keep_deliveries``: the deliveries that raw keeps (``metadata.domain.sources.raw_keeping``).
* ``sources``: by stable key, the choices of the dataset's sources that decide which rows are read, and their values.
* ``checks``: by stable key, the quality checks that quarantine rows or stop the load.
* ``ghost_rows``: by the stable key of the reference, the datasets whose unknown keys become rows of this one.
* ``copies``: by stable key, the copies with values or hashes of sensitive columns (``metadata.domain.copies``).

A source's place and its deliveries are no part of it. State files of other installations may have further parts.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from metadata.domain.quality.check_kinds import QUARANTINE, STOP
from metadata.domain.sources import raw_keeping
from metadata.domain.sources.contracts import PROPOSE
from metadata.domain.sources.option_kinds import FAULTY_ROWS
from metadata.domain.sources.reading_options import options_of, shown_options
from metadata.domain.state import DatasetState

SOURCES, CHECKS, GHOST_ROWS, COPIES = "sources", "checks", "ghost_rows", "copies"
# Parts of a source's rules.
OPTIONS, INTAKE, COLUMNS = "options", "intake", "columns"
# Severities of checks that keep rows out.
HOLDING_BACK = (QUARANTINE, STOP)
# Options that decide how fast a source is read, or when the attempt is given up, but neither rows nor values.
_PACE = ("partition_column", "partitions", "fetch_size", "timeout", "max_pages")
Policy = Mapping[str, Any] | str | None


def source_rules(
    *,
    format: str,
    options: Mapping[str, Any],
    intake: Mapping[str, Any],
    new_columns: str,
    columns: Mapping[str, str],
) -> dict[str, Any]:
    """Return the choices of a source that decide rows or values; empty if all of them have their defaults.

    ``columns`` are the contract's columns by stable key, as ``column_rule`` describes them.
    """
    known = options_of(format)
    chosen = {
        option: value
        for option, value in shown_options(options).items()
        if option not in _PACE and not (option in known and value == known[option].default_of(format))
    }
    rules: dict[str, Any] = {OPTIONS: chosen, INTAKE: dict(intake)}
    if new_columns != PROPOSE:
        rules["new_columns"] = new_columns
    if columns_decide(options):
        rules[COLUMNS] = dict(columns)
    return {part: value for part, value in rules.items() if value}


def columns_decide(options: Mapping[str, Any]) -> bool:
    """Return True if a source's options let types and NULLs of its columns decide which rows are loaded."""
    return "deduplicate" in options or options.get(FAULTY_ROWS) == QUARANTINE


def column_rule(*, type: str, key_ordinal: int | None, nullable: bool) -> str:
    """Return the properties of a source column for which a row is kept out or superseded."""
    return ", ".join(filter(None, (type, f"key {key_ordinal}" if key_ordinal else "", "" if nullable else "not null")))


def check_rules(kind: str, severity: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a check as a part of the state, without its name; ``arguments`` are normal (``QualityRule.arguments``)."""
    return {"kind": kind, "severity": severity, **arguments}


def load_policy(
    *,
    keeping: Mapping[str, Any] | None,
    sources: Mapping[str, Mapping[str, Any]],
    checks: Mapping[str, Mapping[str, Any]],
    ghost_rows: Mapping[str, str],
    copies: Mapping[str, Mapping[str, str]],
) -> dict[str, Any] | None:
    """Return the load policy of a dataset's state; None if every part has its default.

    ``keeping`` is the part of ``raw_keeping.policy_of``.
    """
    rules = {key: rule for key, rule in sources.items() if rule}
    parts = {SOURCES: rules, CHECKS: dict(checks), GHOST_ROWS: dict(ghost_rows), COPIES: dict(copies)}
    return dict(keeping or {}) | {name: part for name, part in parts.items() if part} or None


def with_keeping(policy: Policy, other: Policy) -> Policy:
    """Return the load policy with the deliveries that raw keeps under another one."""
    rules = without_keeping(policy)
    keeping = raw_keeping.keeping_of(other)
    described = raw_keeping.policy_of(keeping.mode, keeping.days, keeping.deliveries) or {}
    return {**rules, **described} or None if isinstance(rules, dict) else policy


def with_rules_of(state: DatasetState, other: DatasetState | None) -> DatasetState:
    """Return a state whose release recorded no rules with those of another one; any other state is returned unchanged.

    The mode of keeping was always recorded, so it stays.
    """
    if state.rules_recorded or other is None or not other.rules_recorded:
        return state
    mode, limits = raw_keeping.mode_of(state.load_policy), raw_keeping.keeping_of(other.load_policy)
    days, deliveries = (limits.days, limits.deliveries) if mode != raw_keeping.LATEST else (None, None)
    rules = without_keeping(other.load_policy)
    described = raw_keeping.policy_of(mode, days, deliveries) or {}
    policy = {**rules, **described} or None if isinstance(rules, dict) else rules
    return replace(state, load_policy=policy, rules_recorded=True)


def cross_dataset_check_texts(policy: Policy) -> tuple[str, ...]:
    """Return names, columns and SQL of the other datasets in checks that hold rows back."""
    checks = policy.get(CHECKS) if isinstance(policy, Mapping) else None
    rules = (rule for rule in checks.values() if isinstance(rule, dict)) if isinstance(checks, dict) else ()
    texts = (" ".join(str(rule.get(name, "")) for name in ("dataset", "other_columns", "sql")) for rule in rules)
    return tuple(text for text in texts if text.strip())


def without_keeping(policy: Policy) -> dict[str, Any] | str:
    """Return a load policy without the deliveries that raw keeps."""
    if isinstance(policy, Mapping):
        return {name: value for name, value in policy.items() if name not in raw_keeping.FIELDS}
    return policy or {}
