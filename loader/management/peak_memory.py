"""Peak memory of a process and its children, from /proc."""

from pathlib import Path


def peak_bytes(pid: int) -> int:
    """Return the sum of the peak memory of the process and its descendants; 0 without /proc."""
    return sum(_peak_of(process) for process in (pid, *_descendants(pid)))


def _descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name in parentheses may contain spaces and parentheses.
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        parents.setdefault(int(fields[1]), []).append(int(status.parent.name))
    descendants: list[int] = []
    pending = [pid]
    while pending:
        children = parents.get(pending.pop(), [])
        descendants += children
        pending += children
    return descendants


def _peak_of(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
