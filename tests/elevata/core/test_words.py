"""Counts in words."""

import pytest

from elevata.core.words import counted, did_you_mean, noun_for


def test_count_has_the_noun_in_singular_or_plural():
    assert [counted(number, "column") for number in (0, 1, 1200)] == ["0 columns", "1 column", "1,200 columns"]


@pytest.mark.parametrize(
    ("plural", "singular"),
    [("schedules", "schedule"), ("entries", "entry"), ("queries", "query"), ("load runs", "load run")],
)
def test_noun_for_one_object_is_singular(plural: str, singular: str):
    assert (noun_for(1, plural), noun_for(2, plural)) == (singular, plural)


def test_unknown_word_is_answered_by_the_words_most_like_it():
    assert did_you_mean("daly", ["daily", "night"]) == "; did you mean daily?"
    assert did_you_mean("quite else", ["daily", "night"]) == ""
