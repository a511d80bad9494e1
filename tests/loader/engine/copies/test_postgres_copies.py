"""Copies in a real PostgreSQL database."""

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from loader.contract.manifest.sources import DatabaseSpec
from loader.domain.copies import beside
from loader.engine.copies import postgres
from loader.engine.copies.postgres import PostgresCopy
from metadata.domain.copies import CHANGES, DUCKDB, HASH
from tests.fixtures.source_database import own_schema, server_place
from tests.fixtures.spark import by_night
from tests.loader.engine.copies.copied_dataset import Copied

pytestmark = [pytest.mark.spark, pytest.mark.services]

DAY = [f"2024-01-0{n}T00:00:00Z" for n in range(1, 8)]
TYPES = {
    "id": "integer",
    "name": "string",
    "amount": "decimal(10,2)",
    "ratio": "float",
    "at": "timestamp",
    "day": "date",
    "ok": "boolean",
    "large": "bigint",
    "exact": "decimal(38,0)",
    "bytes": "binary",
    "uid": "uuid",
    "clock": "time",
    "document": "json",
}
UID = "0b0e0b5c-7a2c-4d3e-9d4c-0f6f5d7b8a10"


@pytest.fixture
def database() -> Iterator[psycopg.Connection]:
    with own_schema("mart") as connection:
        try:
            yield connection
        finally:
            connection.execute("DROP TABLE IF EXISTS public.elevata_copies")


def rows_of(count: int, **changed: str) -> list[dict]:
    return [{"id": n, "v": changed.get(f"n{n}", "a")} for n in range(count)]


def content(database: psycopg.Connection, columns: str = "id, v", table: str = "mart.item") -> list[tuple]:
    return database.execute(f"SELECT {columns} FROM {table} ORDER BY id").fetchall()


def registry_rows(database: psycopg.Connection) -> list[tuple]:
    query = "SELECT table_name, environment, dataset, version, row_count FROM elevata_copies"
    return database.execute(query).fetchall()


@pytest.mark.core
def test_copy_replaces_a_table_and_keeps_grants_indexes_and_views(spark, tmp_path, database):
    item = Copied(spark, tmp_path).given((rows_of(3), DAY[0]))
    assert item.copy(item.target())["status"] == "copied"
    version = item.table(item.rawcore_spec).version()
    assert content(database) == [(0, "a"), (1, "a"), (2, "a")]
    assert registry_rows(database) == [("mart.item", "dev", item.state.qualified_name, version, 3)]
    assert item.copy(item.target(), verify=True)["status"] == "unchanged"
    assert item.copy(item.target(), check=True)["error"] is None
    database.execute(
        "CREATE VIEW mart.first AS SELECT id, v FROM mart.item WHERE id = 0;"
        "CREATE VIEW mart.second AS SELECT v FROM mart.first;"
        "CREATE INDEX item_v ON mart.item (v);"
        "COMMENT ON TABLE mart.item IS 'items';"
        "GRANT SELECT ON mart.item, mart.second TO PUBLIC"
    )
    item.load(rows_of(4, n0="b"), at=DAY[1])
    result = item.copy(item.target())
    assert (result["status"], result["row_count"], result["warnings"]) == ("copied", 4, [])
    assert content(database)[0] == (0, "b")
    assert database.execute("SELECT v FROM mart.second").fetchall() == [("b",)]
    facts = (
        "SELECT has_table_privilege('public', 'mart.item', 'SELECT'), "
        "has_table_privilege('public', 'mart.second', 'SELECT'), obj_description('mart.item'::regclass), "
        "(SELECT count(*) FROM pg_indexes WHERE indexname = 'item_v')"
    )
    assert database.execute(facts).fetchone() == (True, True, "items", 1)
    database.execute("UPDATE mart.item SET v = 'x' WHERE id = 2")
    assert item.copy(item.target(), check=True)["error"]["code"] == "COPY_DIFFERS"
    assert item.copy(item.target(), verify=True)["status"] == "copied"
    assert content(database)[2] == (2, "a")


