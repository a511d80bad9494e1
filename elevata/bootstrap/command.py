"""Command ``setup``: run its steps, independent ones in parallel, under a lock on the checkout or the wheel."""

import argparse
import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from elevata.bootstrap import environment, frontend, jars, java, programs, project
from elevata.bootstrap.console import Problem, step
from elevata.bootstrap.places import LOG, ROOT
from elevata.core.installation import IS_INSTALLED


@dataclass(frozen=True)
class Step:
    """Step of set-up.

    ``after`` names the steps that must end before it; steps that were not selected are ignored.
    """

    action: Callable[[], str]
    after: tuple[str, ...] = ()


STEPS: dict[str, Step] = {
    "python": Step(environment.check_python),
    "venv": Step(environment.virtual_environment, after=("python",)),
    "packages": Step(environment.packages, after=("venv",)),
    "java": Step(java.ensure_java, after=("venv",)),
    "jars": Step(jars.spark_jars, after=("packages", "java")),
    # On a machine without Node it is installed into the virtual environment.
    "front-end": Step(frontend.front_end_files, after=("venv",)),
    "database": Step(project.database, after=("packages",)),
    "static": Step(project.static_files, after=("packages", "front-end")),
}
# Steps that are left to do where pip has installed the wheel with its packages and its front-end files.
STEPS_OF_A_WHEEL = ("java", "jars", "database")
TEST_STEPS: dict[str, Step] = {
    "test tools": Step(environment.test_packages, after=("packages",)),
    "page checks": Step(frontend.page_checks, after=("front-end",)),
}
# The class archive is useful only where Spark starts often. PySpark uses packages that the test tools bring, and fails
# while one of them is half installed.
SERVER_STEPS: dict[str, Step] = {
    "servers": Step(programs.test_servers, after=("python",)),
    "classes": Step(jars.class_archive, after=("jars", "test tools")),
}
# Only for the tests of further servers: the S3 client is larger than all other downloads together.
OBJECT_STORE_STEPS: dict[str, Step] = {
    "object store": Step(jars.object_store, after=("jars",)),
    "MariaDB": Step(programs.mariadb, after=("python",)),
    "database drivers": Step(jars.database_drivers, after=("jars",)),
    "Kafka broker": Step(jars.kafka_server, after=("jars",)),
}


def main(arguments: list[str]) -> int:
    """Run the command and return its exit code: 0, or 1 after a line about the failure."""
    options = _parser().parse_args(arguments)
    own = STEPS_OF_A_WHEEL if IS_INSTALLED else tuple(STEPS)
    steps = {name: STEPS[name] for name in own if name not in options.without}
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
            run_steps(steps)
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


def run_steps(steps: Mapping[str, Step]) -> None:
    """Run the steps, each as soon as those before it are done, as many at once as there are cores, at least two.

    After a failure no further step begins; those under way end first. Raise the error of the first that failed.
    """
    waiting = dict(steps)
    running: dict[Future[None], str] = {}
    failed: list[BaseException] = []
    with ThreadPoolExecutor(max_workers=max(2, os.cpu_count() or 1)) as pool:
        while running or (waiting and not failed):
            unfinished = {*waiting, *running.values()}
            ready = [name for name in waiting if not failed and not unfinished & {*waiting[name].after}]
            for name in ready:
                running[pool.submit(step, name, waiting.pop(name).action)] = name
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                del running[future]
                if error := future.exception():
                    failed.append(error)
    if failed:
        raise failed[0]


def _parser() -> argparse.ArgumentParser:
    program = "elevata" if IS_INSTALLED else "python3 -m elevata.bootstrap"
    parser = argparse.ArgumentParser(prog=program, description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    setup = commands.add_parser("setup", help="environment, packages, jars, front-end files, database")
    setup.set_defaults(with_tests=False, with_servers=False, with_object_store=False)
    if not IS_INSTALLED:
        _add_test_options(setup)
    setup.add_argument(
        "--without", nargs="*", choices=list(STEPS), default=[], metavar="STEP", help="steps to leave out"
    )
    return parser


def _add_test_options(setup: argparse.ArgumentParser) -> None:
    setup.add_argument("--with-tests", action="store_true", help="also the tests' packages, axe and the linter")
    setup.add_argument("--with-servers", action="store_true", help="also PostgreSQL, Redis, Chromium and a C compiler")
    setup.add_argument(
        "--with-object-store", action="store_true", help="also an S3 server, MariaDB, a Kafka broker and their jars"
    )


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
