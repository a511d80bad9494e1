"""Folder with all files of an embedded installation.

It has the control database, the filesystem broker, the warehouse and the logs, so that an installation can be
copied, deleted or moved as one folder.
"""

import os
import stat
from pathlib import Path

PROJECT_DIR = Path(__file__).resolve().parents[2]
ROOT = PROJECT_DIR / ".data"
ACTIVE_FILE = ROOT / "active"
# Of every process of the product: its files are for the user it runs as.
UMASK = 0o077


def active_name() -> str:
    """Name of the folder under ``.data`` that commands use when ELEVATA_DATA_DIR is not set."""
    if ACTIVE_FILE.is_file():
        name = ACTIVE_FILE.read_text().strip()
        if name and (ROOT / name).is_dir():
            return name
    return "main"


def data_dir() -> Path:
    """Return the data folder: ELEVATA_DATA_DIR, else the active one under ``.data``."""
    configured = os.environ.get("ELEVATA_DATA_DIR")
    return Path(configured).expanduser().resolve() if configured else ROOT / active_name()


def activate(name: str) -> None:
    """Make ``.data/<name>`` the folder that commands use from now on."""
    ROOT.mkdir(parents=True, exist_ok=True)
    pending = ACTIVE_FILE.with_suffix(".new")
    pending.write_text(name + "\n")
    pending.replace(ACTIVE_FILE)


def make_private(folder: Path) -> list[str]:
    """Remove the permissions of other users on an existing data folder and the files directly in it.

    Returns a sentence for each path that was changed, or could not be. Folders inside need no change, since other
    users cannot reach them. A folder with the sticky bit is shared on purpose, like ``/tmp``, and stays.
    """
    if not folder.is_dir():
        return []
    if folder.stat().st_mode & stat.S_ISVTX:
        return [f"The data folder {folder} is shared by all users of this machine: set ELEVATA_DATA_DIR to another."]
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
    return [message for path in (folder, *files) if (message := _mended(path))]


def _mended(path: Path) -> str:
    """Remove all rights on ``path`` from group and others; return a sentence about the change, or None."""
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
