"""Load policy rules that decide rows: a change that reaches a history needs an approval, a rename does not."""

from dataclasses import replace
from typing import Any

import pytest

from architecture.domain.operations import ALLOWED, NEEDS_APPROVAL, Operation
from architecture.domain.states.applied_state import advance, is_reached
from architecture.domain.states.flat_states import as_row, of_row
from metadata.domain.load_policy import source_rules, with_rules_of
from metadata.domain.sources.formats import NAMES
from metadata.domain.sources.reading_options import OPTIONS
from metadata.domain.state import DatasetState
from tests.architecture.domain.planning.test_unknown_parents import PARENT, child
from tests.architecture.states import carried_out, column, dataset, report, state

KEY = {"role": "business_key", "nullable": False}
DIFFERS = [(NEEDS_APPROVAL, "HISTORY_DIFFERS")]
CHECK = {"kind": "accepted_values", "severity": "quarantine", "columns": ["v"], "values": ["a"]}
RELATED = {
    "kind": "relationship",
    "severity": "quarantine",
    "columns": ["v"],
    "dataset": "rawcore.rc_list",
    "other_columns": ["code"],
}


def listed(**changes: Any) -> DatasetState:
    columns = (column("l-id", "id", "integer", **KEY), column("l-code", "code"), column("l-note", "note"))
    return replace(dataset("list", "rc_list", *columns), **changes)


def historized(policy: Any = None, **changes: Any) -> DatasetState:
    columns = (column("k-id", "id", "integer", **KEY), column("k-v", "v"))
    return replace(dataset("kept", "rc_kept", *columns, historize=True, load_policy=policy), **changes)


def operations(before: tuple[DatasetState, ...], *changed: DatasetState) -> tuple[Operation, ...]:
    new = {dataset.key: dataset for dataset in changed}
    return report(state(*before), state(*(new.get(dataset.key, dataset) for dataset in before))).operations


def decisions(before: tuple[DatasetState, ...], *changed: DatasetState) -> list[tuple[str, str]]:
    return [(operation.decision, operation.code) for operation in operations(before, *changed)]


def source(**rules: Any) -> dict[str, Any]:
    return {"sources": {"s": rules}}


POLICIES = {
    "a new check": (None, {"checks": {"c": CHECK}}),
    "a removed check": ({"checks": {"c": CHECK}}, None),
    "a check of other values": ({"checks": {"c": CHECK}}, {"checks": {"c": CHECK | {"values": ["a", "b"]}}}),
    "a check that stops": ({"checks": {"c": CHECK}}, {"checks": {"c": CHECK | {"severity": "stop"}}}),
    "an option of a source": (None, source(options={"deduplicate": "latest"})),
    "the intake of a source": (source(intake={"look_back": 2}), source(intake={"look_back": 1})),
    "new columns of a source": (None, source(new_columns="ignore")),
    "a type that keeps rows out": (source(columns={"x": "string"}), source(columns={"x": "integer"})),
    "a new column that keeps rows out": (
        source(columns={"x": "string"}),
        source(columns={"x": "string", "y": "string, not null"}),
    ),
    "ghost rows": (None, {"ghost_rows": {"r": "child"}}),
    "a rule of another installation": ({"order": "old"}, {"order": "new"}),
    "sources of another form": ({"sources": "all"}, {"sources": ["some"]}),
}


@pytest.mark.parametrize(("before", "after"), POLICIES.values(), ids=POLICIES)
def test_a_rule_that_decides_rows_of_a_history_needs_approval(before: Any, after: Any) -> None:
    assert decisions((historized(before),), historized(after)) == DIFFERS


@pytest.mark.parametrize(("before", "after"), POLICIES.values(), ids=POLICIES)
def test_a_rule_that_decides_rows_upstream_of_a_history_needs_approval(before: Any, after: Any) -> None:
    raw = dataset("raw", "raw_a", column("r-id", "id", "integer"), schema="raw", load_policy=before)
    assert decisions((raw, historized(inputs=("raw",))), replace(raw, load_policy=after)) == DIFFERS


