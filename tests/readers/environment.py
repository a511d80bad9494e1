"""Python environment of the readers, separate from the product's: created once from ``requirements.txt``."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def answered(python: object, script: str, *arguments: object) -> Any:
    """Run a script of this folder with a Python; return the JSON document in the last line of its output."""
    command = [str(part) for part in (python, Path(__file__).with_name(script), *arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def _make() -> str:
    shutil.rmtree(PLACE / "venv", ignore_errors=True)
    PLACE.mkdir(parents=True, exist_ok=True)
    run([sys.executable, "-m", "venv", PLACE / "venv"], failure="the readers' environment could not be made")
    run(
        [PYTHON, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS],
        failure="the packages of tests/readers/requirements.txt could not be installed",
    )
    return "installed"
