"""Tests of technical columns with values of sensitive columns: an editor may not disconnect them from these columns."""

from collections.abc import Callable
from pathlib import Path

import pytest

from elevata.accounts.actors import acting_as
from elevata.accounts.services.users import ensure_user
from elevata.audit.services.transactions import writing
from elevata.core.errors import MetadataError
from metadata.models import Reference, TargetColumn, TargetDataset
from metadata.services.datasets.targets import update_schema, update_target_column, update_target_dataset
from metadata.services.exchange.metadata_files import export_metadata, import_metadata
from metadata.services.lifecycle import rename_column, rename_dataset, retire_column
from metadata.services.references import retire_reference, set_pairs
from metadata.services.rows import lowered_classification
from tests.factories import ReferenceFactory, TargetColumnFactory, TargetDatasetFactory

pytestmark = pytest.mark.django_db

DATED = {"input": "effective", "time": "born"}
Deed = Callable[[TargetDataset], None]


@pytest.fixture
def person() -> TargetDataset:
    """Return ``rawcore.person``, whose times, part of the key and foreign key are computed from sensitive columns."""
    dataset = TargetDatasetFactory(name="person", historize=True, history_policy=DATED)
    TargetColumnFactory(dataset=dataset, name="number", nullable=False, key_ordinal=1)
    TargetColumnFactory(dataset=dataset, name="email", nullable=False, key_ordinal=2, pii=True)
    TargetColumnFactory(dataset=dataset, name="born", data_type="date", nullable=False, pii=True)
    TargetColumnFactory(dataset=dataset, name="died", data_type="date", nullable=False, pii=True)
    TargetColumnFactory(dataset=dataset, name="hired", data_type="date", nullable=False)
    TargetColumnFactory(dataset=dataset, name="doctor", pii=True)
    TargetColumnFactory(dataset=dataset, name="office")
    TargetDatasetFactory(name="person_hist", history_of=dataset)
    place = TargetDatasetFactory(name="place")
    TargetColumnFactory(dataset=place, name="code", nullable=False, key_ordinal=1)
    for role, column in (("doctor", "doctor"), ("office", "office")):
        reference = ReferenceFactory(child=dataset, parent=place, role_name=role)
        reference.pairs.create(child_column=column_of(dataset, column), parent_column=column_of(place, "code"))
    return dataset


def column_of(dataset: TargetDataset, name: str) -> TargetColumn:
    return dataset.columns.get(name=name)


def update(dataset: TargetDataset, **changes) -> TargetDataset:
    row = TargetDataset.objects.get(pk=dataset.pk)
    return update_target_dataset(dataset=row, expected_version=row.version, **changes)


def reference_of(dataset: TargetDataset, role: str) -> Reference:
    return dataset.references.get(role_name=role)


def import_with(folder: Path, replaced: dict[str, str]) -> None:
    """Import the metadata with other texts in the file of ``rawcore.person``."""
    export_metadata(folder)
    path = folder / "targets" / "rawcore" / "person.yaml"
    text = path.read_text()
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    import_metadata(folder)


def date_by_the_load(person: TargetDataset) -> None:
    update(person, history_policy={})


def date_by_another_column(person: TargetDataset) -> None:
    update(person, history_policy=DATED | {"time": "hired"})


def date_by_another_sensitive_column(person: TargetDataset) -> None:
    update(person, history_policy=DATED | {"time": "died"})


def date_otherwise_without_a_history(person: TargetDataset) -> None:
    update(person, historize=False, history_policy={})


def leave_out_of_the_key(person: TargetDataset) -> None:
    column = column_of(person, "email")
    update_target_column(column=column, expected_version=column.version, role="attribute", key_ordinal=None)


def retire_from_the_key(person: TargetDataset) -> None:
    column = column_of(person, "email")
    retire_column(column=column, expected_version=column.version)


def retire_the_reference(person: TargetDataset) -> None:
    reference = reference_of(person, "doctor")
    retire_reference(reference=reference, expected_version=reference.version)


