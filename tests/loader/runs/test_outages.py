"""Loads during outages of databases, brokers and locks, on real servers and real Spark."""

import os
import shutil
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest

from elevata.core.database import PATIENCE_SECONDS
from tests.loader.installation import ITEM, Installation, make_installation, working
from tests.loader.processes import wait_until
from tests.loader.runs.test_process_deaths import BEFORE, ITEMS, REQUEST, STEPS, check_changed, previewed
from tests.services.postgres import start_postgres
from tests.services.process import Server
from tests.services.redis import start_redis

# Each test has a separate data folder and separate servers. By day, the parts have separate tests: test_supervisor
# (lock), test_single_execution (messages), test_broker (folder).
pytestmark = [pytest.mark.spark, pytest.mark.nightly]

MANY = ("id,name,price,colour", *(f"{key},n{key},{key},red" for key in range(20_000)))
PHASE = "SELECT phase FROM loader_datasetrun WHERE status = 'running'"
REPEATED_MESSAGES = """
from loader.models import LoadRun
from elevata.jobs.submission import wake
for _ in range(20):
    assert not wake(LoadRun.objects.get(run_id="one").pk)
"""
WAKE = "from elevata.jobs.submission import wake; assert not wake({})"
STATUS = "SELECT status FROM jobs_job WHERE id = {}"
FINISHED = "SELECT count(*) FROM architecture_executionoperation WHERE status = 'succeeded' AND execution_id = {}"
RUNNING = "SELECT count(*) FROM loader_datasetrun WHERE status = 'running'"
ENDED = ("succeeded", "failed", "lost", "canceled")
ATTEMPTS = "from loader.models import LoadRun; print(*LoadRun.objects.values_list('run_id', 'attempt', 'status'))"


@pytest.fixture
def shop(tmp_path: Path) -> Installation:
    return make_installation(tmp_path / "data")


@contextmanager
def served(start: Callable[[Path], tuple[Server, str]], folder: Path) -> Iterator[tuple[Server, str]]:
    server, url = start(folder)
    try:
        yield server, url
    finally:
        server.stop()


def ended(process: subprocess.Popen, seconds: float = 300) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def check(shop: Installation, items: int) -> None:
    """Check that the newest load is complete and stored once, in rawcore and history."""
    shop.check_invariants("--local")
    loaded = shop.json("load", "--local")
    (rawcore,) = (row for row in loaded["datasets"] if row["dataset"] == ITEM)
    totals = {name: rawcore["counts"].get(name, 0) for name in ("new", "changed", "deleted", "versions", "open")}
    assert totals == {"new": 0, "changed": 0, "deleted": 0, "versions": items, "open": items}


def is_loading(shop: Installation) -> bool:
    with closing(sqlite3.connect(shop.folder / "control.sqlite3", timeout=10)) as connection:
        return bool(connection.execute(PHASE).fetchall())


def test_second_local_load_at_the_same_time_is_refused(shop):
    shop.deliver(item=MANY)
    loads = [shop.start("load", "--local", "--run-id", name) for name in ("one", "two")]
    codes = {code: err for code, _, err in map(ended, loads)}
    assert sorted(codes) == [0, 1], codes
    assert "is in use by" in codes[1]
    assert "Traceback" not in codes[1]
    check(shop, items=20_000)


def test_repeated_message_starts_one_attempt(shop):
    shop.deliver(item=MANY)
    with working(shop):
        load = shop.start("load", "--run-id", "one")
        wait_until(lambda: is_loading(shop) or load.poll() is not None, 60)
        shop.shell(REPEATED_MESSAGES)
        assert ended(load)[0] == 0
        shop.shell(REPEATED_MESSAGES)
        wait_until(lambda: not list((shop.folder / "broker" / "messages").glob("*.msg")), 30)
        assert shop.shell(ATTEMPTS).strip() == "('one', 1, 'succeeded')"
    check(shop, items=20_000)


def test_worker_performs_loads_after_the_broker_folder_is_deleted(shop):
    shop.deliver(item=MANY)
    with working(shop):
        load = shop.start("load", "--run-id", "one")
        wait_until(lambda: is_loading(shop) or load.poll() is not None, 60)
        shutil.rmtree(shop.folder / "broker")
        assert ended(load)[0] == 0
        shutil.rmtree(shop.folder / "broker", ignore_errors=True)
        code, _, err = ended(shop.start("load", "--run-id", "two"))
        assert code == 0, err
    check(shop, items=20_000)


@pytest.mark.parametrize("in_worker", [True, False])
def test_a_load_outlasts_a_database_and_a_broker_that_crash(tmp_path, in_worker):
    with (
        # PostgreSQL runs as another user without access to pytest's folders.
        TemporaryDirectory(prefix="elevata-test-") as servers_folder,
        served(start_postgres, Path(servers_folder, "postgres")) as (postgres, database),
        served(start_redis, Path(servers_folder, "redis")) as (redis, broker),
    ):
        servers = {"DATABASE_URL": database, "CELERY_BROKER_URL": broker}
        shop = make_installation(tmp_path / "data", servers=servers)
        shop.deliver(item=MANY)
        if not in_worker:
            disturb(shop.start("load", "--local", "--run-id", "one"), shop, postgres, redis)
        else:
            with working(shop):
                disturb(shop.start("load", "--run-id", "one"), shop, postgres, redis)
                # The worker listens to the broker again.
                code, _, err = ended(shop.start("load", "--run-id", "two"))
                assert code == 0, err
        assert "('one', 1, 'succeeded')" in shop.shell(ATTEMPTS)
        check(shop, items=20_000)


