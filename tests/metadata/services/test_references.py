"""Tests of references: all columns of the parent's business key, in types that hash alike."""

import json

import pytest

from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError
from metadata.models import Reference, TargetDataset
from metadata.selectors.dataset_lineage import lineage
from metadata.selectors.dataset_states import dataset_state
from metadata.services import lifecycle
from metadata.services.datasets.targets import update_target_column, update_target_dataset
from metadata.services.references import create_reference, retire_reference, unretire_reference, update_reference
from tests.factories import TargetColumnFactory, TargetDatasetFactory, TargetSchemaFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def parent() -> TargetDataset:
    row = TargetDatasetFactory(name="rc_plant")
    TargetColumnFactory(dataset=row, name="country", key_ordinal=1)
    TargetColumnFactory(dataset=row, name="plant_no", key_ordinal=2, data_type="integer")
    TargetColumnFactory(dataset=row, name="title")
    return row


@pytest.fixture
def child() -> TargetDataset:
    row = TargetDatasetFactory(name="rc_order")
    TargetColumnFactory(dataset=row, name="order_no", key_ordinal=1)
    TargetColumnFactory(dataset=row, name="plant_country")
    TargetColumnFactory(dataset=row, name="plant_no", data_type="bigint")
    TargetColumnFactory(dataset=row, name="amount", data_type="float")
    return row


def refer(child: TargetDataset, parent: TargetDataset, role: str = "", rule: str = "keep", **pairs: str) -> Reference:
    given = pairs or {"plant_country": "country", "plant_no": "plant_no"}
    chosen = [(child.columns.get(name=a), parent.columns.get(name=b)) for a, b in given.items()]
    return create_reference(child=child, parent=parent, role_name=role, unknown_parent=rule, pairs=chosen)


def test_a_reference_covers_the_parents_key(child: TargetDataset, parent: TargetDataset) -> None:
    assert refer(child, parent).pairs.count() == 2


def test_reference_column_is_named_like_the_parent_key(child: TargetDataset, parent: TargetDataset) -> None:
    refer(child, parent)
    assert dataset_state(child).references[0].column_name == "rc_plant_key"


def test_reference_column_is_named_by_its_role(child: TargetDataset, parent: TargetDataset) -> None:
    refer(child, parent, role="supplying")
    assert dataset_state(child).references[0].column_name == "supplying_key"


def test_reference_with_a_part_of_the_parent_key_is_refused(child: TargetDataset, parent: TargetDataset) -> None:
    with pytest.raises(MetadataError, match="'plant_no' is missing"):
        refer(child, parent, plant_country="country")


def test_reference_to_a_column_outside_of_the_parent_key_is_refused(
    child: TargetDataset, parent: TargetDataset
) -> None:
    with pytest.raises(MetadataError, match="not in the parent's business key"):
        refer(child, parent, plant_country="title")


def test_types_must_hash_alike(child: TargetDataset, parent: TargetDataset) -> None:
    with pytest.raises(MetadataError, match="plant_country is string, rawcore.rc_plant.plant_no is integer"):
        refer(child, parent, plant_country="plant_no")


def test_a_parent_without_a_key_is_refused(child: TargetDataset) -> None:
    other = TargetColumnFactory(dataset__name="rc_plain", name="title").dataset
    with pytest.raises(MetadataError, match="has no business key"):
        refer(child, other, plant_country="title")


def test_a_stage_dataset_is_no_parent(child: TargetDataset) -> None:
    schema = TargetSchemaFactory(name="stage")
    column = TargetColumnFactory(dataset__schema=schema, name="id", key_ordinal=1)
    with pytest.raises(MetadataError, match="no entity key"):
        refer(child, column.dataset, plant_country="id")


def test_two_references_cannot_share_a_column(child: TargetDataset, parent: TargetDataset) -> None:
    refer(child, parent, role="supplying")
    with pytest.raises(MetadataError, match="another reference has the column 'Supplying_key'"):
        refer(child, parent, role="Supplying")


def test_reference_column_with_the_name_of_a_column_is_refused(child: TargetDataset, parent: TargetDataset) -> None:
    TargetColumnFactory(dataset=child, name="supplying_key")
    with pytest.raises(MetadataError, match="has a column 'supplying_key' already"):
        refer(child, parent, role="supplying")


def test_a_dataset_may_refer_to_itself_by_a_role(parent: TargetDataset) -> None:
    refer(parent, parent, role="main", country="country", plant_no="plant_no")
    assert dataset_state(parent).references[0].parent == str(parent.key)


def test_a_dataset_cannot_refer_to_itself_without_a_role(parent: TargetDataset) -> None:
    with pytest.raises(MetadataError, match="like the dataset's own key"):
        refer(parent, parent, country="country", plant_no="plant_no")


def test_retired_reference_is_omitted_from_the_state(child: TargetDataset, parent: TargetDataset) -> None:
    retire_reference(reference=refer(child, parent), expected_version=1)
    assert dataset_state(child).references == ()


def test_restored_reference_is_in_the_state(child: TargetDataset, parent: TargetDataset) -> None:
    row = retire_reference(reference=refer(child, parent), expected_version=1)
    unretire_reference(reference=row, expected_version=2)
    assert len(dataset_state(child).references) == 1


