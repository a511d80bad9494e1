"""Tests of the copy of a dataset under a new name."""

import pytest
from django.contrib.auth import get_user_model

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user, grant_role
from elevata.core.errors import MetadataError
from metadata.models import TargetDataset
from metadata.services.datasets.cloning import clone_dataset
from metadata.services.datasets.targets import create_target_dataset, update_target_column
from metadata.services.lifecycle import rename_column
from metadata.services.quality import create_check
from tests.factories import TargetSchemaFactory

pytestmark = pytest.mark.django_db


def clone(row: TargetDataset, name: str = "airport_copy", **options) -> TargetDataset:
    made = clone_dataset(dataset=row, schema=options.pop("schema", row.schema), name=name, **options)
    return TargetDataset.objects.select_related("schema").get(pk=made.pk)


def columns_of(row: TargetDataset) -> list[tuple]:
    columns = row.columns.filter(active=True).order_by("ordinal")
    return [
        (column.name, str(column.type), column.role, column.key_ordinal, column.expression, column.description)
        for column in columns
    ]


def reads(row: TargetDataset) -> set[tuple]:
    return set(row.columns.values_list("name", "inputs__source_column", "inputs__upstream_column"))


def test_columns_and_inputs_are_copied(rawcore: TargetDataset):
    copy = clone(rawcore)
    assert columns_of(copy) == columns_of(rawcore)
    assert reads(copy) == reads(rawcore)


def test_clone_gets_new_keys_and_no_former_names(rawcore: TargetDataset):
    column = rawcore.columns.order_by("ordinal").last()
    rename_column(column=column, name="renamed", expected_version=column.version)
    copy = clone(rawcore)
    keys = {column.key for dataset in (rawcore, copy) for column in dataset.columns.all()}
    assert len(keys) == 2 * rawcore.columns.count()
    assert [column.former_names for column in copy.columns.exclude(former_names=[])] == []


def test_clone_gets_its_own_history(rawcore: TargetDataset):
    assert clone(rawcore).history.name == "airport_copy_hist"


def test_a_copy_is_not_generated(rawcore: TargetDataset):
    assert clone(rawcore).generated_from is None


def test_checks_are_copied(rawcore: TargetDataset):
    create_check(dataset=rawcore, name="rows", kind="row_count", arguments={"minimum": "1"})
    assert [(check.name, check.arguments) for check in clone(rawcore).checks.all()] == [("rows", {"minimum": "1"})]


def test_clone_copies_the_select_of_a_model(rawcore: TargetDataset):
    schema = TargetSchemaFactory(name="bizcore")
    key = rawcore.columns.get(key_ordinal=1).name
    select = f"SELECT {key} FROM {rawcore}"
    model = create_target_dataset(schema=schema, name="codes", select=select, business_key=[key])
    column = model.columns.get()
    update_target_column(column=column, expected_version=column.version, description="Code.")
    copy = clone(model, "codes_copy")
    assert columns_of(copy) == columns_of(TargetDataset.objects.get(pk=model.pk))
    assert copy.select == select


def test_a_taken_name_is_refused(rawcore: TargetDataset):
    with pytest.raises(MetadataError, match="name of another dataset"):
        clone(rawcore, rawcore.name)


def test_a_history_is_not_copied(rawcore: TargetDataset):
    with pytest.raises(MetadataError, match="follows its base"):
        clone(rawcore.history, "copy_hist")


def test_clone_requires_permissions_for_its_schema_and_the_copied_data(rawcore: TargetDataset):
    person = ensure_user(name="eve", roles=[])
    grant_role(user=person, role=Role.EDITOR, layer="serving")
    stage, serving = TargetDataset.objects.get(name="stg_air_airport"), TargetSchemaFactory(name="serving")
    with acting_as(person), pytest.raises(MetadataError) as refused:
        clone(stage)
    assert refused.value.code == "not_permitted"
    with acting_as(person), pytest.raises(MetadataError, match="and eve may not read its data"):
        clone(stage, schema=serving)
    grant_role(user=person, role=Role.VIEWER, layer="raw")
    with acting_as(get_user_model().objects.get(pk=person.pk)):
        assert clone(stage, schema=serving).schema == serving
