"""Tests that the Makefile targets used by other programs exist and do their job."""

import os
import re
import subprocess

import pytest

from elevata.bootstrap.places import ROOT

TARGETS = (
    *("help", "setup", "demo", "serve", "pictures", "clean"),
    *("test", "test-full", "test-rest", "test-changed", "test-services", "test-fast", "test-nightly", "bench", "lint"),
    *("coverage", "wheel", "audit", "openapi"),
)


def make(*arguments: str) -> str:
    # A make that runs these tests passes its own flags to its child processes.
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(["make", *arguments], cwd=ROOT, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_help_is_the_default_and_lists_every_target():
    shown = make()
    assert [target for target in TARGETS if not re.search(rf"^  make {target} +\S", shown, re.M)] == []


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_passes_a_dry_run(target):
    assert make("--dry-run", target)


@pytest.mark.parametrize("target", [target for target in TARGETS if target not in {"help", "clean"}])
def test_every_target_runs_setup_first(target):
    assert "-m elevata.bootstrap setup" in make("--dry-run", target).strip().splitlines()[0]


def test_only_targets_that_need_them_install_servers():
    assert "--with-servers" in make("--dry-run", "test")
    assert "--with-servers" not in make("--dry-run", "test-fast")
    assert "--with-tests" not in make("--dry-run", "setup")


def test_make_test_fast_excludes_tests_with_a_database(request, db):
    assert "not database" in make("--dry-run", "test-fast")
    assert request.node.get_closest_marker("database")


def test_make_clean_keeps_the_data_folder():
    assert ".data" not in make("--dry-run", "clean")


def test_continuous_integration_runs_the_tests():
    script = ROOT / ".ci" / "run"
    assert "make test <" in script.read_text()
    assert "make test-rest <" in script.read_text()
    assert "set -euo pipefail" in script.read_text()
    assert script.stat().st_mode & 0o111
