"""Ranks of a dataset's inputs: by the names of their sources, in the order of the history policy."""

import pytest

from architecture.domain.tables import raw_table
from loader.contract.manifest.loads import StageInput
from loader.contract.refusals import Refusal
from loader.domain.historization.stage import ranked_inputs
from metadata.domain.state import DatasetState

ERP, CRM = "11111111-1111-5111-8111-111111111111", "22222222-2222-5222-8222-222222222222"
SOURCES = {ERP: "erp.customer", CRM: "crm.customer"}
INPUTS = tuple(StageInput(raw_table(DatasetState(key, "raw", "raw", f"raw_{key[0]}", ())), ()) for key in SOURCES)


def customer(**policy: object) -> DatasetState:
    return DatasetState("k", "rawcore", "rawcore", "customer", (), history_policy=policy)


def test_input_rank_is_the_position_of_its_source():
    inputs = ranked_inputs(customer(rank=["crm.customer", "erp.customer"]), INPUTS, SOURCES)
    assert [stage_input.rank for stage_input in inputs] == [1, 0]


def test_inputs_are_unchanged_without_a_rank():
    assert ranked_inputs(customer(), INPUTS, SOURCES) == INPUTS


@pytest.mark.parametrize(
    ("rank", "message"),
    [
        (["crm.customer", "web.customer"], "the source erp.customer has no rank"),
        (["crm.customer", "erp.customer", "web.customer"], "the source web.customer is not among its inputs"),
    ],
)
def test_a_rank_of_other_sources_is_refused(rank: list[str], message: str):
    with pytest.raises(Refusal, match=message) as caught:
        ranked_inputs(customer(rank=rank), INPUTS, SOURCES)
    assert caught.value.code == "BAD_RANK"
