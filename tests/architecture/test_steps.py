"""From tables as they are to tables as they should be: which steps, in which order, and where to go on."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from architecture.domain.operations import BLOCKED, HISTORY, METADATA_ONLY, Operation
from architecture.domain.states.tables import TableSpec
from architecture.domain.steps.names import NameTaken, order_moves, retired_name
from architecture.domain.steps.rendering import statement_text, statements
from architecture.domain.steps.report_steps import check_belongs, plan_steps, runs_by_itself
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
    Step,
    StepProblem,
    becomes,
    done_by,
    half_done_by,
    shape_of,
    steps_done,
    stored,
)
from architecture.domain.steps.undo import inverse, inverses
from loader.domain.manifest import ExecuteManifest, from_json, to_json
from tests.architecture.stepping import after, column, key, names_of, observed, operation, ops, seen, table

# --- any previous columns to any desired ones ------------------------------------------------

NAMES = st.sampled_from(["a", "A", "b", "B", "c", "é", "É", "select", "we`ird", "x y", "__moving_1"])
TYPES = st.sampled_from(["string", "string(5)", "string(9)", "integer", "bigint", "decimal(10,2)", "date", "timestamp"])


@st.composite
def columns_of_tables(draw):
    """Columns before and after: stable keys with a name and a type each, names apart without regard to case."""

    def columns(keys):
        unique = draw(st.lists(NAMES, unique_by=str.lower, min_size=1, max_size=6))
        chosen = draw(st.permutations(keys))[: len(unique)]
        return tuple(column(name, draw(TYPES), of=str(which)) for name, which in zip(unique, chosen, strict=False))

    keys = list(range(6))
    return columns(keys), columns(keys)


def report_on(before: TableSpec, wanted: TableSpec) -> list[Operation]:
    """The operations that lead from one table to the other, as a report would list them."""
    was, will = ({c.key: c for c in spec.columns} for spec in (before, wanted))
    found = [operation("drop_column", before, was[k]) for k in was if k not in will]
    for k in [k for k in was if k in will]:
        if was[k].name != will[k].name:
            found.append(operation("rename_column", before, was[k], from_=was[k].name, to=will[k].name))
        if stored(was[k].type) != stored(will[k].type):
            found.append(operation("retype_column", before, was[k], from_=was[k].type, to=will[k].type))
    return found + [operation("add_column", before, will[k]) for k in will if k not in was]


@settings(max_examples=300, deadline=None)
@given(columns_of_tables(), st.booleans())
def test_any_columns_become_any_other_ones_without_two_of_a_name(both, tied):
    before, wanted = (table("t", *columns) for columns in both)
    start = observed(before, tied=tied)
    steps = plan_steps([wanted], start, report_on(before, wanted))
    warehouse = after(steps, start)
    types = {c.name: c.type for c in warehouse.tables[wanted.key].columns}
    assert types == {c.name: stored(c.type) for c in wanted.columns}
    renamed = {c.key for c in before.columns} & {c.key for c in wanted.columns}
    if tied:
        assert names_of(warehouse, wanted) == {c.key: c.name for c in wanted.columns}
    assert not [step for step in steps if step.op == ADD_COLUMN and step.column.key in renamed]


@settings(max_examples=150, deadline=None)
@given(columns_of_tables(), st.data())
def test_whatever_step_was_the_last_one_the_rest_is_found_and_planned_anew_alike(both, data):
    before, wanted = (table("t", *columns) for columns in both)
    report, start = report_on(before, wanted), observed(before)
    steps = plan_steps([wanted], start, report)
    stopped = data.draw(st.integers(0, len(steps)))
    warehouse = after(steps[:stopped], start)
    assert steps_done(steps, warehouse.tables[wanted.key]) == stopped if steps else True
    rest = plan_steps([wanted], warehouse.tables, report)
    end = after(rest, warehouse.tables).tables[wanted.key]
    assert {(c.name, c.key) for c in end.columns} == {(c.name, c.key) for c in wanted.columns}


@settings(max_examples=150, deadline=None)
@given(columns_of_tables())
def test_what_was_done_is_taken_back_in_the_other_order(both):
    before, wanted = (table("t", *columns) for columns in both)
    start = observed(before)
    steps = plan_steps([wanted], start, report_on(before, wanted))
    back = inverses((step, 3) for step in steps)
    shape = shape_of(after(steps, start).tables[before.key])
    for step in back:
        assert step.assumes.matches(shape)
        shape = becomes(step)
    assert shape is None or shape.matches(shape_of(start[before.key]))


@settings(max_examples=200, deadline=None)
@given(st.lists(NAMES, unique_by=str.lower, min_size=1, max_size=7), st.randoms(use_true_random=False))
def test_names_are_never_held_twice_while_they_move(names, random):
    targets = [random.choice([n, n.upper(), n.lower()]) for n in random.sample(names, len(names))]
    held = {name.lower(): name for name in names}
    for old, new in order_moves(list(zip(names, targets, strict=True)), names, lambda name: f"aside of {name}"):
        assert held.pop(old.lower()) == old
        assert new.lower() not in held
        assert new.lower() != old.lower()
        held[new.lower()] = new
    assert sorted(held.values()) == sorted(targets)


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


def test_columns_without_a_key_are_known_by_name_and_tied_first():
    before, wanted = table("t", column("a")), table("t", column("b", of="a"))
    steps = plan_steps([wanted], observed(before, tied=False), report_on(before, wanted))
    assert ops(steps) == [STAMP_KEYS, RENAME_COLUMN]
    assert steps[0].stamps == ((key("column", "a"), "a"),)


def test_a_name_that_stays_taken_is_refused():
    before = table("t", column("a"), column("b"))
    wanted = table("t", column("b", of="a"), column("b", of="b"))
    report = [operation("rename_column", before, before.columns[0], from_="a", to="b")]
    with pytest.raises(NameTaken, match="b is taken"):
        plan_steps([wanted], observed(before), report)


def test_a_retired_column_makes_way_for_a_new_one_of_its_name():
    before = table("t_hist", column("a", of="old"), kind="history", owner=key("table", "t"))
    wanted = table("t_hist", column("a", "integer", of="new"), kind="history", owner=key("table", "t"))
    report = [operation("add_column", wanted, wanted.columns[0], side=HISTORY)]
    steps = plan_steps([wanted], observed(before), report)
    assert ops(steps) == [RENAME_COLUMN, ADD_COLUMN]
    assert steps[0].to_name.startswith("__retired_")
    assert steps[0].to_name.endswith("_a")
    assert names_of(after(steps, observed(before)), wanted)[key("column", "old")] == steps[0].to_name


def test_a_history_keeps_the_old_column_when_its_kind_of_type_changes():
    before = table("t_hist", column("a", "date"), kind="history", owner=key("table", "t"))
    wanted = table("t_hist", column("a", "integer"), kind="history", owner=key("table", "t"))
    report = [
        operation("retire_column", before, before.columns[0], side=HISTORY, decision=METADATA_ONLY),
        operation("add_column", wanted, wanted.columns[0], side=HISTORY),
    ]
    steps = plan_steps([wanted], observed(before), report)
    assert ops(steps) == [STAMP_KEYS, RENAME_COLUMN, ADD_COLUMN]
    held = {c.name: (c.type, c.key) for c in after(steps, observed(before)).tables[wanted.key].columns}
    assert held == {steps[1].to_name: ("date", None), "a": ("integer", wanted.columns[0].key)}


def test_a_retired_name_is_short_enough_and_free():
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


def test_a_wider_type_is_what_the_report_says_not_what_the_metadata_says():
    wanted = table("t_hist", column("a", "decimal(12,4)"), kind="history", owner=key("table", "t"))
    before = table("t_hist", column("a", "decimal(14,2)"), kind="history", owner=key("table", "t"))
    to = {"from_": "decimal(14,2)", "to": "decimal(16,4)"}
    report = [operation("widen_column", before, before.columns[0], side=HISTORY, **to)]
    (step,) = plan_steps([wanted], observed(before), report)
    assert (step.op, step.retyped[0].to_type) == (WIDEN_COLUMN, "decimal(16,4)")


def test_data_is_asked_and_types_change_before_anything_is_renamed():
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
    one, two = table("a", column("x")), table("b", column("x"))
    wanted = [replace(one, name="b"), replace(two, name="a")]
    report = [operation("rename_table", spec, from_="x", to="y") for spec in (one, two)]
    steps = plan_steps(wanted, observed(one, two), report)
    assert ops(steps) == [RENAME_TABLE] * 3
    end = after(steps, observed(one, two)).tables
    assert (end[one.key].qualified_name, end[two.key].qualified_name) == ("rawcore.b", "rawcore.a")


def test_a_table_moves_to_another_schema_in_one_step():
    one = table("a", column("x"))
    (step,) = plan_steps([replace(one, schema="core")], observed(one), [operation("rename_table", one)])
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


def test_dropped_tables_go_first_and_give_their_names_away():
    gone, new = table("t", column("x"), of="old"), table("t", column("x"), of="new")
    report = [operation("create_table", new), operation("drop_table", gone)]
    steps = plan_steps([new], observed(gone), report)
    assert ops(steps) == [DROP_TABLE, CREATE_TABLE]
    assert [step.operation for step in steps] == [1, 0]


def test_a_dropped_table_counts_as_absent():
    spec = table("t", column("x"))
    (step,) = plan_steps([spec], {spec.key: replace(seen(spec), dropped=True)})
    assert step.op == CREATE_TABLE
    assert steps_done([step], replace(seen(spec), dropped=True)) == 0
    assert statement_text(step, "/w").startswith("-- the dropped table's files are kept in .dropped\nCREATE TABLE")


def test_two_tables_cannot_be_called_the_same():
    with pytest.raises(NameTaken):
        plan_steps([table("T", column("x"), of="new")], observed(table("t", column("x"))))


def test_views_are_published_once_their_tables_are_as_they_should_be():
    before, wanted = table("t", column("a")), table("t", column("b", of="a"))
    views = {wanted.key: ("CREATE OR REPLACE VIEW v AS SELECT b FROM t",), key("other"): ("no",)}
    steps = plan_steps([wanted], observed(before), report_on(before, wanted), views)
    assert [(step.op, step.operation) for step in steps] == [(RENAME_COLUMN, 0), (PUBLISH_VIEW, 0)]


# --- operations and steps --------------------------------------------------------------------


def test_a_report_without_operations_needs_no_step():
    before, wanted = table("t", column("a")), table("t", column("a"), column("b"))
    assert plan_steps([wanted], observed(before), []) == ()


def test_what_a_report_leaves_to_people_is_left_alone():
    before = table("t", column("a"))
    wanted = table("t", column("z", of="a"), column("b"))
    steps = plan_steps([wanted], observed(before), [operation("add_column", before, wanted.columns[1])])
    assert ops(steps) == [ADD_COLUMN]


def test_retired_things_need_no_step():
    before = table("t", column("a"))
    report = [operation("retire_column", before, before.columns[0], decision=METADATA_ONLY)]
    assert plan_steps([before], observed(before), report) == ()


def test_a_technical_column_that_no_operation_accounts_for_is_an_error():
    entity = column("t_key", of="entity", purpose="entity_key")
    before = table("t", entity, column("a", "integer"))
    wanted = table("t", replace(entity, name="u_key"), column("a", "bigint"))
    report = [operation("widen_column", before, before.columns[1], from_="integer", to="bigint")]
    with pytest.raises(StepProblem, match="no operation of the report") as raised:
        plan_steps([wanted], observed(before), report)
    assert raised.value.code == "STEP_WITHOUT_OPERATION"


def test_a_step_that_belongs_to_no_operation_is_an_error():
    with pytest.raises(StepProblem, match="belongs to no operation"):
        check_belongs([Step(ADD_COLUMN, table("t"), column("a"))])


def test_a_blocked_operation_has_no_steps():
    before = table("t", column("a"))
    with pytest.raises(StepProblem, match="is blocked"):
        plan_steps([before], observed(before), [operation("drop_column", before, before.columns[0], decision=BLOCKED)])


def test_what_would_change_a_table_that_is_described_under_another_key_is_refused():
    there = table("t", column("x"))
    described = table("t", column("x"), column("y"), of="another")
    with pytest.raises(StepProblem) as refused:
        plan_steps([described], observed(there), [operation("add_column", there, column("y"))])
    assert refused.value.code == "KEY_MOVED"


def test_a_load_makes_tables_and_adds_columns_by_itself_and_nothing_else():
    before = table("t", column("a", "integer"), column("b"))
    wanted = table("t", column("a", "bigint"), column("c", of="b"), column("d"))
    steps = plan_steps([wanted, table("u", column("x"))], observed(before))
    assert {step.op: runs_by_itself(step) for step in steps} == {
        WIDEN_COLUMN: False,
        RENAME_COLUMN: False,
        ADD_COLUMN: True,
        CREATE_TABLE: True,
    }


@pytest.mark.parametrize("kind", ["history", "memory"])
def test_a_load_takes_a_history_that_is_wider_as_it_is(kind):
    before = table("t_hist", column("a", "bigint"), kind=kind)
    assert plan_steps([replace(before, columns=(column("a", "integer"),))], observed(before)) == ()


# --- where a table stands --------------------------------------------------------------------


def test_a_table_that_moved_fits_no_step():
    before, wanted = table("t", column("a")), table("t", column("b", of="a"))
    steps = plan_steps([wanted], observed(before), report_on(before, wanted))
    moved = seen(table("t", column("a"), column("by_hand")))
    with pytest.raises(StepProblem, match="has by_hand string") as raised:
        steps_done(steps, moved)
    assert raised.value.code == "TABLE_MOVED"


def test_a_load_in_between_moves_nothing():
    before, wanted = table("t", column("a")), table("t", column("b", of="a"))
    steps = plan_steps([wanted], observed(before), report_on(before, wanted))
    assert steps_done(steps, replace(seen(before), version=99)) == 0


def test_a_column_that_is_not_tied_yet_is_half_done():
    spec = table("t", column("a"))
    (step,) = plan_steps([spec], {})
    assert not done_by(step, seen(spec, tied=False))
    assert half_done_by(step, seen(spec, tied=False))
    assert steps_done([step], seen(spec, tied=False)) == 0
    assert steps_done([step], seen(spec)) == 1


def test_steps_cross_the_pipe_unchanged():
    before = table("t", column("a", "integer"), column("b"))
    wanted = table("t", column("c", "bigint", of="a"), column("a", of="b"), column("n"))
    steps = plan_steps([wanted, table("u", column("x"))], observed(before))
    manifest = ExecuteManifest("7", steps, done=(1,))
    assert from_json(ExecuteManifest, to_json(manifest)) == manifest


# --- statements ------------------------------------------------------------------------------


def test_a_table_is_addressed_by_its_place():
    before, wanted = table("t", column("we`ird", of="a")), table("t", column("b's", of="a"))
    (step,) = plan_steps([wanted], observed(before), report_on(before, wanted))
    assert statement_text(step, "/data/warehouse/") == (
        f"ALTER TABLE delta.`/data/warehouse/{wanted.key}` RENAME COLUMN `we``ird` TO `b's`"
    )


def test_a_rename_of_a_table_changes_a_property_and_the_catalog():
    one = table("a", column("x"))
    (step,) = plan_steps([replace(one, schema="core", name="b")], observed(one), [operation("rename_table", one)])
    assert [statement.sql for statement in statements(step, "/w")] == [
        f"ALTER TABLE delta.`/w/{one.key}` SET TBLPROPERTIES ('elevata.name' = 'core.b')",
        "DROP TABLE IF EXISTS `rawcore`.`a`",
        "CREATE SCHEMA IF NOT EXISTS `core`",
        f"CREATE TABLE IF NOT EXISTS `core`.`b` USING delta LOCATION '/w/{one.key}'",
    ]


def test_a_rebuild_says_what_it_writes():
    before = table("t", column("a", "integer"), column("version_segment"))
    wanted = table("t", column("a", "string(20)"), column("version_segment"))
    report = [operation("retype_column", before, before.columns[0], from_="integer", to="string(20)")]
    text = statement_text(plan_steps([wanted], observed(before), report)[0], "/w")
    assert "columns `a` VARCHAR(20), `version_segment` STRING, partitioned by `version_segment`" in text
    assert "SELECT try_cast(`a` AS STRING) AS `a`, `version_segment`" in text
    assert f"'elevata.column.{before.columns[0].key}' = <physical name of `a`>" in text


# --- undo ------------------------------------------------------------------------------------


def test_a_dropped_table_is_published_again():
    spec = table("t", column("x"))
    (step,) = plan_steps([], observed(spec), [operation("drop_table", spec)])
    back = inverse(step)
    assert back.op == "publish_table"
    assert becomes(back).matches(shape_of(seen(spec)))
    assert "SET TBLPROPERTIES ('elevata.dropped' = 'false')" in statement_text(back, "/w")


def test_an_added_column_is_taken_back_only_while_it_is_empty():
    before, wanted = table("t", column("a")), table("t", column("a"), column("b"))
    (step,) = plan_steps([wanted], observed(before))
    back = inverse(step)
    assert (back.op, back.only_empty, back.column.name) == ("drop_column", True, "b")


def test_what_rewrote_data_goes_back_to_the_version_before():
    before, wanted = table("t", column("a", "integer")), table("t", column("a", "bigint"))
    (step,) = plan_steps([wanted], observed(before))
    assert inverse(step) is None
    back = inverse(step, 41)
    assert statement_text(back, "/w").endswith("TO VERSION AS OF 41")
    assert becomes(back).matches(shape_of(seen(before)))
