"""Lookups that Django does not have; the app registers them for every field."""

import json
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Lookup
from django.db.models.sql.compiler import SQLCompiler


class Among(Lookup):
    """``key__among=keys``: as ``key__in=list(keys)``, with all the values in one parameter.

    A statement with a parameter for each of some thousand keys takes longer to write down than to answer, and
    SQLite and PostgreSQL both have a bound on how many there may be.
    """

    lookup_name = "among"

    def get_prep_lookup(self) -> list[Any]:
        """The values, each once; a statement may be written down more than once."""
        return list(dict.fromkeys(self.rhs))

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        """SQLite: a JSON array of the values as it stores them."""
        column, parameters = self.process_lhs(compiler, connection)
        field = self.lhs.output_field
        values = json.dumps([field.get_db_prep_value(value, connection) for value in self._values()])
        return f"{column} IN (SELECT value FROM json_each(%s))", (*parameters, values)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        """PostgreSQL: an array of texts that it reads as the column's type."""
        column, parameters = self.process_lhs(compiler, connection)
        kind = self.lhs.output_field.db_type(connection)
        return f"{column} = ANY(%s::{kind}[])", (*parameters, [str(value) for value in self._values()])

    def _values(self) -> list[Any]:
        if not self.rhs:
            raise EmptyResultSet
        return self.rhs
