"""Tests of load types: derived from the input and the history, and their table in the documentation."""

from pathlib import Path

import pytest

from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.history.load_types import LOAD_TYPES, load_type

PAGE = Path(__file__).resolve().parents[4] / "docs" / "use" / "metadata.md"
DATED = {"time": "t"}


@pytest.mark.parametrize(
    ("policy", "historize", "name"),
    [
        ({}, False, "full"),
        ({}, True, "scd2"),
        ({"input": "append"}, False, "append"),
        ({"input": "delta"}, False, "upsert"),
        ({"input": "effective"} | DATED, False, "upsert"),
        ({"input": "cdc", "op": "op"} | DATED, False, "upsert"),
        ({"input": "cdc", "op": "op"} | DATED, True, "scd2"),
    ],
)
def test_the_load_type_follows_from_input_and_history(policy, historize, name):
    assert load_type(HistoryPolicy.from_dict(policy), historize=historize).name == name


def test_documentation_has_a_row_for_every_load_type():
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in LOAD_TYPES if f"\n| `{name}` |" not in page] == []
