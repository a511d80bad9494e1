"""Loads while clocks of real workers and schedulers are moved, or differ from each other.

DuckDB reads the tables afterwards; the expected rows are computed from the deliveries alone.
"""

import os
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from django.conf import settings

from loader.management.children import beat_command
from tests.loader.installation import ITEM, Installation, make_installation, working
from tests.loader.processes import wait_until
from tests.loader.runs.test_outages import ATTEMPTS, asked, ended, is_loading, served
from tests.services.moved_clock import MovedClock
from tests.services.postgres import start_postgres
from tests.services.redis import start_redis

# Each test has a data folder, and where it needs them servers, of its own.
pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.takes(seconds=240)]

HOUR, KEYS = 3_600, 20_000
STATUSES = "from loader.models import LoadRun; print(*LoadRun.objects.values_list('run_id', 'status'))"
QUEUE = """
from elevata.accounts.services.users import user_named
from loader.services.loads.load_runs import request_load_run
request_load_run(run_id="{run_id}", user=user_named("aron"), wake_worker=False)
"""
STATUS = "SELECT status FROM jobs_job JOIN loader_loadrun ON job_id = jobs_job.id WHERE run_id = '{run_id}'"
RUNNING = "SELECT count(*) FROM loader_datasetrun WHERE status = 'running'"


@contextmanager
def scheduling(shop: Installation) -> Iterator[subprocess.Popen]:
    """Run a real scheduler."""
    command = beat_command(schedule=str(shop.folder / "schedule"))
    with (shop.folder / "scheduler.log").open("a") as output:
        process = subprocess.Popen(
            command,
            cwd=settings.BASE_DIR,
            env=shop.environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def is_running(shop: Installation, run_id: str) -> bool:
    """Return True for a run that has begun and not ended, also between its datasets."""
    with closing(sqlite3.connect(shop.folder / "control.sqlite3", timeout=10)) as connection:
        return connection.execute(STATUS.format(run_id=run_id)).fetchone() == ("running",)


def deliver(shop: Installation, *, price: int) -> None:
    lines = (f"{key},n{key},{key + price},red" for key in range(KEYS))
    shop.deliver(item=("id,name,price,colour", *lines))


def check(shop: Installation, *, price: int) -> None:
    """Check current rows and open versions in DuckDB, and the invariants of the history."""
    total = "SELECT count(*), count(DISTINCT id), sum(price) FROM "
    queries = (f"{total}{ITEM}", f"{total}{ITEM}_hist WHERE version_ended_at IS NULL")
    expected = [[KEYS, KEYS, sum(range(KEYS)) + KEYS * price]]
    assert shop.read_in_duckdb(*queries) == [expected, expected]
    shop.check_invariants()


def test_loads_outlast_a_clock_that_is_set_forward_and_back(tmp_path: Path):
    """Check that lost work is detected after the clock was set back, too."""
    clock = MovedClock(tmp_path)
    shop = make_installation(tmp_path / "data", servers=clock.environment)
    with scheduling(shop):
        with working(shop) as worker:
            deliver(shop, price=1)
            load = shop.start("load", "--run-id", "one")
            wait_until(lambda: is_loading(shop) or load.poll() is not None, 60)
            clock.move(HOUR)
            assert is_running(shop, "one"), "the load ended before the clock was moved"
            threading.Event().wait(4)
            clock.move(-2 * HOUR)
            code, _, err = ended(load)
            assert code == 0, err
            assert "('one', 1, 'succeeded')" in shop.shell(ATTEMPTS)
            check(shop, price=1)

            code, _, err = ended(shop.start("load", "--run-id", "before"))
            assert (code, "NOT_LATER" in err or "not later than" in err) == (1, True), err
            clock.move(0)
            deliver(shop, price=2)
            load = shop.start("load", "--run-id", "two")
            wait_until(lambda: is_loading(shop) or load.poll() is not None, 60)
            clock.move(-2 * HOUR)
            os.killpg(worker.pid, signal.SIGKILL)
            assert is_running(shop, "two"), "the load ended before its worker was killed"
            worker.wait()
            load.kill()
            load.communicate()
        with working(shop):
            wait_until(lambda: "('two', 'lost')" in shop.shell(STATUSES), 120)
            clock.move(0)
            shop.load("two")
            check(shop, price=2)


def test_worker_with_another_clock_performs_work_and_loses_none_of_another_worker(tmp_path: Path):
    """Run the scheduler, the programs that request loads, and the first worker on the machine's clock."""
    with (
        TemporaryDirectory(prefix="elevata-test-") as servers_folder,
        served(start_postgres, Path(servers_folder, "postgres")) as (_, database),
        served(start_redis, Path(servers_folder, "redis")) as (_, broker),
    ):
        servers = {"DATABASE_URL": database, "CELERY_BROKER_URL": broker}
        shop, clock = make_installation(tmp_path / "data", servers=servers), MovedClock(tmp_path)
        clock.move(HOUR)
        ahead = Installation(shop.folder, shop.tokens, servers | clock.environment)
        with scheduling(shop):
            with working(ahead):
                deliver(shop, price=1)
                shop.load("requested")
                check(shop, price=1)
                # Only a sweep wakes the worker for this one.
                deliver(shop, price=2)
                shop.shell(QUEUE.format(run_id="swept"))
                wait_until(lambda: asked(database, STATUS.format(run_id="swept")) == "succeeded", 180)
                check(shop, price=2)
            with working(shop):
                deliver(shop, price=3)
                load = shop.start("load", "--run-id", "beside")
                wait_until(lambda: asked(database, RUNNING) > 0 or load.poll() is not None, 120)
                with working(ahead):
                    assert asked(database, RUNNING) > 0, "the load ended before the other worker started"
                    code, _, err = ended(load)
                    assert code == 0, err
                assert "('beside', 1, 'succeeded')" in shop.shell(ATTEMPTS)
                check(shop, price=3)