def test_values_of_every_type_are_copied(spark, tmp_path, database):
    item = Copied(spark, tmp_path, columns=TYPES).given(
        (
            [
                {"id": 1, "name": 'Ä "x"', "amount": "-12.30", "ratio": "0.1", "at": "9999-12-31T23:59:59.999999Z"}
                | {"day": "1500-02-28", "ok": "true", "large": "-9223372036854775808", "exact": "9" * 38}
                | {"bytes": "00ff", "uid": UID, "clock": "12:30:00.5", "document": '{"a": [1, "\u00e9"]}'},
                dict.fromkeys(TYPES) | {"id": 2},
            ],
            DAY[0],
        )
    )
    assert item.copy(item.target())["status"] == "copied"
    moment = "(at AT TIME ZONE 'UTC')::text"
    query = f"SELECT id, name, amount::text, ratio, {moment}, day::text, ok, large, exact::text, bytes, uid, clock"
    first, second = database.execute(f"{query}, document FROM mart.item ORDER BY id").fetchall()
    assert first[:7] == (1, 'Ä "x"', "-12.30", 0.1, "9999-12-31 23:59:59.999999", "1500-02-28", True)
    assert first[7:] == (-(2**63), "9" * 38, b"\x00\xff", UID, "12:30:00.5", '{"a": [1, "\u00e9"]}')
    assert second == (2, *[None] * 12)


@pytest.mark.core
def test_only_changed_keys_are_copied(spark, tmp_path, database):
    item = Copied(spark, tmp_path).given((rows_of(50), DAY[0]))
    item.copy(item.target(mode=CHANGES))
    place = database.execute("SELECT 'mart.item'::regclass::oid").fetchone()
    changed = [row for row in rows_of(51, n1="b") if row["id"] != 2]
    item.load(changed, at=DAY[1])
    result = item.copy(item.target(mode=CHANGES))
    assert (result["status"], result["mode"], result["changed"]) == ("copied", "changes", 3)
    assert database.execute("SELECT 'mart.item'::regclass::oid").fetchone() == place
    assert content(database) == [(row["id"], row["v"]) for row in changed]
    assert item.copy(item.target(mode=CHANGES), check=True)["error"] is None


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM mart.item WHERE id = 1",
        *(by_night(f"ALTER TABLE mart.item {text}") for text in ("ADD COLUMN mine integer", "RENAME COLUMN v TO w")),
        by_night("DROP TABLE mart.item"),
    ],
)
def test_table_that_another_program_changed_is_replaced(spark, tmp_path, database, change):
    item = Copied(spark, tmp_path).given((rows_of(3), DAY[0]))
    item.copy(item.target(mode=CHANGES))
    database.execute(change)
    item.load(rows_of(3, n0="b"), at=DAY[1])
    result = item.copy(item.target(mode=CHANGES), verify=True)
    assert (result["mode"], len(content(database))) == ("replace", 3)


def test_changes_since_a_version_that_was_removed_from_the_log_replace_the_table(spark, tmp_path, database):
    item = Copied(spark, tmp_path).given((rows_of(3), DAY[0]))
    version = item.copy(item.target(mode=CHANGES))["version"]
    item.load(rows_of(3, n0="b"), at=DAY[1])
    table = item.table(item.rawcore_spec)
    table._log.checkpoint()
    for path in Path(table.location, "_delta_log").iterdir():
        if path.suffix in (".json", ".crc") and path.name < f"{table.version():020d}":
            path.unlink()
    result = item.copy(item.target(mode=CHANGES))
    assert result["mode"] == "replace"
    reason = f"the changes since version {version} cannot be read, as after a vacuum"
    assert result["warnings"] == [f"the whole table was copied: {reason}"]
    assert content(database)[0] == (0, "b")


def test_restored_version_of_the_table_replaces_the_copy(spark, tmp_path, database):
    item = Copied(spark, tmp_path).given((rows_of(50), DAY[0]))
    table = item.table(item.rawcore_spec)
    first = table.version()
    item.load(rows_of(50, n1="b"), at=DAY[1])
    item.copy(item.target(mode=CHANGES))
    spark.sql(f"RESTORE TABLE delta.`{table.location}` TO VERSION AS OF {first}")
    result = item.copy(item.target(mode=CHANGES))
    assert (result["status"], result["row_count"]) == ("copied", 50)
    assert content(database)[1] == (1, "a")
    assert item.copy(item.target(mode=CHANGES), check=True)["error"] is None


@pytest.mark.parametrize("made", ["TABLE mart.item (id integer)", "VIEW mart.item AS SELECT 1 AS id"])
def test_table_of_others_is_not_touched(spark, tmp_path, database, made):
    item = Copied(spark, tmp_path).given((rows_of(3), DAY[0]))
    database.execute(f"CREATE {made}")
    result = item.copy(item.target())
    assert (item.status, result["error"]["code"]) == ("failed", "COPY_FOREIGN")
    assert item.ended["error"]["code"] == "COPY_FOREIGN"


