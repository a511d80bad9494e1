"""Who a process is, and whether another one of this machine is still there."""

import os
import socket


def process_name() -> str:
    """This process, told apart from others on this and other machines: ``host:pid``."""
    return f"{socket.gethostname()}:{os.getpid()}"


def lives(pid: int) -> bool:
    """Whether there is a process of that number on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def is_gone(name: str) -> bool:
    """Whether a process of that name was on this machine and is no more. False where nobody can know."""
    host, _, pid = name.rpartition(":")
    return host == socket.gethostname() and pid.isdigit() and not lives(int(pid))
