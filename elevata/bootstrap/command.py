"""Command ``setup``: its steps in order, under a lock on the checkout."""

import argparse
import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator

from elevata.bootstrap import environment, frontend, jars, java, programs, project
from elevata.bootstrap.console import Problem, step
from elevata.bootstrap.places import LOG, ROOT

# Steps in the order of their dependencies.
STEPS: dict[str, Callable[[], str]] = {
    "python": environment.check_python,
    "venv": environment.virtual_environment,
    "packages": environment.packages,
    "java": java.ensure_java,
    "jars": jars.spark_jars,
    "front-end": frontend.front_end_files,
    "database": project.database,
    "static": project.static_files,
}
TEST_STEPS: dict[str, Callable[[], str]] = {
    "test tools": environment.test_packages,
    "page checks": frontend.page_checks,
}
# The class archive is useful only where Spark starts often.
SERVER_STEPS: dict[str, Callable[[], str]] = {
    "servers": programs.test_servers,
    "classes": jars.class_archive,
}
# Only for the tests of further servers: the S3 client is larger than all other downloads together.
OBJECT_STORE_STEPS: dict[str, Callable[[], str]] = {
    "object store": jars.object_store,
    "MariaDB": programs.mariadb,
    "database drivers": jars.database_drivers,
    "Kafka broker": jars.kafka_server,
}


def main(arguments: list[str]) -> int:
    """Run the command and return its exit code: 0, or 1 after a line about the failure."""
    options = _parser().parse_args(arguments)
    steps = {name: action for name, action in STEPS.items() if name not in options.without}
    if options.with_tests:
        steps |= TEST_STEPS
    if options.with_servers:
        steps |= SERVER_STEPS
    if options.with_object_store:
        steps |= OBJECT_STORE_STEPS
    started = time.monotonic()
    try:
        with _checkout_lock():
            LOG.unlink(missing_ok=True)
            for name, action in steps.items():
                step(name, action)
    except Problem as problem:
        print(f"setup: {problem}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"setup: {error} - make room or correct the rights, then run it again", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("setup: interrupted - run it again to finish", file=sys.stderr)
        return 1
    print(f"  ready in {time.monotonic() - started:.1f} s", flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m elevata.bootstrap", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    setup = commands.add_parser("setup", help="environment, packages, jars, front-end files, database")
    setup.add_argument("--with-tests", action="store_true", help="also the tests' packages, axe and the linter")
    setup.add_argument("--with-servers", action="store_true", help="also PostgreSQL, Redis and Chromium")
    setup.add_argument(
        "--with-object-store", action="store_true", help="also an S3 server, MariaDB, a Kafka broker and their jars"
    )
    setup.add_argument(
        "--without", nargs="*", choices=list(STEPS), default=[], metavar="STEP", help="steps to leave out"
    )
    return parser


@contextlib.contextmanager
def _checkout_lock() -> Iterator[None]:
    """Hold the checkout's lock, because concurrent set-ups would overwrite each other's files.

    The lock is on the folder itself, so that no lock file remains.
    """
    folder = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("  waiting for another set-up of this checkout", flush=True)
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
