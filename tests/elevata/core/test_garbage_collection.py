"""Tests of the garbage collector's settings: cyclic garbage is collected less often."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from elevata.bootstrap.places import ROOT
from elevata.core.processes import collect_less, keep_what_is_loaded


@pytest.fixture
def as_before() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)
    gc.unfreeze()


def test_it_looks_less_often_and_still_does(as_before: tuple[int, int, int]) -> None:
    collect_less()
    assert all(now > before > 0 for now, before in zip(gc.get_threshold(), as_before, strict=True))
    assert gc.isenabled()


def test_what_is_loaded_is_left_alone(as_before: tuple[int, int, int]) -> None:
    keep_what_is_loaded()
    assert gc.get_freeze_count() > 0


def test_every_command_begins_so() -> None:
    said = "import gc; from elevata.core.processes import collect_less; a = gc.get_threshold(); collect_less(); "
    said += "print(a == gc.get_threshold())"
    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", said], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.strip() == "True", done.stderr
