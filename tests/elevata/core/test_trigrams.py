"""Similarity of names by trigrams."""

import pytest

from elevata.core.trigrams import similar_names, word_similarity

# As PostgreSQL 15 answers word_similarity(text, name).
MEASURED = [
    ("windspeed", "wind_speed", 0.61538464),
    ("elevaton", "elevation", 0.6666667),
    ("airprt", "rc_air_airport", 0.5714286),
    ("custmer ordr", "customer_order", 0.5625),
    ("plane", "RC_Nyc.Plane", 1.0),
    ("ubersicht", "Übersicht", 0.7),
    ("aaa aab", "aaaa_aab", 1.0),
    ("amuont", "amount", 0.2857143),
    ("xyzzy", "amount", 0.0),
]


@pytest.mark.parametrize(("text", "name", "similarity"), MEASURED)
def test_word_similarity_equals_that_of_postgresql(text: str, name: str, similarity: float):
    assert word_similarity(text, name) == pytest.approx(similarity, abs=1e-6)


@pytest.mark.parametrize("text", [text for text, _, _ in MEASURED])
def test_similar_names_are_those_whose_similarity_reaches_the_threshold(text: str):
    names = [name for _, name, _ in MEASURED]
    expected = {name for name in names if word_similarity(text, name) >= 0.4}
    assert similar_names(text, "\n".join(names)) == expected


@pytest.mark.parametrize("names", ["", "\n", "___", "wind_speed\nwind_speed\n"])
def test_names_without_words_and_repeated_names_are_compared(names: str):
    assert similar_names("windsped", names) <= {"wind_speed"}
