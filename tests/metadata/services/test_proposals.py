"""Tests of delivered columns that are not in the contract."""

import pytest

from elevata.core.errors import MetadataError
from metadata.models import SourceColumn, TargetColumn
from metadata.services.datasets.generation import generate_targets
from metadata.services.source_contracts import propose_columns, take_columns
from tests.factories import airport_source

pytestmark = pytest.mark.django_db

LID = {"name": "lid", "type": "string"}
KNOWN = [{"name": name, "type": "string"} for name in ("icao", "name", "elevation")]


def test_proposals_list_delivered_columns_missing_in_the_contract() -> None:
    assert [c.name for c in propose_columns(airport_source(), [*KNOWN, LID]).new] == ["lid"]


def test_proposals_are_empty_if_all_columns_are_known() -> None:
    assert not propose_columns(airport_source(), KNOWN)


def test_proposals_list_contract_columns_that_are_not_delivered() -> None:
    assert [c.name for c in propose_columns(airport_source(), KNOWN[:2]).missing] == ["elevation"]


def test_proposals_list_names_that_differ_only_by_case_as_clashing() -> None:
    proposal = propose_columns(airport_source(), [*KNOWN, {"name": "ICAO", "type": "string"}])
    assert ([c.name for c in proposal.clashing], proposal.new) == (["ICAO"], ())


def test_accepted_column_is_added_to_every_layer() -> None:
    source = airport_source()
    generate_targets(source_dataset=source)
    take_columns(source_dataset=source, proposals=[LID])
    assert TargetColumn.objects.filter(name="lid", active=True).count() == 3


def test_accepting_a_column_twice_changes_nothing() -> None:
    source = airport_source()
    take_columns(source_dataset=source, proposals=[LID])
    assert not take_columns(source_dataset=source, proposals=[LID])


def test_accepting_an_inactive_column_restores_it_with_its_type() -> None:
    source = airport_source()
    SourceColumn.objects.filter(name="elevation").update(active=False)
    take_columns(source_dataset=source, proposals=[{"name": "elevation", "type": "string"}])
    column = source.columns.get(name="elevation")
    assert (column.active, str(column.type)) == (True, "float")


def test_clashing_column_cannot_be_accepted() -> None:
    with pytest.raises(MetadataError, match="only by case"):
        take_columns(source_dataset=airport_source(), proposals=[{"name": "ICAO", "type": "string"}])


@pytest.mark.parametrize(
    "proposal", [{"name": "x"}, {"name": "x", "type": "nope"}, {"name": 1, "type": "string"}, {**LID, "x": 1}]
)
def test_invalid_proposal_is_refused(proposal: dict) -> None:
    with pytest.raises(MetadataError):
        take_columns(source_dataset=airport_source(), proposals=[proposal])