def pair_otherwise(person: TargetDataset) -> None:
    reference = reference_of(person, "doctor")
    with writing():
        set_pairs(reference, [(column_of(person, "office"), column_of(reference.parent, "code"))])


DEEDS = [
    date_by_the_load,
    date_by_another_column,
    date_by_another_sensitive_column,
    date_otherwise_without_a_history,
    leave_out_of_the_key,
    retire_from_the_key,
    retire_the_reference,
    pair_otherwise,
]


@pytest.mark.parametrize("deed", DEEDS)
def test_only_stewards_may_disconnect_technical_columns_from_sensitive_columns(person, deed: Deed) -> None:
    with acting_as(ensure_user(name="mia", roles=["editor"])), pytest.raises(MetadataError) as refused:
        deed(person)
    assert refused.value.code == "not_permitted"
    assert "rows loaded so far" in refused.value.message
    assert TargetDataset.objects.get(pk=person.pk).history_policy == DATED
    with acting_as(ensure_user(name="stella", roles=["editor", "steward"])):
        deed(person)


def test_editor_may_not_swap_the_time_of_versions_by_renaming_columns(person, tmp_path: Path) -> None:
    """Check that columns are compared, not names: the policy is the same before and after."""
    names = {"name: born\n": "name: birth\n", "name: hired\n": "name: born\n"}
    with acting_as(ensure_user(name="mia", roles=["editor"])), pytest.raises(MetadataError, match="born|birth"):
        import_with(tmp_path / "by_editor", names)
    with acting_as(ensure_user(name="stella", roles=["editor", "steward"])):
        import_with(tmp_path / "by_steward", names)
    assert not column_of(person, "born").pii


def test_editor_may_rename_sensitive_parts_of_technical_columns(person) -> None:
    with acting_as(ensure_user(name="mia", roles=["editor"])):
        for name, new in (("born", "birth"), ("email", "mail"), ("doctor", "surgeon")):
            column = column_of(person, name)
            rename_column(column=column, name=new, expected_version=column.version)
        for dataset, new in ((person, "patient"), (TargetDataset.objects.get(name="place"), "site")):
            row = TargetDataset.objects.get(pk=dataset.pk)
            rename_dataset(dataset=row, name=new, expected_version=row.version)
    assert TargetDataset.objects.get(pk=person.pk).history_policy["time"] == "birth"


def test_editor_may_change_parts_of_technical_columns_that_are_not_sensitive(person) -> None:
    with acting_as(ensure_user(name="mia", roles=["editor"])):
        update(person, history_policy=DATED | {"late": "refuse", "profile": "dbt"})
        number, office = column_of(person, "number"), column_of(person, "office")
        key = {"nullable": False, "role": "business_key", "key_ordinal": 3}
        update_target_column(column=office, expected_version=office.version, **key)
        update_target_column(column=number, expected_version=number.version, role="attribute", key_ordinal=None)
        reference = reference_of(person, "office")
        retire_reference(reference=reference, expected_version=reference.version)


def test_editor_may_replace_a_time_of_versions_that_is_not_sensitive(person) -> None:
    TargetDataset.objects.filter(pk=person.pk).update(history_policy=DATED | {"time": "hired"})
    with acting_as(ensure_user(name="mia", roles=["editor"])):
        update(person, history_policy={})


def test_sensitive_column_named_load_does_not_date_rows_that_the_load_dates(person) -> None:
    TargetColumnFactory(dataset=person, name="load", pii=True)
    TargetDataset.objects.filter(pk=person.pk).update(history_policy={})
    with acting_as(ensure_user(name="mia", roles=["editor"])):
        update(person, history_policy=DATED | {"time": "hired"})


def test_other_changes_do_not_read_the_parts_of_technical_columns(person, monkeypatch) -> None:
    def fail(*_, **__):
        raise AssertionError("parts of technical columns are read")

    monkeypatch.setattr(lowered_classification, "technical_parts", fail)
    with acting_as(ensure_user(name="mia", roles=["editor"])):
        update_schema(schema=person.schema, expected_version=person.schema.version, name="other")
