"""Tests of options of systems: the check, the defaults, and the documentation."""

from pathlib import Path

import pytest

from elevata.core.errors import MetadataError
from metadata.domain.sources.system_options import SYSTEM_OPTIONS, check_system_options, system_options
from tests.repository.docs_tables import options_table

PAGE = Path(__file__).resolve().parents[4] / "docs" / "use" / "sources.md"
SECRET = "ELEVATA_SOURCE_SHOP"


def test_sources_page_contains_the_current_system_options_table():
    assert options_table(SYSTEM_OPTIONS) in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"authentication": "basic", "user": "reader"},
        {"authentication": "oauth2", "user": "id", "token_url": "https://login.example.org/token?a=b", "scope": "read"},
        {"authentication": "api_key", "header": "Api-Token", "requests_per_minute": 60},
    ],
)
def test_valid_options_of_a_rest_system_are_accepted(given):
    check_system_options("rest", given, secret=SECRET)


@pytest.mark.parametrize(
    ("kind", "given", "secret", "field"),
    [
        ("files", {"authentication": "basic"}, SECRET, "options.authentication"),
        ("rest", {"authentication": "digest"}, SECRET, "options.authentication"),
        ("rest", {"authentication": "basic"}, SECRET, "options.user"),
        ("rest", {"authentication": "oauth2", "user": "id"}, SECRET, "options.token_url"),
        ("rest", {"authentication": "basic", "user": "reader"}, "", "options.authentication"),
        ("rest", {"token_url": "ftp://login"}, SECRET, "options.token_url"),
        ("rest", {"token_url": "https://u:p@login/"}, SECRET, "options.token_url"),
        ("rest", {"header": "Host"}, SECRET, "options.header"),
        ("rest", {"header": "a b"}, SECRET, "options.header"),
        ("rest", {"requests_per_minute": 0}, SECRET, "options.requests_per_minute"),
    ],
)
def test_a_wrong_option_is_refused_at_its_field(kind, given, secret, field):
    with pytest.raises(MetadataError) as refused:
        check_system_options(kind, given, secret=secret)
    assert (refused.value.code, refused.value.field) == ("bad_option", field)


def test_options_that_are_not_given_have_their_default():
    assert system_options({"user": "x"})["authentication"] == "bearer"
