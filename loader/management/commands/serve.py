"""Command that starts web, worker and scheduler in one terminal, on the embedded defaults."""

import signal
import socket
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from elevata.accounts.cli import CommandExit, ProductCommand
from elevata.core.installation import WORKING_DIR
from loader.management.children import Family, beat_command, worker_command
from loader.runner.folder_lock import FolderLock

_WEB_THREADS, _WEB_WORKERS = 8, 2
_START_TIMEOUT = 30.0


class Command(ProductCommand):
    """Command to start all processes; Ctrl-C, or the end of one process, stops all."""

    help = "Run web, worker and scheduler together; Ctrl-C stops them."
    takes_user = False
    with_json = False

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="where the web server listens")
        parser.add_argument("--port", type=int, default=8000)

    def run(self, **options: Any) -> None:
        host, port = options["host"], options["port"]
        _refuse_busy_port(host, port)
        _refuse_busy_folder()
        self._migrate()
        address = f"http://{'localhost' if host in ('127.0.0.1', '0.0.0.0') else host}:{port}/"
        family = Family(lambda name, line: self.say(f"{name:>9} | {line}"))
        # A script that starts this in its background lets it ignore SIGINT, which the last line promises to obey.
        previous = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            family.start("worker", worker_command(), folder=WORKING_DIR)
            family.start(
                "scheduler",
                beat_command(schedule=str(Path(settings.DATA_DIR) / "celerybeat-schedule")),
                folder=WORKING_DIR,
            )
            family.start("web", _web_command(host, port), folder=WORKING_DIR)
            self._wait_for_web(family, host, port)
            self.say(f"elevata is at {address} - data folder {_relative_path(settings.DATA_DIR)} - Ctrl-C stops it")
            ended = family.ended()
            assert ended is not None  # without a time limit, a child has ended
            raise _process_ended(*ended)
        except KeyboardInterrupt:
            self.say("stopping")
        finally:
            for number in previous:
                signal.signal(number, signal.SIG_IGN)
            family.stop()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _migrate(self) -> None:
        """Migrate an embedded database. Raise CommandExit for an outdated one on a server."""
        executor = MigrationExecutor(connection)
        if not executor.migration_plan(executor.loader.graph.leaf_nodes()):
            return
        if connection.vendor != "sqlite":
            raise CommandExit(1, "the control database is not up to date: run 'manage.py migrate' first")
        self.say("bringing the control database up to date")
        call_command("migrate", interactive=False, verbosity=0)

    def _wait_for_web(self, family: Family, host: str, port: int) -> None:
        """Wait until the web server answers. Raise CommandExit if a process ends, or after the time limit."""
        deadline = time.monotonic() + _START_TIMEOUT
        while time.monotonic() < deadline:
            if (ended := family.ended(timeout=0.1)) is not None:
                raise _process_ended(*ended)
            with socket.socket(_family_of(host)) as probe:
                probe.settimeout(1)
                if probe.connect_ex((_local_host(host), port)) == 0:
                    return
        raise CommandExit(1, f"the web server did not answer within {_START_TIMEOUT:.0f} s")


def _process_ended(name: str, code: int) -> CommandExit:
    return CommandExit(1, f"the {name} ended with code {code}, so everything was stopped")


def _interrupt(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt


def _web_command(host: str, port: int) -> list[str]:
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return [
        *(sys.executable, "-m", "gunicorn", "elevata.wsgi:application", "--bind", address),
        *("--workers", str(_WEB_WORKERS), "--threads", str(_WEB_THREADS), "--log-level", "warning"),
    ]


def _family_of(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _local_host(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def _refuse_busy_port(host: str, port: int) -> None:
    with socket.socket(_family_of(host)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            raise CommandExit(
                1, f"cannot listen at {host}:{port} ({error}): choose another with --port", "port_busy"
            ) from None


def _refuse_busy_folder() -> None:
    """Raise Refusal if another runner uses the folder, because the worker could not start one."""
    lock = FolderLock(Path(settings.DATA_DIR))
    lock.acquire("manage.py serve")
    lock.release()


def _relative_path(folder: Path) -> str:
    """Return the folder's path, relative to the checkout if it is in it."""
    base = Path(settings.BASE_DIR)
    return str(folder.relative_to(base)) if folder.is_relative_to(base) else str(folder)