def test_copy_of_another_environment_is_not_touched(spark, tmp_path, database):
    item = Copied(spark, tmp_path).given((rows_of(3), DAY[0]))
    item.copy(item.target())
    assert item.copy(item.target(environment="prod"))["error"]["code"] == "COPY_FOREIGN"
    assert registry_rows(database)[0][1] == "dev"


def test_names_that_need_quotes_are_kept(spark, tmp_path, database):
    names = ["select", 'say "x"', "Ärger", "x" * 63, "per % {}"]
    item = Copied(spark, tmp_path, columns={"Id": "integer", **dict.fromkeys(names, "string")}, keys=("Id",))
    item.load([{"Id": n, **dict.fromkeys(names, f"{n}")} for n in range(3)], at=DAY[0])
    target = {"table": 'mart.order "X"', "mode": CHANGES}
    assert item.copy(item.target(**target))["status"] == "copied"
    database.execute('CREATE TABLE mart."order ""x""" (mine integer); CREATE VIEW mart."v""" AS SELECT 1 AS "a""b"')
    database.execute('CREATE INDEX "i ON USING" ON mart."order ""X""" ("say ""x""")')
    item.load([{"Id": n, **dict.fromkeys(names, f"{max(n, 1)}")} for n in range(3)], at=DAY[1])
    assert item.copy(item.target(**target))["mode"] == CHANGES
    result = item.copy(item.target(**target, owners=("a.b",)), check=True)
    assert result["error"] is None
    item.load([{"Id": n, **dict.fromkeys(names, "z")} for n in range(3)], at=DAY[2])
    result = item.copy(item.target(table=target["table"]))
    assert (result["mode"], result["warnings"]) == ("replace", [])
    rows = database.execute('SELECT "Id", "select", "say ""x""", "Ärger" FROM mart."order ""X""" ORDER BY 1').fetchall()
    assert rows == [(n, "z", "z", "z") for n in range(3)]
    indexes = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'mart' AND indexname = 'i ON USING'"
    assert database.execute(indexes).fetchone() == (1,)


def test_database_that_is_down_does_not_prevent_other_copies(spark, tmp_path):
    item = Copied(spark, tmp_path).given((rows_of(3), DAY[0]))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        place = replace(server_place(), port=closed.getsockname()[1])
    down = replace(item.target(), database=DatabaseSpec(place))
    file = item.target(DUCKDB, location=str(tmp_path / "bi.duckdb"), system="file")
    result = item.copy(down, file)
    assert (item.status, result["error"]["code"]) == ("failed", "COPY_FAILED")
    assert "SQLSTATE 08001" in result["error"]["message"]
    assert item.answer["copies"][file.key]["status"] == "copied"


