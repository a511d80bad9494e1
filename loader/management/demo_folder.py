"""Data folder of the demo: its own, which is empty at the start."""

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

from loader.contract.refusals import Refusal
from loader.runner.folder_lock import LOCK_NAME, FolderLock

MARKER = ".elevata-demo"
PREPARED = "ELEVATA_DEMO_PREPARED"
# Variables that the demo ignores, because it is always embedded and in its own folder.
_IGNORED = ("DATABASE_URL", "CELERY_BROKER_URL", "ELEVATA_WAREHOUSE", "ELEVATA_ENVIRONMENT")


def is_prepared(folder: Path) -> bool:
    """Return True if this process was started for this folder, which was emptied before."""
    return os.environ.get(PREPARED) == str(folder)


def prepare(folder: Path) -> None:
    """Empty the folder. Raise Refusal if it is in use, or is not a folder of the demo."""
    if folder.exists() and not folder.is_dir():
        raise Refusal("NOT_A_FOLDER", f"{folder} is not a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).is_file():
        raise Refusal(
            "NOT_A_DEMO_FOLDER",
            f"{folder} is not empty and not a demo's folder, so it is left alone",
            hint="name another one with --data-dir",
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).touch()
    lock = FolderLock(folder)
    lock.acquire("manage.py demo")
    try:
        for entry in folder.iterdir():
            if entry.name in (MARKER, LOCK_NAME):
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
    finally:
        lock.release()


def start_again(folder: Path) -> NoReturn:
    """Replace this process by the same command with the settings of the folder."""
    environment = {name: value for name, value in os.environ.items() if name not in _IGNORED}
    environment |= {"ELEVATA_DATA_DIR": str(folder), PREPARED: str(folder)}
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)
