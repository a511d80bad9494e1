"""Tests of sensitive columns: inheritance, and refusal of changes that make values readable without permission."""

import re
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from hypothesis import given
from hypothesis import strategies as st

from elevata.accounts.actors import acting_as
from elevata.accounts.services.users import ensure_user, grant_role
from elevata.core.errors import MetadataError
from metadata.domain.sensitivity import LEVELS, is_sensitive, propagate_sensitivity
from metadata.models import SourceDataset, TargetColumn, TargetDataset
from metadata.selectors.classification import classification, source_classification
from metadata.services.datasets.generation import generate_targets
from metadata.services.datasets.targets import (
    create_target_column,
    set_dataset_inputs,
    update_target_column,
    update_target_dataset,
)
from metadata.services.deletion import delete_column
from metadata.services.exchange.metadata_files import export_metadata, import_metadata
from metadata.services.lifecycle import rename_column, retire_column
from metadata.services.sources import create_source_column, update_source_column
from tests.factories import SourceColumnFactory, SourceDatasetFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def people() -> TargetDataset:
    """Return ``rawcore.rc_crm_person`` of a source with the personal column ``email``."""
    source = SourceDatasetFactory(system__short_name="crm", name="person")
    SourceColumnFactory(dataset=source, name="person_no", key_ordinal=1)
    SourceColumnFactory(dataset=source, name="email", pii=True)
    SourceColumnFactory(dataset=source, name="city")
    generate_targets(source_dataset=source)
    return TargetDataset.objects.get(name="rc_crm_person")


@pytest.fixture
def editor() -> User:
    return ensure_user(name="mia", roles=["editor"])


def stage(people: TargetDataset) -> TargetDataset:
    return people.inputs.get().upstream


def forget_own(*datasets: TargetDataset) -> None:
    """Remove the classification that generation copied, leaving only the inherited one."""
    TargetColumn.objects.filter(dataset__in=datasets).update(pii=False)


def sensitive(dataset: TargetDataset) -> set[str]:
    return set(classification(dataset).sensitive_present)


# --- the rules ---------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["", *LEVELS])
@pytest.mark.parametrize("of_dataset", ["", *LEVELS])
def test_column_level_has_precedence_over_the_dataset_level(level: str, of_dataset: str):
    expected = (level or of_dataset) in ("confidential", "restricted")
    assert is_sensitive(personal=False, level=level, of_dataset=of_dataset) is expected
    assert is_sensitive(personal=True, level=level, of_dataset=of_dataset)


@given(st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 9), max_size=3)), st.sets(st.integers(0, 9)))
def test_column_that_reads_a_sensitive_column_is_sensitive(reads: dict[int, list[int]], own: set[int]):
    reached = propagate_sensitivity(own, reads)
    assert reached >= own
    for reader, inputs in reads.items():
        assert (reader in reached) == (reader in own or bool(reached & set(inputs)))


# --- inheritance -------------------------------------------------------------------------------


def test_sensitivity_is_inherited_from_the_source_through_every_layer(people: TargetDataset):
    raw = stage(people).inputs.get().upstream
    forget_own(people, stage(people), raw)
    assert sensitive(raw) == sensitive(stage(people)) == sensitive(people) == {"email"}
    assert set(source_classification(people.generated_from).sensitive_present) == {"email"}


def test_history_inherits_sensitivity_from_its_base(people: TargetDataset):
    assert sensitive(people.history) == {"email"}


def test_a_new_column_that_computes_from_a_sensitive_one_is_sensitive(people: TargetDataset, editor: User):
    with acting_as(editor):
        create_target_column(dataset=people, name="mail_domain", type="string", expression="substr(email, 3)")
        create_target_column(dataset=people, name="town", type="string", expression="upper(city)")
    assert sensitive(people) == {"email", "mail_domain"}


