"""Real runner that kills itself or its worker at a chosen event.

Its argument names a JSON file: ``event`` and ``fields`` (the event and fields that it has), ``after`` (number of such
events before it, 0 if left out), ``told`` (true if the worker still receives the event) and ``who`` (``runner`` or
``worker``). The file is deleted first, so that only one process dies.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from loader.spark import runner

DEATH = Path(sys.argv[1])
_tell = runner.Events.emit
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
    DEATH.unlink()
    os.kill(os.getpid() if due["who"] == "runner" else os.getppid(), signal.SIGKILL)
    threading.Event().wait()  # the signal is on its way


if __name__ == "__main__":
    runner.Events.emit = emit
    sys.exit(runner.main())
