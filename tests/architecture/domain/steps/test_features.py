"""Table features, enabled by the first step that uses them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from architecture.domain.operations import DROP_FEATURES, Operation
from architecture.domain.steps.features import (
    COLUMN_MAPPING,
    DELETION_VECTORS,
    OPEN,
    TYPE_WIDENING,
    needs_mapping,
    protocol_properties,
    switches,
)
from architecture.domain.steps.inverses import inverse
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.statements import CHANGE, FEATURES, KEYS, statements
from architecture.domain.steps.step import Step, becomes, done_by, steps_done
from architecture.domain.steps.step_json import as_row, of_row
from architecture.domain.tables import ObservedTable, TableSpec
from tests.architecture.tables import column, observed, observed_table, report_on, table

MAPPING = "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
WIDENING = "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"


def texts(step: Step) -> list[str]:
    return [statement.sql for statement in statements(step, "/w")]


def test_new_table_enables_only_deletion_vectors():
    (step,) = plan_steps([table("t", column("a"))], {})
    text = texts(step)[0]
    assert "delta.enableDeletionVectors" in text
    assert "columnMapping" not in text
    assert "TypeWidening" not in text


def test_new_table_for_open_readers_enables_no_feature():
    (step,) = plan_steps([table("t", column("a"))], {}, readers=OPEN)
    assert "delta." not in texts(step)[0].partition("TBLPROPERTIES")[2]


@pytest.mark.parametrize("name", ["a b", "a,b", "a;b", "{a", "a)", "a\tb", "a=b"])
def test_name_that_delta_refuses_without_column_mapping_enables_it(name: str):
    (step,) = plan_steps([table("t", column(name))], {}, readers=OPEN)
    assert "'delta.columnMapping.mode' = 'name'" in texts(step)[0]
    before = table("t", column("x"))
    (added,) = plan_steps([table("t", column("x"), column(name))], observed(before))
    assert MAPPING in texts(added)[0]


@given(st.text(st.characters(exclude_characters=" ,;{}()\n\t="), min_size=1))
def test_names_without_reserved_characters_need_no_column_mapping(name: str):
    assert not needs_mapping(name)


def test_the_first_rename_switches_column_mapping_on_and_the_second_does_not():
    before = table("t", column("x", of="a"), column("y", of="b"))
    wanted = table("t", column("p", of="a"), column("q", of="b"))
    first, second = plan_steps([wanted], observed(before), report_on(before, wanted))
    assert [statement.part for statement in statements(first, "/w")] == [FEATURES, CHANGE]
    assert MAPPING in texts(first)[0]
    assert [statement.part for statement in statements(second, "/w")] == [CHANGE]


def test_a_drop_switches_column_mapping_on():
    before, wanted = table("t", column("x"), column("y")), table("t", column("x"))
    (step,) = plan_steps([wanted], observed(before), report_on(before, wanted))
    assert MAPPING in texts(step)[0]


def test_a_widening_switches_type_widening_on_and_a_longer_text_does_not():
    before = table("t", column("n", "integer"), column("v", "string(10)"))
    wanted = table("t", column("n", "bigint"), column("v", "string(20)"))
    steps = plan_steps([wanted], observed(before))
    of_number, of_text = sorted(steps, key=lambda step: step.retyped[0].name)
    assert WIDENING in texts(of_number)[0]
    assert [statement.part for statement in statements(of_text, "/w")] == [CHANGE]


def test_rename_in_a_table_with_column_mapping_enables_no_feature():
    before, wanted = table("t", column("x", of="a")), table("t", column("y", of="a"))
    observed = observed_table(before)
    observed.properties.update(switches((COLUMN_MAPPING,)))
    (step,) = plan_steps([wanted], {before.key: observed}, report_on(before, wanted))
    assert [statement.part for statement in statements(step, "/w")] == [CHANGE]


def test_undo_of_a_rename_needs_no_further_feature():
    before, wanted = table("t", column("x", of="a")), table("t", column("y", of="a"))
    (step,) = plan_steps([wanted], observed(before), report_on(before, wanted))
    back = inverse(step)
    assert back is not None
    assert back.missing_features == ()


def test_the_undo_of_an_addition_switches_column_mapping_on():
    before = table("t", column("x"))
    (step,) = plan_steps([table("t", column("x"), column("y"))], observed(before))
    back = inverse(step)
    assert back is not None
    assert back.missing_features == (COLUMN_MAPPING,)


def test_features_survive_storage_and_older_rows_have_none():
    (step,) = plan_steps([table("t", column("n", "integer"))], {})
    (wider,) = plan_steps([table("t", column("n", "bigint"))], {step.table.key: observed_table(step.table)})
    assert of_row(as_row(step)).features == (DELETION_VECTORS,)
    assert becomes(of_row(as_row(wider))).features == (TYPE_WIDENING,)
    older = {name: value for name, value in as_row(wider).items() if name != "features"}
    older["assumes"] = {name: value for name, value in older["assumes"].items() if name != "features"}
    assert of_row(older) == wider


def with_features(spec: TableSpec) -> ObservedTable:
    """Return the table as observed with both features that some open readers lack."""
    observed = observed_table(spec)
    observed.properties.update(switches((COLUMN_MAPPING, TYPE_WIDENING, DELETION_VECTORS)))
    return observed


def feature_drop(spec: TableSpec) -> list[Operation]:
    return [Operation(DROP_FEATURES, spec.qualified_name, spec.key)]


def test_features_are_dropped_after_the_other_changes_of_a_table():
    before, wanted = table("t", column("x", of="a")), table("t", column("y", of="a"))
    operations = [*feature_drop(before), *report_on(before, wanted)]
    renamed, dropped = plan_steps([wanted], {before.key: with_features(before)}, operations, readers=OPEN)
    assert (renamed.op, dropped.op) == ("rename_column", "drop_features")
    assert (dropped.features, dropped.operation, dropped.overwrites) == ((COLUMN_MAPPING, TYPE_WIDENING), 0, True)
    assert [statement.part for statement in statements(dropped, "/w")] == [CHANGE] * 3 + [KEYS]
    assert texts(dropped)[0].endswith("SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')")
    assert [text.rpartition(" ")[2] for text in texts(dropped)[1:3]] == [COLUMN_MAPPING, TYPE_WIDENING]
    assert of_row(as_row(dropped)) == dropped
    assert becomes(of_row(as_row(dropped))).closing == ()


def test_column_mapping_is_kept_for_a_name_that_needs_it():
    spec = table("t", column("a b"))
    (step,) = plan_steps([spec], {spec.key: with_features(spec)}, feature_drop(spec), readers=OPEN)
    assert step.features == (TYPE_WIDENING,)


def test_accepted_lost_readers_keep_the_features():
    spec = table("t", column("a"))
    assert (
        plan_steps([spec], {spec.key: with_features(spec)}, feature_drop(spec), readers=OPEN, readers_lost=True) == ()
    )


def test_feature_drop_is_done_once_the_protocol_lacks_them_and_has_no_inverse():
    spec = table("t", column("a"))
    before = with_features(spec)
    (step,) = plan_steps([spec], {spec.key: before}, feature_drop(spec), readers=OPEN)
    assert steps_done([step], before) == 0
    disabled = observed_table(spec)
    disabled.properties.update(protocol_properties((COLUMN_MAPPING,)))
    assert not done_by(step, disabled)
    assert steps_done([step], disabled) == 0
    assert done_by(step, observed_table(spec))
    assert steps_done([step], observed_table(spec)) == 1
    assert inverse(step, 3) is None
