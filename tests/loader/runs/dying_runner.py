"""Real runner that kills itself or its worker at a chosen step of an execution.

Its argument names a JSON file: ``step`` (the step's ordinal), ``told`` (true if the worker still receives the
step's event) and ``who`` (``runner`` or ``worker``). The file is deleted first, so that only one process
dies.
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


def emit(self: runner.Events, event: str, **fields) -> None:
    due = json.loads(DEATH.read_text()) if event == "step_finished" and DEATH.is_file() else None
    if due is None or due["step"] != fields["ordinal"]:
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
