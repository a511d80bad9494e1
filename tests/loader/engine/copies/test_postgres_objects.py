"""Swap of a copy's table in PostgreSQL: objects of other users on the table, and tables of other owners."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from loader.contract.manifest.copies import CopyColumn, CopyTarget
from loader.contract.manifest.sources import DatabaseSpec
from loader.contract.refusals import Refusal
from loader.engine.copies.postgres import _SESSION, PostgresCopy
from loader.engine.copies.postgres_objects import KeptObjects
from metadata.domain.copies import INCLUDE, JDBC, REPLACE
from tests.fixtures.source_database import own_schema, server_place
from tests.loader.harness import stable

pytestmark = pytest.mark.services

OWNERS = ("reader", "stranger", "copier")


@pytest.fixture
def database() -> Iterator[psycopg.Connection]:
    """Yield an administrator's connection; roles of this test own nothing outside of the schema ``mart``."""
    with own_schema("mart") as connection:
        for role in OWNERS:
            with suppress(psycopg.errors.DuplicateObject):
                connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute("GRANT ALL ON SCHEMA mart TO copier; GRANT CREATE ON SCHEMA public TO copier")
        try:
            yield connection
        finally:
            connection.execute("DROP TABLE IF EXISTS public.elevata_copies")
            connection.execute("REVOKE CREATE ON SCHEMA public FROM copier")
            for role in OWNERS:
                connection.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")


@dataclass
class Plain:
    """Connection of a copy without Spark and Java."""

    connection: psycopg.Connection
    java: Any = field(init=False)

    def __post_init__(self) -> None:
        self.java = self.connection

    def execute(self, statement: str) -> None:
        self.connection.execute(statement)

    def rows(self, query: str, *texts: str) -> list[tuple[Any, ...]]:
        answer = self.connection.execute(query.replace("?", "%s"), texts).fetchall()
        return [tuple(None if value is None else str(value) for value in row) for row in answer]

    def text(self, query: str, *texts: str) -> str | None:
        rows = self.rows(query, *texts)
        return rows[0][0] if rows else None

    def run(self, statement: str, *texts: str) -> None:
        self.connection.execute(statement.replace("?", "%s"), texts)

    def tried(self, statement: str) -> bool:
        try:
            with self.connection.transaction():
                self.connection.execute(statement)
        except psycopg.Error:
            return False
        return True


@dataclass
class Rows:
    """Rows of a table with these columns."""

    names: tuple[str, ...] = ("id", "v")
    version: int = 1

    def columns(self, target: CopyTarget) -> list[CopyColumn]:
        return [CopyColumn(name, "string", "TEXT", INCLUDE) for name in self.names]


@pytest.fixture
def copier() -> Iterator[psycopg.Connection]:
    place = server_place()
    with psycopg.connect(host=place.host, port=place.port, user="copier", dbname=place.name) as connection:
        yield connection


def copy_of(connection: psycopg.Connection, rows: Rows | None = None) -> PostgresCopy:
    target = CopyTarget(
        stable("copy", "bi"),
        "bi",
        JDBC,
        "mart.item",
        REPLACE,
        (),
        "",
        owners=("rawcore.item",),
        environment="dev",
        database=DatabaseSpec(server_place()),
    )
    session: Any = None
    return PostgresCopy(session, Plain(connection), target, rows or Rows(), lambda _: None)  # type: ignore[arg-type]


def make_copy(connection: psycopg.Connection, rows: Rows | None = None) -> list[str]:
    """Make a copy without rows; return its warnings."""
    copy = copy_of(connection, rows)
    copy._prepare()
    copy._swap()
    copy.connection.run(
        f"INSERT INTO {copy.register} VALUES (?, ?, ?, 1, 'r', 0, '0', now()) ON CONFLICT DO NOTHING",
        *("mart.item", "dev", "rawcore.item"),
    )
    connection.commit()
    return copy.warnings


