"""Lock file of a data folder, which has one runner at a time; it names the holder."""

import fcntl
import json
import os
import socket
import threading
import time
from pathlib import Path

from elevata.core.processes import lives
from loader.contract.refusals import Refusal

LOCK_NAME = "runner.lock"


# Seconds within which a runner notices that its worker has died.
_ORPHAN_SECONDS = 20.0


class FolderLock:
    """Lock of one data folder. The runner inherits it, so the runner of a killed worker still holds it."""

    def __init__(self, folder: Path):
        self._path = folder / LOCK_NAME
        self._descriptor: int | None = None

    @property
    def descriptor(self) -> int | None:
        """Return the descriptor that a child must inherit to hold the lock, too; None if the lock is not held."""
        return self._descriptor

    def acquire(self, what: str) -> None:
        """Take the lock, unless it is already held. Raise Refusal ``warehouse_busy``, which names the holder."""
        if self._descriptor is not None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._lock(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        os.ftruncate(descriptor, 0)
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "what": what}
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock. The folder stays locked until a child that inherited the lock ends."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _lock(self, descriptor: int) -> None:
        deadline = time.monotonic() + _ORPHAN_SECONDS
        pause = threading.Event()
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                holder = _holder(descriptor)
            # Without its owner, the lock is held by the runner of a dead worker, which will end.
            if _is_alive(holder) or time.monotonic() > deadline:
                raise Refusal(
                    "warehouse_busy",
                    f"the data folder {self._path.parent} is in use by {_named(holder)}",
                    hint="wait for it to end, stop it, or use another folder (ELEVATA_DATA_DIR)",
                )
            pause.wait(0.1)


def _holder(descriptor: int) -> dict:
    try:
        return json.loads(os.pread(descriptor, 4096, 0) or b"{}")
    except ValueError:  # the holder is writing the file
        return {}


def _is_alive(holder: dict) -> bool:
    if holder.get("host") != socket.gethostname():
        return bool(holder)  # processes of another machine cannot be checked
    return lives(holder["pid"])


def _named(holder: dict) -> str:
    if not holder:
        return "another runner"
    where = "" if holder["host"] == socket.gethostname() else f" on {holder['host']}"
    return f"{holder['what']} (process {holder['pid']}{where})"
