"""Which folder holds everything an embedded installation writes.

One folder carries the control database, the filesystem broker, the warehouse and the logs, so
that it can be copied, thrown away or put somewhere else as one thing.
"""

import os
from pathlib import Path

PROJECT_DIR = Path(__file__).resolve().parent.parent
ROOT = PROJECT_DIR / ".data"
ACTIVE_FILE = ROOT / "active"


def active_name() -> str:
    """Name of the folder under ``.data`` that commands use when ELEVATA_DATA_DIR is not set."""
    if ACTIVE_FILE.is_file():
        name = ACTIVE_FILE.read_text().strip()
        if name and (ROOT / name).is_dir():
            return name
    return "main"


def data_dir() -> Path:
    """The data folder in force: ELEVATA_DATA_DIR, else the active one under ``.data``."""
    configured = os.environ.get("ELEVATA_DATA_DIR")
    return Path(configured).expanduser().resolve() if configured else ROOT / active_name()


def activate(name: str) -> None:
    """Make ``.data/<name>`` the folder that commands use from now on."""
    ROOT.mkdir(parents=True, exist_ok=True)
    pending = ACTIVE_FILE.with_suffix(".new")
    pending.write_text(name + "\n")
    pending.replace(ACTIVE_FILE)
