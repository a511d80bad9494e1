"""Lookups that Django does not have, which the app registers for every field."""

import json
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Aggregate, FloatField, Func, Lookup, TextField
from django.db.models.functions import Upper
from django.db.models.sql.compiler import SQLCompiler

from elevata.core.trigrams import word_similarity


class Among(Lookup):
    """Lookup ``key__among=keys``: like ``key__in=list(keys)``, with all values in one parameter.

    A statement with some thousand parameters takes longer to build than to execute, and SQLite and PostgreSQL both
    limit their number.
    """

    lookup_name = "among"

    def get_prep_lookup(self) -> list[Any]:
        """Return the values as a list without duplicates, because a statement may be prepared more than once."""
        return list(dict.fromkeys(self.rhs))

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        """Return SQLite's SQL: a JSON array of the values as stored."""
        column, parameters = self.process_lhs(compiler, connection)
        field = self.lhs.output_field
        values = json.dumps([field.get_db_prep_value(value, connection) for value in self._values()])
        return f"{column} IN (SELECT value FROM json_each(%s))", (*parameters, values)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        """Return PostgreSQL's SQL: an array of texts cast to the column's type."""
        column, parameters = self.process_lhs(compiler, connection)
        kind = self.lhs.output_field.db_type(connection)
        return f"{column} = ANY(%s::{kind}[])", (*parameters, [str(value) for value in self._values()])

    def _values(self) -> list[Any]:
        if not self.rhs:
            raise EmptyResultSet
        values: list[Any] = self.rhs
        return values


class Resembles(Lookup):
    """Lookup ``name__resembles=text``: a part of the name is like the text, by trigrams. PostgreSQL only.

    The limit is the setting ``pg_trgm.word_similarity_threshold`` of the connection.
    """

    lookup_name = "resembles"

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        """Return the condition that the indexes of ``elevata.core.database.TrigramIndexes`` support."""
        column, parameters = self.process_lhs(compiler, connection)
        return f"UPPER({column}) %%> UPPER(%s)", (*parameters, self.rhs)


class WordSimilarity(Func):
    """Similarity of a text (second argument) with a part of a name (first one), from 0 to 1."""

    function = "WORD_SIMILARITY"
    output_field = FloatField()

    def __init__(self, name: Any, text: Any) -> None:
        super().__init__(Upper(text), Upper(name))


class Lines(Aggregate):
    """Texts of all rows, one in a line. SQLite only."""

    template = "GROUP_CONCAT(%(expressions)s, CHAR(10))"
    output_field = TextField()


def add_functions(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Give a new connection to SQLite the function that ``WordSimilarity`` calls; PostgreSQL has it."""
    if connection.vendor == "sqlite":
        connection.connection.create_function("WORD_SIMILARITY", 2, word_similarity, deterministic=True)
