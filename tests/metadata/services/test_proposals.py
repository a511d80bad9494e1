"""Tests of delivered columns that the contract does not have."""

import pytest

from elevata.core.errors import MetadataError
from metadata.models import SourceColumn, TargetColumn
from metadata.services.datasets.generation import generate_targets
from metadata.services.sources import propose_columns, take_columns
from tests.factories import airport_source

pytestmark = pytest.mark.django_db

LID = {"name": "lid", "type": "string"}
KNOWN = [{"name": name, "type": "string"} for name in ("icao", "name", "elevation")]


def test_a_column_the_contract_does_not_know_is_new() -> None:
    assert [c.name for c in propose_columns(airport_source(), [*KNOWN, LID]).new] == ["lid"]


def test_nothing_is_proposed_where_all_is_known() -> None:
    assert not propose_columns(airport_source(), KNOWN)


def test_a_promised_column_that_is_not_delivered_is_missing() -> None:
    assert [c.name for c in propose_columns(airport_source(), KNOWN[:2]).missing] == ["elevation"]


def test_a_name_that_differs_only_by_case_clashes() -> None:
    found = propose_columns(airport_source(), [*KNOWN, {"name": "ICAO", "type": "string"}])
    assert ([c.name for c in found.clashing], found.new) == (["ICAO"], ())


def test_taking_a_column_brings_it_into_every_layer() -> None:
    source = airport_source()
    generate_targets(source_dataset=source)
    take_columns(source_dataset=source, proposals=[LID])
    assert TargetColumn.objects.filter(name="lid", active=True).count() == 3


def test_taking_a_column_twice_takes_it_once() -> None:
    source = airport_source()
    take_columns(source_dataset=source, proposals=[LID])
    assert not take_columns(source_dataset=source, proposals=[LID])


def test_a_column_that_was_out_of_use_comes_back_as_it_was() -> None:
    source = airport_source()
    SourceColumn.objects.filter(name="elevation").update(active=False)
    take_columns(source_dataset=source, proposals=[{"name": "elevation", "type": "string"}])
    column = source.columns.get(name="elevation")
    assert (column.active, str(column.type)) == (True, "float")


def test_a_clashing_column_is_not_taken() -> None:
    with pytest.raises(MetadataError, match="only by case"):
        take_columns(source_dataset=airport_source(), proposals=[{"name": "ICAO", "type": "string"}])


@pytest.mark.parametrize(
    "proposal", [{"name": "x"}, {"name": "x", "type": "nope"}, {"name": 1, "type": "string"}, {**LID, "x": 1}]
)
def test_a_proposal_that_makes_no_sense_is_refused(proposal: dict) -> None:
    with pytest.raises(MetadataError):
        take_columns(source_dataset=airport_source(), proposals=[proposal])
