"""``manage.py render_sql``: files of the example, their execution on DuckDB, and the check of a folder."""

import csv
import hashlib
import json
import subprocess
import sys
from datetime import date
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from elevata.accounts.cli import CommandExit
from loader.dialects.catalog import DIALECTS
from loader.domain.historization import hashing
from loader.domain.reference.values import typed
from loader.services.sql_replay import DuckDbConnection
from metadata.domain.types import parse
from metadata.models import TargetDataset
from metadata.selectors.dataset_states import dataset_states

AIRPORTS = Path(__file__).resolve().parents[3] / "examples" / "airports"
COLUMNS = ("icao", "iata", "name", "city", "subd", "country", "elevation", "lat", "lon", "tz")
FRANKFURT = ("EDDF", "FRA", "Frankfurt Main", "Frankfurt", "Hesse", "DE", "364", "50.0264", "8.5431", "Europe/Berlin")
HEATHROW = ("EGLL", "LHR", "London Heathrow", "London", "England", "GB", "83", "51.4706", "-0.4619", "Europe/London")
ROUTE = ("BA108", "Blue Atlas", "EDDF", "EGLL", "353", "1999-03-28", "no")

pytestmark = pytest.mark.django_db


@pytest.fixture
def example():
    """Import the metadata of the example."""
    call_command("import_metadata", str(AIRPORTS), stdout=StringIO())


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("render_sql", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def statements(text: str) -> list[str]:
    return [statement for statement in text.split(";\n") if statement.strip()]


class Database:
    """DuckDB with the rendered tables and views."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.own = folder, DuckDbConnection()
        self.manifest = json.loads((folder / "manifest.json").read_text())
        for file in ("tables.sql", "views.sql"):
            for statement in statements((folder / file).read_text()):
                self.own.run(statement)

    def deliver(self, table: str, columns: tuple[str, ...], rows: list[tuple], run: str, at: str) -> None:
        values = [[*row, run, f"{at}+00:00"] for row in rows]
        self.own.insert(table, [*columns, "load_run_id", "loaded_at"], values)

    def load(self, dataset: str, run: str, at: str) -> None:
        (entry,) = [item for item in self.manifest["loads"] if item["dataset"] == dataset]
        text = (self.folder / entry["file"]).read_text()
        self.own.run("BEGIN")
        for statement in statements(text.replace("{{ load_run_id }}", run).replace("{{ load_timestamp }}", at)):
            self.own.run(statement)
        self.own.run("COMMIT")


def test_rendered_loads_of_the_example_keep_its_history_on_duckdb(example, tmp_path):
    run("--dialect", "duckdb", "--out", str(tmp_path))
    database = Database(tmp_path / "duckdb")
    loads = [item["dataset"] for item in database.manifest["loads"]]
    assert loads == ["rawcore.rc_air_airport", "rawcore.rc_net_route"]
    days = ("2026-11-28 00:00:00.000000", "2026-11-29 00:00:00.000000")
    # Another text of the same number is no change.
    moved = (*HEATHROW[:3], "Hillingdon", *HEATHROW[4:6], " 83.0", *HEATHROW[7:])
    for name, at, rows in (("r1", days[0], [FRANKFURT, HEATHROW]), ("r2", days[1], [moved])):
        database.deliver("raw.raw_air_airport", COLUMNS, rows, name, at)
        for _ in range(2):  # a repeated load changes nothing
            database.load("rawcore.rc_air_airport", name, at)
    versions = database.own.rows(
        "SELECT icao, city, version_state, version_ended_at IS NULL FROM rawcore.rc_air_airport_hist ORDER BY 1, 2 DESC"
    )
    assert versions == [
        ("EDDF", "Frankfurt", "deleted", False),
        ("EGLL", "London", "changed", False),
        ("EGLL", "Hillingdon", "changed", True),
    ]
    current = database.own.rows("SELECT icao, city, elevation, lon, load_run_id FROM rawcore.rc_air_airport")
    assert current == [("EGLL", "Hillingdon", 83.0, -0.4619, "r2")]


@pytest.mark.parametrize(
    ("options", "loads"),
    [
        (("--select", "rawcore.rc_air_airport"), ["rawcore.rc_air_airport"]),
        (("--select", "raw.raw_net_route+"), ["rawcore.rc_net_route"]),
        (("--select", "rawcore.*", "--exclude", "*_route"), ["rawcore.rc_air_airport"]),
        (("--schema", "rawcore"), ["rawcore.rc_air_airport", "rawcore.rc_net_route"]),
    ],
)
def test_loads_of_the_selected_datasets_are_rendered(example, tmp_path, options, loads):
    run("--dialect", "duckdb", "--out", str(tmp_path), *options)
    manifest = json.loads((tmp_path / "duckdb" / "manifest.json").read_text())
    assert [item["dataset"] for item in manifest["loads"]] == loads


def test_exclude_option_is_refused_with_a_report(example, tmp_path):
    with pytest.raises(CommandExit, match="--exclude does not go with --report"):
        run("--dialect", "duckdb", "--out", str(tmp_path), "--report", "r1", "--exclude", "raw.*")


def test_word_that_selects_nothing_is_refused(example, tmp_path):
    with pytest.raises(CommandExit, match="no dataset is selected by tag:nothing") as refused:
        run("--dialect", "duckdb", "--out", str(tmp_path), "--select", "tag:nothing")
    assert refused.value.returncode == 4


def test_script_of_the_examples_loads_deliveries_without_the_product(example, tmp_path):
    run("--dialect", "duckdb", "--out", str(tmp_path))
    moved = (*HEATHROW[:3], "Hillingdon", *HEATHROW[4:])
    for name, rows in (("r1", [FRANKFURT, HEATHROW]), ("r2", [moved])):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *rows])
    deliveries = [f"2026-11-{28 + number}={tmp_path}/r{number + 1}.csv" for number in range(2)]
    arguments = [str(tmp_path / "duckdb"), str(tmp_path / "air.duckdb"), "rawcore.rc_air_airport", *deliveries]
    script = [sys.executable, "-I", str(AIRPORTS.parent / "load_with_duckdb.py")]
    done = subprocess.run([*script, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["run", "rows", "versions", "open"],
        ["r1", "2", "2", "2"],
        ["r2", "1", "3", "1"],
    ]


def test_rendered_keys_and_hashes_are_those_of_the_product(example, tmp_path):
    run("--dialect", "duckdb", "--out", str(tmp_path))
    database, at = Database(tmp_path / "duckdb"), "2026-11-28 00:00:00.000000"
    columns = ("route_no", "airline", "origin_icao", "destination_icao", "distance_nm", "opened_on", "seasonal")
    database.deliver("raw.raw_net_route", columns, [ROUTE], "r1", at)
    database.deliver("raw.raw_air_airport", COLUMNS, [FRANKFURT], "r1", at)
    database.load("rawcore.rc_air_airport", "r1", at)
    database.load("rawcore.rc_net_route", "r1", at)
    airport = next(state for state in dataset_states() if state.name == "rc_air_airport")
    keys = {column.name: column.key for column in airport.columns}
    ((entity_key, row_hash),) = database.own.rows("SELECT rc_air_airport_key, row_hash FROM rawcore.rc_air_airport")
    assert entity_key == hashing.digest([(keys["icao"], "EDDF")])
    types = {column.name: parse(column.type) for column in airport.columns}
    values = zip(COLUMNS[1:], FRANKFURT[1:], strict=True)
    assert row_hash == hashing.digest([(keys[name], typed(value, types[name])) for name, value in values])
    route = "SELECT origin_key, distance_nm, opened_on, seasonal FROM rawcore.rc_net_route"
    assert database.own.rows(route) == [(entity_key, 353, date(1999, 3, 28), False)]


def test_foreign_key_of_a_rendered_load_follows_its_untracked_column(example, tmp_path):
    TargetDataset.objects.filter(name="rc_net_route").update(history_policy={"track": ["airline"]})
    run("--dialect", "duckdb", "--out", str(tmp_path))
    database, at = Database(tmp_path / "duckdb"), "2026-11-2{} 00:00:00.000000"
    database.deliver("raw.raw_air_airport", COLUMNS, [FRANKFURT, HEATHROW], "r1", at.format(1))
    database.load("rawcore.rc_air_airport", "r1", at.format(1))
    columns = ("route_no", "airline", "origin_icao", "destination_icao", "distance_nm", "opened_on", "seasonal")
    for name, origin in (("r1", "EDDF"), ("r2", "EGLL")):
        day = at.format(name[1])
        database.deliver("raw.raw_net_route", columns, [(*ROUTE[:2], origin, *ROUTE[3:])], name, day)
        database.load("rawcore.rc_net_route", name, day)
    for table in ("rawcore.rc_net_route", "rawcore.rc_net_route_hist"):
        parents = "JOIN rawcore.rc_air_airport AS a ON a.rc_air_airport_key = r.origin_key"
        assert database.own.rows(f"SELECT a.icao FROM {table} AS r {parents}") == [("EGLL",)]


def test_rendered_view_of_stage_has_the_typed_rows_of_the_newest_delivery(example, tmp_path):
    run("--dialect", "duckdb", "--out", str(tmp_path))
    database = Database(tmp_path / "duckdb")
    assert database.manifest["not_rendered"] == []
    without_code = (HEATHROW[0], "", *HEATHROW[2:])  # an empty text of CSV is NULL
    for name, row in (("r1", FRANKFURT), ("r2", without_code)):
        database.deliver("raw.raw_air_airport", COLUMNS, [row], name, f"2026-11-2{name[1]} 00:00:00")
    rows = database.own.rows("SELECT icao, iata, elevation, lat FROM stage.stg_air_airport")
    assert rows == [("EGLL", None, 83.0, 51.4706)]


def test_rendered_load_refuses_a_text_that_does_not_fit_and_writes_nothing(example, tmp_path):
    run("--dialect", "duckdb", "--out", str(tmp_path))
    database, at = Database(tmp_path / "duckdb"), "2026-11-28 00:00:00.000000"
    wrong = (*HEATHROW[:6], "83 ft", *HEATHROW[7:])
    database.deliver("raw.raw_air_airport", COLUMNS, [FRANKFURT, wrong], "r1", at)
    with pytest.raises(Exception, match="VALUE_DOES_NOT_FIT: rawcore.rc_air_airport: .* elevation, lat, lon"):
        database.load("rawcore.rc_air_airport", "r1", at)
    database.own.run("ROLLBACK")
    assert database.own.rows("SELECT * FROM rawcore.rc_air_airport_hist") == []


@pytest.mark.parametrize("name", DIALECTS)
def test_manifest_describes_every_file(example, tmp_path, name):
    run("--dialect", name, "--all", "--out", str(tmp_path))
    folder = tmp_path / name
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["format"], manifest["dialect"], manifest["hash_version"]) == ("sql/v1", name, 1)
    digests = {path: hashlib.sha256((folder / path).read_bytes()).hexdigest() for path in manifest["files"]}
    assert digests == manifest["files"]
    assert {item["dataset"] for item in manifest["loads"]} | {item["dataset"] for item in manifest["not_rendered"]} >= {
        "rawcore.rc_air_airport",
        "rawcore.rc_net_route",
    }
    assert {item["code"] for item in manifest["not_rendered"]} <= {"NOT_RENDERED"}


def test_check_ends_with_1_only_if_files_differ(example, tmp_path):
    arguments = ("--dialect", "postgres", "--out", str(tmp_path))
    with pytest.raises(CommandExit) as end:
        run(*arguments, "--check")
    assert end.value.returncode == 1
    assert not (tmp_path / "postgres").exists()
    run(*arguments)
    run(*arguments, "--check")
    (tmp_path / "postgres" / "tables.sql").write_text("-- other\n")
    with pytest.raises(CommandExit, match=r"1 files differ: tables\.sql"):
        run(*arguments, "--check")


def test_files_of_a_smaller_scope_replace_those_of_a_larger_one(example, tmp_path):
    run("--dialect", "duckdb", "--out", str(tmp_path))
    run("--dialect", "duckdb", "--dataset", "rawcore.rc_air_airport", "--out", str(tmp_path))
    loads = [path.name for path in (tmp_path / "duckdb" / "loads").iterdir()]
    assert loads == ["rawcore.rc_air_airport.sql"]


def test_text_that_is_read_as_a_type_without_a_rule_is_not_rendered(example, tmp_path):
    run("--dialect", "mssql", "--out", str(tmp_path))
    manifest = json.loads((tmp_path / "mssql" / "manifest.json").read_text())
    reasons = {item["dataset"]: item["message"] for item in manifest["not_rendered"]}
    assert reasons["rawcore.rc_air_airport"] == (
        "rawcore.rc_air_airport.elevation: SQL Server does not document that the text of a float becomes the nearest "
        "double"
    )
    assert [item["dataset"] for item in manifest["loads"]] == ["rawcore.rc_net_route"]


def test_unknown_dataset_ends_with_4(example, tmp_path):
    with pytest.raises(CommandExit) as end:
        run("--dialect", "duckdb", "--dataset", "rawcore.rc_none", "--out", str(tmp_path))
    assert end.value.returncode == 4
