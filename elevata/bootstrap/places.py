"""Paths of set-up. Everything it makes is inside the checkout and git-ignored."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMPS = VENV / ".stamps"
JAVA_HOME_FILE = VENV / "java-home"
SPARK_JARS = VENV / "spark-jars"

VENDOR = ROOT / "static" / "vendor"
TEST_VENDOR = ROOT / "build" / "vendor"
STATIC_ROOT = ROOT / "staticfiles"
LOG = ROOT / "build" / "setup.log"


def relative(path: Path) -> str:
    """The path as a person in the checkout would type it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