def test_reference_retirement_and_restoration_are_logged_with_their_reasons(
    child: TargetDataset, parent: TargetDataset
) -> None:
    row = retire_reference(reference=refer(child, parent), expected_version=1, reason="wrong plants")
    unretire_reference(reference=row, expected_version=2, reason="right after all")
    entries = ChangeLogEntry.objects.filter(subject_kind="reference").order_by("pk")
    assert list(entries.values_list("action", "reason"))[1:] == [
        ("retired", "wrong plants"),
        ("restored", "right after all"),
    ]


def test_reference_with_a_retired_column_cannot_be_restored(child: TargetDataset, parent: TargetDataset) -> None:
    row = retire_reference(reference=refer(child, parent), expected_version=1)
    lifecycle.retire_column(column=child.columns.get(name="plant_no"), expected_version=1)
    with pytest.raises(MetadataError, match="no active column of the child"):
        unretire_reference(reference=row, expected_version=2)


def test_a_retired_reference_is_not_drawn_in_lineage(child: TargetDataset, parent: TargetDataset) -> None:
    row = refer(child, parent)
    assert [edge.kind for edge in lineage(child).edges] == ["reference"]
    retire_reference(reference=row, expected_version=1)
    assert lineage(child).edges == ()


def test_column_of_a_reference_cannot_be_retired(child: TargetDataset, parent: TargetDataset) -> None:
    refer(child, parent)
    with pytest.raises(MetadataError, match="needs it"):
        lifecycle.retire_column(column=child.columns.get(name="plant_no"), expected_version=1)


def test_parent_rename_is_refused_if_a_child_has_a_column_of_the_new_key_name(
    child: TargetDataset, parent: TargetDataset
) -> None:
    refer(child, parent)
    TargetColumnFactory(dataset=child, name="works_key")
    with pytest.raises(MetadataError, match="has a column 'works_key' already"):
        lifecycle.rename_dataset(dataset=parent, name="works", expected_version=1)


# --- rules for unknown parents -----------------------------------------------------------------


def test_a_rule_for_unknown_parents_is_part_of_the_state(child: TargetDataset, parent: TargetDataset) -> None:
    refer(child, parent, rule="ghost")
    assert dataset_state(child).references[0].unknown_parent == "ghost"


def test_rule_change_is_logged_with_its_reason(child: TargetDataset, parent: TargetDataset) -> None:
    row = refer(child, parent)
    update_reference(reference=row, expected_version=1, unknown_parent="null", reason="orders come early")
    entry = ChangeLogEntry.objects.filter(subject_kind="reference").latest("pk")
    assert (entry.action, entry.reason) == ("changed", "orders come early")
    assert json.loads(entry.changes)["unknown_parent"] == {"before": "keep", "after": "null"}


def test_a_rule_that_does_not_exist_is_refused(child: TargetDataset, parent: TargetDataset) -> None:
    with pytest.raises(MetadataError) as refused:
        refer(child, parent, rule="perhaps")
    assert refused.value.field == "unknown_parent"


def test_ghost_rule_is_refused_for_a_parent_with_a_required_attribute(
    child: TargetDataset, parent: TargetDataset
) -> None:
    parent.columns.filter(name="title").update(nullable=False)
    with pytest.raises(MetadataError, match=r"rc_plant.title may not be NULL") as refused:
        refer(child, parent, rule="ghost")
    assert refused.value.field == "unknown_parent"


def test_parent_attribute_must_remain_nullable_for_ghost_rows(child: TargetDataset, parent: TargetDataset) -> None:
    refer(child, parent, rule="ghost")
    title = parent.columns.get(name="title")
    with pytest.raises(MetadataError, match="title may not be NULL"):
        update_target_column(column=title, expected_version=title.version, nullable=False)


def test_parent_of_a_refuse_rule_must_remain_a_table(child: TargetDataset, parent: TargetDataset) -> None:
    refer(child, parent, rule="refuse")
    with pytest.raises(MetadataError, match="must be a rawcore table") as refused:
        update_target_dataset(dataset=parent, expected_version=parent.version, materialization="view")
    assert refused.value.field == "materialization"


def test_retired_reference_accepts_any_rule_and_is_checked_when_restored(
    child: TargetDataset, parent: TargetDataset
) -> None:
    parent.columns.filter(name="title").update(nullable=False)
    row = retire_reference(reference=refer(child, parent), expected_version=1)
    row = update_reference(reference=row, expected_version=2, unknown_parent="ghost")
    with pytest.raises(MetadataError, match="title may not be NULL"):
        unretire_reference(reference=row, expected_version=3)


def test_required_column_of_a_parent_of_ghost_rows_cannot_be_restored(
    child: TargetDataset, parent: TargetDataset
) -> None:
    title = parent.columns.get(name="title")
    title = update_target_column(column=title, expected_version=title.version, nullable=False)
    title = lifecycle.retire_column(column=title, expected_version=title.version)
    refer(child, parent, rule="ghost")
    with pytest.raises(MetadataError, match="rc_plant.title may not be NULL"):
        lifecycle.unretire_column(column=title, expected_version=title.version)


def test_key_column_cannot_be_restored_if_a_reference_lacks_it(child: TargetDataset, parent: TargetDataset) -> None:
    part = TargetColumnFactory(dataset=parent, name="part", key_ordinal=3)
    part = lifecycle.retire_column(column=part, expected_version=part.version)
    refer(child, parent)
    with pytest.raises(MetadataError, match="'part' is missing"):
        lifecycle.unretire_column(column=part, expected_version=part.version)
