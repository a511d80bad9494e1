"""Peak memory of a process and its children, from /proc."""

from pathlib import Path


def peak_bytes(pid: int) -> int:
    """Return the sum of the peaks of the process and all its descendants; 0 where there is no /proc."""
    return sum(_peak(one) for one in (pid, *_descendants(pid)))


def _descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name in parentheses may hold blanks and parentheses itself.
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        parents.setdefault(int(fields[1]), []).append(int(status.parent.name))
    found: list[int] = []
    pending = [pid]
    while pending:
        children = parents.get(pending.pop(), [])
        found += children
        pending += children
    return found


def _peak(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
