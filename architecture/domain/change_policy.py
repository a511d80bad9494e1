"""Change policy of an environment: severities of rules, and required approvals by risk.

``architecture.domain.policy_rules`` has the rules. Operations that change only metadata have none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from architecture.domain import operations as ops
from architecture.domain.decisions import Need
from architecture.domain.operations import Operation
from architecture.domain.policy_rules import (
    ALLOW,
    APPROVE,
    BLOCK,
    METADATA_ONLY,
    RULE_CODES,
    RULES,
    SEVERITIES,
    rule_for,
)
from architecture.domain.steps.features import READERS, SPARK
from elevata.core.errors import MetadataError

_DECISIONS = {ALLOW: ops.ALLOWED, APPROVE: ops.NEEDS_APPROVAL, BLOCK: ops.BLOCKED}

# Risks of a report, the lowest first: all operations allowed, some to review, some that lose data.
SAFE, REVIEW, DESTRUCTIVE = "safe", "review", "destructive"
RISKS = (SAFE, REVIEW, DESTRUCTIVE)

FLAGS = ("drop_columns", "drop_history_columns", "drop_tables", "type_alter")

_METADATA_OPS = frozenset({ops.RETIRE_TABLE, ops.UNRETIRE_TABLE, ops.RETIRE_COLUMN, ops.UNRETIRE_COLUMN})


class PolicyProblem(MetadataError):
    """Error of an invalid policy set; ``field`` names the invalid part."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__("bad_policy", message, field)


def _needs() -> dict[str, Need]:
    return {SAFE: Need(), REVIEW: Need(1), DESTRUCTIVE: Need(1)}


@dataclass(frozen=True)
class PolicySet:
    """Policy set of an environment.

    Attributes:
        severities: severity of each rule, by code.
        approvals: number of approvals and the approvers' role (empty: any), by risk.
        approver_may_execute: an approver may also execute the report.
        automatic_safe_changes: loads execute pending operations if all are safe.
        readers: engines that must be able to read every table (``architecture.domain.steps.features``).
        maintenance: approvals of runs that rewrite tables or histories; None for those of safe reports.
    """

    severities: Mapping[str, str] = field(default_factory=lambda: {rule.code: rule.severity for rule in RULES})
    approvals: Mapping[str, Need] = field(default_factory=_needs)
    approver_may_execute: bool = True
    automatic_safe_changes: bool = True
    readers: str = SPARK
    maintenance: Need | None = None

    @classmethod
    def of_flags(cls, flags: Mapping[str, bool], readers: str = SPARK) -> "PolicySet":
        """Return the defaults, with approval instead of blocking for each flag that is set.

        Raises PolicyProblem for an unknown flag.
        """
        for name in flags:
            if name not in FLAGS:
                raise PolicyProblem(name, f"is not known; known are {', '.join(FLAGS)}")
        defaults = cls()
        opened = {rule.code: APPROVE for rule in RULES if rule.flag and flags.get(rule.flag)}
        return replace(defaults, severities={**defaults.severities, **opened}, readers=_readers(readers))

    @property
    def maintenance_need(self) -> Need:
        """Return the approvals that a maintenance run needs."""
        return self.maintenance or self.approvals[SAFE]

    def severity(self, code: str) -> str:
        return self.severities[code]

    def as_json(self) -> dict[str, Any]:
        """Return all choices, so that each changes a fingerprint. ``later`` rules are included only if not default."""
        omitted = {(rule.code, rule.severity) for rule in RULES if rule.later}
        return {
            "severities": {
                code: severity for code, severity in sorted(self.severities.items()) if (code, severity) not in omitted
            },
            "approvals": {risk: _as_json(self.approvals[risk]) for risk in RISKS},
            "approver_may_execute": self.approver_may_execute,
            "automatic_safe_changes": self.automatic_safe_changes,
            **({"readers": self.readers} if self.readers != SPARK else {}),
            **({"maintenance": _as_json(self.maintenance)} if self.maintenance else {}),
        }

    @classmethod
    def from_json(cls, document: Any, defaults: "PolicySet | None" = None) -> "PolicySet":
        """Return the policy set of a document by ``as_json``. Missing fields are taken from ``defaults``.

        Raises PolicyProblem for an unknown field.
        """
        defaults = defaults or cls()
        known = ("severities", "approvals", "approver_may_execute", "automatic_safe_changes", "readers", "maintenance")
        for name in _mapping(document, "policy"):
            if name not in known:
                raise PolicyProblem(name, f"is not known; known are {', '.join(known)}")
        return cls(
            severities={**defaults.severities, **_severities(document.get("severities", {}))},
            approvals={**defaults.approvals, **_approvals(document.get("approvals", {}))},
            **{name: _truth(name, document.get(name, getattr(defaults, name))) for name in known[2:4]},
            readers=_readers(document.get("readers", defaults.readers)),
            maintenance=_need("maintenance", document["maintenance"])
            if "maintenance" in document
            else defaults.maintenance,
        )


