"""Cost of a load besides time: processor time of the process and its JVM, and bytes read."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def processes(root: int) -> list[int]:
    """The process and everything below it, as /proc has them now."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(found[-1], [])
    return found


def cpu_seconds(root: int) -> float:
    """Processor time the process tree has used so far, ended children included."""
    used = 0
    for process in processes(root):
        if fields := _stat(process):
            used += sum(int(ticks) for ticks in fields[11:15])
    return used / _TICKS


def peak_bytes(root: int) -> int:
    """The largest resident memory that each process of the tree ever had, added up."""
    peak = 0
    for process in processes(root):
        try:
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            continue
        peak += sum(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    return peak


def bytes_read(root: int) -> int | None:
    """Bytes the process tree has read from the system so far, table logs and shuffles included.

    Spark's own counters will not do: they miss Parquet's vectored reads and count blocks kept in
    memory. None where the system does not tell.
    """
    read = 0
    for process in processes(root):
        try:
            counters = Path(f"/proc/{process}/io").read_text().splitlines()
        except PermissionError:
            return None
        except OSError:  # it ended just now
            continue
        read += int(counters[0].removeprefix("rchar: "))
    return read


def _stat(process: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the program's name, None if the process is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


class Measured:
    """Measured cost; the fields are set when the ``measure`` block ends."""

    seconds: float
    cpu_seconds: float
    bytes_read: int | None


@contextmanager
def measure(spark) -> Iterator[Measured]:
    """Measure what happens inside, after a garbage collection: every load starts with a clean heap."""
    spark._jvm.System.gc()
    measured, root = Measured(), os.getpid()
    read_before, cpu_before, started = bytes_read(root), cpu_seconds(root), time.perf_counter()
    yield measured
    measured.seconds = time.perf_counter() - started
    measured.cpu_seconds = cpu_seconds(root) - cpu_before
    read_after = bytes_read(root)
    measured.bytes_read = None if read_before is None or read_after is None else read_after - read_before
