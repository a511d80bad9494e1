"""Losses of undo steps in words."""

from architecture.domain.steps.step import ADD_COLUMN, DROP_COLUMN, DROP_TABLE, RENAME_TABLE, RESTORE_TABLE, Step
from architecture.domain.tables import ColumnSpec, TableSpec
from architecture.domain.undo.losses import losses

TABLE = TableSpec("t1", "rawcore", "rc_a", "rawcore", ())
COLUMN = ColumnSpec("c1", "email", "string", "attribute")


def test_losses_name_columns_rows_and_versions_once() -> None:
    steps = [
        Step(DROP_COLUMN, TABLE, column=COLUMN, only_empty=True),
        Step(DROP_COLUMN, TABLE, column=COLUMN, only_empty=True),
        Step(DROP_TABLE, TABLE),
        Step(RESTORE_TABLE, TABLE, version=4),
    ]
    assert losses(steps, {"t1": 1}) == (
        "Column email of rawcore.rc_a, which must be empty.",
        "Table rawcore.rc_a with 1 row.",
        "Versions of rawcore.rc_a after 4 are not current any more; no run has written rows since.",
    )


def test_dropped_table_without_a_known_size_is_named_without_it() -> None:
    assert losses([Step(DROP_TABLE, TABLE)], {}) == ("Table rawcore.rc_a with its rows.",)


def test_steps_that_remove_nothing_have_no_losses() -> None:
    assert losses([Step(ADD_COLUMN, TABLE, column=COLUMN), Step(RENAME_TABLE, TABLE)], {"t1": 1}) == ()
