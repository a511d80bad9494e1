"""Tests of imports with many faults, and of CSV files: all faults in one pass, nothing written."""

from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from elevata.core.errors import MetadataError, Refusals
from metadata.models import TargetColumn, TargetDataset
from metadata.services.exchange.metadata_files import export_metadata, import_metadata

pytestmark = pytest.mark.django_db

HEADER = "schema,dataset,column,type,business_key,nullable,description,tags\n"


def csv_file(folder: Path, *lines: str) -> Path:
    path = folder / "columns.csv"
    path.write_text(HEADER + "".join(f"{line}\n" for line in lines))
    return path


def refused(path: Path) -> Refusals:
    with pytest.raises(Refusals) as raised:
        import_metadata(path)
    assert not TargetDataset.objects.exists()
    return raised.value


def test_import_with_many_faults_counts_all_and_writes_nothing(tmp_path: Path) -> None:
    lines = [f"bizcore,totals,col_{n},{'strng' if n % 2 else 'string'},,,," for n in range(500)]
    problem = refused(csv_file(tmp_path, *lines))
    assert (problem.code, problem.total, len(problem.listed)) == ("unknown_type", 250, Refusals.MOST_LISTED)
    first = problem.listed[0]
    assert (first.place, first.where, first.field) == (f"{tmp_path}/columns.csv:3", "bizcore.totals.col_1", "type")


def test_import_reports_syntax_and_rule_faults_in_one_pass(tmp_path: Path) -> None:
    path = csv_file(
        tmp_path,
        "bizcore,totals,amount,strng,,,,",
        "bizcore,totals,row_hash,string,,,,",
        "bizcore,totals,good,string,,maybe,,",
        "bizcore,totals,short,string",
        "bizcore,,orphan,string,,,,",
    )
    faults = [(error.code, error.place.rpartition(":")[2]) for error in refused(path).errors]
    assert [line for _, line in faults] == ["2", "3", "4", "5", "6"]


def test_import_omits_faults_caused_by_a_refused_column(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "format: metadata/v1\ndataset:\n  schema: bizcore\n  name: base\n  columns:\n"
        "    - {name: code, type: strng}\n    - {name: label, type: strng}\n"
    )
    (tmp_path / "b.yaml").write_text(
        "format: metadata/v1\ndataset:\n  schema: bizcore\n  name: reader\n  inputs: [{dataset: bizcore.base}]\n"
        "  columns:\n    - {name: code, type: string, inputs: [code]}\n"
    )
    problem = refused(tmp_path)
    assert [error.where for error in problem.errors] == ["bizcore.base.code", "bizcore.base.label"]


def test_a_cycle_in_lineage_is_refused_once_with_its_datasets(tmp_path: Path) -> None:
    for name, read in (("one", "two"), ("two", "three"), ("three", "one")):
        (tmp_path / f"{name}.yaml").write_text(
            f"format: metadata/v1\ndataset:\n  schema: bizcore\n  name: {name}\n"
            f"  inputs: [{{dataset: bizcore.{read}}}]\n  columns: [{{name: code, type: string}}]\n"
        )
    with pytest.raises(MetadataError) as raised:
        import_metadata(tmp_path)
    assert raised.value.code == "cycle"
    assert all(f"bizcore.{name}" in raised.value.message for name in ("one", "two", "three"))
    assert not TargetDataset.objects.exists()


LINES = (
    "bizcore,totals,,,,,All totals,a; b",
    "bizcore,totals,code,string(3),1,false,The code,",
    'bizcore,totals,amount,"decimal(9,2)",,,,money',
)
SAME = """format: metadata/v1
dataset:
  schema: bizcore
  name: totals
  description: All totals
  tags: [a, b]
  columns:
    - {name: code, type: string(3), business_key: 1, nullable: false, description: The code}
    - {name: amount, type: 'decimal(9,2)', tags: [money]}
"""


def test_csv_and_yaml_of_the_same_datasets_import_identically(tmp_path: Path) -> None:
    path = tmp_path / "totals.yaml"
    path.write_text(SAME)
    import_metadata(path)
    export_metadata(tmp_path / "yaml")
    report = import_metadata(csv_file(tmp_path, *LINES))
    assert (report.changes, report.unchanged) == ([], 3)
    TargetDataset.objects.all().delete()
    import_metadata(tmp_path / "columns.csv")
    export_metadata(tmp_path / "csv")
    written = [(tmp_path / kind / "targets/bizcore/totals.yaml").read_text() for kind in ("csv", "yaml")]
    assert written[0] == written[1]


def test_csv_import_keeps_fields_missing_in_the_header(tmp_path: Path) -> None:
    (tmp_path / "totals.yaml").write_text(SAME)
    import_metadata(tmp_path / "totals.yaml")
    path = tmp_path / "levels.csv"
    path.write_text("schema,dataset,column,sensitivity\nbizcore,totals,amount,internal\n")
    assert [name for _, _, name in import_metadata(path).changes] == ["bizcore.totals.amount"]
    amount = TargetColumn.objects.get(name="amount")
    assert (amount.sensitivity, str(amount.type), amount.tags) == ("internal", "decimal(9,2)", ["money"])
    assert [row.name for row in TargetColumn.objects.order_by("ordinal")] == ["code", "amount"]
    assert TargetDataset.objects.get(name="totals").description == "All totals"


@pytest.mark.parametrize(
    ("header", "codes"),
    [
        ("schema,dataset,typ\n", {"unknown_field", "missing_field"}),
        ("schema,dataset,column,column\n", {"duplicate_field"}),
        ("", {"empty"}),
    ],
)
def test_a_wrong_header_is_refused(tmp_path: Path, header: str, codes: set[str]) -> None:
    (tmp_path / "a.csv").write_text(header)
    with pytest.raises(MetadataError) as raised:
        import_metadata(tmp_path / "a.csv")
    errors = raised.value.errors if isinstance(raised.value, Refusals) else [raised.value]
    assert {error.code for error in errors} == codes


def test_import_check_query_count_does_not_grow_with_columns(tmp_path: Path) -> None:
    import_metadata(csv_file(tmp_path, "bizcore,warm,col,string,,,,"), check=True)
    counts = []
    for number in (5, 50):
        path = csv_file(tmp_path, *(f"bizcore,totals,col_{n},string,,,," for n in range(number)))
        with CaptureQueriesContext(connection) as queries:
            import_metadata(path, check=True)
        counts.append(len(queries))
    # SQLite takes the rows of a statement in batches.
    assert counts[1] - counts[0] <= 3
