"""Fixtures: the users and the small warehouse of the page tests, and the only allowed source folder."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def landing(settings: Any, tmp_path: Path) -> Path:
    """Return the only folder that sources may be in; a private file is next to it."""
    folder = tmp_path / "landing"
    folder.mkdir()
    (tmp_path / "private.csv").write_text("key,value\ncanary-of-a-file,1\n")
    settings.SOURCE_ROOTS = [str(folder)]
    settings.SOURCE_HOSTS = []
    return folder
