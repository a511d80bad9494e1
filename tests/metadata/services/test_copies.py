"""Tests of copies of datasets in the metadata: refusals, files and change log, and the report of sensitive columns."""

import json
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError
from metadata.domain.load_policy import COPIES
from metadata.models import DatasetCopy, System, TargetDataset, TargetSchema
from metadata.selectors.dataset_states import dataset_state
from metadata.services.copies import create_copy, delete_copy, update_copy
from metadata.services.datasets.targets import create_target_dataset, update_schema, update_target_dataset
from metadata.services.deletion import delete_system
from metadata.services.exchange.metadata_files import export_metadata, import_metadata
from metadata.services.lifecycle import rename_dataset
from metadata.services.sources import create_system, update_system
from tests.metadata.contracts import sales_mart

pytestmark = pytest.mark.django_db


@pytest.fixture
def mart(db: None) -> TargetDataset:
    return sales_mart()


@pytest.fixture
def bi(db: None) -> System:
    return create_system(name="BI", short_name="bi", kind="jdbc", location="postgresql://bi@db.example.org:5432/bi")


def refused(function, **arguments) -> MetadataError:
    with pytest.raises(MetadataError) as caught:
        function(**arguments)
    return caught.value


def test_copy_has_the_name_of_its_dataset_by_default(mart, bi):
    copy = create_copy(dataset=mart, to=bi)
    assert (copy.table_name, copy.mode, copy.sensitive) == (str(mart), "replace", "leave_out")
    assert ChangeLogEntry.objects.order_by("-pk").first().subject_name == f"{mart} in bi"


def test_copy_to_a_system_of_files_is_refused(mart):
    system = create_system(name="Files", short_name="files", kind="files", location="/data")
    assert "takes no copies" in refused(create_copy, dataset=mart, to=system).message


def test_copy_to_a_table_of_another_copy_is_refused(mart, bi):
    create_copy(dataset=mart, to=bi, table="mart.sales")
    assert refused(create_copy, dataset=mart, to=bi, table="Mart.Sales").code == "name_taken"


def test_name_that_is_too_long_for_the_target_is_refused(mart, bi):
    assert refused(create_copy, dataset=mart, to=bi, table=f"mart.{'x' * 64}").code == "too_long"


def test_copy_of_a_view_is_refused(mart, bi):
    TargetDataset.objects.filter(pk=mart.pk).update(materialization="view")
    mart.refresh_from_db()
    assert "is a view" in refused(create_copy, dataset=mart, to=bi).message


def test_dataset_with_a_copy_does_not_become_a_view(mart, bi):
    copy = create_copy(dataset=mart, to=bi)
    problem = refused(update_target_dataset, dataset=mart, expected_version=mart.version, materialization="view")
    assert (problem.code, problem.field) == ("in_use", "materialization")
    assert "has a copy in bi" in problem.message
    delete_copy(copy=copy, expected_version=copy.version)
    changed = update_target_dataset(dataset=mart, expected_version=mart.version, materialization="view")
    assert changed.materialization == "view"


def test_file_that_makes_a_dataset_with_a_copy_a_view_is_refused(mart, bi, tmp_path: Path):
    create_copy(dataset=mart, to=bi)
    export_metadata(tmp_path)
    file = tmp_path / "targets" / mart.schema.name / f"{mart.name}.yaml"
    lines = file.read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.startswith("  name:"))
    file.write_text("".join([*lines[: at + 1], "  materialization: view\n", *lines[at + 1 :]]))
    assert refused(import_metadata, path=tmp_path, check=True).code == "in_use"


def test_dataset_keeps_a_name_that_the_target_of_its_copy_takes(mart, bi):
    create_copy(dataset=mart, to=bi)
    problem = refused(rename_dataset, dataset=mart, expected_version=mart.version, name="m" * 64)
    assert (problem.code, problem.field) == ("too_long", "name")
    DatasetCopy.objects.update(table="mart.sales")
    assert rename_dataset(dataset=mart, expected_version=mart.version, name="m" * 64).name == "m" * 64


