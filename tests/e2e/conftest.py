"""Separate installation for browser tests: database, broker, worker with Spark, scheduler and web server."""

import csv
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from django.conf import settings
from psycopg import sql

from tests.loader.installation import QUICK_START

PROJECT = Path(__file__).resolve().parents[2]
USER, PASSWORD = "ada", "a long enough password"
AIRPORT = ("icao", "iata", "name", "city", "subd", "country", "elevation", "lat", "lon", "tz")


@dataclass
class Installation:
    """Test installation: its address and the folders of its sources."""

    address: str
    data_dir: Path
    environment: dict[str, str]

    def deliver_airports(self, airports: list[tuple]) -> None:
        folder = self.data_dir / "landing" / "air"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "airport.csv").open("w", newline="") as file:
            csv.writer(file).writerows([AIRPORT, *airports])

    def deliver_routes(self) -> None:
        folder = self.data_dir / "landing" / "net"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "route.csv").write_bytes((PROJECT / "examples/airports/data/route.csv").read_bytes())

    def manage(self, *arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess:
        """Run a command of the product in this installation; fail the test if the command fails."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=PROJECT,
            env=self.environment | (environment or {}),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done


@pytest.fixture(scope="session")
def installation(tmp_path_factory) -> Iterator[Installation]:
    """Yield an installation set up as in the README and served by ``manage.py serve``; stop it by Ctrl-C at the end."""
    data_dir = tmp_path_factory.mktemp("installation")
    port = _free_port()
    served = Installation(f"http://127.0.0.1:{port}", data_dir, _environment(data_dir))
    served.manage("migrate", "--verbosity", "0")
    served.manage("import_metadata", "examples/airports")
    served.manage("createsuperuser", "--noinput", "--username", USER, "--email", "ada@example.org")
    served.deliver_routes()
    with (data_dir / "serve.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "serve", "--port", str(port)],
            cwd=PROJECT,
            env=served.environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait_for(port, process, data_dir / "serve.log")
            yield served
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _environment(data_dir: Path) -> dict[str, str]:
    """Return variables with the test session's servers, and a database and queue for this installation only."""
    environment = os.environ | {
        "ELEVATA_DATA_DIR": str(data_dir),
        "DJANGO_SUPERUSER_PASSWORD": PASSWORD,
        "PYTHONUNBUFFERED": "1",
        **QUICK_START,
    }
    if os.environ.get("DATABASE_URL"):
        name = f"installation_{uuid4().hex[:12]}"
        server = settings.DATABASES["default"]
        with psycopg.connect(
            host=server["HOST"],
            port=server["PORT"],
            user=server["USER"],
            password=server["PASSWORD"],
            dbname="postgres",
            autocommit=True,
        ) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        environment["DATABASE_URL"] = os.environ["DATABASE_URL"].rsplit("/", 1)[0] + f"/{name}"
        environment["CELERY_BROKER_URL"] = os.environ["CELERY_BROKER_URL"].rsplit("/", 1)[0] + "/7"
    return environment


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for(port: int, process: subprocess.Popen, log: Path) -> None:
    for _ in range(240):
        if process.poll() is not None:
            pytest.fail(f"serve ended with {process.returncode}:\n{log.read_text()[-3000:]}")
        with socket.socket() as probe:
            probe.settimeout(0.25)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        try:
            process.wait(0.25)
        except subprocess.TimeoutExpired:
            continue
    pytest.fail(f"serve did not answer on port {port}:\n{log.read_text()[-3000:]}")
