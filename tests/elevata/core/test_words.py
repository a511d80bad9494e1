"""Counts in words, and suggestions."""

import pytest

from elevata.core.words import counted, name_parts, noun_for, suggestion


def test_count_has_the_noun_in_singular_or_plural():
    assert [counted(number, "column") for number in (0, 1, 1200)] == ["0 columns", "1 column", "1,200 columns"]


@pytest.mark.parametrize(
    ("plural", "singular"),
    [("schedules", "schedule"), ("entries", "entry"), ("queries", "query"), ("load runs", "load run")],
)
def test_noun_for_one_object_is_singular(plural: str, singular: str):
    assert (noun_for(1, plural), noun_for(2, plural)) == (singular, plural)


@pytest.mark.parametrize(
    "name", ["", "a", "rawcore.rc_air_airport", "x" * 100, "a..b__c", "äé-ü/ß.", "20261128T044550Z-397d2a"]
)
def test_parts_of_a_name_are_the_name(name: str):
    assert "".join(name_parts(name)) == name
    assert all(0 < len(part.rstrip("._/-")) <= 30 or not part.rstrip("._/-") for part in name_parts(name))


def test_name_breaks_after_its_separators():
    assert name_parts("rawcore.rc_air_airport") == ["rawcore.", "rc_", "air_", "airport"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rc_nyc_plane", "did you mean rawcore.rc_nyc_plane?"),
        ("mart.daly_delay", "did you mean mart.daily_delay?"),
        ("xyzzy", ""),
        ("", ""),
    ],
)
def test_suggestion_names_what_was_probably_meant(name: str, text: str):
    assert suggestion(name, ["mart.daily_delay", "rawcore.rc_nyc_plane", "raw.nyc_flight"]) == text
