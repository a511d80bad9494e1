"""Change policies: defaults, allow flags, edits, and decisions on operations."""

import json
from typing import Any

import pytest

from architecture.domain import operations as ops
from architecture.domain.change_policy import FLAGS, RISKS, PolicyProblem, PolicySet, decide, risk_of
from architecture.domain.decisions import Need
from architecture.domain.operations import BASE, HISTORY, Operation
from architecture.domain.policy_rules import ALLOW, APPROVE, BLOCK, RULES, rule_for


def operation(op: str, side: str = BASE, **fields: Any) -> Operation:
    return Operation(op, "rawcore.rc_a", "d1", side, **fields)


DEFAULTS = [
    (operation(ops.CREATE_TABLE), ops.ALLOWED, "CREATE_TABLE"),
    (operation(ops.CREATE_TABLE, code="MATERIALIZATION"), ops.NEEDS_APPROVAL, "MATERIALIZATION"),
    (operation(ops.RENAME_TABLE), ops.ALLOWED, "RENAME_TABLE"),
    (operation(ops.DROP_TABLE), ops.BLOCKED, "DROP_TABLE"),
    (operation(ops.DROP_TABLE, code="MATERIALIZATION"), ops.NEEDS_APPROVAL, "MATERIALIZATION"),
    (operation(ops.RENAME_COLUMN), ops.ALLOWED, "RENAME_COLUMN"),
    (operation(ops.RENAME_COLUMN, code="FOLLOWS_TABLE"), ops.ALLOWED, "FOLLOWS_TABLE"),
    (operation(ops.RENAME_COLUMN, code="REWRITE_TABLE"), ops.NEEDS_APPROVAL, "REWRITE_TABLE"),
    (operation(ops.ADD_COLUMN), ops.ALLOWED, "ADD_COLUMN"),
    (operation(ops.ADD_COLUMN, code="POSSIBLE_RENAME"), ops.NEEDS_APPROVAL, "POSSIBLE_RENAME"),
    (operation(ops.ADD_COLUMN, HISTORY, code="RETYPE_COLUMN"), ops.BLOCKED, "RETYPE_COLUMN"),
    (operation(ops.ADD_COLUMN, HISTORY, code="KEY_RETYPED"), ops.BLOCKED, "KEY_RETYPED"),
    (operation(ops.WIDEN_COLUMN), ops.ALLOWED, "WIDEN_COLUMN"),
    (operation(ops.REBUILD_TABLE), ops.NEEDS_APPROVAL, "REBUILD_TABLE"),
    (operation(ops.DROP_FEATURES), ops.NEEDS_APPROVAL, "DROP_FEATURES"),
    (operation(ops.RETYPE_COLUMN), ops.BLOCKED, "RETYPE_COLUMN"),
    (operation(ops.DROP_COLUMN), ops.BLOCKED, "DROP_COLUMN"),
    (operation(ops.DROP_COLUMN, HISTORY), ops.BLOCKED, "DROP_HISTORY_COLUMN"),
    (operation(ops.DROP_COLUMN, code="VIEW_COLUMN"), ops.ALLOWED, "VIEW_COLUMN"),
    (operation(ops.CHANGE_LOGIC), ops.ALLOWED, "CHANGE_LOGIC"),
    (operation(ops.CHANGE_LOGIC, code="HISTORY_DIFFERS"), ops.NEEDS_APPROVAL, "HISTORY_DIFFERS"),
    (operation(ops.CHANGE_LOGIC, code="HISTORY_FORM"), ops.NEEDS_APPROVAL, "HISTORY_FORM"),
    (operation(ops.CHANGE_LOGIC, code="FEWER_DELIVERIES"), ops.NEEDS_APPROVAL, "FEWER_DELIVERIES"),
    (operation(ops.CHANGE_LOGIC, code="SENSITIVE_COPIED"), ops.NEEDS_APPROVAL, "SENSITIVE_COPIED"),
    (operation(ops.UNRETIRE_TABLE, HISTORY, code="HISTORY_RESUMED"), ops.NEEDS_APPROVAL, "HISTORY_RESUMED"),
    (operation(ops.UNRETIRE_TABLE, HISTORY, code="KEY_CHANGE"), ops.BLOCKED, "KEY_CHANGE"),
    (operation(ops.RETYPE_COLUMN, code="HISTORY_DIFFERS"), ops.NEEDS_APPROVAL, "HISTORY_DIFFERS"),
    (operation(ops.CHANGE_LOGIC, code="NOT_NULL"), ops.NEEDS_APPROVAL, "NOT_NULL"),
    (operation(ops.CHANGE_LOGIC, code="KEY_CHANGE"), ops.BLOCKED, "KEY_CHANGE"),
    (operation(ops.CHANGE_CONTRACT), ops.ALLOWED, "CHANGE_CONTRACT"),
    (operation(ops.CHANGE_CONTRACT, code="BREAKS_CONTRACT"), ops.NEEDS_APPROVAL, "BREAKS_CONTRACT"),
    (operation(ops.RETIRE_TABLE), ops.METADATA_ONLY, "METADATA_ONLY"),
    (operation(ops.UNRETIRE_COLUMN), ops.METADATA_ONLY, "METADATA_ONLY"),
]


