"""Tests of database locations, which never contain a password."""

import pytest

from elevata.core.errors import MetadataError
from metadata.domain.sources.database_locations import check_database_location, parse_database, without_password


@pytest.mark.parametrize(
    ("location", "host", "port", "name", "user"),
    [
        ("postgresql://reader@db.example.org:5433/erp", "db.example.org", 5433, "erp", "reader"),
        ("postgres://db/erp", "db", 5432, "erp", ""),
        ("jdbc:postgresql://db/erp?user=reader", "db", 5432, "erp", "reader"),
        ("postgresql://re%40der@db/my%20erp", "db", 5432, "my erp", "re@der"),
        ("postgresql://[::1]:5432/erp", "::1", 5432, "erp", ""),
        ("mariadb://reader@db/erp", "db", 3306, "erp", "reader"),
        ("jdbc:mysql://db/erp", "db", 3306, "erp", ""),
        ("sqlserver://db/erp", "db", 1433, "erp", ""),
        ("oracle://db/ERPPDB", "db", 1521, "ERPPDB", ""),
    ],
)
def test_a_url_names_host_port_database_and_user(location: str, host: str, port: int, name: str, user: str):
    place = parse_database(location)
    assert (place.host, place.port, place.name, place.user) == (host, port, name, user)


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("", "bad_location"),
        ("db/erp", "bad_location"),
        ("redis://db/erp", "bad_location"),
        ("mysql://db/erp?allowLoadLocalInfile=true", "bad_location"),
        ("postgresql:///erp", "bad_location"),
        ("postgresql://db", "bad_location"),
        ("postgresql://db:none/erp", "bad_location"),
        ("postgresql://db/erp/more", "bad_location"),
        ("postgresql://db/erp?host=other", "bad_location"),
        ("postgresql://db/erp?options=-cx", "bad_location"),
        ("postgresql://reader:pw@db/erp", "password_in_location"),
        ("jdbc:postgresql://db/erp?user=a&password=pw", "password_in_location"),
    ],
)
def test_invalid_database_location_is_refused_with_its_code(location: str, code: str):
    with pytest.raises(MetadataError) as refused:
        parse_database(location)
    assert refused.value.code == code
    assert refused.value.field == "location"


@pytest.mark.parametrize(
    "location",
    [
        "jdbc:sqlserver://db;user=a;password=hunter2;x=1",
        "jdbc:oracle:thin:scott/hunter2@db:1521/x",
        "jdbc:mysql://a:hunter2@db/x",
        "postgresql://a:hunter2@db/x",
        "postgresql://a:hunter2/b@db.example.org:5432/x",
        "jdbc:mysql://a:b@c/hunter2@db/x",
        "postgresql://a:b;hunter2@db/x",
    ],
)
def test_password_in_a_jdbc_url_is_refused_and_hidden(location: str):
    with pytest.raises(MetadataError) as refused:
        check_database_location(location)
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in without_password(location)


@pytest.mark.parametrize(
    "location", ["", "jdbc:oracle:thin:@db:1521/x", "jdbc:sqlserver://db;databaseName=x", "jdbc:mysql://db:3306/a@b"]
)
def test_jdbc_url_without_a_password_is_accepted_and_shown_unchanged(location: str):
    check_database_location(location)
    assert without_password(location) == location