def disturb(load: subprocess.Popen, shop: Installation, postgres: Server, redis: Server) -> None:
    """Crash both servers during the load, for longer than a heartbeat, and restart them."""
    running = "from loader.models import DatasetRun; print(DatasetRun.objects.filter(status='running').count())"
    wait_until(lambda: int(shop.shell(running)) > 0 or load.poll() is not None, 60)
    assert load.poll() is None, "the load ended before it could be disturbed"
    postgres.kill()
    redis.kill()
    threading.Event().wait(12)
    postgres.start_again()
    redis.start_again()
    code, _, err = ended(load)
    assert code == 0, err
    assert "Traceback" not in err


def test_a_load_outlasts_a_control_database_that_is_locked(shop):
    """Hold the lock for longer than SQLite's own wait (30 s)."""
    shop.deliver(item=MANY)
    load = shop.start("load", "--local", "--run-id", "one")
    wait_until(lambda: is_loading(shop) or load.poll() is not None, 60)
    with closing(sqlite3.connect(shop.folder / "control.sqlite3", timeout=30, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        threading.Event().wait(45)
        connection.execute("ROLLBACK")
    code, _, err = ended(load)
    assert code == 0, err
    check(shop, items=20_000)


def test_execution_finishes_after_a_database_outage_longer_than_the_retry_limit(tmp_path):
    with (
        TemporaryDirectory(prefix="elevata-test-") as servers_folder,
        served(start_postgres, Path(servers_folder, "postgres")) as (postgres, database),
    ):
        shop = make_installation(tmp_path / "data", BEFORE, servers={"DATABASE_URL": database})
        shop.deliver(item=ITEMS, badge=("id", "1"))
        request = REQUEST.format(fingerprint=previewed(shop))
        with working(shop):
            execution = int(shop.shell(request))
            shop.shell(WAKE.format(execution))
            wait_until(lambda: asked(database, FINISHED.format(execution)) >= 2, 120)
            postgres.kill()
            threading.Event().wait(PATIENCE_SECONDS + 10)
            postgres.start_again()
            shop.shell(ATTEMPTS)
            wait_until(lambda: asked(database, STATUS.format(execution)) in ENDED, 240)
            if asked(database, STATUS.format(execution)) != "succeeded":
                assert int(shop.shell(request)) == execution
                shop.shell(WAKE.format(execution))
                wait_until(lambda: asked(database, STATUS.format(execution)) in ENDED, 240)
            assert asked(database, STATUS.format(execution)) == "succeeded"
            assert asked(database, FINISHED.format(execution)) >= STEPS
        check_changed(shop)
        assert shop.run("verify_audit").returncode == 0


def sweep_until(shop: Installation, over: threading.Event) -> None:
    while not over.wait(10):
        shop.shell("from elevata.jobs.sweep import sweep_jobs; sweep_jobs()")


def asked(database: str, query: str) -> Any:
    with psycopg.connect(database) as connection:
        return connection.execute(query).fetchone()[0]


def test_second_worker_continues_after_the_first_is_killed(tmp_path):
    """Start two workers, of which the lock of the data folder lets one run Spark."""
    with (
        TemporaryDirectory(prefix="elevata-test-") as servers_folder,
        served(start_postgres, Path(servers_folder, "postgres")) as (_, database),
        served(start_redis, Path(servers_folder, "redis")) as (_, broker),
    ):
        servers = {"DATABASE_URL": database, "CELERY_BROKER_URL": broker}
        shop = make_installation(tmp_path / "data", servers=servers)
        shop.deliver(item=MANY)
        with working(shop) as first, working(shop):
            loads = {name: shop.start("load", "--run-id", name) for name in ("one", "two", "three")}
            wait_until(lambda: asked(database, RUNNING) > 0, 120)
            os.killpg(first.pid, signal.SIGKILL)
            # The scheduler, which no test starts, sweeps.
            sweeping = threading.Event()
            sweeper = threading.Thread(target=sweep_until, args=(shop, sweeping))
            sweeper.start()
            codes = {name: ended(load) for name, load in loads.items()}
            sweeping.set()
            sweeper.join()
            interrupted = [name for name, (code, *_) in codes.items() if code]
            assert len(interrupted) <= 1, codes
            for name in interrupted:
                assert shop.run("load", "--run-id", name, by="aron").returncode == 0
        attempts = shop.shell(ATTEMPTS)
        for name in loads:
            assert f"('{name}', {2 if name in interrupted else 1}, 'succeeded')" in attempts
        check(shop, items=20_000)
