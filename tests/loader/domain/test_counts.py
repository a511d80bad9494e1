"""Counts without a column of their own in lists."""

from loader.domain.run_states import FURTHER, further_counts


def test_what_is_not_zero_is_told_in_words():
    found = further_counts({"rows": 7, "late": 2, "late_ignored": 0, "missing": 5})
    assert found == [("missing", FURTHER["missing"], 5), ("late", FURTHER["late"], 2)]


def test_what_lists_show_already_is_not_told_again():
    assert further_counts({"rows": 7, "new": 1, "unchanged": 3, "versions": 9}) == []
