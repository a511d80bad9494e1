"""Base of dialects: types, names and literals in standard SQL."""

import re
from collections.abc import Mapping
from typing import ClassVar

from loader.dialects.refusals import NotRendered
from loader.domain.historization.history import parse_instant
from metadata.domain import types as data_types
from metadata.domain.sql import quote_standard_identifier, quote_standard_text
from metadata.domain.types import DataType, TypeProblem, parse

# Names of placeholders that the caller of a load replaces; both stand inside of quotes.
LOAD_TIMESTAMP, LOAD_RUN_ID = "{{ load_timestamp }}", "{{ load_run_id }}"
_MEASURES = re.compile(r"([a-z0-9_ ]+?)\s*(?:\(\s*([0-9]+|max)\s*(?:,\s*([0-9]+)\s*)?\))?(\s+with(?:out)? time zone)?")
# A caller would replace a placeholder in names and texts, too.
_REFUSED = re.compile("[\x00-\x1f\x7f]|" + "|".join(map(re.escape, (LOAD_TIMESTAMP, LOAD_RUN_ID))))


class TypesAndNames:
    """Types, names and literals of one dialect.

    ``longest_name`` is the limit of a name, in bytes if ``name_in_bytes``; ``refused_beginnings`` are in lower case.
    """

    title: ClassVar[str]
    longest_name: ClassVar[int] = 255
    name_in_bytes: ClassVar[bool] = False
    refused_in_names: ClassVar[str] = ""
    refused_beginnings: ClassVar[tuple[str, ...]] = ()
    # Physical type names by the canonical type that they hold, for the comparison of observed columns.
    spellings: ClassVar[Mapping[str, str]] = {}
    types: ClassVar[Mapping[str, str]] = {}

    # --- types ------------------------------------------------------------------------------------

    def type_of(self, data_type: DataType) -> str:
        """Return the physical type. Time, uuid and json are text of a checked format, as in the product."""
        stored = data_types.stored_type(data_type)
        if stored.name == data_types.DECIMAL:
            return self.decimal(stored.precision or 0, stored.scale or 0)
        if stored.length is not None:
            return self.limited_text(stored.length)
        return self.types[stored.name]

    def decimal(self, precision: int, scale: int) -> str:
        return f"DECIMAL({precision},{scale})"

    def limited_text(self, length: int) -> str:
        return f"VARCHAR({length})"

    def canonical_type(self, physical: str) -> DataType:
        """Return the canonical type of a column's physical type, in the dialect's spelling and context.

        Raise TypeProblem for a type that the product does not have.
        """
        text = re.sub(r"\s+", " ", physical.strip().lower())
        match = _MEASURES.fullmatch(text)
        spelling = f"{match[1]}{match[4] or ''}" if match else text
        canonical = self.spellings.get(spelling.replace(" ", "_"))
        if match is None:
            raise TypeProblem(f"{physical[:100]!r} is not a type of {self.title}")
        first, second = match[2], match[3]
        if canonical is None:
            return self._known(spelling.replace(" ", "_"), first, second)
        if canonical == data_types.DECIMAL:
            return self.observed_decimal(first, second)
        if "(" in canonical:
            return parse(canonical)
        limited = canonical == data_types.STRING and first and first != "max"
        return DataType(canonical, length=int(first)) if limited else DataType(canonical)

    @staticmethod
    def _known(spelling: str, first: str | None, second: str | None) -> DataType:
        """Return the type of a spelling that all systems share; only texts and decimals keep measures."""
        try:
            plain = parse(spelling)
        except TypeProblem:  # a decimal needs its measures
            plain = None
        if first in (None, "max") or (plain is not None and plain.name != data_types.STRING):
            return parse(spelling)
        return parse(f"{spelling}({first}{f',{second}' if second else ''})")

    def observed_decimal(self, precision: str | None, scale: str | None) -> DataType:
        return DataType(data_types.DECIMAL, precision=int(precision or 38), scale=int(scale or 0))

    def holds(self, physical: str, wanted: DataType) -> bool:
        """Return True if a column's physical type is the one for ``wanted``: no drift."""
        try:
            return self.type_of(self.canonical_type(physical)) == self.type_of(wanted)
        except TypeProblem:
            return False

    # --- names ------------------------------------------------------------------------------------

    def identifier(self, name: str) -> str:
        """Return a quoted name. Raise NotRendered for a name that the dialect would cut or refuse."""
        length = len(name.encode()) if self.name_in_bytes else len(name)
        if length > self.longest_name:
            unit = "bytes" if self.name_in_bytes else "characters"
            raise NotRendered(f"{name!r} has {length} {unit}; {self.title} takes {self.longest_name} in a name")
        refused = _REFUSED.search(name) or any(letter in self.refused_in_names for letter in name)
        if not name or refused or name.lower().startswith(self.refused_beginnings):
            raise NotRendered(f"{self.title} does not take the name {name!r}")
        return self.quoted(name)

    def quoted(self, name: str) -> str:
        return quote_standard_identifier(name)

    def table(self, qualified_name: str) -> str:
        """Return ``schema.name``, quoted."""
        schema, _, name = qualified_name.partition(".")
        return f"{self.identifier(schema)}.{self.identifier(name)}"

    # --- literals ---------------------------------------------------------------------------------

    def text(self, value: str) -> str:
        """Return a text literal. Raise NotRendered for control characters and placeholders.

        A control character could end a line of the file.
        """
        if refused := _REFUSED.search(value):
            what = "a control character" if len(refused[0]) == 1 else "a placeholder"
            raise NotRendered(f"the text {value!r} has {what}, which is not written into SQL files")
        return self.text_literal(value)

    def text_literal(self, value: str) -> str:
        return quote_standard_text(value)

    def check_value(self, text: str) -> None:
        """Raise NotRendered for a text that no column of the database holds: half of a character in UTF-16."""
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise NotRendered(f"{self.title} takes no half of a surrogate pair")

    def boolean(self, value: bool) -> str:
        return "TRUE" if value else "FALSE"

    def timestamp(self, text: str) -> str:
        """Return a literal of a UTC timestamp written as ``yyyy-mm-dd hh:mm:ss.ffffff``, or the placeholder."""
        return f"TIMESTAMP '{text}+00:00'"

    def instant(self, text: str) -> str:
        """Return the literal of an ISO 8601 timestamp; without a zone it is UTC."""
        return self.timestamp(timestamp_text(text))

    def null(self, type_text: str) -> str:
        return f"CAST(NULL AS {self.cast_type(parse(type_text))})"

    def cast_type(self, data_type: DataType) -> str:
        """Return the physical type as a cast takes it."""
        return self.type_of(data_type)

    @property
    def now(self) -> str:
        return "CURRENT_TIMESTAMP"

    @property
    def run_id(self) -> str:
        return f"'{LOAD_RUN_ID}'"

    @property
    def load_timestamp(self) -> str:
        return self.timestamp(LOAD_TIMESTAMP)


def timestamp_text(text: str) -> str:
    """Return an ISO 8601 timestamp as ``yyyy-mm-dd hh:mm:ss.ffffff`` in UTC; ``strftime`` would cut zeros of years."""
    return parse_instant(text).replace(tzinfo=None).isoformat(" ", "microseconds")