def test_row_security_of_a_copy_is_kept(database, copier):
    make_copy(copier)
    database.execute(
        "GRANT SELECT ON mart.item TO reader; ALTER TABLE mart.item ENABLE ROW LEVEL SECURITY;"
        "CREATE POLICY own ON mart.item AS RESTRICTIVE FOR SELECT TO reader, PUBLIC USING (v = current_user)"
    )
    assert make_copy(copier) == []
    query = "SELECT roles, cmd, permissive, qual FROM pg_policies WHERE tablename = 'item'"
    assert database.execute(query).fetchall() == [(["public"], "SELECT", "RESTRICTIVE", "(v = CURRENT_USER)")]
    query = "SELECT relrowsecurity, relforcerowsecurity FROM pg_class WHERE oid = 'mart.item'::regclass"
    assert database.execute(query).fetchone() == (True, False)


def test_row_security_that_does_not_fit_blocks_the_copy(database, copier):
    make_copy(copier)
    database.execute("CREATE POLICY own ON mart.item USING (v = 'a'); ALTER TABLE mart.item ENABLE ROW LEVEL SECURITY")
    with pytest.raises(Refusal) as refused:
        make_copy(copier, Rows(names=("id",)))
    copier.rollback()
    assert refused.value.code == "COPY_BLOCKED"
    assert database.execute("SELECT count(*) FROM pg_policies WHERE tablename = 'item'").fetchone() == (1,)


def test_row_security_that_hides_rows_from_the_user_of_copies_blocks_the_copy(database, copier):
    copier.execute(_SESSION)
    make_copy(copier)
    database.execute("INSERT INTO mart.item VALUES ('1', 'a'); CREATE POLICY own ON mart.item USING (v = 'b')")
    database.execute("ALTER TABLE mart.item ENABLE ROW LEVEL SECURITY; ALTER TABLE mart.item FORCE ROW LEVEL SECURITY")
    for work in (lambda: copy_of(copier).check(), lambda: make_copy(copier)):
        with pytest.raises(Refusal, match="row security of mart.item applies to the user of copies") as refused:
            work()
        copier.rollback()
        assert refused.value.code == "COPY_BLOCKED"
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        copy_of(copier).content("mart.item")
    copier.rollback()
    database.execute("ALTER ROLE copier BYPASSRLS")
    assert copy_of(copier).content("mart.item").row_count == 1
    assert make_copy(copier) == []
    query = "SELECT relrowsecurity, relforcerowsecurity FROM pg_class WHERE oid = 'mart.item'::regclass"
    assert database.execute(query).fetchone() == (True, True)


def test_default_privileges_add_no_grants_to_a_replaced_table(database, copier):
    database.execute("ALTER DEFAULT PRIVILEGES FOR ROLE copier IN SCHEMA mart GRANT SELECT ON TABLES TO reader")
    make_copy(copier)
    may_read = "SELECT has_table_privilege('reader', 'mart.item', 'SELECT')"
    assert database.execute(may_read).fetchone() == (True,)
    database.execute("REVOKE SELECT ON mart.item FROM reader")
    copy = copy_of(copier)
    copy._prepare()
    beside = f"SELECT has_table_privilege('reader', '{copy.beside}', 'SELECT')"
    assert database.execute(beside).fetchone() == (False,)
    make_copy(copier)
    assert database.execute(may_read).fetchone() == (False,)


def test_default_privileges_add_no_grants_to_a_replaced_view(database, copier):
    make_copy(copier)
    database.execute("CREATE VIEW mart.own AS SELECT * FROM mart.item; ALTER VIEW mart.own OWNER TO copier")
    database.execute("GRANT SELECT ON mart.own TO stranger")
    database.execute("ALTER DEFAULT PRIVILEGES FOR ROLE copier IN SCHEMA mart GRANT SELECT ON TABLES TO reader")
    assert make_copy(copier) == []
    may_read = "SELECT has_table_privilege('reader', 'mart.own', 'SELECT'), "
    may_read += "has_table_privilege('stranger', 'mart.own', 'SELECT')"
    assert database.execute(may_read).fetchone() == (False, True)