def test_a_rule_that_reaches_no_history_is_allowed() -> None:
    alone = historized(historize=False)
    assert decisions((alone,), replace(alone, load_policy={"checks": {"c": CHECK}})) == [(ALLOWED, "CHANGE_LOGIC")]


@pytest.mark.parametrize(
    ("options", "type_"), [({"faulty_rows": "quarantine"}, "string"), ({"deduplicate": "latest"}, "integer")]
)
def test_new_source_column_that_excludes_no_rows_is_allowed(options: dict[str, str], type_: str) -> None:
    before = source(options=options, columns={"x": "string"})
    after = source(options=options, columns={"x": "string", "y": type_})
    assert decisions((historized(before),), historized(after)) == [(ALLOWED, "CHANGE_LOGIC")]


@pytest.mark.parametrize("type_", ["integer", "string(20)"])
@pytest.mark.parametrize("is_added", [True, False])
def test_source_column_whose_type_quarantines_rows_needs_approval(type_: str, *, is_added: bool) -> None:
    options = {"faulty_rows": "quarantine"}
    sides = [source(options=options, columns=columns) for columns in ({"x": "string"}, {"x": "string", "y": type_})]
    before, after = sides if is_added else reversed(sides)
    assert decisions((historized(before),), historized(after)) == DIFFERS


def with_name(described: DatasetState, key: str, name: str) -> DatasetState:
    columns = tuple(replace(column, name=name) if column.key == key else column for column in described.columns)
    return replace(described, columns=columns)


def test_a_check_that_follows_renames_needs_no_approval() -> None:
    condition = {"kind": "condition", "severity": "stop", "condition": "v <> 'x' AND id > 0"}
    before = historized({"checks": {"c": CHECK, "d": condition, "e": RELATED}})
    renamed = {
        "c": CHECK | {"columns": ["w"]},
        "d": condition | {"condition": "w <> 'x' AND id > 0"},
        "e": RELATED | {"columns": ["w"], "dataset": "rawcore.rc_codes", "other_columns": ["letter"]},
    }
    after = with_name(replace(before, load_policy={"checks": renamed}), "k-v", "w")
    codes = with_name(listed(name="rc_codes", former_names=("rc_list",)), "l-code", "letter")
    changes = operations((before, listed()), after, codes)
    assert {operation.decision for operation in changes} == {ALLOWED}
    assert "the checks follow renamed columns" in {operation.message.partition(";")[0] for operation in changes}


def test_unchanged_check_whose_column_name_now_means_another_column_needs_approval() -> None:
    before = historized({"checks": {"c": CHECK}})
    renamed = with_name(before, "k-v", "w")
    after = replace(renamed, columns=(*renamed.columns, column("k-new", "v")))
    assert ("CHANGE_LOGIC", "") not in decisions((before,), after)
    assert DIFFERS[0] in decisions((before,), after)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"filter": "code > 'a'"}, DIFFERS),
        ({"load_policy": {"checks": {"x": CHECK}}}, DIFFERS),
    ],
)
def test_changed_rows_of_a_table_that_a_check_compares_with_need_approval(change: dict, expected: list) -> None:
    history = historized({"checks": {"c": RELATED}})
    assert decisions((history, listed()), listed(**change)) == expected


@pytest.mark.parametrize(("key", "expected"), [("l-code", DIFFERS), ("l-note", [(ALLOWED, "CHANGE_LOGIC")])])
@pytest.mark.parametrize(
    "check", [RELATED, {"kind": "query", "severity": "stop", "sql": "SELECT 1 FROM rawcore.rc_list WHERE code = 'x'"}]
)
def test_changed_column_needs_approval_only_if_a_check_compares_with_it(check: dict, key: str, expected: list) -> None:
    changed = tuple(replace(c, expression="upper(x)") if c.key == key else c for c in listed().columns)
    assert decisions((historized({"checks": {"c": check}}), listed()), listed(columns=changed)) == expected


