"""Python environment of the readers, separate from the product's: made once from ``requirements.txt``."""

import shutil
import sys
from pathlib import Path

from elevata.bootstrap.console import run
from elevata.bootstrap.places import ROOT
from elevata.bootstrap.stamps import digest, once

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
PLACE = ROOT / "build" / "readers"
PYTHON = PLACE / "venv" / "bin" / "python"


def readers_python() -> Path:
    """Return the Python with the readers; create it if it is missing or differs from the pins."""
    once("packages", digest(sys.version_info[:2], REQUIREMENTS), _make, results=[PYTHON], folder=PLACE)
    return PYTHON


def _make() -> str:
    shutil.rmtree(PLACE / "venv", ignore_errors=True)
    PLACE.mkdir(parents=True, exist_ok=True)
    run([sys.executable, "-m", "venv", PLACE / "venv"], failure="the readers' environment could not be made")
    run(
        [PYTHON, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS],
        failure="the packages of tests/readers/requirements.txt could not be installed",
    )
    return "installed"
