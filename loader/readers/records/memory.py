"""Limit of the memory that a process takes to read one file.

Values take more memory than their text: a list of one character, or an element without content, twenty times as much
and more. So limits of bytes and characters do not bound the memory of a reader.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_MEMORY = 2 << 30  # bytes
_STATE = Path("/proc/self/statm")  # of Linux


@contextmanager
def limited_memory() -> Iterator[None]:
    """Have allocations fail with MemoryError after the process has taken MOST_MEMORY more than at the beginning."""
    if not _STATE.exists():
        yield
        return
    before, most = resource.getrlimit(resource.RLIMIT_AS)
    wanted = int(_STATE.read_text().split()[0]) * resource.getpagesize() + MOST_MEMORY
    own = [limit for limit in (before, most) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([wanted, *own]), most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, most))
