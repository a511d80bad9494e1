"""Sample rows for refusals."""

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from metadata.domain.sql import quote_identifier

SAMPLES = 5
_LONGEST = 200


def sample_rows(rows: DataFrame, columns: Iterable[str]) -> tuple[str, ...]:
    """Read the first rows and return them as ``name=value`` of these columns, each truncated."""
    names = list(columns)
    chosen = rows.select(*(F.col(quote_identifier(name)).cast("string") for name in names)).limit(SAMPLES)
    return tuple(_cut(", ".join(map(_name_and_value, names, row))) for row in chosen.collect())


def _name_and_value(name: str, value: str | None) -> str:
    # The control database keeps no text with a NUL character.
    text = "NULL" if value is None else value.replace("\0", r"\0")
    return f"{name}={text}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
