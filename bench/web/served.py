"""Installation under measurement: its own PostgreSQL, and the web server as ``manage.py serve`` starts it."""

import contextlib
import http.client
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.problem import BenchProblem
from bench.processes import meter
from bench.processes.postgres import private_postgres
from elevata.bootstrap.places import ROOT


@contextlib.contextmanager
def database(folder: Path) -> Iterator[None]:
    """Start and migrate a separate PostgreSQL and set up Django for it; works once per process."""
    with private_postgres(folder / "database") as url:
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
        yield


@dataclass
class Web:
    """Running web server with a signed-in user."""

    port: int
    session: str

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def busy(self) -> float:
        """Return the CPU milliseconds so far of the web server and the database, the children of this process."""
        return (meter.cpu_seconds(os.getpid()) - time.process_time()) * 1000

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
def web(person: Any, folder: Path, *, workers: int = 1, threads: int = 8) -> Iterator[Web]:
    """Serve the database within the context, with a session of this user.

    By default in one process: which of two has a page's answer in its cache would be chance.
    """
    from django.conf import settings
    from django.test import Client

    from tests.services.process import Server, ServerProblem

    def command(port: int) -> list[str]:
        bind = ["--bind", f"127.0.0.1:{port}", "--chdir", str(ROOT), "--log-level", "warning"]
        size = ["--workers", str(workers), "--threads", str(threads)]
        return [sys.executable, "-m", "gunicorn", "elevata.wsgi:application", *bind, *size]

    client = Client()
    client.force_login(person)
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    try:
        log = folder / "web.log"
        server = Server("The web server", command, _is_ready, log=log, stop_signal=signal.SIGTERM)
    except ServerProblem as problem:
        raise BenchProblem(str(problem)) from problem
    try:
        yield Web(server.port, session)
    finally:
        server.stop()


def _is_ready(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
