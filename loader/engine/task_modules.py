"""Modules that tasks in Python import, sent to executors."""

import atexit
import shutil
import tempfile
import zipfile
from pathlib import Path

from pyspark import SparkContext

_SHIPPED = (
    "elevata/core",
    "metadata/domain",
    "loader/contract",
    "loader/domain",
    "loader/engine/arrow",
    "loader/readers/records",
)
_PACKAGES = ("elevata", "metadata", "loader", "loader/engine", "loader/readers")
_shipped_to: set[str] = set()


def ship_modules(context: SparkContext) -> None:
    """Give executors the modules that tasks import, once per context."""
    if context.applicationId in _shipped_to:
        return
    root = Path(__file__).parents[2]
    folder = tempfile.mkdtemp(prefix="elevata-tasks-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors may fetch it as long as the context lives
    archive = Path(folder) / "elevata_tasks.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for source in [root / package / "__init__.py" for package in _PACKAGES]:
            packed.write(source, source.relative_to(root))
        for source in (file for part in _SHIPPED for file in sorted((root / part).rglob("*.py"))):
            packed.write(source, source.relative_to(root))
    context.addPyFile(str(archive))
    _shipped_to.add(context.applicationId)
