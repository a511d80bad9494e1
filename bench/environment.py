"""The peers' Python environment: made once from ``bench/requirements.txt``, apart from the product's.

It is made as the product's own is: the machine's pip configuration, a stamp that makes the second
time quick.
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
    """The product's own Python, made by ``make setup``."""
    if not PYTHON.exists() or not SPARK_JARS.is_dir():
        raise BenchProblem("the product's environment is not there: run make setup")
    return PYTHON


def peers_python() -> Path:
    """The Python that has the peers' packages; made if it is not there or no longer what is pinned."""
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
    """``python -m bench.environment``: the set-up that ``make bench`` does first."""
    try:
        product_python()
        peers_python()
    except BenchProblem as problem:
        print(f"bench: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
