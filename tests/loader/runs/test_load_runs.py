"""Load runs on the real engine: started on the command line, killed, repeated, and in the demo."""

import json
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.loader.processes import CommandServer, make_folder, manage, start, wait_until

# Embedded stores, even if the session uses servers: each test has a data folder of its own.
pytestmark = pytest.mark.spark

SYSTEM = """
format: metadata/v1
system:
  short_name: shop
  name: Shop
  location: '{{ data_dir }}/landing'
  datasets:
    - name: item
      location: item.csv
      columns:
        - {name: id, type: integer, business_key: 1}
        - {name: name, type: string}
"""

PREPARE = """
from metadata.models import SourceDataset
from metadata.services.datasets.generation import generate_targets
for source in SourceDataset.objects.all():
    generate_targets(source_dataset=source)
"""


@pytest.fixture
def shop(tmp_path) -> Path:
    """Return a data folder with one source of items."""
    folder = tmp_path / "data"
    make_folder(folder)
    (folder / "landing").mkdir()
    (folder / "shop.yaml").write_text(SYSTEM)
    commands = CommandServer(folder)
    for arguments in (("import_metadata", str(folder / "shop.yaml")), ("shell", "--command", PREPARE)):
        done = commands.run(*arguments, seconds=180)
        assert done.returncode == 0, done.stderr
    commands.stop()
    return folder


def deliver(folder: Path, *rows: str) -> None:
    (folder / "landing" / "item.csv").write_text("\n".join(("id,name", *rows)) + "\n")


def load(folder: Path, *arguments: str) -> tuple[int, dict]:
    done = manage(folder, "load", "--local", "--json", *arguments)
    document = json.loads(done.stdout) if done.stdout else {"said": done.stderr}
    return done.returncode, document


def counts(document: dict) -> dict:
    rawcore = next(entry for entry in document["datasets"] if entry["kind"] == "rawcore")
    return {name: rawcore["counts"].get(name, 0) for name in ("new", "changed", "deleted", "versions", "open")}


# By day, tests/loader/runs/test_source_deaths.py kills loads at boundaries.
@pytest.mark.nightly
@pytest.mark.parametrize(
    "phases",
    [
        pytest.param(["writing rawcore"], id="between-the-two-commits"),
        pytest.param(["reading", "writing raw", "comparing", "writing history", "writing rawcore"], id="everywhere"),
    ],
)
def test_killed_run_that_is_repeated_gives_the_correct_history(shop, phases):
    deliver(shop, *(f"{i},a{i}" for i in range(500)))
    code, first = load(shop, "--at", "2024-01-01", "--run-id", "one")
    assert (code, counts(first)["versions"]) == (0, 500)
    deliver(shop, *(f"{i},{'b' if i < 50 else 'a'}{i}" for i in range(400)))
    for phase in phases:
        _kill_in(shop, phase)
    code, again = load(shop, "--run-id", "two")
    assert code == 0, again
    code, after = load(shop, "--at", "2024-01-03", "--run-id", "three")
    assert code == 0, after
    totals = counts(after)
    assert (totals["new"], totals["changed"], totals["deleted"]) == (0, 0, 0)
    assert (totals["versions"], totals["open"]) == (550, 400)
    checked = manage(shop, "check_history", "--local", "--json")
    assert (checked.returncode, json.loads(checked.stdout)["findings"]) == (0, 0), checked.stdout


def _kill_in(folder: Path, phase: str) -> None:
    """Start the second run and kill its process as soon as it reports this phase."""
    process = start(folder, "load", "--local", "--run-id", "two", "--at", "2024-01-02")
    lines: list[str] = []

    def listen():
        for line in process.stdout:
            lines.append(line)

    threading.Thread(target=listen, daemon=True).start()
    database = folder / "control.sqlite3"

    def is_there() -> bool:
        import sqlite3

        with sqlite3.connect(database, timeout=10) as connection:
            rows = connection.execute(
                "SELECT d.phase FROM loader_datasetrun d JOIN loader_loadrun r ON r.job_id = d.run_id "
                "JOIN jobs_job j ON j.id = d.run_id WHERE r.run_id = 'two' AND j.status = 'running'"
            ).fetchall()
        return any(phase in row[0] for row in rows) or process.poll() is not None

    wait_until(is_there, 120)
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    process.wait(30)


# By day, a scripted runner fails runs (tests/loader/commands/test_load.py), and the engine refuses a missing file
# (tests/loader/engine/sources/test_deliveries.py).
@pytest.mark.nightly
def test_missing_file_fails_the_run_with_a_message_of_one_line(shop):
    done = manage(shop, "load", "--local", "--run-id", "r")
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert "item.csv" in line
    assert "1 of 2 datasets failed, 1 skipped" in line


# By day, a browser test runs the demo with its default releases.
@pytest.mark.nightly
def test_demo_loads_other_releases_with_the_expected_counts(tmp_path):
    """Run the demo, which needs the package index."""
    folder = tmp_path / "demo"
    done = manage(
        tmp_path,
        *("demo", "--data-dir", str(folder), "--json"),
        *("--releases", "20220406", "20201205", "20210926"),
        seconds=400,
    )
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)
    keys = ("release", "rows", "new", "changed", "deleted", "reappeared", "versions", "open")
    assert [tuple(line[key] for key in keys) for line in table] == [
        ("20201205", 28863, 28863, 0, 0, 0, 28863, 28863),
        ("20210926", 28867, 4, 17, 0, 0, 28884, 28867),
        ("20220406", 28875, 13, 40, 5, 0, 28937, 28875),
    ]
    assert all(tuple(line) == keys for line in table)
    assert "on serving.timetable waits for an approval" in done.stderr
    assert "on serving.departure_board is blocked" in done.stderr
    assert "│ Berlin Brandenburg Airport              │ 2021-09-26 00:00:00+00   │ NULL" in done.stderr

    drift = manage(folder, "drift", "--local", "--json")
    drifted = [entry for entry in json.loads(drift.stdout)["datasets"] if entry["status"] != "in_sync"]
    column = {"table": "serving.airports", "what": "column_unexpected", "column": "remark", "observed": "string"}
    assert [(entry["dataset"], entry["differences"]) for entry in drifted] == [("serving.airports", [column])]

    again = manage(folder, "load", "--local", "--json", "--at", "2022-05-01", seconds=120)
    assert again.returncode == 0, again.stderr


def test_demo_with_an_unknown_release_fails_with_a_message_of_one_line(tmp_path):
    done = manage(tmp_path, "demo", "--data-dir", str(tmp_path / "demo"), "--releases", "19990101")
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert "airportsdata==19990101 cannot be fetched" in line
    assert not _java_below(tmp_path)


def _java_below(folder: Path) -> list[str]:
    """Return the Java processes still running in the folder."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if "java" in line and str(folder) in line]
