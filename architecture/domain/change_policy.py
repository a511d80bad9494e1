"""Change policy: rules, severities and required approvals of an environment.

Each rule is a small function that returns whether it applies to an operation. Codes and texts are stable; severities
come from the environment's policy set. The first rule in ``RULES`` that applies decides on an operation. Operations
that change only metadata have no rule.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from architecture.domain import operations as ops
from architecture.domain.data_contracts import BREAKS_CONTRACT
from architecture.domain.operations import Operation
from architecture.domain.steps.features import OPEN, READERS, SPARK
from architecture.domain.workflow import Need
from elevata.core.errors import MetadataError
from elevata.core.words import counted

ALLOW, APPROVE, BLOCK = "allow", "needs_approval", "block"
SEVERITIES = (ALLOW, APPROVE, BLOCK)
_DECISIONS = {ALLOW: ops.ALLOWED, APPROVE: ops.NEEDS_APPROVAL, BLOCK: ops.BLOCKED}

# Risks of a report, the lowest first: all operations allowed, some to review, some that lose data.
SAFE, REVIEW, DESTRUCTIVE = "safe", "review", "destructive"
RISKS = (SAFE, REVIEW, DESTRUCTIVE)

FLAGS = ("drop_columns", "drop_history_columns", "drop_tables", "type_alter")

# Codes that the planner gives to operations whose kind alone does not determine the rule.
POSSIBLE_RENAME, KEY_CHANGE, NOT_NULL = "POSSIBLE_RENAME", "KEY_CHANGE", "NOT_NULL"
NOT_NULL_ADDED = "NOT_NULL_ADDED"  # a warning
HISTORY_DIFFERS, MATERIALIZATION, RETYPE_COLUMN = "HISTORY_DIFFERS", "MATERIALIZATION", "RETYPE_COLUMN"
HISTORY_RESUMED = "HISTORY_RESUMED"
VIEW_COLUMN, HISTORY_FORM, KEY_RETYPED = "VIEW_COLUMN", "HISTORY_FORM", "KEY_RETYPED"
REWRITE_TABLE, FEWER_DELIVERIES = "REWRITE_TABLE", "FEWER_DELIVERIES"
FOLLOWS_TABLE, METADATA_ONLY, NAME_TAKEN = "FOLLOWS_TABLE", "METADATA_ONLY", "NAME_TAKEN"


@dataclass(frozen=True)
class Rule:
    """Rule of the change policy. ``text`` explains the operation, ``fix`` is the alternative if it is blocked.

    ``flag`` is the setting that turns blocking into approval. ``later`` marks a rule that was added after reports
    had been approved: with its default severity it is left out of stored policy sets, so that those reports stay up
    to date.
    """

    code: str
    text: str
    fix: str
    severity: str
    applies: Callable[[Operation], bool]
    flag: str = ""
    later: bool = False


RULES: list[Rule] = []
_Applies = Callable[[Operation], bool]


def _rule(
    code: str, severity: str, text: str, fix: str = "", flag: str = "", later: bool = False
) -> Callable[[_Applies], _Applies]:
    def registered(applies: _Applies) -> _Applies:
        RULES.append(Rule(code, text, fix, severity, applies, flag, later))
        return applies

    return registered


@_rule(
    KEY_CHANGE,
    BLOCK,
    "history is kept by the business key and cannot move to another key",
    "keep the key, or create a dataset with the new key",
)
def changes_the_key_of_a_history(operation: Operation) -> bool:
    return operation.code == KEY_CHANGE


@_rule(
    MATERIALIZATION,
    APPROVE,
    "a table becomes a view, or a view a table",
    "leave the materialization as it is",
)
def changes_the_materialization(operation: Operation) -> bool:
    return operation.code == MATERIALIZATION


@_rule(VIEW_COLUMN, ALLOW, "the view changes with the next load; no table changes", "leave the view as it is")
def changes_a_column_of_a_view(operation: Operation) -> bool:
    return operation.code == VIEW_COLUMN


@_rule(
    "DROP_TABLE",
    BLOCK,
    "the table is dropped with its rows",
    "deactivate the dataset instead, or let the environment allow dropping tables",
    flag="drop_tables",
)
def drops_a_table(operation: Operation) -> bool:
    return operation.op == ops.DROP_TABLE


@_rule(
    "DROP_HISTORY_COLUMN",
    BLOCK,
    "the column is dropped from all versions",
    "leave it retired, or let the environment allow dropping history columns",
    flag="drop_history_columns",
)
def drops_a_history_column(operation: Operation) -> bool:
    return operation.op == ops.DROP_COLUMN and operation.side == ops.HISTORY


@_rule(
    "DROP_COLUMN",
    BLOCK,
    "the column is dropped with its values",
    "deactivate the column instead, or let the environment allow dropping columns",
    flag="drop_columns",
)
def drops_a_column(operation: Operation) -> bool:
    return operation.op == ops.DROP_COLUMN


@_rule(
    KEY_RETYPED,
    BLOCK,
    "the business key becomes another kind of value: the history keeps the old column, retired, and its versions "
    "under the old keys, so the next load takes every key for a new one",
    "keep the type, describe a new dataset with the new key, or let the environment allow changing types",
    flag="type_alter",
    later=True,
)
def begins_a_history_key_anew(operation: Operation) -> bool:
    return operation.code == KEY_RETYPED


@_rule(
    RETYPE_COLUMN,
    BLOCK,
    "a value that does not fit fails the load",
    "keep the type, add a column of the new type, or let the environment allow changing types",
    flag="type_alter",
)
def retypes_a_column(operation: Operation) -> bool:
    # A view with a history stores no rows, so no stored value can be of the wrong type.
    is_view = operation.code == HISTORY_DIFFERS
    return (operation.op == ops.RETYPE_COLUMN and not is_view) or operation.code == RETYPE_COLUMN


@_rule("REBUILD_TABLE", APPROVE, "the table is rewritten, because Delta has no ALTER for it", "keep the types")
def rebuilds_a_table(operation: Operation) -> bool:
    return operation.op == ops.REBUILD_TABLE


@_rule(
    REWRITE_TABLE,
    APPROVE,
    "the table is written anew, so that every reader of the environment can read it",
    "keep the name or the type, or set the environment's readers to spark",
    later=True,
)
def writes_a_table_anew_for_its_readers(operation: Operation) -> bool:
    return operation.code == REWRITE_TABLE


@_rule(
    "DROP_FEATURES",
    APPROVE,
    "the table is rewritten without table features that some readers lack",
    "set the environment's readers to spark",
    later=True,
)
def drops_table_features(operation: Operation) -> bool:
    return operation.op == ops.DROP_FEATURES


@_rule(
    POSSIBLE_RENAME,
    APPROVE,
    "a column of the same type is dropped from the same table: was it renamed?",
    "if so, add the old name to the former names",
)
def may_be_a_rename(operation: Operation) -> bool:
    return operation.code == POSSIBLE_RENAME


@_rule(NOT_NULL, APPROVE, "rows without a value fail the load", "leave the column nullable")
def forbids_null(operation: Operation) -> bool:
    return operation.code == NOT_NULL


@_rule(
    HISTORY_FORM,
    APPROVE,
    "versions of two forms cannot stand in one history: every load is refused (HISTORY_POLICY_CHANGED) while it has "
    "versions, so approve this only where it has none, or else set the policy back or describe a new dataset",
    "leave the history policy as it is",
    later=True,
)
def gives_versions_another_form(operation: Operation) -> bool:
    return operation.code == HISTORY_FORM


@_rule(
    HISTORY_DIFFERS,
    APPROVE,
    "the next load compares other values, so unchanged rows may count as changed",
    "leave the logic as it is, or describe a new dataset",
)
def makes_history_compare_differently(operation: Operation) -> bool:
    return operation.code == HISTORY_DIFFERS


@_rule(
    HISTORY_RESUMED,
    APPROVE,
    "a history that was kept is followed again: the next load compares everything with versions of then, and closes "
    "those of keys that it does not find",
    "leave the history switched off, or describe a new dataset",
    later=True,
)
def takes_a_history_up_again(operation: Operation) -> bool:
    return operation.code == HISTORY_RESUMED


@_rule(
    FEWER_DELIVERIES,
    APPROVE,
    "deliveries that raw keeps are removed by a load or a vacuum, and cannot be loaded again",
    "keep as many deliveries as before",
    later=True,
)
def removes_raw_deliveries(operation: Operation) -> bool:
    return operation.code == FEWER_DELIVERIES


@_rule("CHANGE_LOGIC", ALLOW, "applies from the next load; no table changes", "leave the logic as it is")
def changes_logic(operation: Operation) -> bool:
    return operation.op == ops.CHANGE_LOGIC


@_rule(FOLLOWS_TABLE, ALLOW, "technical columns are named after their table", "leave the table's name as it is")
def follows_its_table(operation: Operation) -> bool:
    return operation.code == FOLLOWS_TABLE


@_rule("CREATE_TABLE", ALLOW, "a new table, empty until the next load", "deactivate the dataset")
def creates_a_table(operation: Operation) -> bool:
    return operation.op == ops.CREATE_TABLE


@_rule("RENAME_TABLE", ALLOW, "only the name changes; queries with the old name fail", "keep the name")
def renames_a_table(operation: Operation) -> bool:
    return operation.op == ops.RENAME_TABLE


@_rule("RENAME_COLUMN", ALLOW, "only the name changes; queries with the old name fail", "keep the name")
def renames_a_column(operation: Operation) -> bool:
    return operation.op == ops.RENAME_COLUMN


@_rule("ADD_COLUMN", ALLOW, "a new column, NULL in existing rows", "deactivate the column")
def adds_a_column(operation: Operation) -> bool:
    return operation.op == ops.ADD_COLUMN


@_rule("WIDEN_COLUMN", ALLOW, "every value fits the new type; no row is rewritten", "keep the type")
def widens_a_column(operation: Operation) -> bool:
    return operation.op == ops.WIDEN_COLUMN


@_rule(
    BREAKS_CONTRACT,
    APPROVE,
    "readers that rely on the contract fail, or read something else than they were promised",
    "keep what the contract promises, and describe the new beside it",
    later=True,
)
def breaks_a_contract(operation: Operation) -> bool:
    return operation.code == BREAKS_CONTRACT


@_rule("CHANGE_CONTRACT", ALLOW, "readers can rely on what was promised before", "leave the contract", later=True)
def changes_a_contract(operation: Operation) -> bool:
    return operation.op == ops.CHANGE_CONTRACT


RULE_CODES = tuple(rule.code for rule in RULES)
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
            "approvals": {
                risk: _as_json(self.approvals[risk]) for risk in RISKS
            },
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


# --- comparison --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loosening:
    """Loosened choice of a policy set; ``before`` and ``after`` are texts."""

    choice: str
    before: str
    after: str

    def as_json(self) -> dict[str, str]:
        return {"choice": self.choice, "before": self.before, "after": self.after}


def loosened(before: PolicySet, after: PolicySet) -> tuple[Loosening, ...]:
    """Return the choices of ``after`` that are looser than in ``before``; empty if it is at least as strict.

    A higher severity is looser if fewer approvals are needed: an allowed operation needs those of safe reports, an
    operation that needs approval those of reports to review.
    """
    loosenings = []
    for rule in RULES:
        was, now = before.severity(rule.code), after.severity(rule.code)
        lower = SEVERITIES.index(now) < SEVERITIES.index(was)
        raised = (was, now) == (ALLOW, APPROVE) and not _at_least(after.approvals[REVIEW], before.approvals[SAFE])
        if lower or raised:
            words = (f"{severity.replace('_', ' ')}" for severity in (was, now))
            loosenings.append(Loosening(f"severities.{rule.code}", *words))
    for risk in RISKS:
        was_needed, needed = before.approvals[risk], after.approvals[risk]
        if not _at_least(needed, was_needed):
            loosenings.append(Loosening(f"approvals.{risk}", _in_words(was_needed), _in_words(needed)))
    was_needed, needed = before.maintenance_need, after.maintenance_need
    if (before.maintenance or after.maintenance) and not _at_least(needed, was_needed):
        loosenings.append(Loosening("maintenance", _in_words(was_needed), _in_words(needed)))
    for name in ("approver_may_execute", "automatic_safe_changes"):
        if getattr(after, name) and not getattr(before, name):
            loosenings.append(Loosening(name, "no", "yes"))
    if (before.readers, after.readers) == (OPEN, SPARK):
        loosenings.append(Loosening("readers", before.readers, after.readers))
    return tuple(loosenings)


def _at_least(need: Need, other: Need) -> bool:
    """Return True if all approvals that meet ``need`` also meet ``other``."""
    return need.count >= other.count and (not other.count or other.role in ("", need.role))


def _in_words(need: Need) -> str:
    return f"{counted(need.count, 'approval')} by {f'the role {need.role}' if need.role else 'any approver'}"


def rule_for(operation: Operation) -> Rule:
    """Return the rule that decides on an operation. Raise LookupError for an operation that changes only metadata."""
    for rule in RULES:
        if rule.applies(operation):
            return rule
    raise LookupError(f"{operation.op} is no rule's business")


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


def risk_of(operations: tuple[Operation, ...]) -> str:
    """Return the highest risk of a report's operations."""
    if any(operation.destructive for operation in operations):
        return DESTRUCTIVE
    safe = (ops.ALLOWED, ops.METADATA_ONLY)
    return SAFE if all(operation.decision in safe for operation in operations) else REVIEW
