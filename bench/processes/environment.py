"""Python environment of the other libraries, separate from the product's.

It is created once from ``bench/requirements.txt``, like the product's own: with the machine's pip
configuration, and a stamp that makes later calls quick.
"""

import shutil
import sys
from pathlib import Path

from bench.problem import BenchProblem
from elevata.bootstrap.console import Problem, run
from elevata.bootstrap.places import PYTHON, ROOT, SPARK_JARS
from elevata.bootstrap.stamps import digest, once

REQUIREMENTS = ROOT / "bench" / "requirements.txt"
PLACE = ROOT / "build" / "bench"
PEERS = PLACE / "venv"
PEERS_PYTHON = PEERS / "bin" / "python"


def product_python() -> Path:
    """Return the product's Python, created by ``make setup``."""
    if not PYTHON.exists() or not SPARK_JARS.is_dir():
        raise BenchProblem("the product's environment is not there: run make setup")
    return PYTHON


def peers_python() -> Path:
    """Return the Python with the other libraries; create it if it is missing or differs from the pins."""
    try:
        once("packages", digest(sys.version_info[:2], REQUIREMENTS), _make, results=[PEERS_PYTHON], folder=PLACE)
    except Problem as problem:
        raise BenchProblem(f"the peers' environment: {problem}") from problem
    return PEERS_PYTHON


def _make() -> str:
    shutil.rmtree(PEERS, ignore_errors=True)
    PEERS.parent.mkdir(parents=True, exist_ok=True)
    run([sys.executable, "-m", "venv", PEERS], failure="it could not be made")
    run(
        [PEERS_PYTHON, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS],
        failure="the packages of bench/requirements.txt could not be installed",
    )
    return "installed"


def main() -> int:
    """Create the environment (``python -m bench.processes.environment``, the first step of ``make bench``)."""
    try:
        product_python()
        peers_python()
    except BenchProblem as problem:
        print(f"bench: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
