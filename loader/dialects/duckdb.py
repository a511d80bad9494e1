"""DuckDB 1.5 and later. A length of text is not enforced there."""

from collections.abc import Sequence

from loader.dialects.dialect import Dialect, indented
from loader.dialects.text_patterns import FLOAT, ODD_FLOAT
from loader.dialects.text_values import either, when
from metadata.domain import types as data_types
from metadata.domain.types import DataType


class DuckDb(Dialect):
    """Rules of DuckDB."""

    name, title, parser, executed = "duckdb", "DuckDB", "duckdb", True
    source = "tests/loader/dialects"
    ddl_in_transaction = folds_case = True
    longest_name = 1000
    types = {
        data_types.STRING: "VARCHAR",
        data_types.INTEGER: "INTEGER",
        data_types.BIGINT: "BIGINT",
        data_types.FLOAT: "DOUBLE",
        data_types.BOOLEAN: "BOOLEAN",
        data_types.DATE: "DATE",
        data_types.TIMESTAMP: "TIMESTAMP WITH TIME ZONE",
        data_types.BINARY: "BLOB",
    }
    spellings = {
        "int1": "integer",
        "int8": "bigint",
        "hugeint": "decimal",
        "utinyint": "integer",
        "usmallint": "integer",
        "uinteger": "bigint",
        "ubigint": "decimal",
        "signed": "integer",
        "logical": "boolean",
        "numeric": "decimal",
        "decimal": "decimal",
        "bpchar": "string",
        "timestamp_s": "timestamp",
        "timestamp_ms": "timestamp",
        "timestamp_ns": "timestamp",
        "timestamp_with_time_zone": "timestamp",
    }

    def limited_text(self, length: int) -> str:
        return self.types[data_types.STRING]

    @property
    def now(self) -> str:
        """Return a call: the word CURRENT_TIMESTAMP would be a column of this name."""
        return "now()"

    def stored_decimal_text(self, value: str, before: DataType) -> str:
        """Return the text, which lacks the zero before the point if the type has no digits there."""
        text = self.as_text(value)
        if before.precision != before.scale:
            return text
        return f"regexp_replace({text}, '^(-?)[.]', '\\10.')"

    def hexadecimal_float(self, value: str) -> str:
        """Return the form of ``%a``, whose digits ``format`` writes without a point if there is one only."""
        digits = f"format('{{:a}}', {value})"
        exponent = f"replace(split_part({digits}, 'p', 2), '+', '')"
        mantissa = f"split_part({digits}, 'p', 1)"
        pointed = f"{mantissa} || CASE WHEN contains({mantissa}, '.') THEN '' ELSE '.0' END"
        return (
            f"CASE WHEN isnan({value}) THEN 'NaN' WHEN {value} = 'Infinity' THEN 'Infinity' "
            f"WHEN {value} = '-Infinity' THEN '-Infinity' ELSE {pointed} || 'p' || {exponent} END"
        )

    def matches(self, text: str, pattern: str) -> str:
        return f"regexp_full_match({text}, {self.text(pattern)})"

    def double(self, text: str) -> str:
        value = self.try_cast(text, DataType(data_types.FLOAT))
        number = when([f"isfinite({value})"], value)
        return either(self.matches(text, ODD_FLOAT), value, self.matches(text, FLOAT), number)

    def microseconds(self, value: str) -> str:
        return f"epoch_us({value})"

    def days(self, value: str) -> str:
        return f"CAST({value} - DATE '1970-01-01' AS BIGINT)"

    def binary_text(self, value: str) -> str:
        return f"lower(hex({value}))"

    def joined(self, parts: Sequence[str]) -> str:
        return f"concat_ws('|', {', '.join(parts)})" if parts else "''"

    def sha256(self, text: str) -> str:
        return f"sha256({text})"

    def timestamp(self, text: str) -> str:
        return f"TIMESTAMPTZ '{text}+00:00'"

    def refuse_if(self, code: str, message: str, violations: str) -> str:
        text = self.text(f"{code}: {message}")
        return f"SELECT CASE WHEN EXISTS (\n{indented(violations)}\n) THEN error({text}) END"

    def widens_in_place(self, before: DataType, after: DataType) -> bool:
        return True

    def alter_type(self, table: str, name: str, before: DataType, after: DataType) -> list[str]:
        value = self.cast(self.identifier(name), before, after)
        (statement,) = super().alter_type(table, name, before, after)
        return [f"{statement} USING {value}"]

    def utc(self, value: str) -> str:
        return f"({value} AT TIME ZONE 'UTC')"

    def timestamp_text(self, value: str) -> str:
        return self.as_text(self.utc(value))

    def midnight(self, value: str) -> str:
        return f"CAST({value} AS TIMESTAMP) AT TIME ZONE 'UTC'"
