"""Names of processes, and their liveness on this machine."""

import os
import socket


def process_name() -> str:
    """Return the name of this process, unique among machines: ``host:pid``."""
    return f"{socket.gethostname()}:{os.getpid()}"


def lives(pid: int) -> bool:
    """Return whether a process of that number runs on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def is_gone(name: str) -> bool:
    """Return whether a process of that name ran on this machine and has ended. False where that is unknown."""
    host, _, pid = name.rpartition(":")
    return host == socket.gethostname() and pid.isdigit() and not lives(int(pid))
