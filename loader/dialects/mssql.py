"""SQL Server 2019 and later. Text is VARCHAR in UTF-8 with a binary collation, so that texts compare exactly."""

from collections.abc import Iterable, Mapping, Sequence

from loader.dialects.dialect import Dialect, conditions, indented
from loader.dialects.refusals import NotRendered
from loader.domain.historization.hashing import EXACT_INTEGERS_BELOW
from metadata.domain import types as data_types
from metadata.domain.types import DataType

COLLATION = "Latin1_General_100_BIN2_UTF8"
_LONGEST_TEXT, _BYTES_OF_CHARACTER, _MOST_PARTS, _LONGEST_NUMBER = 8000, 4, 250, 1000
_WIDENS = {
    data_types.INTEGER: {data_types.BIGINT, data_types.FLOAT, data_types.DECIMAL},
    data_types.BIGINT: {data_types.DECIMAL},
    data_types.DECIMAL: {data_types.DECIMAL},
    data_types.STRING: {data_types.STRING},
}


class SqlServer(Dialect):
    """Rules of SQL Server, in T-SQL."""

    name, title, parser = "mssql", "SQL Server", "tsql"
    source = "https://learn.microsoft.com/sql/t-sql/language-reference"
    ddl_in_transaction = True
    pads_texts, has_booleans = True, False
    longest_name = 128
    types = {
        data_types.STRING: f"VARCHAR(MAX) COLLATE {COLLATION}",
        data_types.INTEGER: "INT",
        data_types.BIGINT: "BIGINT",
        data_types.FLOAT: "FLOAT",
        data_types.BOOLEAN: "BIT",
        data_types.DATE: "DATE",
        data_types.TIMESTAMP: "DATETIME2(6)",
        data_types.BINARY: "VARBINARY(MAX)",
    }
    spellings = {
        "bit": "boolean",
        "datetime2": "timestamp",
        "datetime": "timestamp",
        "smalldatetime": "timestamp",
        "datetimeoffset": "timestamp",
        "nvarchar": "string",
        "varchar": "string",
        "nchar": "string",
        "char": "string",
        "ntext": "string",
        "money": "decimal(19,4)",
        "smallmoney": "decimal(10,4)",
        "decimal": "decimal",
        "numeric": "decimal",
        "real": "float",
        "float": "float",
        "varbinary": "binary",
        "binary": "binary",
        "image": "binary",
        "rowversion": "binary",
        "timestamp": "binary",
        "time": "time",
        "uniqueidentifier": "uuid",
    }

    def limited_text(self, length: int) -> str:
        """Return a type with room for the characters: its length is in bytes, up to four for each."""
        size = length * _BYTES_OF_CHARACTER
        return f"VARCHAR({size if size <= _LONGEST_TEXT else 'MAX'}) COLLATE {COLLATION}"

    def canonical_type(self, physical: str) -> DataType:
        text, _, _ = physical.partition(" COLLATE ")
        observed = super().canonical_type(text)
        if observed.length is not None:
            return DataType(observed.name, length=max(1, observed.length // _BYTES_OF_CHARACTER))
        return observed

    def cast_type(self, data_type: DataType) -> str:
        return self.type_of(data_type).partition(" COLLATE ")[0]

    def quoted(self, name: str) -> str:
        return "[" + name.replace("]", "]]") + "]"

    def text_literal(self, value: str) -> str:
        """Return a literal; one beyond ASCII is read as Unicode, not in the code page of the database.

        A cast gives a text of the collation of its input, so that is where the collation is given.
        """
        literal = "'" + value.replace("'", "''") + "'"
        return literal if value.isascii() else f"CAST(N{literal} COLLATE {COLLATION} AS VARCHAR(MAX))"

    def boolean(self, value: bool) -> str:
        return "1" if value else "0"

    def timestamp(self, text: str) -> str:
        return f"CAST('{text}' AS DATETIME2(6))"

    @property
    def now(self) -> str:
        return "SYSUTCDATETIME()"

    def as_text(self, value: str) -> str:
        return f"CAST({value} AS VARCHAR(100))"

    def boolean_text(self, value: str) -> str:
        return f"CASE WHEN {value} = 1 THEN 'true' WHEN {value} = 0 THEN 'false' END"

    def decimal_text(self, value: str, data_type: DataType) -> str:
        return self._trimmed(self.as_text(value)) if data_type.scale else self.as_text(value)

    @staticmethod
    def _trimmed(text: str) -> str:
        """Return a number without zeros, and then without a point, at its end; it has no blanks."""
        for character in "0.":
            text = f"REPLACE(RTRIM(REPLACE({text}, '{character}', ' ')), ' ', '{character}')"
        return text

    def time_text(self, value: str) -> str:
        return (
            f"CASE WHEN LEN({value}) = 5 THEN {value} + ':00' "
            f"WHEN {value} LIKE '%.%' THEN {self._trimmed(value)} ELSE {value} END"
        )

    def is_whole(self, value: str) -> str:
        return f"FLOOR({value}) = {value}"

    def hexadecimal_float(self, value: str) -> str:
        """Return the form of ``%a`` from the eight bytes of the number. There is no NaN and no infinity here."""
        digits = f"CONVERT(VARCHAR(16), CAST({value} AS BINARY(8)), 2)"
        exponent = f"CAST(SUBSTRING(CAST({value} AS BINARY(8)), 1, 2) AS INT) / 16 % 2048"
        fraction = f"RTRIM(REPLACE(LOWER(SUBSTRING({digits}, 4, 13)), '0', ' '))"
        mantissa = f"COALESCE(NULLIF(REPLACE({fraction}, ' ', '0'), ''), '0')"
        sign = f"CASE WHEN {value} < 0 THEN '-' ELSE '' END"
        return (
            f"CASE WHEN {exponent} = 0 THEN {sign} + '0x0.' + {mantissa} + 'p-1022' "
            f"WHEN {value} IS NOT NULL THEN {sign} + '0x1.' + {mantissa} + 'p' + "
            f"CAST({exponent} - 1023 AS VARCHAR(5)) END"
        )

    def float_text(self, value: str) -> str:
        return (
            f"CASE WHEN ABS({value}) < {EXACT_INTEGERS_BELOW} AND {self.is_whole(value)} "
            f"THEN {self.as_text(f'CAST({value} AS BIGINT)')} ELSE {self.hexadecimal_float(value)} END"
        )

    def trimmed(self, text: str) -> str:
        return f"TRIM(CONCAT(' ', CHAR(9), CHAR(10), CHAR(13)) FROM {text})"

    def is_one_of(self, text: str, patterns: Sequence[str]) -> str:
        return f"({' OR '.join(f'{text} LIKE {self.text(pattern)}' for pattern in patterns)})"

    def part(self, text: str, start: int, width: int | None = None) -> str:
        return f"SUBSTRING({text}, {start}, {_LONGEST_TEXT if width is None else width})"

    def null_if(self, value: str, text: str) -> str:
        """Return the value, NULL if it is the text; blanks at the end count in the length of the bytes only."""
        other = self.text(text)
        return f"CASE WHEN DATALENGTH({value}) <> DATALENGTH({other}) OR {value} <> {other} THEN {value} END"

    def limited(self, text: str, length: int) -> str:
        """Raise NotRendered: LEN counts neither blanks at the end nor characters beyond 16 bits."""
        raise NotRendered(f"{self.title} does not count the characters of a text as the product does")

    def is_decimal(self, text: str, precision: int, scale: int) -> str:
        """Return the condition on sign, digits and zeros beyond the scale; a cast is NULL for a number out of range."""
        beyond = f"SUBSTRING({text}, CHARINDEX('.', {text}) + {scale + 1}, {_LONGEST_TEXT})"
        conditions = [
            f"LEN({text}) <= {_LONGEST_NUMBER}",
            f"{text} LIKE '[-+.0-9]%'",
            f"{self.part(text, 2)} NOT LIKE '%[^.0-9]%'",
            f"{text} LIKE '%[0-9]%'",
            f"{text} NOT LIKE '%.%.%'",
            f"({text} NOT LIKE '%.%' OR {beyond} NOT LIKE '%[^0]%')",
        ]
        return " AND ".join(conditions)

    def is_date(self, text: str) -> str:
        return f"{text} LIKE '{'-'.join('[0-9]' * width for width in (4, 2, 2))}'"

    def date_of(self, text: str) -> str:
        return f"TRY_CONVERT(DATE, {text}, 23)"

    def truth_value(self, conditions: tuple[str, str]) -> str:
        return f"CAST({super().truth_value(conditions)} AS BIT)"

    def microseconds(self, value: str) -> str:
        return f"DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01' AS DATETIME2(6)), {value})"

    def days(self, value: str) -> str:
        return f"CAST(DATEDIFF(DAY, CAST('1970-01-01' AS DATE), {value}) AS BIGINT)"

    def binary_text(self, value: str) -> str:
        return f"LOWER(CONVERT(VARCHAR(MAX), {value}, 2))"

    def length(self, value: str) -> str:
        return f"LEN({value})"

    def concat(self, *parts: str) -> str:
        return f"({' + '.join(parts)})"

    def escaped(self, text: str, data_type: DataType) -> str:
        if data_type.name != data_types.STRING:
            return text
        return super().escaped(f"CAST({text} AS VARCHAR(MAX)) COLLATE {COLLATION}", data_type)

    def joined(self, parts: Sequence[str]) -> str:
        """Return the parts joined as VARCHAR(MAX): without a part of this type, they would be cut to 8,000 bytes."""
        if len(parts) > _MOST_PARTS:
            raise NotRendered(f"a hash over {len(parts)} columns is more than {self.title} joins: {_MOST_PARTS}")
        if len(parts) < 2:
            return f"COALESCE({parts[0]}, '')" if parts else "''"
        return f"CONCAT_WS('|', CAST({parts[0]} AS VARCHAR(MAX)), {', '.join(parts[1:])})"

    def sha256(self, text: str) -> str:
        encoded = f"CAST({text} AS VARCHAR(MAX)) COLLATE {COLLATION}"
        return f"LOWER(CONVERT(CHAR(64), HASHBYTES('SHA2_256', {encoded}), 2)) COLLATE {COLLATION}"

    def refuse_if(self, code: str, message: str, violations: str) -> str:
        text = self._unicode(f"{code}: {message}".replace("%", "%%"))
        return f"IF EXISTS (\n{indented(violations)}\n) BEGIN THROW 50000, {text}, 1; END"

    @staticmethod
    def _unicode(text: str) -> str:
        return "N'" + text.replace("'", "''") + "'"

    def update_from(self, table: str, values: Mapping[str, str], source: str, on: str, where: Iterable[str]) -> str:
        assignments = ",\n  ".join(f"{name} = {value}" for name, value in values.items())
        return (
            f"UPDATE h\nSET\n  {assignments}\nFROM {table} AS h\nINNER JOIN (\n{indented(source)}\n) AS s ON {on}\n"
            f"{conditions(where)}"
        )

    def create_schema(self, schema: str) -> str:
        return (
            f"IF NOT EXISTS (SELECT 1 FROM sys.schemas WHERE name = {self._unicode(schema)}) "
            f"BEGIN EXEC sp_executesql {self._unicode(f'CREATE SCHEMA {self.identifier(schema)}')}; END"
        )

    def create_view(self, qualified_name: str, query: str) -> list[str]:
        return [f"CREATE OR ALTER VIEW {self.table(qualified_name)} AS\n{query}"]

    def definitions(self, columns: Iterable[tuple[str, str]]) -> list[str]:
        return [f"{definition} NULL" for definition in super().definitions(columns)]

    def rename_table(self, old: str, new: str) -> list[str]:
        if old == new:
            return []
        schema, _, name = new.partition(".")
        self.identifier(name)
        if schema != old.partition(".")[0]:
            return self.move_table(old, new)
        return [f"EXEC sp_rename {self._unicode(self.table(old))}, {self._unicode(name)}"]

    def move_table(self, old: str, new: str) -> list[str]:
        schema, _, name = new.partition(".")
        if name == old.partition(".")[2]:
            move = f"ALTER SCHEMA {self.identifier(schema)} TRANSFER {self.table(old)}"
            return [f"EXEC sp_executesql {self._unicode(move)}"]
        return self.move_under_another_name(old, new)

    def rename_column(self, table: str, old: str, new: str) -> list[str]:
        self.identifier(new)
        place = f"{self.table(table)}.{self.identifier(old)}"
        return [f"EXEC sp_rename {self._unicode(place)}, {self._unicode(new)}, N'COLUMN'"]

    def add_column(self, table: str, name: str, type_text: str) -> list[str]:
        (definition,) = self.definitions([(name, type_text)])
        return [f"ALTER TABLE {self.table(table)} ADD {definition}"]

    def alter_type(self, table: str, name: str, before: DataType, after: DataType) -> list[str]:
        column, type_ = self.identifier(name), self.type_of(after)
        return [f"ALTER TABLE {self.table(table)} ALTER COLUMN {column} {type_} NULL"]

    def widens_in_place(self, before: DataType, after: DataType) -> bool:
        return after.name in _WIDENS.get(before.name, set())

    def date_text(self, value: str) -> str:
        return f"CONVERT(CHAR(10), {value}, 23)"
