"""Selection of small loads: rules for unknown parents take the general way, which reads other tables."""

from dataclasses import replace
from uuid import NAMESPACE_DNS, uuid5

import pytest

from architecture.domain.tables import raw_table, rawcore_table
from loader.contract.manifest.loads import (
    ForeignKey,
    HashComponent,
    LoadManifest,
    RawcoreLoad,
    RawLoad,
    ReferringRows,
    StageColumn,
    StageInput,
)
from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.domain.small_loads import small_pairs
from metadata.domain.state import ColumnState, DatasetState

RAW_KEY, RAWCORE_KEY = (str(uuid5(NAMESPACE_DNS, name)) for name in ("raw", "rawcore"))
ID = ColumnState("c", "id", "string", role="business_key")
RAW = raw_table(DatasetState(RAW_KEY, "raw", "raw", "raw_a", (ID,)))
RAWCORE = rawcore_table(DatasetState(RAWCORE_KEY, "rawcore", "rawcore", "rc_a", (ID,)))
KEY = (HashComponent("c", "id"),)
STAGE = (StageInput(RAW, (StageColumn("id", "string", "`id`"),)),)
SOURCE = SourceSpec("a.a", "/d/a.csv", "csv", (DeliveredColumn("s", "id", "string", business_key=True),))
LOAD = RawcoreLoad(RAWCORE_KEY, "rawcore.rc_a", RAWCORE, None, STAGE, KEY, ())
LOAD = replace(LOAD, delivery_checked=True, depends_on=(RAW_KEY,))


def pairs(load: RawcoreLoad) -> int:
    raw = RawLoad(RAW_KEY, "raw.raw_a", RAW, SOURCE, (("id", "id"),))
    manifest = LoadManifest("r", "2024-05-01T00:00:00Z", 1, (raw,), (load,), small_rows=10)
    return len(list(small_pairs(manifest)))


@pytest.mark.parametrize(("rule", "count"), [("keep", 1), ("null", 0), ("ghost", 0), ("refuse", 0)])
def test_a_child_whose_parents_are_looked_up_is_no_small_load(rule: str, count: int):
    assert pairs(replace(LOAD, foreign_keys=(ForeignKey("p_key", KEY, rule, RAWCORE),))) == count


def test_a_parent_with_ghost_rows_is_no_small_load():
    rows = ReferringRows("rawcore.rc_b", RAWCORE, STAGE, KEY, KEY, (("id", "id"),))
    assert (pairs(LOAD), pairs(replace(LOAD, children=(rows,)))) == (1, 0)
