"""Order of the steps that lead from the observed to the desired tables."""

from dataclasses import replace

import pytest

from architecture.domain.operations import HISTORY, METADATA_ONLY, Operation
from architecture.domain.steps.rename_order import NameTaken, retired_name
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.statements import statement_text
from architecture.domain.steps.step import (
    ADD_COLUMN,
    CREATE_TABLE,
    DROP_TABLE,
    PUBLISH_VIEW,
    REBUILD_TABLE,
    RENAME_COLUMN,
    RENAME_TABLE,
    STAMP_KEYS,
    WIDEN_COLUMN,
    steps_done,
)
from tests.architecture.tables import (
    after,
    column,
    key,
    names_of,
    observed,
    observed_table,
    operation,
    ops,
    report_on,
    table,
)

# --- columns ---------------------------------------------------------------------------------


def test_a_chain_of_renames_needs_no_name_in_between():
    before = table("t", column("a"), column("b"))
    wanted = table("t", column("b", of="a"), column("c", of="b"))
    steps = plan_steps([wanted], observed(before), report_on(before, wanted))
    assert [(step.from_name, step.to_name) for step in steps] == [("b", "c"), ("a", "b")]


def test_a_swap_goes_through_one_reserved_name():
    before = table("t", column("a"), column("b"))
    wanted = table("t", column("b", of="a"), column("a", of="b"))
    steps = plan_steps([wanted], observed(before), report_on(before, wanted))
    moves = [(step.from_name, step.to_name) for step in steps]
    between = moves[0][1]
    assert between.startswith("__moving_")
    assert moves == [("a", between), ("b", "a"), (between, "b")]
    assert [step.operation for step in steps] == [0, 1, 0]


def test_a_change_of_case_goes_through_a_reserved_name():
    before, wanted = table("t", column("Name", of="n")), table("t", column("name", of="n"))
    steps = plan_steps([wanted], observed(before), report_on(before, wanted))
    assert [step.op for step in steps] == [RENAME_COLUMN, RENAME_COLUMN]


def test_columns_without_a_key_are_matched_by_name_and_stamped_before_a_rename():
    before, wanted = table("t", column("a")), table("t", column("b", of="a"))
    steps = plan_steps([wanted], observed(before, tied=False), report_on(before, wanted))
    assert ops(steps) == [STAMP_KEYS, RENAME_COLUMN]
    assert steps[0].stamps == ((key("column", "a"), "a"),)


def test_rename_to_a_name_still_in_use_is_refused():
    before = table("t", column("a"), column("b"))
    wanted = table("t", column("b", of="a"), column("b", of="b"))
    report = [operation("rename_column", before, before.columns[0], from_="a", to="b")]
    with pytest.raises(NameTaken, match="b is taken"):
        plan_steps([wanted], observed(before), report)


def test_retired_column_is_renamed_for_a_new_column_of_its_name():
    before = table("t_hist", column("a", of="old"), kind="history", owner=key("table", "t"))
    wanted = table("t_hist", column("a", "integer", of="new"), kind="history", owner=key("table", "t"))
    report = [operation("add_column", wanted, wanted.columns[0], side=HISTORY)]
    steps = plan_steps([wanted], observed(before), report)
    assert ops(steps) == [RENAME_COLUMN, ADD_COLUMN]
    assert steps[0].to_name.startswith("__retired_")
    assert steps[0].to_name.endswith("_a")
    assert names_of(after(steps, observed(before)), wanted)[key("column", "old")] == steps[0].to_name


def test_history_keeps_the_old_column_under_a_reserved_name_for_an_incompatible_type():
    before = table("t_hist", column("a", "date"), kind="history", owner=key("table", "t"))
    wanted = table("t_hist", column("a", "integer"), kind="history", owner=key("table", "t"))
    report = [
        operation("retire_column", before, before.columns[0], side=HISTORY, decision=METADATA_ONLY),
        operation("add_column", wanted, wanted.columns[0], side=HISTORY),
    ]
    steps = plan_steps([wanted], observed(before), report)
    assert ops(steps) == [STAMP_KEYS, RENAME_COLUMN, ADD_COLUMN]
    types_and_keys = {c.name: (c.type, c.key) for c in after(steps, observed(before)).tables[wanted.key].columns}
    assert types_and_keys == {steps[1].to_name: ("date", None), "a": ("integer", wanted.columns[0].key)}


def test_retired_name_is_limited_in_length_and_unused():
    long = retired_name("é" * 200, key("x"), ["__retired_x"])
    assert len(long) <= 200
    assert len(long.encode()) <= 255
    assert retired_name("a", key("x"), [retired_name("a", key("x"), [])]) != retired_name("a", key("x"), [])


