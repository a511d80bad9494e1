"""Failures of tasks that read files."""

import traceback

from loader.contract.refusals import Refusal
from loader.engine.sources.files import is_read_failure, unreadable
from loader.readers.records import unpacking


def failure_of(refusal: Refusal) -> RuntimeError:
    """Return the error of a job of which a task raised the refusal."""
    return RuntimeError("Job aborted.\n" + "".join(traceback.format_exception(refusal)))


def test_refusal_of_a_task_is_the_refusal_of_its_file():
    error = failure_of(unpacking.unreadable("day/a.parquet", "its footer is broken"))
    assert is_read_failure(error)
    refusal = unreadable("day", error)
    assert (refusal.code, refusal.file) == ("UNREADABLE_FILE", "day/a.parquet")
    assert refusal.message == "day/a.parquet cannot be read: its footer is broken"


def test_another_error_of_a_task_is_no_failure_to_read():
    assert not is_read_failure(RuntimeError("No space left on device"))
