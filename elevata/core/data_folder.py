"""Data folder: all files of an embedded installation.

The control database, the filesystem broker, the warehouse and the logs are in it, so that an installation can be
copied, moved or deleted as one folder.
"""

import os
import stat
from pathlib import Path

from elevata.core.installation import IS_INSTALLED, PROJECT_DIR, user_folder

# Folder of the data folders that have a name.
ROOT = user_folder() / "elevata" if IS_INSTALLED else PROJECT_DIR / ".data"
ACTIVE_FILE = ROOT / "active"
# File mode mask of every process of the product: other users cannot read its files.
UMASK = 0o077


def active_name() -> str:
    """Return the name of the folder under ``ROOT`` that commands use if ELEVATA_DATA_DIR is not set."""
    if ACTIVE_FILE.is_file():
        name = ACTIVE_FILE.read_text().strip()
        if name and (ROOT / name).is_dir():
            return name
    return "main"


def data_dir() -> Path:
    """Return the data folder: ELEVATA_DATA_DIR, or else the active folder under ``ROOT``."""
    configured = os.environ.get("ELEVATA_DATA_DIR")
    return Path(configured).expanduser().resolve() if configured else ROOT / active_name()


def activate(name: str) -> None:
    """Set the folder of this name under ``ROOT`` as the folder that later commands use."""
    ROOT.mkdir(parents=True, exist_ok=True)
    pending = ACTIVE_FILE.with_suffix(".new")
    pending.write_text(name + "\n")
    pending.replace(ACTIVE_FILE)


def make_private(folder: Path) -> list[str]:
    """Remove the permissions of other users on an existing data folder and the files directly in it.

    Return a sentence for each path that was changed, or could not be changed. Subfolders need no change, because other
    users cannot reach them. A folder with the sticky bit, like ``/tmp``, is shared on purpose and not changed.
    """
    if not folder.is_dir():
        return []
    if folder.stat().st_mode & stat.S_ISVTX:
        return [f"The data folder {folder} is shared by all users of this machine: set ELEVATA_DATA_DIR to another."]
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
    return [message for path in (folder, *files) if (message := _make_path_private(path))]


def _make_path_private(path: Path) -> str:
    """Remove the permissions of group and others; return a sentence about the change, or an empty string."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if not mode & UMASK:
            return ""
        path.chmod(mode & ~UMASK)
    except FileNotFoundError:
        return ""  # journals of the database appear and disappear
    except OSError as error:
        return f"{path} has mode {mode:04o} and may be read by others: {error.strerror}. Set it to {mode & ~UMASK:04o}."
    return f"{path} had mode {mode:04o}; it has {mode & ~UMASK:04o} now, so that others cannot read it."
