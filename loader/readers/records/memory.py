"""Limit of the memory that a process allocates while it reads one file.

Limits of bytes and characters do not bound it: a list of one character, or an element without content, takes twenty
times the memory of its text, and more.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_MEMORY = 2 << 30  # bytes
_SIZES = Path("/proc/self/statm")  # of the process in pages, on Linux; its address space first


@contextmanager
def limited_memory() -> Iterator[None]:
    """Let allocations raise MemoryError once the process has MOST_MEMORY more than at the beginning; only on Linux."""
    if not _SIZES.exists():
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    address_space = int(_SIZES.read_text().split()[0]) * resource.getpagesize()
    limits = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([address_space + MOST_MEMORY, *limits]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
