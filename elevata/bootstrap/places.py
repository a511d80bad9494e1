"""Paths of set-up. All its files are in the checkout and ignored by git."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMPS = VENV / ".stamps"
JAVA_HOME_FILE = VENV / "java-home"
SPARK_JARS = VENV / "spark-jars"

VENDOR = ROOT / "static" / "vendor"
TEST_VENDOR = ROOT / "build" / "vendor"
NODE_MODULES = ROOT / "node_modules"
STATIC_ROOT = ROOT / "staticfiles"
OBJECT_STORE = ROOT / "build" / "object-store"
DATABASE_DRIVERS = ROOT / "build" / "database-drivers"
KAFKA_BROKER = ROOT / "build" / "kafka-broker"
LOG = ROOT / "build" / "setup.log"


def relative(path: Path) -> str:
    """Return the path relative to the checkout, for messages."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
