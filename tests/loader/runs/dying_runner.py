"""Real runner that kills itself or its worker at a chosen event.

Its argument names a JSON file: ``event`` and ``fields`` (the event and fields that it has), ``after`` (number of such
events before it, 0 if left out), ``told`` (true if the worker still receives the event) and ``who`` (``runner`` or
``worker``). The file is deleted first, so that only one process dies. A call of a metastore's client is an event,
too, ``catalog_call``; the process dies before the call.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from loader.engine import runner
from loader.engine.catalogs import external

DEATH = Path(sys.argv[1])
_tell = runner.Events.emit
_connect = external._client
_passed: list[str] = []


def death_at(event: str, fields: dict) -> dict | None:
    """Return the death that is due at this event."""
    due = json.loads(DEATH.read_text()) if DEATH.is_file() else None
    if due is None or due["event"] != event or not due["fields"].items() <= fields.items():
        return None
    _passed.append(event)
    return due if len(_passed) > due.get("after", 0) else None


def emit(self: runner.Events, event: str, **fields) -> None:
    due = death_at(event, fields)
    if due is None:
        _tell(self, event, **fields)
        return
    if due["told"]:
        _tell(self, event, **fields)
    die(due)


def die(due: dict) -> None:
    DEATH.unlink()
    os.kill(os.getpid() if due["who"] == "runner" else os.getppid(), signal.SIGKILL)
    threading.Event().wait()  # the signal is on its way


class DyingClient:
    """Client of a metastore whose calls are events."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        due = death_at("catalog_call", {"call": name})
        if due is not None:
            die(due)
        return getattr(self._client, name)


if __name__ == "__main__":
    runner.Events.emit = emit
    external._client = lambda session: DyingClient(_connect(session))
    sys.exit(runner.main())
