"""Base class of dialects: canonical texts and statements in standard SQL.

Every rule is written by hand; no statement is transpiled. A dialect overrides what differs. Canonical texts are those
of ``loader.domain.historization.hashing``: the product's hashes, byte for byte.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import ClassVar

from loader.dialects.refusals import NotRendered
from loader.dialects.text_values import TextValues
from loader.domain.historization.hashing import EXACT_INTEGERS_BELOW, MICROSECONDS_PER_DAY
from metadata.domain import types as data_types
from metadata.domain.types import DataType, parse

IN_PLACE, NO_CHANGE, REBUILD = "in_place", "no_change", "rebuild"


class Dialect(TextValues):
    """Rules of one dialect.

    ``parser`` is the dialect's name in sqlglot. ``executed``: the tests run its statements on the engine. ``atomic``
    is the unit in which a load is written; with ``ddl_in_transaction``, changes of tables can be undone, too. With
    ``folds_case``, schemas and tables whose names differ in case are the same. With ``pads_texts``, blanks at the end
    do not count when texts are compared. Without ``has_booleans``, a condition is no value, and a column is no
    condition.
    """

    name: ClassVar[str]
    parser: ClassVar[str]
    executed: ClassVar[bool] = False
    source: ClassVar[str] = ""
    atomic: ClassVar[str] = "transaction"
    ddl_in_transaction: ClassVar[bool] = False
    folds_case: ClassVar[bool] = False
    pads_texts: ClassVar[bool] = False
    has_booleans: ClassVar[bool] = True

    # --- canonical texts and hashes ---------------------------------------------------------------

    def canonical(self, value: str, data_type: DataType) -> str:
        """Return the canonical text of a value, not yet escaped; NULL stays NULL. Raise NotRendered for json."""
        match data_type.name:
            case data_types.STRING:
                return value
            case data_types.BOOLEAN:
                return self.boolean_text(value)
            case data_types.INTEGER | data_types.BIGINT:
                return self.as_text(value)
            case data_types.DECIMAL:
                return self.decimal_text(value, data_type)
            case data_types.FLOAT:
                return self.float_text(value)
            case data_types.TIMESTAMP:
                return self.as_text(self.microseconds(value))
            case data_types.DATE:
                return self.as_text(f"({self.days(value)}) * {MICROSECONDS_PER_DAY}")
            case data_types.BINARY:
                return self.binary_text(value)
            case data_types.UUID:
                return f"lower({value})"
            case data_types.TIME:
                return self.time_text(value)
        raise NotRendered(f"the canonical text of {data_type} is no expression of {self.title}; it is hashed by value")

    def escaped(self, text: str, data_type: DataType) -> str:
        """Return a canonical text with backslash, tilde and bar escaped; only texts can have them."""
        if data_type.name != data_types.STRING:
            return text
        for character in ("\\", "~", "|"):
            text = f"replace({text}, {self.text(character)}, {self.text(chr(92) + character)})"
        return text

    def as_text(self, value: str) -> str:
        return f"CAST({value} AS VARCHAR)"

    def boolean_text(self, value: str) -> str:
        return f"CASE WHEN {value} THEN 'true' WHEN NOT {value} THEN 'false' END"

    def decimal_text(self, value: str, data_type: DataType) -> str:
        text = self.stored_decimal_text(value, data_type)
        return f"rtrim(rtrim({text}, '0'), '.')" if data_type.scale else text

    def float_text(self, value: str) -> str:
        """Return plain digits of whole numbers below 2^53, else the hexadecimal form."""
        return (
            f"CASE WHEN abs({value}) < {EXACT_INTEGERS_BELOW} AND {self.is_whole(value)} "
            f"THEN {self.whole_text(value)} ELSE {self.hexadecimal_float(value)} END"
        )

    def is_whole(self, value: str) -> str:
        return f"{value} = trunc({value})"

    def whole_text(self, value: str) -> str:
        return self.as_text(f"CAST({value} AS BIGINT)")

    def hexadecimal_float(self, value: str) -> str:
        raise NotRendered(f"{self.title} has no function for the canonical text of a float")

    def microseconds(self, value: str) -> str:
        raise NotImplementedError

    def days(self, value: str) -> str:
        """Return the days of a date since 1970, as a number of 64 bits."""
        raise NotImplementedError

    def binary_text(self, value: str) -> str:
        raise NotImplementedError

    def time_text(self, value: str) -> str:
        """Return a time of day with seconds, without zeros at the end of its fraction."""
        return (
            f"CASE WHEN {self.length(value)} = 5 THEN {self.concat(value, self.text(':00'))} "
            f"WHEN {value} LIKE '%.%' THEN rtrim(rtrim({value}, '0'), '.') ELSE {value} END"
        )

    def joined(self, parts: Sequence[str]) -> str:
        """Return the parts that are not NULL, joined by bars; an empty text if there are none."""
        raise NotImplementedError

    def sha256(self, text: str) -> str:
        """Return the SHA-256 of a text in UTF-8, as 64 lower-case hexadecimal digits."""
        raise NotImplementedError

    # --- statements -------------------------------------------------------------------------------

    def refuse_if(self, code: str, message: str, violations: str) -> str:
        """Return the statement that raises an error with the code if a query returns rows."""
        raise NotImplementedError

    def update(self, table: str, values: Mapping[str, str], where: Iterable[str]) -> str:
        """Return an UPDATE; names and values are SQL."""
        assignments = ",\n  ".join(f"{name} = {value}" for name, value in values.items())
        return f"UPDATE {table}\nSET\n  {assignments}\n{conditions(where)}"

    def update_from(self, table: str, values: Mapping[str, str], source: str, on: str, where: Iterable[str]) -> str:
        """Return an UPDATE of ``table AS h`` with values of the query ``source AS s``."""
        assignments = ",\n  ".join(f"{name} = {value}" for name, value in values.items())
        return (
            f"UPDATE {table} AS h\nSET\n  {assignments}\nFROM (\n{indented(source)}\n) AS s\n{conditions([on, *where])}"
        )

    def delete(self, table: str, where: Iterable[str]) -> str:
        return f"DELETE FROM {table}\n{conditions(where)}"

    def insert(self, table: str, columns: Iterable[str], query: str) -> str:
        return f"INSERT INTO {table} ({', '.join(map(self.identifier, columns))})\n{query}"

    # --- definitions ------------------------------------------------------------------------------

    def create_schema(self, schema: str) -> str:
        return f"CREATE SCHEMA IF NOT EXISTS {self.identifier(schema)}"

    def create_table(self, qualified_name: str, columns: Iterable[tuple[str, str]]) -> str:
        """Return the statement that creates a table; columns are (name, canonical type)."""
        return f"CREATE TABLE {self.table(qualified_name)} (\n  {lines(self.definitions(columns))}\n)"

    def create_view(self, qualified_name: str, query: str) -> list[str]:
        """Return the statements that create a view, or give the one of this name another query."""
        return [f"CREATE OR REPLACE VIEW {self.table(qualified_name)} AS\n{query}"]

    def definitions(self, columns: Iterable[tuple[str, str]]) -> list[str]:
        return [f"{self.identifier(name)} {self.type_of(parse(type_))}" for name, type_ in columns]

    def rename_table(self, old: str, new: str) -> list[str]:
        """Return the statements that rename a table; both names are ``schema.name``."""
        if old == new:
            return []
        schema, _, name = new.partition(".")
        if not self._is_same(schema, old.partition(".")[0]):
            return self.move_table(old, new)
        if name == old.partition(".")[2]:
            return []
        return [f"ALTER TABLE {self.table(old)} RENAME TO {self.identifier(name)}"]

    def _is_same(self, name: str, other: str) -> bool:
        """Return True if two names of a schema or table are the same in the database."""
        return name == other or (self.folds_case and name.lower() == other.lower())

    def move_table(self, old: str, new: str) -> list[str]:
        """Return the statements that move a table to another schema: a copy where there is none of its own."""
        return [f"CREATE TABLE {self.table(new)} AS\nSELECT * FROM {self.table(old)}", self.drop_table(old)]

    def move_under_another_name(self, old: str, new: str) -> list[str]:
        """Return the statements that move a table by a third name, because both schemas may have a table of either."""
        between = temporary_name("moving", old)
        moved = f"{new.partition('.')[0]}.{between.partition('.')[2]}"
        return [*self.rename_table(old, between), *self.move_table(between, moved), *self.rename_table(moved, new)]

    def rename_column(self, table: str, old: str, new: str) -> list[str]:
        return [f"ALTER TABLE {self.table(table)} RENAME COLUMN {self.identifier(old)} TO {self.identifier(new)}"]

    def add_column(self, table: str, name: str, type_text: str) -> list[str]:
        (definition,) = self.definitions([(name, type_text)])
        return [f"ALTER TABLE {self.table(table)} ADD COLUMN {definition}"]

    def drop_column(self, table: str, name: str) -> list[str]:
        return [f"ALTER TABLE {self.table(table)} DROP COLUMN {self.identifier(name)}"]

    def drop_table(self, table: str) -> str:
        return f"DROP TABLE {self.table(table)}"

    def drop_leftover(self, table: str) -> str:
        """Return the statement that drops a temporary table of a change that failed."""
        return f"DROP TABLE IF EXISTS {self.table(table)}"

    # --- type changes -----------------------------------------------------------------------------

    def widening(self, before: DataType, after: DataType) -> str:
        """Return how a wider type is reached: ``in_place``, ``no_change`` or ``rebuild``."""
        if self.type_of(before) == self.type_of(after):
            return NO_CHANGE
        return IN_PLACE if self.widens_in_place(before, after) else REBUILD

    def widens_in_place(self, before: DataType, after: DataType) -> bool:
        return False

    def alter_type(self, table: str, name: str, before: DataType, after: DataType) -> list[str]:
        column, type_ = self.identifier(name), self.type_of(after)
        return [f"ALTER TABLE {self.table(table)} ALTER COLUMN {column} TYPE {type_}"]

    def cast(self, value: str, before: DataType, after: DataType) -> str:
        """Return a checked cast, which fails for a value that does not fit; texts are the product's."""
        after = data_types.stored_type(after)
        if after.name == data_types.STRING:
            return self.cast_to_text(value, data_types.stored_type(before))
        if before.name == data_types.DATE and after.name == data_types.TIMESTAMP:
            return self.midnight(value)
        if before.name == data_types.TIMESTAMP and after.name == data_types.DATE:
            return f"CAST({self.utc(value)} AS DATE)"
        return f"CAST({value} AS {self.cast_type(after)})"

    def cast_back(self, value: str, before: DataType, after: DataType) -> str:
        """Return a value cast to a narrower type and back; a cast out of range fails."""
        narrow = self.cast(value, before, after)
        if after.name == data_types.DATE:
            return self.midnight(narrow)
        return f"CAST({narrow} AS {self.cast_type(before)})"

    def utc(self, value: str) -> str:
        """Return a timestamp as its date and time in UTC."""
        return value

    def cast_to_text(self, value: str, before: DataType) -> str:
        """Return the text that a rebuild writes for a value. Raise NotRendered if no expression gives it."""
        match before.name:
            case data_types.STRING:
                return value
            case data_types.INTEGER | data_types.BIGINT:
                return self.as_text(value)
            case data_types.BOOLEAN:
                return self.boolean_text(value)
            case data_types.DECIMAL:
                return self.stored_decimal_text(value, before)
            case data_types.DATE:
                return self.date_text(value)
            case data_types.TIMESTAMP:
                return self.timestamp_text(value)
        raise NotRendered(f"the text of a {before} has another form in {self.title} than in the product")

    def stored_decimal_text(self, value: str, before: DataType) -> str:
        return self.as_text(value)

    def date_text(self, value: str) -> str:
        return self.as_text(value)

    def timestamp_text(self, value: str) -> str:
        raise NotRendered(f"the text of a timestamp has another form in {self.title} than in the product")

    def midnight(self, value: str) -> str:
        return f"CAST({value} AS {self.types[data_types.TIMESTAMP]})"

    def replace_table(self, table: str, columns: Sequence[tuple[str, str]], query: str, parked: str) -> list[str]:
        """Return the statements that give a table new columns and the rows of a query over it.

        ``parked`` is a free name in the schema for the new table until it takes the old one's place.
        """
        return [
            self.create_table(parked, columns),
            self.insert(self.table(parked), [name for name, _ in columns], query),
            self.same_count(table, parked),
            self.drop_table(table),
            *self.rename_table(parked, table),
        ]

    def same_count(self, table: str, parked: str) -> str:
        """Return the check that both tables have as many rows."""
        counts = [f"(SELECT COUNT(*) FROM {self.table(name)})" for name in (table, parked)]
        message = f"{table}: the new table has another number of rows"
        return self.refuse_if("REBUILD_DIFFERS", message, f"SELECT 1 WHERE {counts[0]} <> {counts[1]}")


def temporary_name(kind: str, qualified_name: str) -> str:
    """Return a table's qualified name for the time of a change. No name of a dataset begins with an underscore."""
    schema, _, _ = qualified_name.partition(".")
    return f"{schema}.__{kind}_{sha256(qualified_name.encode()).hexdigest()[:24]}"


def conditions(where: Iterable[str]) -> str:
    return "WHERE " + "\n  AND ".join(where)


def lines(parts: Iterable[str]) -> str:
    """Return the parts of a list, one on each line."""
    return ",\n  ".join(parts)


def indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
