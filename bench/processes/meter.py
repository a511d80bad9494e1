"""Cost of a load: elapsed time, and CPU time of the process and its JVM."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def processes(root: int) -> list[int]:
    """Return the ids of a process and its descendants, from /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    pids, waiting = [], [root]
    while waiting:
        pids.append(waiting.pop())
        waiting += children.get(pids[-1], [])
    return pids


def cpu_seconds(root: int) -> float:
    """Return the CPU time of the process tree so far, including ended children."""
    used = 0
    for process in processes(root):
        if fields := _stat(process):
            used += sum(int(ticks) for ticks in fields[11:15])
    return used / _TICKS


def peak_bytes(root: int) -> int:
    """Return the sum of the peak resident memory of the tree's processes."""
    peak = 0
    for process in processes(root):
        try:
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            continue
        peak += sum(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    return peak


def _stat(process: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the program's name, None if the process has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


class Measured:
    """Measured cost; the fields are set when the ``metered`` block ends."""

    seconds: float
    cpu_seconds: float


@contextmanager
def metered(spark) -> Iterator[Measured]:
    """Measure the cost of the block, after a garbage collection, so that every load starts with a clean heap."""
    spark._jvm.System.gc()
    measured, root = Measured(), os.getpid()
    cpu_before, started = cpu_seconds(root), time.perf_counter()
    yield measured
    measured.seconds = time.perf_counter() - started
    measured.cpu_seconds = cpu_seconds(root) - cpu_before
