"""Paths of set-up.

In a checkout its files are below it and ignored by git. A wheel has no files of its own to set up except Java's
location and jars, which are in the environment where it is installed.
"""

import sys
from pathlib import Path

from elevata.core.installation import CODE_DIR, IS_INSTALLED, PROJECT_DIR

ROOT = PROJECT_DIR

VENV = Path(sys.prefix) if IS_INSTALLED else ROOT / ".venv"
PYTHON = Path(sys.executable) if IS_INSTALLED else VENV / "bin" / "python"
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
LOG = VENV / "elevata-setup.log" if IS_INSTALLED else ROOT / "build" / "setup.log"
# Sources that decide whether the database and the static files are up to date.
SETTINGS = CODE_DIR / "elevata" / "settings.py"
STORAGE = CODE_DIR / "elevata" / "web" / "storage.py"


def relative(path: Path) -> str:
    """Return the path relative to the checkout, for messages."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
