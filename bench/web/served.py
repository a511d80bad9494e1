"""Installation under measurement: its own PostgreSQL, and the web server as ``manage.py serve`` starts it."""

import contextlib
import http.client
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.problem import BenchProblem
from bench.processes.postgres import private_postgres
from elevata.bootstrap.places import ROOT

_STARTS_WITHIN = 60.0
# As ``manage.py serve`` starts it, but one process: which of two has a page's answer in mind would be chance.
_WORKERS, _THREADS = 1, 8
# How PostgreSQL names the processes of this database.
_DATABASE = "postgres: elevata elevata"


@contextlib.contextmanager
def database(folder: Path) -> Iterator[None]:
    """Start and migrate a separate PostgreSQL and set up Django for it; works once per process."""
    with private_postgres(folder) as url:
        _set_up(url, folder)
        yield


def _set_up(url: str, folder: Path) -> None:
    for name in [name for name in os.environ if name.startswith("ELEVATA_")]:
        del os.environ[name]
    os.environ |= {
        "DATABASE_URL": url,
        "ELEVATA_DATA_DIR": str(folder / "data"),
        "ELEVATA_SECRET_KEY": secrets.token_urlsafe(50),
        "DJANGO_SETTINGS_MODULE": "elevata.settings",
    }
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0, interactive=False)


def busy(*names: str) -> dict[int, float]:
    """Return the CPU milliseconds so far of processes whose command line contains one of the names."""
    return {int(folder.name): _busy(folder) for folder in Path("/proc").glob("[0-9]*") if _is_called(folder, names)}


def _is_called(process: Path, names: tuple[str, ...]) -> bool:
    try:
        command = (process / "cmdline").read_bytes().decode(errors="replace")
    except OSError:  # it ended in this moment
        return False
    return any(name in command for name in names)


def _busy(process: Path) -> float:
    """Return the CPU milliseconds of all threads of a process, from the kernel's nanoseconds."""
    spent = 0
    for thread in process.glob("task/*/schedstat"):
        with contextlib.suppress(OSError):
            spent += int(thread.read_text().split()[0])
    return spent / 1e6


@dataclass
class Web:
    """Running web server with a signed-in user."""

    port: int
    session: str

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def busy(self) -> dict[int, float]:
        """Return the CPU milliseconds so far of the web server and the database, by process."""
        return busy(f"127.0.0.1:{self.port}", _DATABASE)

    def get(self, path: str) -> tuple[int, int, float]:
        """Return status, length and milliseconds of one response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        began = time.perf_counter()
        connection.request("GET", path, headers={"Cookie": f"sessionid={self.session}"})
        answer = connection.getresponse()
        length = len(answer.read())
        spent = (time.perf_counter() - began) * 1000
        connection.close()
        return answer.status, length, spent


@contextlib.contextmanager
def web(person: Any, *, workers: int = _WORKERS, threads: int = _THREADS) -> Iterator[Web]:
    """Serve the database within the context, with a session of this user."""
    port = _free_port()
    command = [sys.executable, "-m", "gunicorn", "elevata.wsgi:application", "--bind", f"127.0.0.1:{port}"]
    command += ["--workers", str(workers), "--threads", str(threads), "--log-level", "warning"]
    process = subprocess.Popen(command, cwd=ROOT, env=dict(os.environ), start_new_session=True)
    try:
        _wait_for(process, port)
        yield Web(port, _session_of(person))
    finally:
        process.terminate()
        process.wait(30)


def _session_of(person: Any) -> str:
    from django.conf import settings
    from django.test import Client

    client = Client()
    client.force_login(person)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for(process: subprocess.Popen, port: int) -> None:
    deadline = time.monotonic() + _STARTS_WITHIN
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise BenchProblem("the web server did not start")
