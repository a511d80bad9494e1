"""Process names and liveness, log context, garbage collector."""

import os
import socket


def process_name() -> str:
    """Return the name of this process, unique across machines: ``host:pid``."""
    return f"{socket.gethostname()}:{os.getpid()}"


def lives(pid: int) -> bool:
    """Return True if a process with this id runs on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def is_gone(name: str) -> bool:
    """Return True if the process of this name ran on this machine and has ended; False for other machines."""
    host, _, pid = name.rpartition(":")
    return host == socket.gethostname() and pid.isdigit() and not lives(int(pid))