@pytest.mark.parametrize("name", ["elevata_copies", "elevata_copy_1", "Elevata_Copies"])
def test_dataset_with_a_copy_does_not_get_a_name_of_the_products_own_tables(mart, bi, name):
    create_copy(dataset=mart, to=bi)
    problem = refused(rename_dataset, dataset=mart, expected_version=mart.version, name=name)
    assert (problem.code, problem.field) == ("reserved", "name")
    DatasetCopy.objects.update(table="mart.sales")
    assert rename_dataset(dataset=mart, expected_version=mart.version, name=name).name == name


def test_dataset_is_not_renamed_to_the_table_of_another_copy(mart, bi):
    other = create_target_dataset(schema=mart.schema, name="other")
    create_copy(dataset=mart, to=bi)
    existing = create_copy(dataset=other, to=bi, table=f"{mart.schema}.Taken")
    problem = refused(rename_dataset, dataset=mart, expected_version=mart.version, name="taken")
    assert (problem.code, problem.field) == ("name_taken", "name")
    assert f"{other} is copied to {mart.schema}.Taken in bi" in problem.message
    delete_copy(copy=existing, expected_version=existing.version)
    assert rename_dataset(dataset=mart, expected_version=mart.version, name="taken").name == "taken"


def test_schema_is_not_renamed_to_the_tables_of_other_copies(mart, bi):
    other = create_target_dataset(schema=mart.schema, name="other")
    create_copy(dataset=mart, to=bi)
    existing = create_copy(dataset=other, to=bi, table=f"Taken.{mart.name}")
    schema = mart.schema
    problem = refused(update_schema, schema=schema, expected_version=schema.version, name="taken")
    assert (problem.code, problem.field, problem.where) == ("name_taken", "name", "taken")
    assert TargetSchema.objects.get(pk=schema.pk).name == str(mart).split(".")[0]
    delete_copy(copy=existing, expected_version=existing.version)
    create_copy(dataset=other, to=bi)
    assert update_schema(schema=schema, expected_version=schema.version, name="taken").name == "taken"


def test_schema_does_not_get_a_name_that_the_target_of_a_copy_refuses(mart, bi):
    copy = create_copy(dataset=mart, to=bi)
    schema = mart.schema
    problem = refused(update_schema, schema=schema, expected_version=schema.version, name="m" * 64)
    assert (problem.code, problem.field) == ("too_long", "name")
    update_copy(copy=copy, expected_version=copy.version, table="mart.sales")
    assert update_schema(schema=schema, expected_version=schema.version, name="m" * 64).name == "m" * 64


def test_file_that_renames_a_dataset_to_the_table_of_another_copy_is_refused(mart, bi, tmp_path: Path):
    other = create_target_dataset(schema=mart.schema, name="other")
    create_copy(dataset=mart, to=bi)
    create_copy(dataset=other, to=bi, table=f"{mart.schema}.taken")
    export_metadata(tmp_path)
    file = tmp_path / "targets" / mart.schema.name / f"{mart.name}.yaml"
    file.write_text(file.read_text().replace(f"name: {mart.name}\n", "name: taken\n"))
    assert refused(import_metadata, path=tmp_path, check=True).code == "name_taken"


def change_file(folder: Path, dataset: TargetDataset, *changes: tuple[str, str]) -> None:
    file = folder / "targets" / dataset.schema.name / f"{dataset.name}.yaml"
    text = file.read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    file.write_text(text)


@pytest.mark.parametrize("name", ["a_first", "z_last"])
def test_file_gives_a_renamed_dataset_the_table_that_another_copy_leaves(mart, bi, tmp_path: Path, name: str):
    other = create_target_dataset(schema=mart.schema, name=name)
    renamed, moved = create_copy(dataset=mart, to=bi), create_copy(dataset=other, to=bi, table=f"{mart.schema}.taken")
    export_metadata(tmp_path)
    change_file(tmp_path, mart, (f"name: {mart.name}\n", "name: taken\n"))
    change_file(tmp_path, other, (f"table: {mart.schema}.taken", "table: bi.other"))
    assert import_metadata(tmp_path, check=True).count("updated") == 2
    import_metadata(tmp_path)
    for copy in (renamed, moved):
        copy.refresh_from_db()
    assert (renamed.table_name, moved.table_name) == (f"{mart.schema}.taken", "bi.other")
    entry = ChangeLogEntry.objects.filter(subject_kind="copy").order_by("-pk").first()
    assert json.loads(entry.changes)["table"] == {"before": f"{mart.schema}.taken", "after": "bi.other"}


