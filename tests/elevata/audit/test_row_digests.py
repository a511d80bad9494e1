"""Tests of the canonical form of rows."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

from elevata.audit.row_digests import Fields, canonical_row, parts_digest, row_digest

FIELDS = Fields(("key", "name", "active", "tags", "at", "size"), (None, "", True, [], None, 0))
AT = datetime(2026, 11, 28, 12, 30, tzinfo=UTC)
ROW = (UUID(int=1), "fare", True, [], AT, 0)


def test_canonical_form_has_the_fields_that_differ_from_their_defaults() -> None:
    assert canonical_row(FIELDS, ROW) == {
        "key": "00000000-0000-0000-0000-000000000001",
        "name": "fare",
        "at": "2026-11-28T12:30:00.000000+00:00",
    }


def test_digest_does_not_depend_on_the_time_zone_or_on_a_new_field_with_its_default() -> None:
    local = (*ROW[:4], AT.astimezone(timezone(timedelta(hours=2))), 0)
    extended = Fields((*FIELDS.names, "keep"), (*FIELDS.defaults, "latest"))
    digests = {row_digest(FIELDS, ROW), row_digest(FIELDS, local), row_digest(extended, (*ROW, "latest"))}
    assert len(digests) == 1


def test_digest_depends_on_each_value() -> None:
    others = (UUID(int=2), "", False, ["a"], None, 1)
    rows = [(*ROW[:place], value, *ROW[place + 1 :]) for place, value in enumerate(others)]
    assert len({row_digest(FIELDS, row) for row in (ROW, *rows)}) == len(others) + 1


def test_digest_of_parts_depends_on_ids_and_values_not_on_their_order() -> None:
    first, second = {"id": 1, "ordinal": 1}, {"id": 2, "ordinal": 2}
    digest = parts_digest({"Input": [first, second], "Column": [3, 4]})
    assert digest == parts_digest({"Column": [4, 3], "Input": [second, first], "Check": []})
    assert digest != parts_digest({"Column": [4], "Input": [first, second]})
    assert digest != parts_digest({"Column": [3, 4], "Input": [first, second | {"ordinal": 1}]})
