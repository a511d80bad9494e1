"""Fixtures for tests of jobs: metadata of two systems, and a scripted runner."""

import json
import sys
import threading
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from loader.services.runner.supervisor import Patience, Runner
from metadata.models import TargetColumn, TargetDataset
from metadata.services.generation import generate_targets
from metadata.services.references import create_reference
from metadata.services.sources import create_source_column, create_source_dataset, create_system
from tests.remembering import remembered

FAKE = Path(__file__).with_name("fake_runner.py")

if connection.vendor == "sqlite":
    # In memory, SQLite has one lock for all threads and no waiting; a file is what the product uses.
    connection.settings_dict["TEST"]["NAME"] = str(Path(settings.DATA_DIR) / "test.sqlite3")
    Path(settings.DATA_DIR).mkdir(parents=True, exist_ok=True)


class Script:
    """Instructions for the fake runner (see fake_runner.py)."""

    def __init__(self, path: Path):
        self.path = path
        self.tell()

    def tell(self, **script) -> None:
        self.path.write_text(json.dumps(script))

    def told(self) -> dict:
        return json.loads(self.path.read_text())

    def add(self, **script) -> None:
        self.tell(**(self.told() | script))

    def seen(self, kind: str | None = None) -> list[dict]:
        log = self.path.with_suffix(".log")
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []
        return [line for line in lines if kind in (None, line["kind"])]


@pytest.fixture
def script(tmp_path) -> Script:
    return Script(tmp_path / "script.json")


@pytest.fixture
def make_runner(tmp_path, script):
    """Return a function that makes runners in this test's folder; all are closed at its end."""
    made = []

    def make(holder: str = "the test", folder: Path | None = None, **patience: float) -> Runner:
        runner = Runner(
            holder=holder,
            folder=folder or tmp_path,
            command=[sys.executable, str(FAKE), str(script.path)],
            patience=Patience(**{"look": 0.05, **patience}),
        )
        made.append(runner)
        return runner

    yield make
    for runner in made:
        runner.close()


@pytest.fixture
def runner(make_runner) -> Runner:
    return make_runner()


def source(system, name: str, columns: dict[str, str], keys: tuple[str, ...]):
    """Create a source dataset with its columns and its generated targets."""
    dataset = create_source_dataset(system=system, name=name, location=f"{name}.csv", format="csv")
    for column, type_ in columns.items():
        ordinal = keys.index(column) + 1 if column in keys else None
        create_source_column(source_dataset=dataset, name=column, type=type_, key_ordinal=ordinal)
    generate_targets(source_dataset=dataset)
    return dataset


@pytest.fixture
def airports(db):
    """Create airports, and routes that refer to them."""
    return remembered("airports and routes", _airports)


def _airports():
    air = create_system(name="Airports", short_name="air", location="{{ data_dir }}/landing/air")
    net = create_system(name="Network", short_name="net", location="{{ data_dir }}/landing/net")
    airport = source(air, "airport", {"icao": "string(4)", "name": "string", "elevation": "float"}, ("icao",))
    route = source(net, "route", {"route": "integer", "origin": "string(4)", "seats": "integer"}, ("route",))
    create_reference(
        child=target("rawcore.rc_net_route"),
        parent=target("rawcore.rc_air_airport"),
        pairs=[(column("rawcore.rc_net_route.origin"), column("rawcore.rc_air_airport.icao"))],
    )
    return {"airport": airport, "route": route}


def target(name: str) -> TargetDataset:
    schema, _, dataset = name.partition(".")
    return TargetDataset.objects.get(schema__name=schema, name=dataset)


def column(name: str) -> TargetColumn:
    dataset, _, own = name.rpartition(".")
    return target(dataset).columns.get(name=own)


@pytest.fixture
def in_threads():
    """Return a function that runs functions in parallel threads with own database connections.

    It returns their results.
    """

    def run(*functions):
        results = [None] * len(functions)
        barrier = threading.Barrier(len(functions))

        def call(place, function):
            try:
                barrier.wait(10)
                results[place] = function()
            finally:
                connection.close()

        threads = [threading.Thread(target=call, args=item) for item in enumerate(functions)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)
        return results

    return run
