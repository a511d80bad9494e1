"""Loads of a PostgreSQL table by a real worker, from metadata to rawcore and history, with a password."""

import json
import re
from collections.abc import Iterator

import psycopg
import pytest
from django.conf import settings

from tests.fixtures.source_database import own_schema, server_place
from tests.loader.installation import PASSWORD_FILE, Installation, files_with, make_logged_installation, working

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.takes(seconds=120), pytest.mark.nightly]

# The example of the documentation, with this server's port and database.
PAGE = (settings.BASE_DIR / "docs/use/sources.md").read_text()
EXAMPLE = re.search(r"```yaml\n(format: metadata/v1\nsystem:.*?)```", PAGE, re.DOTALL)[1]
TABLES = """
CREATE TABLE sales.customer (id integer PRIMARY KEY, name varchar(40), credit numeric(10,2), changed_at timestamptz);
INSERT INTO sales.customer VALUES (1, 'Ann', 100, '1500-01-01 12:00+00'), (2, 'Ben', 7.5, NULL), (0, 'Test', 0, now());
DO $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'reader') THEN CREATE ROLE reader LOGIN; END IF;
END $$;
GRANT USAGE ON SCHEMA sales TO reader;
GRANT SELECT ON sales.customer TO reader;
CREATE TABLE sales.visit (id integer PRIMARY KEY, place text, at timestamptz);
INSERT INTO sales.visit VALUES (1, 'Bonn', '2024-01-01 00:00:00.000001+00'), (2, 'Ulm', '2024-01-02+00');
GRANT SELECT ON sales.visit TO reader;
"""
VISIT = """
    - name: visit
      location: sales.visit
      format: table
      intake: {watermark: [at]}
      history_policy: {input: delta}
      columns:
        - {name: id, type: integer, business_key: 1}
        - {name: place, type: string}
        - {name: at, type: timestamp}
"""
CUSTOMER = "rawcore.rc_erp_customer"
PASSWORD = "correct-horse-battery"


@pytest.fixture
def database() -> Iterator[psycopg.Connection]:
    with own_schema("sales", TABLES) as connection:
        yield connection
        connection.execute("DROP OWNED BY reader; DROP ROLE reader")


@pytest.fixture
def shop(tmp_path, database) -> Installation:
    place = server_place()
    described = (EXAMPLE.rstrip() + VISIT).replace(":5432/erp", f":{place.port}/{place.name}")
    return make_logged_installation(
        tmp_path, described, secret="ELEVATA_SOURCE_ERP", password=PASSWORD, hosts=place.host
    )


def test_a_table_is_loaded_to_history_and_its_password_is_written_nowhere(shop, database, tmp_path):
    with working(shop):
        shop.load("r1")
        assert shop.rows(CUSTOMER, "id", "name", "credit") == [("1", "Ann", "100.00"), ("2", "Ben", "7.50")]
        (first, _) = shop.rows(CUSTOMER, "id", "changed_at")
        assert first[1] == "1500-01-01 12:00:00"

        database.execute("UPDATE sales.customer SET credit = 8 WHERE id = 2; DELETE FROM sales.customer WHERE id = 1")
        database.execute("ALTER TABLE sales.customer ADD colour text")
        database.execute("INSERT INTO sales.visit VALUES (3, 'Jena', '2024-01-03+00')")
        changed = shop.load("r2")
        assert shop.rows(CUSTOMER, "id", "credit") == [("2", "8.00")]
        assert shop.rows(f"{CUSTOMER}_hist", "id", "credit") == [("1", "100.00"), ("2", "7.50"), ("2", "8.00")]
        assert '"colour"' in json.dumps(changed)
        visits = next(entry for entry in changed["datasets"] if entry["dataset"] == "raw.raw_erp_visit")
        assert (visits["counts"]["rows"], visits["window"]) == (
            2,
            {"from": {"at": "2024-01-02 00:00:00+00:00"}, "to": {"at": "2024-01-03 00:00:00+00:00"}},
        )
        assert shop.rows("rawcore.rc_erp_visit_hist", "place") == [("Bonn",), ("Jena",), ("Ulm",)]

        database.execute("ALTER TABLE sales.customer RENAME credit TO balance")
        assert "sales.customer lacks the column credit" in json.dumps(shop.load("r3", status="failed"))
        assert shop.rows(CUSTOMER, "id", "credit") == [("2", "8.00")]

        database.execute("REVOKE SELECT ON sales.customer FROM reader")
        assert "NOT_ALLOWED" in json.dumps(shop.load("r4", status="failed"))

    assert list((tmp_path / "events").iterdir())
    assert files_with(tmp_path, PASSWORD) == [PASSWORD_FILE]
