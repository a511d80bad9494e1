"""Tests of CSV files with source datasets and their columns."""

from pathlib import Path

import pytest
from django.db import transaction

from elevata.core.errors import MetadataError, Refusals
from metadata.models import SourceColumn, SourceDataset, TargetColumn, TargetDataset
from metadata.services.exchange.metadata_files import export_metadata, import_metadata

pytestmark = pytest.mark.django_db

SYSTEM = """format: metadata/v1
system:
  short_name: shop
  name: Shop
  location: /srv/shop
"""
ORDERS = """  datasets:
    - name: orders
      description: All orders
      location: orders.csv
      options: {delimiter: ;}
      columns:
        - {name: number, type: integer, business_key: 1, nullable: false, description: The number}
        - {name: e-mail, type: string(80), target_name: email, pii: true, tags: [person, contact]}
"""
HEADER = "system,dataset,column,location,type,business_key,nullable,target_name,pii,description,tags"
LINES = (
    HEADER,
    "shop,orders,,orders.csv,,,,,,All orders,",
    "shop,orders,number,,integer,1,no,,,The number,",
    "shop,orders,e-mail,,string(80),,,email,yes,,person; contact",
)


def yaml_file(folder: Path, content: str) -> Path:
    path = folder / "shop.yaml"
    path.write_text(content)
    return path


def csv_file(folder: Path, *lines: str) -> Path:
    path = folder / "sources.csv"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def refused(path: Path) -> list[MetadataError]:
    with pytest.raises(MetadataError) as raised:
        import_metadata(path)
    return raised.value.errors if isinstance(raised.value, Refusals) else [raised.value]


@pytest.fixture
def orders(tmp_path: Path) -> SourceDataset:
    import_metadata(yaml_file(tmp_path, SYSTEM + ORDERS))
    return SourceDataset.objects.get(name="orders")


def test_csv_and_yaml_of_the_same_source_import_identically(tmp_path: Path) -> None:
    (tmp_path / "system.yaml").write_text(SYSTEM)
    import_metadata(tmp_path / "system.yaml")
    for kind, path in (
        ("yaml", yaml_file(tmp_path, SYSTEM + ORDERS.replace("      options: {delimiter: ;}\n", ""))),
        ("csv", csv_file(tmp_path, *LINES)),
    ):
        with transaction.atomic():
            import_metadata(path)
            export_metadata(tmp_path / kind)
            transaction.set_rollback(True)
    for name in ("systems/shop.yaml", "targets/rawcore/rc_shop_orders.yaml"):
        assert (tmp_path / "csv" / name).read_text() == (tmp_path / "yaml" / name).read_text()


def test_csv_import_of_an_unchanged_source_changes_nothing(tmp_path: Path, orders: SourceDataset) -> None:
    report = import_metadata(csv_file(tmp_path, *LINES))
    assert (report.changes, report.unchanged) == ([], 3)


def test_csv_import_of_a_source_keeps_fields_missing_in_the_header(tmp_path: Path, orders: SourceDataset) -> None:
    path = csv_file(tmp_path, "system;dataset;column;sensitivity", "shop;orders;e-mail;restricted")
    assert [name for _, _, name in import_metadata(path).changes] == ["shop.orders.e-mail"]
    row = SourceColumn.objects.get(name="e-mail")
    assert (row.sensitivity, str(row.type), row.pii) == ("restricted", "string(80)", True)
    assert row.tags == ["person", "contact"]
    orders.refresh_from_db()
    assert (orders.description, orders.options, orders.system.name) == ("All orders", {"delimiter": ";"}, "Shop")
    assert [row.name for row in orders.columns.order_by("ordinal")] == ["number", "e-mail"]
    assert orders.columns.get(name="number").key_ordinal == 1


def test_a_new_column_of_a_source_reaches_its_generated_targets(tmp_path: Path, orders: SourceDataset) -> None:
    import_metadata(csv_file(tmp_path, "system,dataset,column,type", "shop,orders,total,float"))
    datasets = TargetColumn.objects.filter(name="total").values_list("dataset__name", flat=True)
    assert {"raw_shop_orders", "stg_shop_orders", "rc_shop_orders"} <= set(datasets)


def test_csv_import_generates_targets_of_an_ungenerated_source_only_on_request(tmp_path: Path) -> None:
    import_metadata(
        yaml_file(tmp_path, SYSTEM + ORDERS.replace("      options", "      generate: false\n      options"))
    )
    import_metadata(csv_file(tmp_path, "system,dataset,column,type", "shop,orders,total,float"))
    assert not TargetDataset.objects.exists()
    import_metadata(csv_file(tmp_path, "system,dataset,column,generate", "shop,orders,,true"))
    assert TargetDataset.objects.filter(name="rc_shop_orders").exists()


@pytest.mark.parametrize(
    ("line", "field", "message"),
    [
        ("till,orders,number,,integer,,,,,,", "system", "there is no system 'till'"),
        ("shop,returns,number,,integer,,,,,,", "location", "is missing"),
        ("shop,orders,number,,,,,,,,", "type", "is missing"),
        ("shop,orders,number,,integr,,,,,,", "type", "'integr' is not a type"),
        ("shop,,number,,integer,,,,,,", "dataset", "is empty; every line names it"),
    ],
)
def test_csv_faults_of_sources_are_reported_with_line_and_field(
    tmp_path: Path, orders: SourceDataset, line: str, field: str, message: str
) -> None:
    (error,) = refused(csv_file(tmp_path, HEADER, line))
    assert (error.line, error.field) == ("2", field)
    assert error.message.startswith(message)


def test_a_new_column_without_its_type_in_the_header_is_refused(tmp_path: Path, orders: SourceDataset) -> None:
    (error,) = refused(csv_file(tmp_path, "system,dataset,column", "shop,orders,total"))
    assert (error.code, error.field, error.line) == ("missing_field", "type", "2")


def test_csv_of_sources_refuses_fields_of_targets(tmp_path: Path, orders: SourceDataset) -> None:
    (error,) = refused(csv_file(tmp_path, "system,dataset,column,expression", "shop,orders,number,1"))
    assert (error.code, error.field) == ("unknown_field", "expression")
    assert "target_name" in error.message


def test_exported_csv_files_change_nothing_when_they_are_imported(tmp_path: Path, orders: SourceDataset) -> None:
    column = orders.columns.get(name="number")
    SourceColumn.objects.filter(pk=column.pk).update(description='=1+1, "quoted"\nand more', sensitivity="internal")
    TargetDataset.objects.filter(name="rc_shop_orders").update(tags=["a", "b"], owner="'quoted'")
    export_metadata(tmp_path / "csv", as_csv=True)
    for name in ("datasets.csv", "sources.csv"):
        report = import_metadata(tmp_path / "csv" / name)
        assert report.changes == []
        assert report.unchanged > 0


def test_exported_formula_is_escaped_for_spreadsheets(tmp_path: Path, orders: SourceDataset) -> None:
    SourceColumn.objects.filter(name="number").update(description="=1+1")
    export_metadata(tmp_path, as_csv=True)
    assert '"\'=1+1"' in (tmp_path / "sources.csv").read_text()


def test_edited_csv_export_changes_the_edited_column(tmp_path: Path, orders: SourceDataset) -> None:
    export_metadata(tmp_path, as_csv=True)
    path = tmp_path / "sources.csv"
    path.write_text(path.read_text().replace("The number", "The number of the order"))
    assert import_metadata(path).changes == [("updated", "source column", "shop.orders.number")]
