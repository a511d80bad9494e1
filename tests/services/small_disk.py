"""File system of a few megabytes, so that a test can fill a disk."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services.process import ServerProblem


class SmallDisk:
    """Mounted file system in memory at ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def resize(self, megabytes: int) -> None:
        _run("mount", "-o", f"remount,size={megabytes}m", str(self.folder))


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Mount a file system of so many megabytes for the block. Raise ServerProblem if the machine cannot."""
    folder.mkdir()
    _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "tmpfs", str(folder))
    try:
        yield SmallDisk(folder)
    finally:
        # A process that ends slowly may still have a file open.
        _run("umount", "--lazy", str(folder))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ServerProblem(f"this machine cannot mount a small file system: {done.stderr.strip()} (it takes root)")
