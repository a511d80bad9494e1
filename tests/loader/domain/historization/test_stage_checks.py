"""Stage checks that a checked delivery makes unnecessary."""

from dataclasses import replace

import pytest

from architecture.domain.tables import raw_table
from loader.contract.manifest.loads import StageColumn, StageInput
from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.domain.historization.stage import delivery_checked, row_hash_components
from metadata.domain.state import ColumnState, DatasetState

TYPES = {"id": "integer", "load": "string", "t": "timestamp"}
KEYS = {name: f"00000000-0000-4000-8000-00000000000{n}" for n, name in enumerate((*TYPES, "raw", "core", "hist"))}
SOURCE = SourceSpec(
    "s.item",
    "item.csv",
    "csv",
    tuple(DeliveredColumn(f"source {name}", name, type_, business_key=name == "id") for name, type_ in TYPES.items()),
)
RAW = DatasetState(
    KEYS["raw"],
    "raw",
    "raw",
    "raw_s_item",
    tuple(ColumnState(KEYS[name], name, "string", inputs=(f"source {name}",)) for name in TYPES),
)
INPUT = StageInput(raw_table(RAW), tuple(StageColumn(name, type_, f"`{name}`") for name, type_ in TYPES.items()))


def core(**policy) -> DatasetState:
    columns = tuple(
        ColumnState(KEYS[name], name, type_, role="business_key" if name == "id" else "attribute")
        for name, type_ in TYPES.items()
    )
    return DatasetState(
        KEYS["core"],
        "rawcore",
        "rawcore",
        "rc_s_item",
        columns,
        historize=True,
        history_key=KEYS["hist"],
        history_policy=policy,
    )


def is_checked(dataset: DatasetState, source: SourceSpec = SOURCE) -> bool:
    return delivery_checked(dataset, (INPUT,), {RAW.key: RAW}, {RAW.key: source})


def test_delivery_with_one_row_per_key_needs_no_stage_check():
    assert is_checked(core())


FEED = replace(SOURCE, one_row_per_key=False)


def test_feed_that_may_repeat_keys_needs_the_stage_check():
    assert not is_checked(core(), FEED)


@pytest.mark.parametrize("historize", [True, False])
def test_dated_rows_that_may_repeat_keys_need_no_stage_check(historize):
    assert is_checked(replace(core(input="effective", time="t"), historize=historize), FEED)


@pytest.mark.parametrize(("policy", "passes"), [({"input": "append"}, True), ({}, False)])
def test_only_appended_rows_need_no_key(policy, passes):
    dataset = replace(core(**policy), historize=False)
    without_key = replace(dataset, columns=tuple(replace(c, role="attribute") for c in dataset.columns))
    assert is_checked(without_key, FEED) == passes


def test_the_row_hash_covers_a_column_called_load():
    assert [part.column for part in row_hash_components(core())] == ["load", "t"]
    assert [part.column for part in row_hash_components(core(input="effective", time="t"))] == ["load"]
