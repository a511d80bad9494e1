"""Tests of the garbage collector's settings: cyclic garbage is collected less often."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from elevata.bootstrap.places import ROOT
from elevata.core.garbage_collection import collect_less, keep_what_is_loaded


@pytest.fixture
def as_before() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)
    gc.unfreeze()


def test_garbage_collection_is_less_frequent_and_enabled(as_before: tuple[int, int, int]) -> None:
    collect_less()
    assert all(now > before > 0 for now, before in zip(gc.get_threshold(), as_before, strict=True))
    assert gc.isenabled()


def test_loaded_objects_are_frozen_for_garbage_collection(as_before: tuple[int, int, int]) -> None:
    keep_what_is_loaded()
    assert gc.get_freeze_count() > 0


def test_manage_command_starts_with_less_frequent_garbage_collection() -> None:
    code = "import gc; from elevata.core.garbage_collection import collect_less; a = gc.get_threshold(); "
    code += "collect_less(); print(a == gc.get_threshold())"
    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.strip() == "True", done.stderr