def test_expression_makes_a_column_sensitive_regardless_of_its_recorded_inputs(people: TargetDataset, editor: User):
    harmless = stage(people).columns.get(name="city")
    with acting_as(editor):
        create_target_column(
            dataset=people, name="x", type="string", expression="upper(email)", inputs=[harmless], sensitivity="public"
        )
    assert "x" in sensitive(people)


def test_raw_column_also_inherits_from_the_source_column_of_its_name(people: TargetDataset, editor: User):
    """Check that a raw column inherits from the source column of its name, too.

    A load uses that column once the recorded input is retired, and the table still has the values it loaded.
    """
    raw = stage(people).inputs.get().upstream
    with acting_as(editor):
        spare = create_source_column(source_dataset=people.generated_from, name="spare", type="string")
        rename_column(column=raw.columns.get(name="email"), name="mail", expected_version=1)
        create_target_column(dataset=raw, name="email", type="string", inputs=[spare])
        spare = update_source_column(source_column=spare, expected_version=spare.version, active=False)
        assert sensitive(raw) == {"mail", "email"}
        update_source_column(source_column=spare, expected_version=spare.version, active=True)
    assert sensitive(raw) == {"mail", "email"}


def test_retired_columns_and_former_names_remain_sensitive(people: TargetDataset, editor: User):
    with acting_as(editor):
        column = rename_column(column=people.columns.get(name="email"), name="mail", expected_version=1)
        retire_column(column=column, expected_version=column.version)
    assert classification(people).sensitive_names == {"email", "mail"}


def test_dataset_level_applies_to_columns_without_a_level(people: TargetDataset):
    TargetDataset.objects.filter(pk=people.pk).update(sensitivity="restricted")
    people.columns.filter(name="city").update(sensitivity="public")
    assert "person_no" in sensitive(people)
    assert "city" not in sensitive(people)


# --- lowered classifications -------------------------------------------------------------------


def lower_own(people: TargetDataset) -> None:
    column = people.columns.get(name="email")
    update_target_column(column=column, expected_version=column.version, pii=False)


def cut_off(people: TargetDataset) -> None:
    column = people.columns.get(name="email")
    update_target_column(
        column=column, expected_version=column.version, inputs=[stage(people).columns.get(name="city")]
    )


def compute_otherwise(people: TargetDataset) -> None:
    column = people.columns.get(name="email")
    update_target_column(column=column, expected_version=column.version, expression="upper(city)")


def delete(people: TargetDataset) -> None:
    column = people.columns.get(name="email")
    column = retire_column(column=column, expected_version=column.version)
    delete_column(column=column, expected_version=column.version)


def lower_source(people: TargetDataset) -> None:
    column = people.generated_from.columns.get(name="email")
    update_source_column(source_column=column, expected_version=column.version, pii=False)


@pytest.mark.parametrize("deed", [lower_own, cut_off, compute_otherwise, delete, lower_source])
def test_an_editor_does_not_make_values_readable(people: TargetDataset, editor: User, deed):
    if deed is not lower_source:
        SourceDataset.objects.get(pk=people.generated_from_id).columns.update(pii=False)
        forget_own(stage(people).inputs.get().upstream, stage(people))
    if deed in (cut_off, compute_otherwise):
        forget_own(people)
        stage(people).columns.filter(name="email").update(pii=True)
    with acting_as(editor), pytest.raises(MetadataError) as refused:
        deed(people)
    assert refused.value.code == "not_permitted"
    assert "email" in sensitive(people)
    steward = ensure_user(name="stella", roles=["editor", "steward"])
    with acting_as(steward):
        deed(people)


@pytest.fixture
def filled_by_name(people: TargetDataset) -> TargetDataset:
    """Return ``people`` without recorded inputs of its columns, whose one marked column is that of the source."""
    forget_own(people, stage(people), stage(people).inputs.get().upstream)
    for column in TargetColumn.objects.filter(dataset__in=(people, stage(people).inputs.get().upstream)):
        column.inputs.all().delete()
    assert sensitive(people) == {"email"}
    return people