@pytest.mark.parametrize("moment", ["_write", by_night("_swap"), by_night("_record")])
def test_database_that_ends_the_connection_keeps_the_former_rows(spark, tmp_path, database, monkeypatch, moment):
    item = Copied(spark, tmp_path).given((rows_of(3), DAY[0]))
    item.copy(item.target())
    item.load(rows_of(4), at=DAY[1])
    whole = getattr(PostgresCopy, moment)

    def interrupted(self, *arguments, **options):
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'elevata'"
        database.execute(query)
        return whole(self, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(PostgresCopy, moment, interrupted)
        result = item.copy(item.target())
    assert (result["error"]["code"], len(content(database))) == ("COPY_FAILED", 3)
    assert item.copy(item.target())["row_count"] == 4


def test_reader_that_keeps_the_table_locked_leaves_the_former_rows(spark, tmp_path, database, monkeypatch):
    item = Copied(spark, tmp_path).given((rows_of(3), DAY[0]))
    item.copy(item.target())
    item.load(rows_of(4), at=DAY[1])
    monkeypatch.setattr(postgres, "_SESSION", postgres._SESSION.replace("'300s'", "'200ms'"))
    with database.transaction():
        database.execute("LOCK TABLE mart.item IN ACCESS SHARE MODE")
        result = item.copy(item.target())
    assert result["error"]["code"] == "COPY_FAILED"
    assert "SQLSTATE 55P03" in result["error"]["message"]
    assert len(content(database)) == 3
    assert item.copy(item.target())["row_count"] == 4


def test_database_without_space_for_an_index_keeps_the_former_table(spark, tmp_path, database):
    item = Copied(spark, tmp_path).given((rows_of(3), DAY[0]))
    item.copy(item.target())
    database.execute("CREATE INDEX item_v ON mart.item (v)")
    item.load([{"id": n, "v": f"{n:0200}"} for n in range(20_000)], at=DAY[1])
    limits = {"temp_file_limit": "64kB", "maintenance_work_mem": "1MB", "max_parallel_maintenance_workers": "0"}
    for name, value in limits.items():
        database.execute(f"ALTER ROLE {server_place().user} SET {name} = '{value}'")
    try:
        result = item.copy(item.target())
    finally:
        database.execute(f"ALTER ROLE {server_place().user} RESET ALL")
    assert result["error"]["code"] == "COPY_FAILED"
    assert "SQLSTATE 53400" in result["error"]["message"]
    assert len(content(database)) == 3
    assert item.copy(item.target())["warnings"] == []
    assert database.execute("SELECT count(*) FROM pg_indexes WHERE indexname = 'item_v'").fetchone() == (1,)


class Killed(BaseException):
    """Simulated death of the runner."""


MOMENTS = [("_write", "before"), ("_swap", "after"), ("_record", "after")]
BY_NIGHT = [("_write", "after"), ("_swap", "before"), ("_record", "before")]


@pytest.mark.parametrize(("moment", "when"), [*MOMENTS, *(by_night(*moment) for moment in BY_NIGHT)])
def test_copy_that_dies_leaves_the_former_rows_and_is_repeated(spark, tmp_path, database, monkeypatch, moment, when):
    item = Copied(spark, tmp_path).given((rows_of(3), DAY[0]))
    item.copy(item.target())
    item.load(rows_of(4), at=DAY[1])
    whole = getattr(PostgresCopy, moment)

    def dying(self, *arguments, **options):
        if when == "after":
            whole(self, *arguments, **options)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(PostgresCopy, moment, dying)
        with pytest.raises(Killed):
            item.copy(item.target())
    assert len(content(database)) == 3
    assert registry_rows(database)[0][-1] == 3
    assert item.copy(item.target())["status"] == "copied"
    assert len(content(database)) == 4
    beside_table = beside(item.target()).partition(".")[2]
    assert database.execute("SELECT count(*) FROM pg_class WHERE relname LIKE %s", [f"{beside_table}%"]).fetchone() == (
        0,
    )


def test_copy_that_dies_after_the_swap_is_not_repeated(spark, tmp_path, database):
    item = Copied(spark, tmp_path).given((rows_of(3), DAY[0]))
    target = item.target()
    item.copy(target)
    # The worker stored the shape before it died, or else copies again.
    assert item.copy(item.target())["status"] == "unchanged"
    item.made.clear()
    assert item.copy(item.target())["status"] == "copied"


def test_renamed_copy_keeps_its_views_and_a_wider_type_follows(spark, tmp_path, database):
    item = Copied(spark, tmp_path).given((rows_of(3), DAY[0]))
    item.copy(item.target())
    database.execute("CREATE VIEW mart.over AS SELECT id FROM mart.item")
    columns = tuple(
        replace(column, physical="BIGINT", type="bigint") if column.name == "id" else column
        for column in item.target().columns
    )
    renamed = replace(item.target(table="mart.things"), columns=columns, shape="wider")
    result = item.copy(renamed)
    assert (result["status"], result["warnings"]) == ("copied", [])
    assert database.execute("SELECT count(*) FROM mart.over").fetchone() == (3,)
    assert database.execute("SELECT pg_typeof(id)::text FROM mart.things LIMIT 1").fetchone() == ("bigint",)
    assert [row[0] for row in registry_rows(database)] == ["mart.things"]
    assert database.execute("SELECT to_regclass('mart.item')").fetchone() == (None,)


def test_view_that_does_not_fit_any_more_is_dropped_with_a_warning(spark, tmp_path, database):
    item = Copied(spark, tmp_path).given((rows_of(3), DAY[0]))
    item.copy(item.target())
    database.execute("CREATE VIEW mart.over AS SELECT v FROM mart.item")
    result = item.copy(item.target(sensitive=("v",)))
    assert result["warnings"] == ["the view mart.over was dropped, which does not fit mart.item any more"]


def test_sensitive_columns_are_left_out_or_hashed(spark, tmp_path, database):
    item = Copied(spark, tmp_path).given((rows_of(2), DAY[0]))
    item.copy(item.target(sensitive=("v",)))
    names = {name for name, *_ in database.execute("SELECT * FROM mart.item").description}
    assert "v" not in names
    item.copy(item.target(sensitive=("v",), treatment=HASH), secret="s")
    values = {v for _, v in content(database)}
    assert len(values) == 1
    assert len(values.pop()) == 64
