"""Statements of copies in PostgreSQL."""

import pytest

from loader.contract.manifest.copies import CopyTarget
from loader.domain.copies import rename_table
from metadata.domain.copies import JDBC, REPLACE
from tests.loader.dialects.engines import connection_to, run_all

KEY = "8e0f3c1e-62fb-4d1c-9d7a-3a0c5a9f0c11"


@pytest.mark.services
@pytest.mark.parametrize("table", ["copies_a.second", "copies_b.first", "copies_b.second", 'copies_b.say "x"'])
def test_table_of_a_renamed_copy_meets_no_other_table(table):
    connection = connection_to("postgres")
    target = CopyTarget(KEY, "bi", JDBC, table, REPLACE, (), "", (), "dev")
    schema, _, name = table.partition(".")
    others = {"copies_a.second", "copies_b.first"} - {table}
    connection.run("BEGIN")
    try:
        run_all(connection, [f"CREATE SCHEMA {name}" for name in ("copies_a", "copies_b")])
        run_all(connection, [f"CREATE TABLE {each} AS SELECT '{each}' AS x" for each in ("copies_a.first", *others)])
        run_all(connection, rename_table("copies_a.first", target))
        quoted = name.replace('"', '""')
        assert connection.rows(f'SELECT x FROM {schema}."{quoted}"') == [("copies_a.first",)]
        for each in others:
            assert connection.rows(f"SELECT x FROM {each}") == [(each,)]
    finally:
        connection.run("ROLLBACK")
