"""Tests of models in YAML files: the SELECT and descriptions; columns that differ from the SELECT are refused."""

from pathlib import Path

import pytest
from django.db import transaction

from elevata.core.errors import MetadataError
from metadata.models import TargetColumn, TargetDataset
from metadata.selectors.dataset_states import dataset_states
from metadata.services import lifecycle
from metadata.services.datasets import targets
from metadata.services.exchange.metadata_files import exported_files, import_metadata
from tests.factories import TargetColumnFactory, TargetDatasetFactory, TargetSchemaFactory

pytestmark = pytest.mark.django_db

MODEL = """\
format: metadata/v1
dataset:
  schema: bizcore
  name: sales
  select: |
    SELECT id, amount * 2 AS twice
    FROM rawcore.orders
"""


@pytest.fixture
def orders() -> TargetDataset:
    dataset = TargetDatasetFactory(name="orders")
    TargetColumnFactory(dataset=dataset, name="id", data_type="bigint", nullable=False, key_ordinal=1)
    TargetColumnFactory(dataset=dataset, name="amount", data_type="decimal", precision=10, scale=2)
    TargetSchemaFactory(name="bizcore")
    return dataset


@pytest.fixture
def take(tmp_path: Path):
    def imported(*texts: str):
        for number, text in enumerate(texts):
            (tmp_path / f"{number}.yaml").write_text(text)
        return import_metadata(tmp_path)

    return imported


def test_model_file_with_only_a_select_creates_its_columns(orders, take) -> None:
    take(MODEL)
    rows = TargetColumn.objects.filter(dataset__name="sales").order_by("ordinal")
    assert [(row.name, str(row.type), row.nullable) for row in rows] == [
        ("id", "bigint", False),
        ("twice", "decimal(12,2)", True),
    ]


def test_a_file_describes_columns_and_names_the_key(orders, take) -> None:
    take(MODEL + "  columns:\n    - name: id\n      business_key: 1\n      description: Number of the order\n")
    row = TargetColumn.objects.get(dataset__name="sales", name="id")
    assert (row.role, row.description, str(row.type)) == ("business_key", "Number of the order", "bigint")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("- name: id\n      type: string", "10:13: bizcore.sales.id: type: is string here and bigint in the SELECT"),
        ("- name: other", "9:13: bizcore.sales.other: name: is no column of the SELECT"),
        ("- name: id\n      nullable: true", "is true here and false in the SELECT"),
        ("- name: twice\n      expression: amount * 2", "follows from the SELECT"),
    ],
)
def test_a_column_that_differs_from_the_select_is_refused(orders, take, columns, message) -> None:
    with pytest.raises(MetadataError) as refused:
        take(f"{MODEL}  columns:\n    {columns}\n")
    assert message in refused.value.one_line()


def test_a_column_of_another_dataset_needs_a_type(orders, take) -> None:
    text = "format: metadata/v1\ndataset:\n  schema: bizcore\n  name: plain\n  columns:\n    - name: id\n"
    with pytest.raises(MetadataError, match="type: is missing"):
        take(text)


def test_models_are_imported_after_the_models_that_they_read(orders, take) -> None:
    above = (
        MODEL.replace("sales", "above")
        .replace("id, amount * 2 AS twice", "twice")
        .replace("rawcore.orders", "bizcore.sales")
    )
    take(above, MODEL)
    assert TargetColumn.objects.get(dataset__name="above").data_type == "decimal"


def test_a_wrong_select_is_refused_at_its_place(orders, take) -> None:
    with pytest.raises(MetadataError) as refused:
        take(MODEL.replace("amount", "price"))
    assert "0.yaml:5:11: bizcore.sales: select: line 1, column 12" in refused.value.one_line()


def test_models_round_trip_through_export_and_import(orders, tmp_path: Path) -> None:
    with transaction.atomic():
        schema = TargetSchemaFactory(name="bizcore")
        sales = targets.create_target_dataset(
            schema=schema, name="sales", select="SELECT * FROM rawcore.orders", business_key=["id"], historize=True
        )
        targets.create_target_dataset(
            schema=schema,
            name="last",
            select="SELECT id, amount AS a FROM bizcore.sales_hist\n-- twice",
            increment={"by": "changed_keys", "input": "bizcore.sales_hist", "columns": {"id": "id"}},
        )
        row = sales.columns.get(name="amount")
        upstream = orders.columns.get(name="amount")
        lifecycle.rename_column(column=upstream, name="net", expected_version=upstream.version)
        row.refresh_from_db()
        files, states = exported_files(), dataset_states()
        transaction.set_rollback(True)
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    TargetDataset.objects.all().delete()
    import_metadata(tmp_path)
    assert exported_files() == files
    assert dataset_states() == states
    assert import_metadata(tmp_path).changes == []


SOURCE = """\
format: metadata/v1
system:
  short_name: hr
  name: HR
  datasets:
    - name: emp
      location: emp.csv
      columns:
        - {name: id, type: integer, business_key: 1}
        - {name: salary, type: integer}
"""
PAY = """\
format: metadata/v1
dataset:
  schema: bizcore
  name: pay
  select: |
    SELECT salary AS base, base + id AS total FROM rawcore.rc_hr_emp
"""


def test_import_refuses_a_new_column_that_changes_the_meaning_of_an_unchanged_model(take) -> None:
    TargetSchemaFactory(name="bizcore")
    take(SOURCE, PAY)
    grown = SOURCE + "        - {name: base, type: integer}\n"
    for files in ((grown, PAY), (grown,)):
        with pytest.raises(MetadataError, match="base is the result base and would become rc_hr_emp.base"):
            take(*files)
    take(grown, PAY.replace("base + id", "salary + id"))
    assert TargetColumn.objects.filter(dataset__name="rc_hr_emp", name="base").exists()
    take(grown, PAY)  # a changed SELECT has its new meaning