def import_without_former_names(folder: Path) -> None:
    export_metadata(folder)
    for path in folder.rglob("*.yaml"):
        text = re.sub(r"former_names:\n( +- .*\n)+", "former_names: []\n", path.read_text())
        path.write_text(re.sub(r"former_names: \[.+\]", "former_names: []", text))
    import_metadata(folder)


def test_former_name_by_which_a_reader_is_sensitive_is_removed_only_by_a_steward(
    filled_by_name: TargetDataset, editor: User, tmp_path: Path
):
    with acting_as(editor):
        rename_column(column=stage(filled_by_name).columns.get(name="email"), name="mail", expected_version=1)
    assert "email" in sensitive(filled_by_name)
    with acting_as(editor), pytest.raises(MetadataError, match="classified"):
        import_without_former_names(tmp_path / "by_editor")
    assert "email" in sensitive(filled_by_name)
    with acting_as(ensure_user(name="stella", roles=["editor", "steward"])):
        import_without_former_names(tmp_path / "by_steward")


def test_sensitive_source_column_with_readers_by_name_is_renamed_only_by_a_steward(
    filled_by_name: TargetDataset, editor: User
):
    column = filled_by_name.generated_from.columns.get(name="email")
    with acting_as(editor), pytest.raises(MetadataError, match="classified"):
        update_source_column(source_column=column, expected_version=column.version, name="mail")
    assert sensitive(filled_by_name) == {"email"}
    with acting_as(ensure_user(name="stella", roles=["editor", "steward"])):
        update_source_column(source_column=column, expected_version=column.version, name="mail")


def test_first_input_of_a_column_that_was_filled_by_name_does_not_free_it(filled_by_name: TargetDataset, editor: User):
    column, city = filled_by_name.columns.get(name="email"), stage(filled_by_name).columns.get(name="city")
    with acting_as(editor), pytest.raises(MetadataError, match="classified"):
        update_target_column(column=column, expected_version=column.version, inputs=[city])


def test_editor_renames_columns_upstream_of_columns_that_stay_sensitive(people: TargetDataset, editor: User):
    with acting_as(editor):
        rename_column(column=stage(people).columns.get(name="email"), name="mail", expected_version=1)
        source = people.generated_from.columns.get(name="email")
        update_source_column(source_column=source, expected_version=source.version, name="mail")
    assert sensitive(people) == {"email"}


def test_lowering_a_dataset_level_requires_a_steward_of_its_schema(people: TargetDataset):
    TargetDataset.objects.filter(pk=people.pk).update(sensitivity="confidential")
    mia = ensure_user(name="mia", roles=["editor"])
    row = TargetDataset.objects.get(pk=people.pk)
    with acting_as(mia), pytest.raises(MetadataError, match="classified"):
        update_target_dataset(dataset=row, expected_version=row.version, sensitivity="internal")
    grant_role(user=mia, role="steward", schema=people.schema.name)
    with acting_as(User.objects.get(username="mia")):
        update_target_dataset(dataset=row, expected_version=row.version, sensitivity="internal")


def test_editor_cannot_remove_the_inputs_of_a_sensitive_column(people: TargetDataset, editor: User):
    forget_own(people)
    for column in people.columns.all():
        column.inputs.all().delete()
    assert "email" in sensitive(people)
    with acting_as(editor), pytest.raises(MetadataError, match="classified"):
        set_dataset_inputs(dataset=people, expected_version=people.version, inputs=[])


def test_editor_may_raise_a_classification(people: TargetDataset, editor: User):
    column = people.columns.get(name="city")
    with acting_as(editor):
        update_target_column(column=column, expected_version=column.version, sensitivity="restricted")
    assert sensitive(people) == {"city", "email"}


def test_administrator_without_the_steward_role_cannot_lower_a_classification(people: TargetDataset):
    with acting_as(ensure_user(name="root", roles=["admin"])), pytest.raises(MetadataError, match="classified"):
        lower_source(people)