@pytest.mark.parametrize(("operation", "decision", "code"), DEFAULTS)
def test_default_policy_decides_each_operation(operation: Operation, decision: str, code: str) -> None:
    decided = decide(operation, PolicySet())
    assert (decided.decision, decided.code) == (decision, code)


@pytest.mark.parametrize(
    ("flag", "op", "side"),
    [
        ("drop_columns", ops.DROP_COLUMN, BASE),
        ("drop_history_columns", ops.DROP_COLUMN, HISTORY),
        ("drop_tables", ops.DROP_TABLE, BASE),
        ("type_alter", ops.RETYPE_COLUMN, BASE),
    ],
)
def test_a_flag_opens_its_own_rule_for_approval(flag: str, op: str, side: str) -> None:
    assert decide(operation(op, side), PolicySet.of_flags({flag: True})).decision == ops.NEEDS_APPROVAL
    others = dict.fromkeys(set(FLAGS) - {flag}, True)
    assert decide(operation(op, side), PolicySet.of_flags(others)).decision == ops.BLOCKED


def test_no_flag_lets_a_history_have_another_key() -> None:
    policy = PolicySet.of_flags(dict.fromkeys(FLAGS, True))
    assert decide(operation(ops.CHANGE_LOGIC, code="KEY_CHANGE"), policy).decision == ops.BLOCKED


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_severity_of_each_rule_decides_its_operations(rule: Any) -> None:
    (sample,) = [sample for sample, _, code in DEFAULTS if code == rule.code][:1]
    severities = {ALLOW: ops.ALLOWED, APPROVE: ops.NEEDS_APPROVAL, BLOCK: ops.BLOCKED}
    for severity, decision in severities.items():
        policy = PolicySet.from_json({"severities": {rule.code: severity}})
        assert decide(sample, policy).decision == decision


def test_message_of_a_blocked_operation_names_the_alternative() -> None:
    message = decide(operation(ops.DROP_COLUMN), PolicySet()).message
    assert "deactivate the column instead" in message


def test_retired_table_has_no_rule() -> None:
    with pytest.raises(LookupError):
        rule_for(operation(ops.RETIRE_COLUMN))


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.later], ids=lambda rule: rule.code)
def test_later_rule_is_stored_only_with_another_severity_than_its_default(rule: Any) -> None:
    assert rule.code not in PolicySet().as_json()["severities"]
    severity = APPROVE if rule.severity == ALLOW else ALLOW
    changed = PolicySet.from_json({"severities": {rule.code: severity}})
    assert changed.as_json()["severities"][rule.code] == severity
    assert PolicySet.from_json(changed.as_json()) == changed


def test_policy_is_written_to_json_and_read_back() -> None:
    policy = PolicySet.from_json(
        {
            "severities": {"RENAME_TABLE": BLOCK},
            "approvals": {"destructive": {"count": 2, "role": "admin"}},
            "approver_may_execute": False,
        },
        PolicySet.of_flags({"drop_tables": True}),
    )
    assert PolicySet.from_json(json.loads(json.dumps(policy.as_json()))) == policy
    assert policy.severity("DROP_TABLE") == APPROVE
    assert policy.approvals["destructive"] == Need(2, "admin")
    assert set(policy.approvals) == set(RISKS)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([], "policy"),
        ({"colour": 1}, "colour"),
        ({"severities": {"NOTHING": BLOCK}}, "severities.NOTHING"),
        ({"severities": {"DROP_TABLE": "maybe"}}, "severities.DROP_TABLE"),
        ({"approvals": {"wild": {}}}, "approvals.wild"),
        ({"approvals": {"safe": {"count": True}}}, "approvals.safe.count"),
        ({"approvals": {"safe": {"count": -1}}}, "approvals.safe.count"),
        ({"approvals": {"safe": {"people": 1}}}, "approvals.safe.people"),
        ({"approvals": {"safe": {"role": 1}}}, "approvals.safe.role"),
        ({"automatic_safe_changes": "yes"}, "automatic_safe_changes"),
        ({"readers": "everybody"}, "readers"),
    ],
)
def test_invalid_policy_is_refused_with_its_field(document: Any, field: str) -> None:
    with pytest.raises(PolicyProblem) as problem:
        PolicySet.from_json(document)
    assert problem.value.field == field


def test_an_unknown_flag_is_refused() -> None:
    with pytest.raises(PolicyProblem, match="is not known"):
        PolicySet.of_flags({"drop_everything": True})


@pytest.mark.parametrize(
    ("decisions", "destructive", "risk"),
    [
        ([], False, "safe"),
        ([ops.ALLOWED, ops.METADATA_ONLY], False, "safe"),
        ([ops.ALLOWED, ops.NEEDS_APPROVAL], False, "review"),
        ([ops.BLOCKED], False, "review"),
        ([ops.ALLOWED], True, "destructive"),
    ],
)
def test_risk_of_a_report_is_the_highest_of_its_operations(decisions: list[str], destructive: bool, risk: str) -> None:
    operations = tuple(operation(ops.ADD_COLUMN, decision=decision, destructive=destructive) for decision in decisions)
    assert risk_of(operations) == risk