def _as_json(need: Need) -> dict[str, Any]:
    return {"count": need.count, "role": need.role}


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise PolicyProblem(name, "must be fields with values")
    return value


def _truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise PolicyProblem(name, f"must be true or false, not {value!r}")
    return value


def _readers(value: Any) -> str:
    if value not in READERS:
        raise PolicyProblem("readers", f"must be one of {', '.join(READERS)}, not {value!r}")
    return str(value)


def _severities(value: Any) -> dict[str, str]:
    for code, severity in _mapping(value, "severities").items():
        if code not in RULE_CODES:
            raise PolicyProblem(f"severities.{code}", f"is not a rule; rules are {', '.join(RULE_CODES)}")
        if severity not in SEVERITIES:
            raise PolicyProblem(f"severities.{code}", f"must be one of {', '.join(SEVERITIES)}, not {severity!r}")
    return dict(value)


def _approvals(value: Any) -> dict[str, Need]:
    needs = {}
    for risk, need in _mapping(value, "approvals").items():
        where = f"approvals.{risk}"
        if risk not in RISKS:
            raise PolicyProblem(where, f"is not a risk; risks are {', '.join(RISKS)}")
        needs[risk] = _need(where, need)
    return needs


def _need(where: str, value: Any) -> Need:
    if unknown := set(_mapping(value, where)) - {"count", "role"}:
        raise PolicyProblem(f"{where}.{min(unknown)}", "is not known; known are count, role")
    count, role = value.get("count", 0), value.get("role", "")
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 9:
        raise PolicyProblem(f"{where}.count", f"must be a whole number from 0 to 9, not {count!r}")
    if not isinstance(role, str):
        raise PolicyProblem(f"{where}.role", f"must be text, not {role!r}")
    return Need(count, role)


def decide(operation: Operation, policy: PolicySet) -> Operation:
    """Return the operation with decision, code and message."""
    if operation.op in _METADATA_OPS and operation.code in ("", METADATA_ONLY):
        return replace(operation, decision=ops.METADATA_ONLY, code=operation.code or METADATA_ONLY)
    rule = rule_for(operation)
    severity = policy.severity(rule.code)
    parts = [part for part in (operation.message, rule.text) if part]
    if severity == BLOCK and rule.fix:
        parts.append(rule.fix)
    return replace(operation, decision=_DECISIONS[severity], code=rule.code, message="; ".join(parts))


def is_applied_by_loads(operation: Operation, policy: PolicySet) -> bool:
    """Return True if a load applies the change by itself; others wait for a report."""
    is_decided = operation.decision in (ops.ALLOWED, ops.METADATA_ONLY) and not operation.destructive
    return is_decided and policy.automatic_safe_changes and not policy.approvals[SAFE].count


def risk_of(operations: tuple[Operation, ...]) -> str:
    """Return the highest risk of a report's operations."""
    if any(operation.destructive for operation in operations):
        return DESTRUCTIVE
    safe = (ops.ALLOWED, ops.METADATA_ONLY)
    return SAFE if all(operation.decision in safe for operation in operations) else REVIEW
