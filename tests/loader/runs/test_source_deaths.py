"""Loads whose runner is killed at every boundary, for every kind of source, end as undisturbed ones.

Two datasets read the same deliveries. Loads of one are undisturbed. The runner of each load of the other is killed,
and the load is repeated. Afterwards raw, rawcore and history of both are equal.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.loader.fivetran.sender import Sender, served_sender, table
from tests.loader.installation import QUICK_START, Installation, make_installation
from tests.loader.processes import make_folder, wait_until
from tests.loader.runs import changing_sources
from tests.loader.runs.changing_sources import NAMES, Source, changes_of, day

# Embedded stores, even if the session uses servers: each test has a data folder of its own.
pytestmark = pytest.mark.spark

WORKER = Path(__file__).with_name("killable_worker.py")
ITEM, CALM = NAMES
RAW, RAWCORE, HISTORY = "raw.raw_shop_{}", "rawcore.rc_shop_{}", "rawcore.rc_shop_{}_hist"
# Columns that name a run or the time of its load. Hashes, like keys, contain the identity of the dataset.
OWN = {"__of", "load_run_id", "loaded_at", "_fivetran_synced", "closed_by_run_id", "row_hash"}


@dataclass(frozen=True)
class Death:
    """Event at which the runner is killed before its worker receives it, after so many others of its kind."""

    event: str
    phase: str = ""
    after: int = 0

    def as_json(self) -> str:
        fields = {"phase": self.phase} if self.phase else {}
        due = {"event": self.event, "fields": fields, "after": self.after, "told": False, "who": "runner"}
        return json.dumps(due)


FINISHED, PHASE = "dataset_finished", "dataset_phase"
DEATHS = {
    "before-read": Death("dataset_started"),
    "before-raw": Death(PHASE, "writing raw"),
    "after-raw": Death(FINISHED),
    "before-stage": Death(PHASE, "comparing"),
    "before-history": Death(PHASE, "writing history"),
    "before-rawcore": Death(PHASE, "writing rawcore"),
    "after-rawcore": Death(FINISHED, after=1),
}
BATCH_DEATHS = {
    "before-read": Death("dataset_started"),
    "after-read": Death(PHASE, "comparing"),
    "before-history": DEATHS["before-history"],
    "before-rawcore": DEATHS["before-rawcore"],
    "after-rawcore": Death(FINISHED),
}
BY_DAY = ("before-rawcore",)
SOURCES = {
    "csv": changing_sources.csv_file,
    "csv-by-spark": changing_sources.csv_file_read_by_spark,
    "json-lines-feed": changing_sources.json_lines_feed,
    "parquet": changing_sources.parquet_file,
    "delta": changing_sources.delta_table,
    "postgresql": changing_sources.database_table,
    "rest": changing_sources.rest_endpoint,
    "kafka": changing_sources.kafka_topic,
}
MARKS = {"postgresql": [pytest.mark.services], "kafka": [pytest.mark.servers]}


@pytest.mark.nightly
def test_kill_matrix_has_at_least_forty_cases():
    assert len(SOURCES) * len(DEATHS) + len(BATCH_DEATHS) >= 40


@contextmanager
def killable_worker(installation: Installation, death: Path) -> Iterator[None]:
    """Run a worker whose runner dies as the file describes."""
    with (installation.folder / "worker.log").open("a") as log:
        worker = subprocess.Popen(
            [sys.executable, str(WORKER)],
            cwd=settings.BASE_DIR,
            env=QUICK_START | installation.environment | {"ELEVATA_TEST_DEATH": str(death)},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(lambda: installation.run("worker_health").returncode == 0 or worker.poll() is not None, 60)
        yield
    finally:
        worker.stdin.close()
        worker.wait(60)


def rows(installation: Installation, pattern: str) -> dict[str, list[str]]:
    """Return the rows of a table of both datasets, in any order, without the columns that are the datasets' own."""
    query = " UNION ALL ".join(f"SELECT '{name}' AS __of, * FROM {pattern.format(name)}" for name in NAMES)
    done = installation.run("sql", query, "--format", "json")
    assert done.returncode == 0, done.stderr
    rows_by_name: dict[str, list[str]] = {name: [] for name in NAMES}
    for row in json.loads(done.stdout):
        values = {name: value for name, value in row.items() if name not in OWN and not name.endswith("_key")}
        rows_by_name[row["__of"]].append(json.dumps(values))
    return {name: sorted(lines) for name, lines in rows_by_name.items()}


