"""Tests of the canonical form of rows."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

from elevata.audit.row_digests import canonical_row, parts_digest, row_digest

DEFAULTS = {"key": None, "name": None, "active": True, "tags": [], "at": None, "size": 0}
AT = datetime(2026, 11, 28, 12, 30, tzinfo=UTC)
ROW = {"id": 7, "key": UUID(int=1), "name": "fare", "active": True, "tags": [], "at": AT, "size": 0}


def test_canonical_form_has_the_fields_that_differ_from_their_defaults() -> None:
    assert canonical_row(ROW, DEFAULTS) == {
        "key": "00000000-0000-0000-0000-000000000001",
        "name": "fare",
        "at": "2026-11-28T12:30:00.000000+00:00",
    }


def test_digest_does_not_depend_on_the_time_zone_or_on_a_new_field_with_its_default() -> None:
    local = ROW | {"at": AT.astimezone(timezone(timedelta(hours=2)))}
    extended = ROW | {"keep": "latest"}, DEFAULTS | {"keep": "latest"}
    assert row_digest(ROW, DEFAULTS) == row_digest(local, DEFAULTS) == row_digest(*extended)


def test_digest_depends_on_each_value() -> None:
    others = {"key": UUID(int=2), "name": "", "active": False, "tags": ["a"], "at": None, "size": 1}
    digests = {row_digest(ROW | {name: value}, DEFAULTS) for name, value in others.items()}
    assert len(digests | {row_digest(ROW, DEFAULTS)}) == len(others) + 1


def test_digest_of_parts_depends_on_ids_and_values_not_on_their_order() -> None:
    first, second = {"id": 1, "ordinal": 1}, {"id": 2, "ordinal": 2}
    digest = parts_digest({"Input": [first, second], "Column": [3, 4]})
    assert digest == parts_digest({"Column": [4, 3], "Input": [second, first], "Check": []})
    assert digest != parts_digest({"Column": [4], "Input": [first, second]})
    assert digest != parts_digest({"Column": [3, 4], "Input": [first, second | {"ordinal": 1}]})
