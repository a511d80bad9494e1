"""Columns of a table that a stage reads, as SQL: as they are, read from texts, widened, or translated expressions."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from architecture.domain.tables import TableSpec
from architecture.domain.type_changes import TypeChange, classify_types
from loader.contract.manifest.loads import StageColumn, StageInput
from loader.dialects.dialect import Dialect, conditions, indented, lines
from loader.dialects.expressions import TEXT, translate_condition, translate_to, translate_value
from loader.dialects.refusals import NotRendered
from metadata.domain.sources.value_formats import ValueFormats
from metadata.domain.sql import quote_identifier
from metadata.domain.types import STRING, TIMESTAMP, DataType, parse, stored_type

UTC, RAW = "UTC", "raw"


@dataclass(frozen=True)
class Value:
    """Value of a column as SQL, and the text that it is read from; None if every value fits."""

    column: str
    sql: str
    text: str | None = None


@dataclass(frozen=True)
class Input:
    """Input of a stage in a dialect; its table has the alias ``r``. ``name`` is that of the dataset, for errors."""

    dialect: Dialect
    name: str
    stage_input: StageInput

    @property
    def table(self) -> TableSpec:
        return self.stage_input.table

    @cached_property
    def types(self) -> dict[str, DataType]:
        """Return the types of the table's columns by name."""
        return {column.name: parse(column.type) for column in self.table.columns}

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """Return the columns. Raise NotRendered with the name of a column that cannot be read."""
        return tuple(self._named(column) for column in self.stage_input.columns)

    def query(self, where: Iterable[str] = ()) -> str:
        """Return the query of the columns, of the rows that meet the conditions and the input's filter."""
        selected = [f"{value.sql} AS {self.dialect.identifier(value.column)}" for value in self.values]
        return f"SELECT\n  {lines(selected)}\n{self.source(where)}"

    def source(self, where: Iterable[str] = ()) -> str:
        """Return FROM and WHERE."""
        dialect, filter_ = self.dialect, self.stage_input.filter
        rows = dialect.table(self.table.qualified_name)
        if any(null is not None for null in self._nulls):
            rows = f"(\n{indented(self._with_nulls(rows))}\n)"
        wanted = list(where)
        if filter_:
            wanted.append(f"({translate_condition(filter_, dialect, self.types, where=self.table.qualified_name)})")
        source = f"FROM {rows} AS r"
        return f"{source}\n{conditions(wanted)}" if wanted else source

    @property
    def _nulls(self) -> tuple[str | None, str | None]:
        """Return the texts that stand for NULL in a raw table, by the options of its source."""
        options = self.stage_input.options if self.table.kind == RAW else {}
        return "" if options.get("empty_is_null") else None, options.get("null_string")

    def _with_nulls(self, rows: str) -> str:
        """Return the query of a raw table with NULL in place of the texts that stand for it.

        Files are read into raw by this rule, so it changes nothing in rows that were.
        """
        selected = []
        for column in self.table.columns:
            name = value = self.dialect.identifier(column.name)
            for text in self._nulls:
                if text is not None and column.purpose == "attribute" and self.types[column.name].name == STRING:
                    value = self.dialect.null_if(value, text)
            selected.append(value if value == name else f"{value} AS {name}")
        return f"SELECT\n  {lines(selected)}\nFROM {rows}"

    def _named(self, column: StageColumn) -> Value:
        where = f"{self.name}.{column.name}"
        try:
            return self._value(column, where)
        except NotRendered as problem:
            if problem.where:
                raise
            raise NotRendered(problem.message, where=where) from problem

    def _value(self, column: StageColumn, where: str) -> Value:
        dialect, types, after = self.dialect, self.types, parse(column.type)
        own = next((name for name in types if quote_identifier(name) == column.expression), None)
        zone, is_instant = self.stage_input.options.get("timezone") or UTC, own and types[own].name == TIMESTAMP
        if after.name == TIMESTAMP and zone != UTC and not is_instant:
            raise NotRendered(f"local times of the zone {zone} are not converted", where=where)
        if own is None:
            text, kind = translate_value(column.expression, dialect, types, where=where)
            if kind == TEXT and after != DataType(STRING):
                return self._read(column.name, text, after)
            return Value(column.name, translate_to(column.expression, dialect, types, after, where=where))
        value, before = f"r.{dialect.identifier(own)}", types[own]
        if stored_type(before).name == STRING:
            fits = before == after or after == DataType(STRING) or classify_types(before, after).widens
            return Value(column.name, value) if fits else self._read(column.name, value, after)
        if stored_type(before) == stored_type(after):
            return Value(column.name, value)
        change = classify_types(stored_type(before), stored_type(after))
        if not change.widens and change is not TypeChange.EQUIVALENT:
            raise NotRendered(f"{before} is read as {after}, which can lose values", where=where)
        return Value(column.name, dialect.cast(value, before, after))

    def _read(self, name: str, text: str, after: DataType) -> Value:
        """Return the value of a text."""
        return Value(name, self.dialect.text_value(text, after, ValueFormats.of(self.stage_input.options)), text)
