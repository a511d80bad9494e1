"""Raw tables that are read once, by the readers that load their rows."""

from dataclasses import replace

import pytest

from loader.contract.manifest.sources import SourceSpec
from loader.domain.historization.references import Feeds
from metadata.domain.state import DatasetState

SPECS = {"source": SourceSpec("air.reading", "reading.csv", "csv", ())}
RAW = DatasetState("raw", "raw", "raw", "raw_reading", (), inputs=("source",))
STAGE = DatasetState("stage", "stage", "stage", "stg_reading", (), materialization="view", inputs=("raw",))
READING = DatasetState(
    "reading",
    "rawcore",
    "rawcore",
    "rc_reading",
    (),
    inputs=("stage",),
    history_policy={"input": "effective", "time": "at"},
)
MODEL = DatasetState("model", "mart", "bizcore", "readings", (), inputs=("stage",), select="SELECT * FROM stage.r")


def feeds(*readers: DatasetState) -> Feeds:
    return Feeds.of({state.key: state for state in (RAW, STAGE, *readers)}, SPECS)


def test_a_feed_is_read_once_unless_a_dataset_takes_complete_deliveries():
    assert feeds(READING).read_once == {RAW.key}
    assert feeds(READING, replace(READING, key="whole", history_policy={})).read_once == set()


@pytest.mark.parametrize("historize", [False, True])
def test_feed_with_a_model_over_it_is_read_once(historize: bool):
    assert feeds(READING, replace(MODEL, historize=historize)).read_once == {RAW.key}


def test_model_does_not_make_a_feed_a_shared_append():
    sale = replace(READING, history_policy={"input": "append"})
    assert feeds(sale, MODEL).shared_appends == {}