def assert_equal(installation: Installation, *tables: str) -> None:
    for name in tables:
        rows_by_name = rows(installation, name)
        assert rows_by_name[CALM], name
        assert rows_by_name[ITEM] == rows_by_name[CALM], name


@pytest.mark.nightly
@pytest.mark.takes(seconds=90)
@pytest.mark.parametrize(
    ("source", "boundaries"),
    [
        pytest.param("csv", BY_DAY, id="csv-by-day"),
        *(
            pytest.param(name, tuple(DEATHS), id=name, marks=[pytest.mark.nightly, *MARKS.get(name, [])])
            for name in SOURCES
        ),
    ],
)
def test_load_killed_at_a_boundary_and_repeated_equals_an_undisturbed_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, boundaries: tuple[str, ...]
):
    monkeypatch.setenv("ELEVATA_SOURCE_HOSTS", "127.0.0.1")
    landing, death = tmp_path / "data" / "landing", tmp_path / "death.json"
    landing.mkdir(parents=True)
    with SOURCES[source](landing) as changing:
        shop = make_installation(tmp_path / "data", changing.described())
        with killable_worker(shop, death):
            changing.deliver(0)
            shop.load("first", "--at", day(0))
            for number, boundary in enumerate(boundaries, start=1):
                die_in_load(shop, changing, death, boundary, number)


def die_in_load(shop: Installation, changing: Source, death: Path, boundary: str, number: int) -> None:
    """Load a delivery undisturbed into one dataset, killed and repeated into the other, and compare."""
    changing.deliver(number)
    scopes = {name: ("--dataset", RAWCORE.format(name), "--at", day(number)) for name in NAMES}
    shop.load(f"{CALM}-{number}", *scopes[CALM])
    death.write_text(DEATHS[boundary].as_json())
    died = shop.load(f"{ITEM}-{number}", *scopes[ITEM], status="failed")
    assert (died["error"]["code"], death.exists()) == ("RUNNER_DIED", False), died
    shop.load(f"{ITEM}-{number}")
    assert_equal(shop, RAW, RAWCORE, HISTORY)


TABLE = {"id": "LONG", "v": "STRING"}
OF_HISTORY = {"_fivetran_start": "UTC_DATETIME", "_fivetran_end": "UTC_DATETIME", "_fivetran_active": "BOOLEAN"}


def send(sender: Sender, name: str, number: int) -> Any:
    """Send a delivery to a table in history mode."""
    at, end = day(number), "9999-12-31T23:59:59.999Z"
    written = [row for op, row in changes_of(number) if op != "D"]
    gone = [row for op, row in changes_of(number) if op == "D"]
    upserts = [f"{row['id']},{row['v']},{at},{end},true" for row in written]
    files = {
        "earliest_start": sender.file("id,_fivetran_start", *(f"{row['id']},{at}" for row in written)),
        "replace": sender.file("id,v,_fivetran_start,_fivetran_end,_fivetran_active", *upserts),
        "delete": sender.file("id,_fivetran_end", *(f"{row['id']},{at}" for row in gone)),
    }
    return sender.write_history(name, **{kind: [path] for kind, path in files.items()})


@pytest.mark.nightly
@pytest.mark.takes(seconds=180)
def test_fivetran_batch_killed_at_a_boundary_and_resent_equals_an_undisturbed_batch(tmp_path: Path):
    shop, death = Installation(tmp_path / "data"), tmp_path / "death.json"
    make_folder(shop.folder)
    with served_sender(shop) as sender, killable_worker(shop, death):
        for name in NAMES:
            assert sender.create(table(name, ["id", "_fivetran_start"], **TABLE, **OF_HISTORY)).success
            assert send(sender, name, 0).success
        for number, due in enumerate(BATCH_DEATHS.values(), start=1):
            assert send(sender, CALM, number).success
            death.write_text(due.as_json())
            died = send(sender, ITEM, number)
            assert ("SIGKILL" in died.task.message, death.exists()) == (True, False), died
            assert send(sender, ITEM, number).success
            assert_equal(shop, RAWCORE, HISTORY)
