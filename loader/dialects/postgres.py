"""PostgreSQL 15 and later. Needs a database in UTF-8; no extension."""

from collections.abc import Sequence
from itertools import count

from loader.dialects.dialect import Dialect, indented
from loader.dialects.refusals import NotRendered
from loader.dialects.text_patterns import FLOAT, ODD_FLOAT
from loader.dialects.text_values import either, when
from metadata.domain import types as data_types
from metadata.domain.types import DataType

# Limits within which no text of a number overflows, becomes zero, or has more digits than NUMERIC takes.
_LEAST_DOUBLE, _LARGEST_DOUBLE, _LONGEST_NUMBER = "4.94e-324", "1.7976931348623157e308", 1000


class Postgres(Dialect):
    """Rules of PostgreSQL."""

    name, title, parser, executed = "postgres", "PostgreSQL", "postgres", True
    source = "tests/loader/dialects"
    ddl_in_transaction = True
    longest_name, name_in_bytes = 63, True
    types = {
        data_types.STRING: "TEXT",
        data_types.INTEGER: "INTEGER",
        data_types.BIGINT: "BIGINT",
        data_types.FLOAT: "DOUBLE PRECISION",
        data_types.BOOLEAN: "BOOLEAN",
        data_types.DATE: "DATE",
        data_types.TIMESTAMP: "TIMESTAMP WITH TIME ZONE",
        data_types.BINARY: "BYTEA",
    }
    spellings = {
        "int2": "integer",
        "int8": "bigint",
        "serial": "integer",
        "serial4": "integer",
        "smallserial": "integer",
        "serial2": "integer",
        "bigserial": "bigint",
        "serial8": "bigint",
        "citext": "string",
        "numeric": "decimal",
        "decimal": "decimal",
        "bpchar": "string",
        "time_without_time_zone": "time",
        "timestamp_with_time_zone": "timestamp",
        "timestamp_without_time_zone": "timestamp",
    }

    def decimal(self, precision: int, scale: int) -> str:
        return f"NUMERIC({precision},{scale})"

    def as_text(self, value: str) -> str:
        return f"CAST({value} AS TEXT)"

    def hexadecimal_float(self, value: str) -> str:
        """Return the form of ``%a`` from the eight bytes of the number: sign and exponent, then 13 digits."""
        digits = f"encode(float8send({value}), 'hex')"
        head = f"CAST(CAST('x' || substr({digits}, 1, 3) AS BIT(12)) AS INTEGER)"
        mantissa = f"coalesce(nullif(rtrim(substr({digits}, 4), '0'), ''), '0')"
        sign = f"CASE WHEN {value} < 0 THEN '-' ELSE '' END"
        return (
            f"CASE WHEN {value} = 'NaN' THEN 'NaN' WHEN {value} = 'Infinity' THEN 'Infinity' "
            f"WHEN {value} = '-Infinity' THEN '-Infinity' "
            f"WHEN {head} & 2047 = 0 THEN {sign} || '0x0.' || {mantissa} || 'p-1022' "
            f"WHEN {value} IS NOT NULL THEN {sign} || '0x1.' || {mantissa} || 'p' || ({head} & 2047) - 1023 END"
        )

    def trimmed(self, text: str) -> str:
        return f"btrim({text}, {self.blanks})"

    def matches(self, text: str, pattern: str) -> str:
        return f"{text} ~ {self.text(f'^({pattern})$')}"

    def try_cast(self, value: str, data_type: DataType) -> str:
        """Return a cast, which fails for other texts: PostgreSQL 15 has no cast that does not."""
        return f"CAST({value} AS {self.cast_type(data_type)})"

    def double(self, text: str) -> str:
        """Return the double of a number; its size is compared as NUMERIC, because a cast fails beyond the limits."""
        value, number = self.try_cast(text, DataType(data_types.FLOAT)), f"CAST({text} AS NUMERIC)"
        fits = f"{number} = 0 OR abs({number}) BETWEEN {_LEAST_DOUBLE} AND {_LARGEST_DOUBLE}"
        is_short = f"{self.matches(text, FLOAT)} AND {self.length(text)} <= {_LONGEST_NUMBER}"
        return either(self.matches(text, ODD_FLOAT), value, is_short, when([fits], value))

    def bytes_of(self, text: str) -> str:
        return f"decode({text}, 'hex')"

    def microseconds(self, value: str) -> str:
        return f"CAST(extract(epoch FROM {value}) * 1000000 AS BIGINT)"

    def days(self, value: str) -> str:
        return f"CAST({value} - DATE '1970-01-01' AS BIGINT)"

    def binary_text(self, value: str) -> str:
        return f"encode({value}, 'hex')"

    def joined(self, parts: Sequence[str]) -> str:
        return f"array_to_string(ARRAY[{', '.join(parts)}], '|')" if parts else "''"

    def timestamp(self, text: str) -> str:
        return f"TIMESTAMP WITH TIME ZONE '{text}+00:00'"

    def sha256(self, text: str) -> str:
        return f"encode(sha256(convert_to({text}, 'UTF8')), 'hex')"

    def check_value(self, text: str) -> None:
        super().check_value(text)
        if "\x00" in text:
            raise NotRendered("PostgreSQL takes no NUL character")

    def refuse_if(self, code: str, message: str, violations: str) -> str:
        text = self.text(f"{code}: {message}".replace("%", "%%"))
        return _block(f"BEGIN IF EXISTS (\n{indented(violations)}\n) THEN RAISE EXCEPTION {text}; END IF; END")

    def create_view(self, qualified_name: str, query: str) -> list[str]:
        """Return a block that replaces the view, which keeps its privileges.

        PostgreSQL refuses to replace a view by one with fewer columns, or with other names or types; only such a view
        is dropped first.
        """
        view = self.table(qualified_name)
        creation = f"VIEW {view} AS\n{query};"
        is_refused = f"EXCEPTION WHEN invalid_table_definition THEN DROP VIEW {view}"
        return [_block(f"BEGIN\nCREATE OR REPLACE {creation} {is_refused}; CREATE {creation} END")]

    def move_table(self, old: str, new: str) -> list[str]:
        schema, _, name = new.partition(".")
        if name == old.partition(".")[2]:
            return [f"ALTER TABLE {self.table(old)} SET SCHEMA {self.identifier(schema)}"]
        return self.move_under_another_name(old, new)

    def widens_in_place(self, before: DataType, after: DataType) -> bool:
        return True

    def alter_type(self, table: str, name: str, before: DataType, after: DataType) -> list[str]:
        value = self.cast(self.identifier(name), before, after)
        (statement,) = super().alter_type(table, name, before, after)
        return [f"{statement} USING {value}"]

    def utc(self, value: str) -> str:
        return f"({value} AT TIME ZONE 'UTC')"

    def date_text(self, value: str) -> str:
        """Return a text that does not depend on the session's DateStyle."""
        return f"to_char({value}, 'YYYY-MM-DD')"

    def timestamp_text(self, value: str) -> str:
        return f"rtrim(rtrim(to_char({self.utc(value)}, 'YYYY-MM-DD HH24:MI:SS.US'), '0'), '.')"

    def midnight(self, value: str) -> str:
        return f"CAST({value} AS TIMESTAMP) AT TIME ZONE 'UTC'"


def _block(code: str) -> str:
    """Return a statement that runs a block of code, between tags that the code does not have."""
    tag = next(tag for number in count(1) if (tag := f"$block{number}$") not in code)
    return f"DO {tag} {code} {tag}"
