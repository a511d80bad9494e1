"""Fixed width: lines whose fields stand at positions that the option ``columns`` gives, counted in characters."""

from dataclasses import replace

from pyspark.sql import Column
from pyspark.sql import functions as F

from loader.domain.sources.fixed_width import EBCDIC_LINE_ENDS, HINT, check_encoding, ebcdic_line_end, problem_of
from loader.engine.expressions import any_of
from loader.engine.sources.delivered_columns import nulls_read
from loader.engine.sources.files import DeliveredFile, beginning
from loader.engine.sources.formats.text_lines import text_lines
from loader.engine.sources.opened import (
    LONGEST_TEXT,
    Delivered,
    FileFormat,
    Group,
    Layout,
    MalformedRecord,
    Opened,
    Place,
    Rows,
)
from metadata.domain.sources.option_kinds import columns_of

_BEGINNING = 1 << 20  # bytes in which a file has its first line end
_LONGEST_LINE = 1 << 30  # characters


def _problem(opened: Opened, place: Place) -> str:
    if len(place.text) >= LONGEST_TEXT:  # The text is cut there.
        return "the line has text after its last column"
    return problem_of(place.text, columns_of(opened.options.columns))


class FixedWidthFormat(FileFormat):
    """Lines of fields at fixed positions; blanks around a value do not belong to it."""

    has_lines = is_decoded = True
    malformed = (
        MalformedRecord(
            "RAGGED_ROW", "the line is shorter or longer than its columns", HINT, "of another length", describe=_problem
        ),
    )

    def layout(self, delivered: Delivered, contract: tuple[str, ...]) -> Layout:
        check_encoding(delivered.name, delivered.options)
        # Spark replaces bytes that are no character, and the checks look for its replacement.
        delivered.spark.conf.set("spark.sql.legacy.codingErrorAction", "true")
        names = tuple(name for name, _, _ in columns_of(delivered.options.columns))
        layout = Layout.of_text(names, delivered.files)
        return replace(layout, groups=_by_line_end(delivered, names)) if delivered.options.is_ebcdic else layout

    def rows(self, opened: Opened, group: Group) -> Rows:
        options, positions = opened.options, columns_of(opened.options.columns)
        line = F.rtrim(F.decode(F.col("value").cast("binary"), options.encoding), F.lit("\r"))
        values = {
            name: nulls_read(F.trim(F.substring(line, start, end - start + 1), F.lit(" ")), options)
            for name, start, end in positions
        }
        last = max(end for _, _, end in positions)
        is_short = F.lit(not options.short_lines) & (F.char_length(line) < last)
        is_long = F.trim(F.substring(line, last + 1, _LONGEST_LINE), F.lit(" ")) != ""
        frame = text_lines(opened.spark, group.files, group.separator).where(F.trim("value", F.lit("\r")) != "")
        return Rows(frame, values, F.when(is_short | is_long | _has_other_line_end(group), line))


def _by_line_end(delivered: Delivered, names: tuple[str, ...]) -> tuple[Group, ...]:
    """Return the files of EBCDIC in groups of the same line end."""
    files: dict[str, list[DeliveredFile]] = {}
    for file in delivered.files:
        end = ebcdic_line_end(beginning(delivered.spark, file, _BEGINNING))
        files.setdefault(end, []).append(file)
    return tuple(Group(tuple(group), names, end) for end, group in files.items())


def _has_other_line_end(group: Group) -> Column:
    """Return the condition that a line of EBCDIC has a byte that ends lines in other files."""
    others = [end for end in EBCDIC_LINE_ENDS if group.separator not in (None, end)]
    return any_of(F.contains(F.col("value"), F.lit(end)) for end in others)