@pytest.mark.parametrize("is_added", [True, False])
@pytest.mark.parametrize("is_historized", [True, False])
def test_a_reference_that_holds_rows_back_from_a_history_needs_approval(*, is_added: bool, is_historized: bool) -> None:
    with_rule = replace(child("quarantine"), historize=is_historized)
    without = replace(with_rule, references=())
    reader = dataset(
        "z", "rc_z", column("z-id", "id", "integer", inputs=("c-id",), **KEY), inputs=("c",), historize=True
    )
    before, after = (without, with_rule) if is_added else (with_rule, without)
    outcomes = decisions((PARENT, before, reader), after)
    assert DIFFERS[0] in outcomes


def test_restored_quarantine_reference_changes_the_history() -> None:
    used = state(PARENT, child("quarantine"))
    retired = report(used, state(PARENT, replace(child("quarantine"), references=())))
    before = carried_out(used, state(PARENT, replace(child("quarantine"), references=())), retired)
    changes = report(before, used).operations
    assert ("unretire_column", "HISTORY_DIFFERS") in {(operation.op, operation.code) for operation in changes}


def test_changed_filter_of_the_parent_of_a_quarantine_reference_needs_approval() -> None:
    assert decisions((PARENT, child("quarantine")), replace(PARENT, filter="id > 5")) == DIFFERS


def test_source_options_are_row_rules_except_those_for_performance() -> None:
    pace = {"partition_column", "partitions", "fetch_size", "timeout", "max_pages"}
    for option in OPTIONS:
        for format_ in option.formats or NAMES:
            value = "x=1" if option.name == "parameters" else f"not the default of {option.name}"
            rules = source_rules(
                format=format_, options={option.name: value}, intake={}, new_columns="propose", columns={}
            )
            assert (rules == {}) == (option.name in pace), option.name


def test_an_option_with_its_default_is_no_rule() -> None:
    rules = source_rules(format="csv", options={"delimiter": ","}, intake={}, new_columns="propose", columns={})
    assert rules == {}


UNRECORDED = {
    "rules": (None, {"checks": {"c": CHECK}}, {"checks": {"c": CHECK}}),
    "limits of kept deliveries": ({"keep": "all"}, {"keep": "all", "keep_days": 3}, {"keep": "all", "keep_days": 3}),
    "another mode of keeping": ({"keep": "all"}, {"keep": "by_day", "keep_days": 3}, {"keep": "all", "keep_days": 3}),
    "limits of a new mode": (None, {"keep": "all", "keep_days": 3}, None),
}


@pytest.mark.parametrize(("stored", "described", "expected"), UNRECORDED.values(), ids=UNRECORDED)
def test_older_state_takes_over_all_rules_except_the_keep_mode(stored: Any, described: Any, expected: Any) -> None:
    row = {name: value for name, value in as_row(historized(stored)).items() if name != "rules_recorded"}
    older = of_row(row)
    assert not older.rules_recorded
    assert with_rules_of(older, historized(described)) == historized(expected)
    assert with_rules_of(historized(stored), historized(described)) == historized(stored)
    assert with_rules_of(older, older) == older


def test_an_operation_of_a_plan_of_an_older_release_keeps_the_recorded_rules() -> None:
    rules = {"checks": {"c": CHECK}}
    older = replace(historized(filter="id > 0"), rules_recorded=False)
    (operation,) = operations((historized(),), historized(filter="id > 0"))
    applied = advance(historized(rules), operation, older)
    assert applied == historized(rules, filter="id > 0")
    assert is_reached(applied, older)
    assert is_reached(
        advance(replace(historized(), rules_recorded=False), operation, historized(rules, filter="id > 0")), applied
    )
