"""Servers of a test session, chosen before Django's settings are read.

ELEVATA_TEST_SERVICES chooses:

* ``postgres_redis`` (default): a private PostgreSQL and a private Redis. If one is not installed,
  the session fails with an error; no test is skipped.
* ``embedded``: SQLite and the filesystem broker in the session's data folder.
* ``none``: the same defaults, for tests that need neither a server nor a worker.

In every mode the session has its own data folder, and the product's variables of the shell are
ignored: a test run never touches a developer's data, and is the same everywhere.
"""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.services.postgres import start_postgres
from tests.services.process import Server, ServerProblem
from tests.services.redis import start_redis

CHOICE = "ELEVATA_TEST_SERVICES"
MODES = ("postgres_redis", "embedded", "none")
_PRODUCT = ("DATABASE_URL", "CELERY_BROKER_URL", "SPARK_MASTER")
# Variables of the tests themselves: how many examples a property test tries (make test-nightly sets more).
_EXAMPLES = "_EXAMPLES"


def mode() -> str:
    """Return the chosen mode."""
    chosen = os.environ.get(CHOICE) or MODES[0]
    if chosen not in MODES:
        raise ServerProblem(f"{CHOICE} must be one of {', '.join(MODES)}, not {chosen}")
    return chosen


class Session:
    """Folder and servers of a test session; ``stop`` removes them."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="elevata-test-"))
        self._servers: list[Server] = []
        self._owner = os.getpid()
        atexit.register(self.stop)

    def start(self, *, with_servers: bool = True) -> None:
        """Start the servers, and set the product's variables to this session's folder and servers."""
        chosen = mode()
        for name in list(os.environ):
            of_tests = name == CHOICE or name.endswith(_EXAMPLES)
            if name in _PRODUCT or (name.startswith("ELEVATA_") and not of_tests):
                del os.environ[name]
        # Modules are compiled once, not by each process of a run.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        sys.dont_write_bytecode = False
        os.environ["ELEVATA_DATA_DIR"] = str(self.folder / "data")
        if chosen == "postgres_redis" and with_servers:
            os.environ["DATABASE_URL"] = self._run(start_postgres, "postgres")
            os.environ["CELERY_BROKER_URL"] = self._run(start_redis, "redis")

    def _run(self, start, name: str) -> str:
        try:
            server, url = start(self.folder / name)
        except ServerProblem as problem:
            raise ServerProblem(
                f"{problem} - make test installs what is missing, or choose {CHOICE}=embedded"
            ) from problem
        self._servers.append(server)
        return url

    def stop(self) -> None:
        """Stop the servers and remove the folder. A forked child must not do this for its parent."""
        if os.getpid() != self._owner:
            return
        while self._servers:
            self._servers.pop().stop()
        shutil.rmtree(self.folder, ignore_errors=True)
