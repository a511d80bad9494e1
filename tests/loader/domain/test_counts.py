"""Counts without a column of their own in lists."""

from loader.contract.run_states import FURTHER, further_counts


def test_further_counts_label_values_that_are_not_zero():
    counts = further_counts({"rows": 7, "late": 2, "late_ignored": 0, "missing": 5})
    assert counts == [("missing", FURTHER["missing"], 5), ("late", FURTHER["late"], 2)]


def test_further_counts_omit_counts_that_lists_show():
    assert further_counts({"rows": 7, "new": 1, "unchanged": 3, "versions": 9}) == []
