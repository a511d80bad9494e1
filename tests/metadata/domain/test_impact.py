"""Tests of the impact of a change of a column, computed from the lineage and the uses of its columns."""

import pytest

from metadata.domain.column_lineage import ColumnLineage, ColumnNode, ExposureNode, RowInput
from metadata.domain.impact import (
    BREAKS,
    CHECK,
    CONTRACT,
    DROP,
    FOLLOWS,
    POLICY,
    RENAME,
    RETYPE,
    STAYS,
    Reader,
    Use,
    impact,
)


def node(dataset: str, distance: int, kind: str = "target", expression: str = "") -> ColumnNode:
    return ColumnNode(
        f"{kind}:{dataset}", kind, dataset, "x", "string", expression, dataset, dataset, "rawcore", True, distance
    )


BASE, COPY, READER, MODEL = (
    node("base", 0),
    node("hist", 1, "history"),
    node("reader", 1, expression="upper(x)"),
    node("model", 2),
)
BOARD = ExposureNode("exposure:board", "board", "Board", "dashboard", "Finance", "model", "model", 3)
LINEAGE = ColumnLineage(
    (BASE, COPY, READER, MODEL),
    ((BASE.id, COPY.id), (BASE.id, READER.id), (READER.id, MODEL.id), (MODEL.id, BOARD.id)),
    (BOARD,),
)
USES = (
    Use(POLICY, "", BASE.id),
    Use(CHECK, "filled", READER.id),
    Use(CONTRACT, "", MODEL.id),
)


def effects(change: str) -> list[tuple[str, str, str]]:
    impacts = impact(change, LINEAGE, USES, models=["model"])
    return [(effect.effect, effect.dataset_key, effect.what) for effect in impacts]


def test_drop_breaks_every_downstream_column_except_the_history():
    assert effects(DROP) == [
        (STAYS, "hist", "column x"),
        (BREAKS, "reader", "column x"),
        (BREAKS, "model", "column x"),
        (BREAKS, "base", "history policy"),
        (BREAKS, "reader", "check filled"),
        (BREAKS, "model", "contract"),
        (BREAKS, "model", "exposure Board"),
    ]


def test_rename_affects_only_direct_readers():
    assert effects(RENAME) == [
        (FOLLOWS, "hist", "column x"),
        (FOLLOWS, "reader", "column x"),
        (FOLLOWS, "base", "history policy"),
    ]


def test_type_change_reaches_histories_models_contracts_and_exposures():
    assert effects(RETYPE) == [
        (FOLLOWS, "hist", "column x"),
        (STAYS, "reader", "column x"),
        (FOLLOWS, "model", "column x"),
        (STAYS, "base", "history policy"),
        (BREAKS, "model", "contract"),
        (BREAKS, "model", "exposure Board"),
    ]


def test_column_that_reads_a_source_column_follows_its_rename():
    source, reader = node("file", 0, "source"), node("raw", 1)
    impacts = impact(RENAME, ColumnLineage((source, reader), ((source.id, reader.id),)), ())
    assert [(effect.effect, effect.dataset_key) for effect in impacts] == [(FOLLOWS, "raw")]


@pytest.mark.parametrize("change", [DROP, RENAME, RETYPE])
def test_contract_and_exposures_break_with_a_change_of_their_own_column(change: str):
    own = ColumnLineage((BASE,), ((BASE.id, BOARD.id),), (BOARD,))
    impacts = impact(change, own, [Use(CONTRACT, "", BASE.id)])
    assert [(effect.effect, effect.what) for effect in impacts] == [(BREAKS, "contract"), (BREAKS, "exposure Board")]


@pytest.mark.parametrize(
    ("change", "effects"),
    [
        (DROP, [(BREAKS, "chosen", "rows"), (BREAKS, "later", "rows")]),
        (RENAME, [(FOLLOWS, "chosen", "rows")]),
        (RETYPE, [(STAYS, "chosen", "rows"), (STAYS, "later", "rows")]),
    ],
)
def test_column_change_affects_the_rows_of_models_that_it_decides(change: str, effects: list[tuple[str, str, str]]):
    lineage = ColumnLineage((BASE,), (), (), (RowInput(BASE.id, "base.x", "s.chosen", "chosen"),))
    impacts = impact(change, lineage, (), ["chosen"], [Reader("later", "chosen")])
    assert [(effect.effect, effect.dataset_key, effect.what) for effect in impacts] == effects
