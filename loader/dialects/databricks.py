"""Databricks SQL on Delta tables, in ANSI mode (the default there) and with the session's time zone UTC."""

from collections.abc import Iterable, Sequence

from architecture.domain.type_changes import TypeChange, classify_types
from loader.dialects.dialect import Dialect, indented
from loader.dialects.text_patterns import FLOAT, ODD_FLOAT
from loader.dialects.text_values import either, when
from loader.domain.historization.hashing import MICROSECONDS_PER_DAY
from metadata.domain import types as data_types
from metadata.domain.types import DataType, parse

# The end of a text. A dollar would match before a line end, too.
_END = "\\z"
_MAPPED = ("delta.columnMapping.mode", "name")


class Databricks(Dialect):
    """Rules of Databricks. Each statement is a commit of its own; several have no common transaction."""

    name, title, parser = "databricks", "Databricks", "databricks"
    source = "https://docs.databricks.com/sql/language-manual"
    atomic = "statement"
    folds_case = True
    types = {
        data_types.STRING: "STRING",
        data_types.INTEGER: "INT",
        data_types.BIGINT: "BIGINT",
        data_types.FLOAT: "DOUBLE",
        data_types.BOOLEAN: "BOOLEAN",
        data_types.DATE: "DATE",
        data_types.TIMESTAMP: "TIMESTAMP",
        data_types.BINARY: "BINARY",
    }
    spellings = {"decimal": "decimal", "dec": "decimal", "numeric": "decimal", "variant": "json"}

    def quoted(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def text_literal(self, value: str) -> str:
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def as_text(self, value: str) -> str:
        return f"CAST({value} AS STRING)"

    def is_whole(self, value: str) -> str:
        return f"rint({value}) = {value}"

    def hexadecimal_float(self, value: str) -> str:
        return f"CASE WHEN {value} IS NOT NULL THEN format_string('%a', {value}) END"

    def decimal_text(self, value: str, data_type: DataType) -> str:
        text = self.as_text(value)
        return f"rtrim('.', rtrim('0', {text}))" if data_type.scale else text

    def time_text(self, value: str) -> str:
        return (
            f"CASE WHEN length({value}) = 5 THEN {value} || ':00' "
            f"WHEN {value} LIKE '%.%' THEN rtrim('.', rtrim('0', {value})) ELSE {value} END"
        )

    def trimmed(self, text: str) -> str:
        return f"trim(BOTH {self.blanks} FROM {text})"

    @property
    def blanks(self) -> str:
        return "concat(' ', chr(9), chr(10), chr(13))"

    def matches(self, text: str, pattern: str) -> str:
        return f"{text} RLIKE {self.text(f'^({pattern})' + _END)}"

    def rewritten(self, text: str, pattern: str, replacement: str) -> str:
        return super().rewritten(text, pattern, replacement.replace("\\", "$"))

    def double(self, text: str) -> str:
        value = self.try_cast(text, DataType(data_types.FLOAT))
        number = when([f"abs({value}) < CAST('Infinity' AS DOUBLE)"], value)
        return either(self.matches(text, ODD_FLOAT), value, self.matches(text, FLOAT), number)

    def microseconds(self, value: str) -> str:
        return f"unix_micros({value})"

    def days(self, value: str) -> str:
        return f"CAST(unix_date({value}) AS BIGINT)"

    def canonical(self, value: str, data_type: DataType) -> str:
        if data_type.name == data_types.DATE:
            return self.as_text(f"{self.days(value)} * {MICROSECONDS_PER_DAY}L")
        return super().canonical(value, data_type)

    def binary_text(self, value: str) -> str:
        return f"lower(hex({value}))"

    def joined(self, parts: Sequence[str]) -> str:
        return f"concat_ws('|', {', '.join(parts)})" if parts else "''"

    def sha256(self, text: str) -> str:
        return f"sha2({text}, 256)"

    @property
    def now(self) -> str:
        return "current_timestamp()"

    def refuse_if(self, code: str, message: str, violations: str) -> str:
        text = self.text(f"{code}: {message}")
        return f"SELECT CASE WHEN EXISTS (\n{indented(violations)}\n) THEN raise_error({text}) END"

    def create_table(self, qualified_name: str, columns: Iterable[tuple[str, str]]) -> str:
        described = list(columns)
        return f"{super().create_table(qualified_name, described)} USING delta{_properties(described)}"

    def rename_table(self, old: str, new: str) -> list[str]:
        """Return one statement: both names are qualified. None for a change of case, which a catalog does not keep."""
        return [] if self._is_same(old, new) else [f"ALTER TABLE {self.table(old)} RENAME TO {self.table(new)}"]

    def rename_column(self, table: str, old: str, new: str) -> list[str]:
        return [self._property(table, *_MAPPED), *super().rename_column(table, old, new)]

    def add_column(self, table: str, name: str, type_text: str) -> list[str]:
        (definition,) = self.definitions([(name, type_text)])
        mapped = [self._property(table, *_MAPPED)] if _is_mapped(name) else []
        return [*mapped, f"ALTER TABLE {self.table(table)} ADD COLUMNS ({definition})"]

    def drop_column(self, table: str, name: str) -> list[str]:
        return [self._property(table, *_MAPPED), *super().drop_column(table, name)]

    def alter_type(self, table: str, name: str, before: DataType, after: DataType) -> list[str]:
        widening = super().alter_type(table, name, before, after)
        if before.name == data_types.STRING:
            return widening
        return [self._property(table, "delta.enableTypeWidening", "true"), *widening]

    def _property(self, table: str, name: str, value: str) -> str:
        return f"ALTER TABLE {self.table(table)} SET TBLPROPERTIES ('{name}' = '{value}')"

    def widens_in_place(self, before: DataType, after: DataType) -> bool:
        return classify_types(before, after) is TypeChange.ALTER

    def replace_table(self, table: str, columns: Sequence[tuple[str, str]], query: str, parked: str) -> list[str]:
        """Return the statements, of which one commit replaces the table.

        A cast in a query gives no text of limited length, so such a column comes from a table that has it.
        """
        old, new = self.table(table), self.table(parked)
        if all(parse(type_).length is None for _, type_ in columns):
            return [f"CREATE OR REPLACE TABLE {old} USING delta{_properties(columns)} AS\n{query}"]
        return [
            self.drop_leftover(parked),
            self.create_table(parked, columns),
            self.insert(new, [name for name, _ in columns], query),
            self.same_count(table, parked),
            f"CREATE OR REPLACE TABLE {old} CLONE {new}",
            self.drop_table(parked),
        ]


def _is_mapped(name: str) -> bool:
    """Return True for a name that a Delta table takes by column mapping only."""
    return any(character in " ,;{}()=" for character in name)


def _properties(columns: Iterable[tuple[str, str]]) -> str:
    """Return the properties of a new table with these columns."""
    name, value = _MAPPED
    return f" TBLPROPERTIES ('{name}' = '{value}')" if any(_is_mapped(column) for column, _ in columns) else ""
