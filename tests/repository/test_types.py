"""Tests that types are checked everywhere, and that each exception has its reason."""

import re
import tomllib

from elevata.bootstrap.places import ROOT

APPS = ("architecture", "elevata", "loader", "metadata")
IGNORE = re.compile(r"# type: ignore(?P<codes>\[[a-z-]+(, [a-z-]+)*\])?(?P<reason>  # \S.*)?$", re.MULTILINE)


def settings() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]


def test_only_migrations_are_not_checked():
    assert {*settings()["files"]} >= {*APPS}
    assert settings()["exclude"] == "/migrations/"
    unchecked = [override["module"] for override in settings()["overrides"] if override.get("ignore_errors")]
    assert unchecked == [["*.migrations.*"]]


def test_pure_packages_are_checked_strictly():
    strict = next(override for override in settings()["overrides"] if override.get("disallow_untyped_defs"))
    assert {*strict["module"]} >= {"*.domain", "*.domain.*", "elevata.core.*", "loader.contract.*"}


def test_every_ignored_error_has_its_code_and_reason():
    files = [path for app in APPS for path in sorted((ROOT / app).rglob("*.py"))]
    ignored = [(path.name, match) for path in files for match in IGNORE.finditer(path.read_text())]
    assert ignored
    assert [name for name, match in ignored if not (match["codes"] and match["reason"])] == []
