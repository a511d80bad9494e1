"""Copies of a dataset that get values or hashes of sensitive columns."""

from typing import Any

from metadata.domain.copies import HASH, INCLUDE
from metadata.domain.load_policy import COPIES, Policy, without_keeping

_COPIED = {HASH: "sensitive columns are copied as hashes", INCLUDE: "sensitive columns are copied"}


def describe_sensitive_copies(before: Policy, after: Policy) -> str:
    """Return the copies that get values or hashes of sensitive columns, other than before; empty if there is none."""
    was, is_ = _copies(before), _copies(after)
    new = [rule for key, rule in is_.items() if was.get(key) != rule]
    return ", ".join(sorted(f"{rule.get('to')}: {_COPIED.get(str(rule.get('sensitive')), 'copied')}" for rule in new))


def _copies(policy: Policy) -> dict[str, dict[str, Any]]:
    rules = without_keeping(policy)
    part = rules.get(COPIES) if isinstance(rules, dict) else None
    return {key: rule for key, rule in part.items() if isinstance(rule, dict)} if isinstance(part, dict) else {}
