"""Kind and version of this installation: a checkout, or a wheel in an environment.

A wheel has the files of a checkout that are in no package (templates, static files, examples, pins) in
``elevata/bundle``, under the same paths. A checkout has no such folder.
"""

import os
import sys
import tomllib
from importlib import metadata
from pathlib import Path

PACKAGES = ("elevata", "metadata", "architecture", "loader")
# Folder of the packages.
CODE_DIR = Path(__file__).resolve().parents[2]
_BUNDLE = CODE_DIR / "elevata" / "bundle"
IS_INSTALLED = _BUNDLE.is_dir()
# Folder of templates, static files, examples and manage.py.
PROJECT_DIR = _BUNDLE if IS_INSTALLED else CODE_DIR
# Working folder of child processes; None is the parent's, so that relative paths in variables mean the same there.
WORKING_DIR = None if IS_INSTALLED else PROJECT_DIR


def version() -> str:
    """Return the version of the product, as pyproject.toml or the installed wheel has it."""
    project = CODE_DIR / "pyproject.toml"
    if IS_INSTALLED or not project.is_file():
        return metadata.version("elevata")
    return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])


def user_command(name: str) -> str:
    """Return the text by which a user runs setup, demo or serve: ``make NAME``, or ``elevata NAME`` of a wheel."""
    return f"{'elevata' if IS_INSTALLED else 'make'} {name}"


def user_folder() -> Path:
    """Return the folder for the data of this user's programs, where the operating system has one."""
    home = Path(os.path.expanduser("~"))  # no error where a user has no home, but sets ELEVATA_DATA_DIR
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    configured = os.environ.get("XDG_DATA_HOME", "")
    return Path(configured) if Path(configured).is_absolute() else home / ".local" / "share"
