"""Steps of operations: statements, progress that a table shows, and inverses."""

from dataclasses import replace

import pytest

from architecture.domain.operations import BLOCKED, METADATA_ONLY
from architecture.domain.steps.inverses import inverse
from architecture.domain.steps.report_steps import check_belongs, plan_steps
from architecture.domain.steps.statements import statement_text, statements
from architecture.domain.steps.step import (
    ADD_COLUMN,
    Step,
    StepProblem,
    becomes,
    done_by,
    half_done_by,
    shape_of,
    steps_done,
)
from loader.contract.manifest.codec import from_json, to_json
from loader.contract.manifest.executions import ExecuteManifest
from tests.architecture.tables import column, observed, observed_table, operation, ops, report_on, table

# --- operations and steps --------------------------------------------------------------------


def test_a_report_without_operations_needs_no_step():
    before, wanted = table("t", column("a")), table("t", column("a"), column("b"))
    assert plan_steps([wanted], observed(before), []) == ()


def test_difference_without_an_operation_gets_no_step():
    before = table("t", column("a"))
    wanted = table("t", column("z", of="a"), column("b"))
    steps = plan_steps([wanted], observed(before), [operation("add_column", before, wanted.columns[1])])
    assert ops(steps) == [ADD_COLUMN]


def test_retired_column_needs_no_step():
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


def test_steps_for_a_table_described_under_another_key_are_refused():
    current = table("t", column("x"))
    described = table("t", column("x"), column("y"), of="another")
    with pytest.raises(StepProblem) as refused:
        plan_steps([described], observed(current), [operation("add_column", current, column("y"))])
    assert refused.value.code == "KEY_MOVED"


@pytest.mark.parametrize("kind", ["history", "event_log"])
def test_wider_history_or_event_log_needs_no_step(kind):
    before = table("t_hist", column("a", "bigint"), kind=kind)
    assert plan_steps([replace(before, columns=(column("a", "integer"),))], observed(before)) == ()


# --- progress of a table ---------------------------------------------------------------------


def test_table_changed_by_hand_matches_no_step():
    before, wanted = table("t", column("a")), table("t", column("b", of="a"))
    steps = plan_steps([wanted], observed(before), report_on(before, wanted))
    changed = observed_table(table("t", column("a"), column("by_hand")))
    with pytest.raises(StepProblem, match="has by_hand string") as raised:
        steps_done(steps, changed)
    assert raised.value.code == "TABLE_MOVED"


def test_newer_table_version_leaves_the_progress_of_steps():
    before, wanted = table("t", column("a")), table("t", column("b", of="a"))
    steps = plan_steps([wanted], observed(before), report_on(before, wanted))
    assert steps_done(steps, replace(observed_table(before), version=99)) == 0


def test_table_without_column_keys_is_half_done():
    spec = table("t", column("a"))
    (step,) = plan_steps([spec], {})
    assert not done_by(step, observed_table(spec, tied=False))
    assert half_done_by(step, observed_table(spec, tied=False))
    assert steps_done([step], observed_table(spec, tied=False)) == 0
    assert steps_done([step], observed_table(spec)) == 1


def test_manifest_with_steps_is_serialized_and_read_unchanged():
    before = table("t", column("a", "integer"), column("b"))
    wanted = table("t", column("c", "bigint", of="a"), column("a", of="b"), column("n"))
    steps = plan_steps([wanted, table("u", column("x"))], observed(before))
    manifest = ExecuteManifest("7", steps, done=(1,))
    assert from_json(ExecuteManifest, to_json(manifest)) == manifest


# --- statements ------------------------------------------------------------------------------


def test_statement_addresses_a_table_by_its_path():
    before, wanted = table("t", column("we`ird", of="a")), table("t", column("b's", of="a"))
    (step,) = plan_steps([wanted], observed(before), report_on(before, wanted))
    assert statement_text(step, "/data/warehouse/").endswith(
        f";\nALTER TABLE delta.`/data/warehouse/{wanted.key}` RENAME COLUMN `we``ird` TO `b's`"
    )


def test_a_rename_of_a_table_changes_a_property_and_the_catalog():
    spec = table("a", column("x"))
    (step,) = plan_steps([replace(spec, schema="core", name="b")], observed(spec), [operation("rename_table", spec)])
    assert [statement.sql for statement in statements(step, "/w")] == [
        f"ALTER TABLE delta.`/w/{spec.key}` SET TBLPROPERTIES ('elevata.name' = 'core.b')",
        "DROP TABLE IF EXISTS `rawcore`.`a`",
        "CREATE SCHEMA IF NOT EXISTS `core`",
        f"CREATE TABLE IF NOT EXISTS `core`.`b` USING delta LOCATION '/w/{spec.key}'",
    ]


def test_statement_of_a_rebuild_lists_columns_partitions_and_select():
    before = table("t", column("a", "integer"), column("version_segment"))
    wanted = table("t", column("a", "string(20)"), column("version_segment"))
    report = [operation("retype_column", before, before.columns[0], from_="integer", to="string(20)")]
    text = statement_text(plan_steps([wanted], observed(before), report)[0], "/w")
    assert "columns `a` VARCHAR(20), `version_segment` STRING, partitioned by `version_segment`" in text
    assert "SELECT try_cast(`a` AS STRING) AS `a`, `version_segment`" in text
    assert f"'elevata.column.{before.columns[0].key}' = <physical name of `a`>" in text


# --- undo ------------------------------------------------------------------------------------


def test_inverse_of_a_drop_publishes_the_table():
    spec = table("t", column("x"))
    (step,) = plan_steps([], observed(spec), [operation("drop_table", spec)])
    back = inverse(step)
    assert back.op == "publish_table"
    assert becomes(back).matches(shape_of(observed_table(spec)))
    assert "SET TBLPROPERTIES ('elevata.dropped' = 'false')" in statement_text(back, "/w")


def test_inverse_of_an_added_column_drops_it_only_while_empty():
    before, wanted = table("t", column("a")), table("t", column("a"), column("b"))
    (step,) = plan_steps([wanted], observed(before))
    back = inverse(step)
    assert (back.op, back.only_empty, back.column.name) == ("drop_column", True, "b")


def test_inverse_of_a_rewrite_restores_the_version_before():
    before, wanted = table("t", column("a", "integer")), table("t", column("a", "bigint"))
    (step,) = plan_steps([wanted], observed(before))
    assert inverse(step) is None
    back = inverse(step, 41)
    assert statement_text(back, "/w").endswith("TO VERSION AS OF 41")
    assert becomes(back).matches(shape_of(observed_table(before)))
