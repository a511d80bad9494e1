"""Cheap copies of Delta tables, used to restore a history before every load.

Data files never change once written, so they are hard-linked. The log is copied: some of its files
(``_last_checkpoint``) are overwritten in place, which would change both sides of a link.
"""

import os
import shutil
from pathlib import Path

LOG = "_delta_log"


def link_copy(source: Path, target: Path) -> None:
    """Make ``target`` an exact copy of ``source``."""
    remove(target)
    target.mkdir(parents=True)
    for folder, folders, files in os.walk(source):
        there = target / Path(folder).relative_to(source)
        for name in folders:
            (there / name).mkdir()
        place = shutil.copy2 if LOG in Path(folder).relative_to(source).parts else os.link
        for name in files:
            place(os.path.join(folder, name), there / name)


def remove(folder: Path) -> None:
    """Delete the folder if it exists."""
    shutil.rmtree(folder, ignore_errors=True)


def size_of(folder: Path) -> tuple[int, int]:
    """Return the number of files in the folder, and their bytes."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return len(files), sum(path.stat().st_size for path in files)
