"""Rejected rows that cannot be written."""

import pytest

from loader.contract.refusals import Refusal
from loader.engine.sources.checks.rejections import RejectedRows

RAGGED = Refusal("RAGGED_ROW", "a.csv, line 3: too few fields")


def fail(_: RejectedRows) -> int:
    raise OSError("no space left on device")


def test_a_failing_write_does_not_hide_the_refusal_of_a_delivery(caplog):
    assert RejectedRows(None, RAGGED, is_refused=True).write(fail) == 0
    assert "no space left on device" in caplog.text


def test_load_fails_if_its_rejected_rows_cannot_be_written():
    with pytest.raises(OSError, match="no space left"):
        RejectedRows(None, RAGGED, is_refused=False).write(fail)
