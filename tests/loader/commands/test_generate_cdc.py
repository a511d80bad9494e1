"""``manage.py generate_cdc``: exact shares, the same bytes from the same seed, complete files."""

import csv
import io
import json
from pathlib import Path

import pytest
from django.core.management import call_command
from pyarrow import parquet

from elevata.accounts.cli import CommandExit
from loader.domain.synthetic import SyntheticPlan
from loader.management.commands import generate_cdc
from loader.management.commands.generate_cdc import write_deliveries


def generate(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Run the command; return exit code, output and the line that explains a failure."""
    out = io.StringIO()
    try:
        call_command("generate_cdc", str(folder), *arguments, stdout=out, stderr=io.StringIO())
    except CommandExit as end:
        return end.returncode, out.getvalue(), str(end)
    return 0, out.getvalue(), ""


def rows(file: Path) -> dict[tuple, tuple]:
    """Return the values of a file with two key columns, by key."""
    if file.suffix == ".parquet":
        records = [tuple(map(str, row.values())) for row in parquet.read_table(file).to_pylist()]
    else:
        with file.open(newline="") as opened:
            records = [tuple(row) for row in list(csv.reader(opened))[1:]]
    return {row[:2]: row[2:] for row in records}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_the_second_delivery_differs_by_exactly_the_given_shares(tmp_path, format):
    shares = ("--deleted", "0.15", "--updated", "0.35", "--unchanged", "0.5")
    code, out, _ = generate(tmp_path, "--initial-rows", "200", "--incremental-rows", "300", "--format", format, *shares)
    assert code == 0
    assert "30 deleted, 70 updated, 100 unchanged, 130 inserted" in out
    first, second = (rows(tmp_path / name / f"rows.{format}") for name in ("initial", "incremental"))
    common = first.keys() & second.keys()
    assert (len(first), len(second), len(first.keys() - common), len(second.keys() - common)) == (200, 300, 30, 130)
    assert sum(first[key] != second[key] for key in common) == 70


def test_both_formats_contain_the_same_rows(tmp_path):
    for format in ("csv", "parquet"):
        generate(tmp_path / format, "--initial-rows", "50", "--format", format)
    for name in ("initial", "incremental"):
        assert rows(tmp_path / "csv" / name / "rows.csv") == rows(tmp_path / "parquet" / name / "rows.parquet")


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_the_same_seed_gives_the_same_bytes(tmp_path, format):
    for name, seed in (("one", "7"), ("again", "7"), ("other", "8")):
        assert generate(tmp_path / name, "--initial-rows", "100", "--seed", seed, "--format", format)[0] == 0
    assert contents(tmp_path / "one") == contents(tmp_path / "again")
    assert contents(tmp_path / "one") != contents(tmp_path / "other")


def test_parquet_is_written_in_row_groups_of_bounded_size(tmp_path, monkeypatch):
    monkeypatch.setattr(generate_cdc, "_VALUES_IN_A_ROW_GROUP", 50)
    generate(tmp_path, "--initial-rows", "25", "--format", "parquet")
    file = parquet.ParquetFile(tmp_path / "initial" / "rows.parquet")
    assert [file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)] == [10, 10, 5]


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_delivery_without_rows_is_a_file_with_columns(tmp_path, format):
    assert generate(tmp_path, "--initial-rows", "0", "--keys", "1", "--nonkeys", "1", "--format", format)[0] == 0
    file = tmp_path / "initial" / f"rows.{format}"
    names = file.read_text().split(",") if format == "csv" else parquet.read_schema(file).names
    assert [name.strip() for name in names] == ["key_1", "value_1"]


def test_json_is_one_document(tmp_path):
    code, out, _ = generate(tmp_path, "--json", "--initial-rows", "10", "--seed", "3")
    document = json.loads(out)
    assert code == 0
    assert (document["seed"], document["keys"]) == (3, ["key_1", "key_2"])
    assert document["initial"] == {"file": str(tmp_path / "initial" / "rows.csv"), "rows": 10}
    assert {name: document["incremental"][name] for name in ("deleted", "updated", "unchanged", "inserted")} == {
        "deleted": 2, "updated": 4, "unchanged": 4, "inserted": 2,
    }  # fmt: skip


def test_existing_files_are_replaced_only_with_overwrite(tmp_path):
    generate(tmp_path, "--initial-rows", "10")
    before = contents(tmp_path)
    code, _, message = generate(tmp_path, "--initial-rows", "20")
    assert (code, contents(tmp_path)) == (4, before)
    assert message == f"FOLDER: {tmp_path}/initial already holds rows.csv; --overwrite replaces it"
    assert generate(tmp_path, "--initial-rows", "20", "--format", "parquet", "--overwrite")[0] == 0
    assert sorted(contents(tmp_path)) == ["incremental/rows.parquet", "initial/rows.parquet"]


def test_folder_with_other_files_is_refused_even_with_overwrite(tmp_path):
    (tmp_path / "incremental").mkdir()
    (tmp_path / "incremental" / "orders.csv").write_text("mine")
    code, _, message = generate(tmp_path, "--overwrite")
    assert (code, "holds other files (orders.csv)" in message) == (4, True)
    assert contents(tmp_path) == {"incremental/orders.csv": b"mine"}


def test_a_file_appears_only_when_it_is_complete(tmp_path, monkeypatch):
    def broken(plan):
        yield next(initial(plan))
        raise RuntimeError("killed")

    initial = generate_cdc.initial
    monkeypatch.setattr(generate_cdc, "initial", broken)
    plan = SyntheticPlan.of(initial_rows=9, incremental_rows=9, keys=1, nonkeys=1, deleted=0, updated=0, unchanged=1)
    with pytest.raises(RuntimeError):
        write_deliveries(plan, tmp_path, format="csv")
    assert contents(tmp_path) == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--deleted", "0.3"], "--deleted, --updated, --unchanged: deleted, updated and unchanged must sum to 1"),
        (["--deleted", "x"], "--deleted: the share of deleted rows must lie between 0 and 1, not x"),
        (["--initial-rows", "-1"], "--initial-rows: the number of rows of the first delivery must be at least 0"),
        (["--initial-rows", "ten"], "--initial-rows: invalid int value"),
        (["--incremental-rows", "5"], "--incremental-rows: 8000 rows are kept"),
        (["--keys", "0"], "--keys: the number of key columns must be at least 1"),
        (["--nonkeys", "0"], "--nonkeys, --updated: rows without other columns than keys cannot be updated"),
        (["--format", "xml"], "--format: invalid choice"),
        (["--seed", "now"], "--seed: invalid int value"),
    ],
)
def test_invalid_input_ends_with_4_and_names_the_option(tmp_path, arguments, message):
    code, out, line = generate(tmp_path / "new", *arguments)
    assert (code, out) == (4, "")
    assert message in line
    assert "\n" not in line
    assert not (tmp_path / "new").exists()


def test_path_of_a_file_instead_of_a_folder_exits_with_4(tmp_path):
    (tmp_path / "file").write_text("")
    code, _, message = generate(tmp_path / "file")
    assert (code, message) == (4, f"FOLDER: cannot write to {tmp_path}/file: Not a directory")
