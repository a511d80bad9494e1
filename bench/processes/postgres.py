"""PostgreSQL of a benchmark's own."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from bench.problem import BenchProblem


@contextlib.contextmanager
def private_postgres(folder: Path) -> Iterator[str]:
    """Start a PostgreSQL in an emptied folder and yield its URL; stop it and remove the folder at the end.

    Raise BenchProblem if it does not start.
    """
    from tests.services.postgres import start_postgres
    from tests.services.process import ServerProblem

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        server, url = start_postgres(folder / "postgres")
    except ServerProblem as problem:
        raise BenchProblem(str(problem)) from problem
    try:
        yield url
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
