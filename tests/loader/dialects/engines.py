"""Connections to the engines on which rendered SQL is executed."""

from collections.abc import Iterable
from functools import lru_cache

import pytest

from loader.services.sql_replay import Connection, DuckDbConnection, PostgresConnection

ENGINES = ["duckdb", pytest.param("postgres", marks=pytest.mark.services)]


@lru_cache
def connection_to(engine: str) -> Connection:
    """Return the session's connection to an engine."""
    if engine == "duckdb":
        return DuckDbConnection()
    from tests.fixtures.source_database import server_place

    place = server_place()
    return PostgresConnection(f"postgresql://{place.user}@{place.host}:{place.port}/{place.name}")


def run_all(connection: Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        connection.run(statement)
