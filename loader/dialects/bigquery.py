"""BigQuery, GoogleSQL."""

from collections.abc import Sequence

from architecture.domain.type_changes import classify_types
from loader.dialects.dialect import Dialect, indented
from metadata.domain import types as data_types
from metadata.domain.types import DataType

_NUMERIC_WHOLE, _NUMERIC_SCALE, _DIGITS_OF_INTEGERS = 29, 9, 19
_WIDENS = {
    data_types.INTEGER: {data_types.DECIMAL, data_types.FLOAT},
    data_types.BIGINT: {data_types.DECIMAL},
    data_types.STRING: {data_types.STRING},
}


class BigQuery(Dialect):
    """Rules of BigQuery. A schema is a dataset of the session's project."""

    name, title, parser = "bigquery", "BigQuery", "bigquery"
    source = "https://cloud.google.com/bigquery/docs/reference/standard-sql"
    longest_name = 300
    refused_in_names = '!"$()*,./;?@[\\]^`{}~'
    refused_beginnings = ("_table_", "_file_", "_partition", "_row_timestamp", "__root__", "_colidentifier")
    types = {
        data_types.STRING: "STRING",
        data_types.INTEGER: "INT64",
        data_types.BIGINT: "INT64",
        data_types.FLOAT: "FLOAT64",
        data_types.BOOLEAN: "BOOL",
        data_types.DATE: "DATE",
        data_types.TIMESTAMP: "TIMESTAMP",
        data_types.BINARY: "BYTES",
    }
    spellings = {
        "int64": "bigint",
        "int": "bigint",
        "integer": "bigint",
        "smallint": "bigint",
        "tinyint": "bigint",
        "byteint": "bigint",
        "float64": "float",
        "numeric": "decimal",
        "decimal": "decimal",
        "bignumeric": "decimal",
        "bigdecimal": "decimal",
    }

    def decimal(self, precision: int, scale: int) -> str:
        small = precision - scale <= _NUMERIC_WHOLE and scale <= _NUMERIC_SCALE
        return f"{'NUMERIC' if small else 'BIGNUMERIC'}({precision},{scale})"

    def observed_decimal(self, precision: str | None, scale: str | None) -> DataType:
        return super().observed_decimal(precision, scale if precision else str(_NUMERIC_SCALE))

    def limited_text(self, length: int) -> str:
        return f"STRING({length})"

    def quoted(self, name: str) -> str:
        return f"`{name}`"

    def text_literal(self, value: str) -> str:
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def as_text(self, value: str) -> str:
        return f"CAST({value} AS STRING)"

    def decimal_text(self, value: str, data_type: DataType) -> str:
        """Return the text, which has no zeros at its end here; a whole number's zeros stay."""
        text = self.as_text(value)
        return f"IF({text} LIKE '%.%', rtrim(rtrim({text}, '0'), '.'), {text})" if data_type.scale else text

    def matches(self, text: str, pattern: str) -> str:
        return f"REGEXP_CONTAINS({text}, {self.text(f'^({pattern})$')})"

    def try_cast(self, value: str, data_type: DataType) -> str:
        return f"SAFE_CAST({value} AS {self.cast_type(data_type)})"

    def bytes_of(self, text: str) -> str:
        return f"FROM_HEX({text})"

    def microseconds(self, value: str) -> str:
        return f"UNIX_MICROS({value})"

    def days(self, value: str) -> str:
        return f"UNIX_DATE({value})"

    def binary_text(self, value: str) -> str:
        return f"TO_HEX({value})"

    def joined(self, parts: Sequence[str]) -> str:
        return f"ARRAY_TO_STRING([{', '.join(parts)}], '|')" if parts else "''"

    def sha256(self, text: str) -> str:
        return f"TO_HEX(SHA256({text}))"

    @property
    def now(self) -> str:
        return "CURRENT_TIMESTAMP()"

    def cast_type(self, data_type: DataType) -> str:
        """Return the type without its measures; the column into which a value goes checks them."""
        return self.type_of(data_type).partition("(")[0]

    def refuse_if(self, code: str, message: str, violations: str) -> str:
        text = self.text(f"{code}: {message}")
        return f"SELECT IF(EXISTS (\n{indented(violations)}\n), ERROR({text}), NULL)"

    def move_table(self, old: str, new: str) -> list[str]:
        """Return the statements that copy a table with its lengths and digits, which columns of a query do not have."""
        return [f"CREATE TABLE {self.table(new)} COPY {self.table(old)}", self.drop_table(old)]

    def alter_type(self, table: str, name: str, before: DataType, after: DataType) -> list[str]:
        column, type_ = self.identifier(name), self.type_of(after)
        return [f"ALTER TABLE {self.table(table)} ALTER COLUMN {column} SET DATA TYPE {type_}"]

    def cast(self, value: str, before: DataType, after: DataType) -> str:
        """Return a cast to a decimal with the digits of its scale, which a cast without measures does not round to."""
        number = super().cast(value, before, after)
        return f"ROUND({number}, {after.scale})" if after.name == data_types.DECIMAL else number

    def widens_in_place(self, before: DataType, after: DataType) -> bool:
        """Return True for a type that holds every value of the old physical type."""
        if not classify_types(before, after).widens:
            return False
        if before.name == after.name == data_types.DECIMAL:
            return self.type_of(before).partition("(")[0] == self.type_of(after).partition("(")[0]
        if after.name == data_types.DECIMAL and (after.precision or 0) - (after.scale or 0) < _DIGITS_OF_INTEGERS:
            return False
        return after.name in _WIDENS.get(before.name, set())

    def stored_decimal_text(self, value: str, before: DataType) -> str:
        if not before.scale:
            return self.as_text(value)
        return f"FORMAT('%.{before.scale}f', {value})"

    def replace_table(self, table: str, columns: Sequence[tuple[str, str]], query: str, parked: str) -> list[str]:
        """Return one statement, which replaces the table at once."""
        definitions = ",\n  ".join(self.definitions(columns))
        return [f"CREATE OR REPLACE TABLE {self.table(table)} (\n  {definitions}\n) AS\n{query}"]