def test_copies_swap_their_tables_by_files(mart, bi, tmp_path: Path):
    other = create_target_dataset(schema=mart.schema, name="other")
    first, second = create_copy(dataset=mart, to=bi, table="bi.x"), create_copy(dataset=other, to=bi, table="bi.y")
    export_metadata(tmp_path)
    change_file(tmp_path, mart, ("table: bi.x", "table: bi.y"))
    change_file(tmp_path, other, ("table: bi.y", "table: bi.x"))
    import_metadata(tmp_path)
    for copy in (first, second):
        copy.refresh_from_db()
    assert (first.table_name, second.table_name) == ("bi.y", "bi.x")


def test_file_moves_a_copy_to_another_system_whose_table_another_dataset_gets(mart, bi, tmp_path: Path):
    lake = create_system(name="Lake", short_name="lake", kind="duckdb", location="{{ data_dir }}/copies/lake.duckdb")
    other = create_target_dataset(schema=mart.schema, name="other")
    copy, moved = create_copy(dataset=mart, to=bi), create_copy(dataset=other, to=bi, table=f"{mart.schema}.taken")
    export_metadata(tmp_path)
    change_file(tmp_path, mart, (f"name: {mart.name}\n", "name: taken\n"))
    change_file(tmp_path, other, ("to: bi", "to: lake"))
    import_metadata(tmp_path)
    for row in (copy, moved):
        row.refresh_from_db()
    assert (copy.system, copy.table_name) == (bi, f"{mart.schema}.taken")
    assert (moved.system, moved.table_name) == (lake, f"{mart.schema}.taken")


def test_change_of_a_dataset_without_a_new_name_asks_no_copies(mart, bi):
    create_copy(dataset=mart, to=bi)
    with CaptureQueriesContext(connection) as queries:
        update_target_dataset(dataset=mart, expected_version=mart.version, description="Sales")
    assert not [query for query in queries if 'FROM "metadata_datasetcopy"' in query["sql"]]


def test_system_with_a_copy_stays(mart, bi):
    create_copy(dataset=mart, to=bi)
    assert refused(delete_system, system=bi, expected_version=bi.version).code == "in_use"
    another = {"kind": "files", "location": "/data"}
    assert refused(update_system, system=bi, expected_version=bi.version, **another).code == "in_use"


def test_system_for_copies_has_no_sources(db):
    assert refused(create_system, name="X", short_name="x", kind="duckdb", location="/data/x.csv").code
    system = create_system(name="Lake", short_name="lake", kind="delta", location="{{ data_dir }}/copies/lake")
    assert system.kind == "delta"


def test_copies_go_through_files(mart, bi, tmp_path: Path):
    create_copy(dataset=mart, to=bi, table="bi.sales", mode="changes", sensitive="hash")
    export_metadata(tmp_path)
    text = (tmp_path / "targets" / mart.schema.name / f"{mart.name}.yaml").read_text()
    assert "to: bi" in text
    assert "mode: changes" in text
    key = DatasetCopy.objects.get().key
    DatasetCopy.objects.all().delete()
    import_metadata(tmp_path)
    copy = DatasetCopy.objects.get()
    assert (copy.key, copy.system, copy.table_name) == (key, bi, "bi.sales")
    assert (copy.mode, copy.sensitive) == ("changes", "hash")


def test_copy_is_changed_and_deleted(mart, bi):
    copy = create_copy(dataset=mart, to=bi)
    copy = update_copy(copy=copy, expected_version=copy.version, mode="changes")
    assert copy.mode == "changes"
    delete_copy(copy=copy, expected_version=copy.version)
    assert not DatasetCopy.objects.exists()


def test_only_copies_with_sensitive_columns_are_part_of_the_state(mart, bi):
    copy = create_copy(dataset=mart, to=bi)
    assert COPIES not in (dataset_state(mart).load_policy or {})
    update_copy(copy=copy, expected_version=copy.version, sensitive="include")
    rule = {"to": "bi", "at": bi.location, "table": "", "sensitive": "include"}
    assert dataset_state(mart).load_policy[COPIES] == {str(copy.key): rule}
