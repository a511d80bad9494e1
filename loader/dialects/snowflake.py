"""Snowflake. All names are quoted, because others become upper case; instants are TIMESTAMP_NTZ in UTC."""

from collections.abc import Sequence

from architecture.domain.type_changes import classify_types
from loader.dialects.dialect import Dialect, indented
from loader.dialects.refusals import NotRendered
from metadata.domain import types as data_types
from metadata.domain.types import DataType


class Snowflake(Dialect):
    """Rules of Snowflake. Statements that define tables commit by themselves."""

    name, title, parser = "snowflake", "Snowflake", "snowflake"
    source = "https://docs.snowflake.com/en/sql-reference"
    types = {
        data_types.STRING: "VARCHAR",
        data_types.INTEGER: "NUMBER(38,0)",
        data_types.BIGINT: "NUMBER(38,0)",
        data_types.FLOAT: "FLOAT",
        data_types.BOOLEAN: "BOOLEAN",
        data_types.DATE: "DATE",
        data_types.TIMESTAMP: "TIMESTAMP_NTZ(6)",
        data_types.BINARY: "BINARY",
    }
    spellings = {
        "number": "decimal",
        "decimal": "decimal",
        "numeric": "decimal",
        "int": "bigint",
        "integer": "bigint",
        "bigint": "bigint",
        "smallint": "bigint",
        "tinyint": "bigint",
        "byteint": "bigint",
        "timestamp_ntz": "timestamp",
        "timestamp_ltz": "timestamp",
        "timestamp_tz": "timestamp",
        "datetime": "timestamp",
        "variant": "json",
        "object": "json",
        "array": "json",
        "binary": "binary",
        "varbinary": "binary",
    }

    def decimal(self, precision: int, scale: int) -> str:
        return f"NUMBER({precision},{scale})"

    def observed_decimal(self, precision: str | None, scale: str | None) -> DataType:
        """Return the type; NUMBER(38,0) is what Snowflake makes of every integer."""
        if (precision or "38", scale or "0") == ("38", "0"):
            return DataType(data_types.BIGINT)
        return super().observed_decimal(precision, scale)

    def text_literal(self, value: str) -> str:
        return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"

    def timestamp(self, text: str) -> str:
        return f"CAST('{text}' AS TIMESTAMP_NTZ(6))"

    @property
    def now(self) -> str:
        return "SYSDATE()"

    def matches(self, text: str, pattern: str) -> str:
        return f"REGEXP_LIKE({text}, {self.text(pattern)})"

    def date_of(self, text: str) -> str:
        return f"TRY_TO_DATE({text}, 'YYYY-MM-DD')"

    def instant_of(self, text: str) -> str:
        raise NotRendered("texts that are read as timestamp have no format of Snowflake that covers all of them")

    def bytes_of(self, text: str) -> str:
        return f"TRY_HEX_DECODE_BINARY({text})"

    def microseconds(self, value: str) -> str:
        return f"DATE_PART(EPOCH_MICROSECOND, {value})"

    def days(self, value: str) -> str:
        return f"DATEDIFF('day', DATE '1970-01-01', {value})"

    def binary_text(self, value: str) -> str:
        return f"lower(HEX_ENCODE({value}))"

    def joined(self, parts: Sequence[str]) -> str:
        return f"ARRAY_TO_STRING(ARRAY_CONSTRUCT_COMPACT({', '.join(parts)}), '|')" if parts else "''"

    def sha256(self, text: str) -> str:
        return f"SHA2({text}, 256)"

    def refuse_if(self, code: str, message: str, violations: str) -> str:
        text = self.text(f"{code}: {message}")
        block = (
            f"DECLARE refused EXCEPTION (-20001, {text}); BEGIN IF (EXISTS (\n"
            f"{indented(violations)}\n)) THEN RAISE refused; END IF; END;"
        )
        if "$$" in block:
            raise NotRendered(f"two dollar signs in a name or text end a block of {self.title}")
        return f"EXECUTE IMMEDIATE $$ {block} $$"

    def rename_table(self, old: str, new: str) -> list[str]:
        """Return one statement, which may move the table to another schema, too."""
        return [f"ALTER TABLE {self.table(old)} RENAME TO {self.table(new)}"] if old != new else []

    def date_text(self, value: str) -> str:
        return f"TO_VARCHAR({value}, 'YYYY-MM-DD')"

    def alter_type(self, table: str, name: str, before: DataType, after: DataType) -> list[str]:
        column, type_ = self.identifier(name), self.type_of(after)
        return [f"ALTER TABLE {self.table(table)} ALTER COLUMN {column} SET DATA TYPE {type_}"]

    def widens_in_place(self, before: DataType, after: DataType) -> bool:
        """Return True for longer text and for more digits before the point: a scale cannot change."""
        if not classify_types(before, after).widens:
            return False
        if before.name == after.name == data_types.DECIMAL:
            return before.scale == after.scale
        return before.name == data_types.STRING == data_types.stored_type(after).name

    def replace_table(self, table: str, columns: Sequence[tuple[str, str]], query: str, parked: str) -> list[str]:
        """Return the statements; the swap of both tables is one step."""
        names = [name for name, _ in columns]
        return [
            self.drop_leftover(parked),
            self.create_table(parked, columns),
            self.insert(self.table(parked), names, query),
            self.same_count(table, parked),
            f"ALTER TABLE {self.table(table)} SWAP WITH {self.table(parked)}",
            self.drop_table(parked),
        ]