def test_grant_of_a_view_that_is_left_out_is_named(database, copier):
    make_copy(copier)
    database.execute("CREATE VIEW mart.own AS SELECT * FROM mart.item; ALTER VIEW mart.own OWNER TO copier")
    database.execute("COMMENT ON COLUMN mart.own.v IS 'value'")
    copy = copy_of(copier)
    copy._prepare()
    with pytest.MonkeyPatch.context() as patched:
        tried = Plain.tried
        patched.setattr(Plain, "tried", lambda self, text: not text.startswith("COMMENT") and tried(self, text))
        copy._swap()
    (warning,) = copy.warnings
    assert warning.startswith("of the view mart.own a grant or comment was left out: COMMENT ON COLUMN")


def test_objects_whose_names_need_quotes_are_created_again(database):
    table, column = 'mart."order ""X"""', '"say ""x"""'
    database.execute(
        f'CREATE TABLE {table} ({column} text, "Id" integer CHECK ("Id" >= 0));'
        f'CREATE INDEX "i ON USING" ON {table} ({column}) WHERE "Id" > 1;'
        f'CREATE VIEW mart."v ON {{}}" AS SELECT "Id" AS "a ""b" FROM {table};'
        f"COMMENT ON COLUMN {table}.{column} IS 'it''s {{}} %';"
        f'GRANT SELECT ON {table} TO reader; GRANT UPDATE ("Id") ON {table} TO reader'
    )
    connection, name = Plain(database), 'mart.order "X"'
    with database.transaction():
        objects = KeptObjects.of(connection, name)
        objects.drop_views(connection, "bi")
        database.execute(f"DROP TABLE {table}")
        database.execute(f'CREATE TABLE {table} ({column} text, "Id" integer)')
        assert objects.restore(connection, name, "bi") == []
    with database.transaction():
        assert KeptObjects.of(connection, name) == objects
    assert len(objects.indexes) == len(objects.views) == len(objects.constraints) == 1
    assert len(objects.granted) == 3


def test_trigger_that_is_left_out_is_named(database, copier):
    make_copy(copier)
    database.execute(
        "CREATE FUNCTION mart.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
        "CREATE TRIGGER seen BEFORE INSERT ON mart.item FOR EACH ROW EXECUTE FUNCTION mart.nothing()"
    )
    assert make_copy(copier) == ["of mart.item the trigger seen was left out"]


def test_view_whose_owner_may_not_own_it_any_more_is_dropped(database, copier):
    database.execute("GRANT reader TO copier; GRANT ALL ON SCHEMA mart TO reader")
    make_copy(copier)
    database.execute("GRANT SELECT ON mart.item TO reader; SET ROLE reader")
    database.execute("CREATE VIEW mart.own AS SELECT * FROM mart.item; RESET ROLE")
    database.execute("REVOKE CREATE ON SCHEMA mart FROM reader")
    assert make_copy(copier) == ["the view mart.own was dropped, which reader may not own any more"]
    assert database.execute("SELECT to_regclass('mart.own')").fetchone() == (None,)


def test_register_of_another_owner_is_refused(database, copier):
    database.execute(
        "CREATE TABLE public.elevata_copies (table_name text);"
        "ALTER TABLE public.elevata_copies OWNER TO stranger; GRANT ALL ON public.elevata_copies TO PUBLIC"
    )
    with pytest.raises(Refusal, match="no table of the user of copies") as refused:
        copy_of(copier)._prepare()
    assert refused.value.code == "COPY_FOREIGN"


def test_table_of_another_owner_with_the_row_of_a_copy_is_not_touched(database, copier):
    make_copy(copier)
    database.execute("ALTER TABLE mart.item OWNER TO stranger")
    database.execute("GRANT ALL ON mart.item TO copier")
    with pytest.raises(Refusal) as refused:
        copy_of(copier)._prepare()
    assert refused.value.code == "COPY_FOREIGN"


def test_comment_of_a_view_is_text_with_any_server_setting(database, copier):
    copier.execute("SET standard_conforming_strings = off")
    copier.execute(_SESSION)
    make_copy(copier)
    database.execute("CREATE VIEW mart.own AS SELECT * FROM mart.item; ALTER VIEW mart.own OWNER TO copier")
    database.execute(r"COMMENT ON VIEW mart.own IS 'a\'")
    assert make_copy(copier) == []
    assert database.execute("SELECT obj_description('mart.own'::regclass)").fetchone() == ("a\\",)