def test_a_rebuild_is_one_step_for_all_its_columns():
    before = table("t", column("a", "integer"), column("b", "date"))
    wanted = table("t", column("a", "string"), column("b", "timestamp"))
    changes = tuple((w.key, b.type, w.type) for b, w in zip(before.columns, wanted.columns, strict=True))
    (step,) = plan_steps([wanted], observed(before), [operation("rebuild_table", before, columns=changes)])
    assert step.op == REBUILD_TABLE
    assert [(c.name, c.from_type, c.to_type) for c in step.retyped] == [
        ("a", "integer", "string"),
        ("b", "date", "timestamp"),
    ]


def test_widening_takes_the_type_of_the_report():
    wanted = table("t_hist", column("a", "decimal(12,4)"), kind="history", owner=key("table", "t"))
    before = table("t_hist", column("a", "decimal(14,2)"), kind="history", owner=key("table", "t"))
    to = {"from_": "decimal(14,2)", "to": "decimal(16,4)"}
    report = [operation("widen_column", before, before.columns[0], side=HISTORY, **to)]
    (step,) = plan_steps([wanted], observed(before), report)
    assert (step.op, step.retyped[0].to_type) == (WIDEN_COLUMN, "decimal(16,4)")


def test_checks_of_data_and_type_changes_precede_renames():
    before = table("t", column("a", "integer"), column("b"))
    wanted = table("t", column("c", "bigint", of="a"), column("b"), column("n"))
    report = [
        operation("add_column", before, wanted.columns[2]),
        operation("rename_column", before, before.columns[0], from_="a", to="c"),
        operation("change_logic", before, before.columns[1], code="NOT_NULL"),
        operation("widen_column", before, before.columns[0], from_="integer", to="bigint"),
    ]
    steps = plan_steps([wanted], observed(before), report)
    assert ops(steps) == ["check_not_null", WIDEN_COLUMN, RENAME_COLUMN, ADD_COLUMN]
    assert [step.operation for step in steps] == [2, 3, 1, 0]


# --- tables ----------------------------------------------------------------------------------


def test_tables_swap_names_through_one_reserved_name():
    first, second = table("a", column("x")), table("b", column("x"))
    wanted = [replace(first, name="b"), replace(second, name="a")]
    report = [operation("rename_table", spec, from_="x", to="y") for spec in (first, second)]
    steps = plan_steps(wanted, observed(first, second), report)
    assert ops(steps) == [RENAME_TABLE] * 3
    end = after(steps, observed(first, second)).tables
    assert (end[first.key].qualified_name, end[second.key].qualified_name) == ("rawcore.b", "rawcore.a")


def test_a_table_moves_to_another_schema_in_one_step():
    spec = table("a", column("x"))
    (step,) = plan_steps([replace(spec, schema="core")], observed(spec), [operation("rename_table", spec)])
    assert (step.from_name, step.to_name) == ("rawcore.a", "core.a")


def test_a_history_and_its_technical_columns_follow_the_name_of_their_table():
    owner = key("table", "rc_customer")
    entity = column("rc_customer_key", of="entity", purpose="entity_key")
    before = table("rc_customer_hist", entity, column("x"), kind="history", owner=owner)
    wanted = replace(before, name="rc_client_hist", columns=(replace(entity, name="rc_client_key"), column("x")))
    report = [Operation("rename_table", "rawcore.rc_customer", owner, to="rawcore.rc_client")]
    steps = plan_steps([wanted], observed(before), report)
    assert ops(steps) == ["drop_views", RENAME_TABLE, RENAME_COLUMN]
    untied = plan_steps([wanted], observed(before, tied=False), report)
    assert (untied[-1].from_name, untied[-1].to_name) == ("rc_customer_key", "rc_client_key")


def test_tables_are_dropped_before_others_are_created_under_their_names():
    dropped, new = table("t", column("x"), of="old"), table("t", column("x"), of="new")
    report = [operation("create_table", new), operation("drop_table", dropped)]
    steps = plan_steps([new], observed(dropped), report)
    assert ops(steps) == [DROP_TABLE, CREATE_TABLE]
    assert [step.operation for step in steps] == [1, 0]


def test_a_dropped_table_counts_as_absent():
    spec = table("t", column("x"))
    (step,) = plan_steps([spec], {spec.key: replace(observed_table(spec), dropped=True)})
    assert step.op == CREATE_TABLE
    assert steps_done([step], replace(observed_table(spec), dropped=True)) == 0
    assert statement_text(step, "/w").startswith("-- the dropped table's files are kept in .dropped\nCREATE TABLE")


def test_table_name_that_differs_only_in_case_is_refused():
    with pytest.raises(NameTaken):
        plan_steps([table("T", column("x"), of="new")], observed(table("t", column("x"))))


def test_views_are_published_after_the_changes_of_their_tables():
    before, wanted = table("t", column("a")), table("t", column("b", of="a"))
    views = {wanted.key: ("CREATE OR REPLACE VIEW v AS SELECT b FROM t",), key("other"): ("no",)}
    steps = plan_steps([wanted], observed(before), report_on(before, wanted), views)
    assert [(step.op, step.operation) for step in steps] == [(RENAME_COLUMN, 0), (PUBLISH_VIEW, 0)]
