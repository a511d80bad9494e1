"""Tests that the page of error codes has every code, and is up to date."""

import pytest

from elevata.core.errors import _STATUSES
from tests.repository.error_codes import raised
from tests.repository.error_codes_page import MEANINGS, PAGE, meaning, page


def test_page_lists_the_codes_of_the_sources():
    assert PAGE.read_text(encoding="utf-8") == page(), f"python -m {page.__module__} > docs/use/error_codes.md"


def test_every_code_has_a_meaning():
    without = {entry.code for entry in raised().values() if not meaning(entry)}
    assert without - MEANINGS.keys() == set()
    assert MEANINGS.keys() - without == set(), "the sources have these messages"


def test_every_code_with_a_status_of_its_own_is_on_the_page():
    assert _STATUSES.keys() - {code for _, code in raised()} == set()


def test_code_message_and_hint_are_read_through_constants_helpers_and_subclasses():
    codes = raised()
    assert codes[("Refusal", "DISK_FULL")].hints[0].startswith("Make room there")
    assert codes[("Refused", "NO_PREVIEW")].messages == ["the report has no preview"]
    assert codes[("MetadataError", "stale_version")].messages[0].startswith("was changed by another user")
    assert codes[("Refusal", "NULL_TIME")].messages
    assert codes[("Response", "no_role")].status == 403
    assert codes[("Refusal", "RATE_LIMITED")].hints == [
        "Set requests_per_minute in the system to the limit of the API, and run again under the same id."
    ]


@pytest.mark.parametrize(
    ("family", "code"),
    [
        ("Refusal", "DRIVER_MISSING"),
        ("Refusal", "BAD_EVENT"),
        ("Refusal", "WORKER_LOST"),
        ("Refusal", "UNCLOSED_QUOTE"),
        ("MetadataError", "bad_history_policy"),
        ("Problem", "execution_unproven"),
        ("Problem", "key_unknown"),
        ("Problem", "OTHER_REPORT"),
    ],
)
def test_code_of_a_tuple_an_object_a_table_or_a_finding_is_read(family, code):
    assert (family, code) in raised()
