"""Tests of the rules of copies: systems and names that are valid targets."""

import pytest

from elevata.core.errors import MetadataError
from metadata.domain.copies import DELTA, DUCKDB, JDBC, check_name, check_table, check_target


@pytest.mark.parametrize(
    ("kind", "location"),
    [(JDBC, "postgresql://bi@db:5432/bi"), (DUCKDB, "/data/bi.duckdb"), (DELTA, "/data/lake")],
)
def test_target_takes_copies(kind, location):
    check_target(kind, location)


@pytest.mark.parametrize(
    ("kind", "location", "message"),
    [
        ("kafka", "kafka://broker:9092", "takes no copies"),
        ("files", "/data", "takes no copies"),
        (DUCKDB, " ", "has no location"),
        (JDBC, "mariadb://bi@db:3306/bi", "is no PostgreSQL"),
    ],
)
def test_system_that_takes_no_copies_is_refused(kind, location, message):
    with pytest.raises(MetadataError, match=message):
        check_target(kind, location)


@pytest.mark.parametrize(
    ("kind", "table", "code"),
    [
        (JDBC, "daily_delay", "invalid"),
        (JDBC, "a.b.c", "invalid"),
        (JDBC, f"mart.{'x' * 64}", "too_long"),
        (JDBC, f"mart.{'ä' * 32}", "too_long"),
        (JDBC, "mart.elevata_copies", "reserved"),
        (JDBC, "mart.elevata_copy_1", "reserved"),
        (DELTA, "mart.daily delay", "invalid"),
        (DUCKDB, "mart.a\nb", "invalid"),
    ],
)
def test_table_that_a_target_does_not_take_is_refused(kind, table, code):
    with pytest.raises(MetadataError) as refused:
        check_table(kind, table)
    assert refused.value.code == code


@pytest.mark.parametrize("name", ['order "x"', "select", "Ärger", "x" * 63])
def test_name_that_needs_quotes_is_taken(name):
    check_name(JDBC, name)
