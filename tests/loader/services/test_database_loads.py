"""Loads of a PostgreSQL table by a real worker, from metadata to rawcore and history, with a password."""

import json
import re
from collections.abc import Iterator

import psycopg
import pytest
from django.conf import settings

from tests.loader.installation import Installation, make_installation, working

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.takes(seconds=120)]

# The example of the documentation, with this server's port and database.
PAGE = (settings.BASE_DIR / "docs/use/sources.md").read_text()
EXAMPLE = re.search(r"```yaml\n(format: metadata/v1\nsystem:.*?)```", PAGE, re.DOTALL)[1]
TABLES = """
DROP SCHEMA IF EXISTS sales CASCADE;
CREATE SCHEMA sales;
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
    place = settings.DATABASES["default"]
    named = {"host": place["HOST"], "port": place["PORT"], "user": place["USER"]}
    with psycopg.connect(dbname="postgres", autocommit=True, **named) as connection:
        connection.execute(TABLES)
        yield connection
        connection.execute("DROP SCHEMA sales CASCADE; DROP ROLE reader")


@pytest.fixture
def shop(tmp_path, database) -> Installation:
    conf = tmp_path / "spark.conf"
    (tmp_path / "events").mkdir()
    conf.write_text(f"spark.eventLog.enabled true\nspark.eventLog.dir file://{tmp_path}/events\n")
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    return make_installation(
        tmp_path / "data",
        (EXAMPLE.rstrip() + VISIT).replace(":5432/erp", f":{settings.DATABASES['default']['PORT']}/postgres"),
        {
            "ELEVATA_SOURCE_HOSTS": "127.0.0.1",
            "ELEVATA_SOURCE_ERP_FILE": str(password),
            "ELEVATA_SPARK_CONF": str(conf),
        },
    )


def load(shop: Installation, run_id: str, status: str = "succeeded") -> dict:
    done = shop.run("load", "--run-id", run_id, "--json", by="aron")
    assert done.stdout, done.stderr
    run = json.loads(done.stdout)
    assert run["status"] == status, done.stdout
    return run


def test_a_table_is_loaded_to_history_and_its_password_is_written_nowhere(shop, database, tmp_path):
    with working(shop):
        load(shop, "r1")
        assert shop.rows(CUSTOMER, "id", "name", "credit") == [("1", "Ann", "100.00"), ("2", "Ben", "7.50")]
        (first, _) = shop.rows(CUSTOMER, "id", "changed_at")
        assert first[1] == "1500-01-01 12:00:00"

        database.execute("UPDATE sales.customer SET credit = 8 WHERE id = 2; DELETE FROM sales.customer WHERE id = 1")
        database.execute("ALTER TABLE sales.customer ADD colour text")
        database.execute("INSERT INTO sales.visit VALUES (3, 'Jena', '2024-01-03+00')")
        changed = load(shop, "r2")
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
        assert "sales.customer lacks the column credit" in json.dumps(load(shop, "r3", "failed"))
        assert shop.rows(CUSTOMER, "id", "credit") == [("2", "8.00")]

        database.execute("REVOKE SELECT ON sales.customer FROM reader")
        assert "NOT_ALLOWED" in json.dumps(load(shop, "r4", "failed"))

    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "password"]
    assert any("events" in path.parts for path in written)
    assert not any(PASSWORD.encode() in path.read_bytes() for path in written)
