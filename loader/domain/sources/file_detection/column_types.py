"""Types of the columns of a text, for detection and samples alike."""

from collections.abc import Sequence

from loader.domain.sources.file_detection.times import COMPACT
from loader.domain.sources.file_detection.truth_words import WORDS
from loader.domain.sources.sampling import Value, infer
from metadata.domain.sources.value_formats import TimeFormat, ValueFormats
from metadata.domain.text_formats import BLANKS
from metadata.domain.types import BOOLEAN, DATE, STRING, DataType


def column_type(values: Sequence[Value], formats: ValueFormats) -> tuple[DataType, str]:
    """Return the type of a column, and the evidence as part of a sentence.

    Other than by ``infer``, pairs of words like yes and no are truth values, and numbers are dates if the date format
    has no separators and reads all of them. Blanks around values do not count, as in a load, unless all are texts.
    """
    present = [value for value in values if value is not None]
    data_type, evidence = infer(values, len(values), formats)
    bare = [value.strip(BLANKS) for value in present]
    if data_type.name == STRING and bare != present and all(bare):
        trimmed, reason = infer(bare, len(values), formats)
        data_type, evidence = (data_type, evidence) if trimmed.name == STRING else (trimmed, reason)
    if not formats.true_words and {value.strip().lower() for value in present} in map(set, WORDS):
        return DataType(BOOLEAN), "the values are words for true and false"
    if present and formats.dates is not None and _are_dates(present, formats.dates):
        return DataType(DATE), "the values are dates without separators"
    return data_type, evidence


def _are_dates(texts: Sequence[str], dates: TimeFormat) -> bool:
    """Return True if all texts are dates without separators."""
    return dates.text in COMPACT and all(dates.read(text.strip()) is not None for text in texts if text.strip())
