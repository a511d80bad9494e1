"""Fixed width: lines whose fields stand at positions that the option ``columns`` gives, counted in characters."""

from pyspark.sql import functions as F

from loader.domain.refusals import Refusal
from loader.spark.sources.formats.text_lines import text_lines
from loader.spark.sources.opened import Delivered, FileFormat, Group, Layout, MalformedRecord, Opened, Rows, nulls_read
from metadata.domain.sources.option_kinds import columns_of


class FixedWidthFormat(FileFormat):
    """Lines of fields at fixed positions; blanks around a value do not belong to it."""

    has_lines = is_decoded = True
    malformed = (
        MalformedRecord(
            "RAGGED_ROW",
            "the line ends before its last column does",
            "Deliver lines of full length, or set the option short_lines if blanks at their end are left out.",
        ),
    )

    def layout(self, delivered: Delivered, contract: tuple[str, ...]) -> Layout:
        if delivered.options.is_wide:  # Spark splits lines at bytes, before it knows the encoding
            raise Refusal(
                "BAD_OPTION",
                f"{delivered.name}: lines of fixed width cannot be read in {delivered.options.encoding}",
                hint="Deliver them in UTF-8 or in a character set of one byte per character.",
            )
        # Spark replaces bytes that are no character, and the checks look for its replacement.
        delivered.spark.conf.set("spark.sql.legacy.codingErrorAction", "true")
        names = tuple(name for name, _, _ in columns_of(delivered.options.columns))
        return Layout.of_text(names, delivered.files)

    def rows(self, opened: Opened, group: Group) -> Rows:
        options, positions = opened.options, columns_of(opened.options.columns)
        line = F.decode(F.col("value").cast("binary"), options.encoding)
        values = {
            name: nulls_read(F.trim(F.substring(line, start, end - start + 1), F.lit(" ")), options)
            for name, start, end in positions
        }
        last = max(end for _, _, end in positions)
        is_short = F.lit(not options.short_lines) & (F.char_length(line) < last)
        frame = text_lines(opened.spark, group.files).where(F.trim("value", F.lit("\r")) != "")
        return Rows(frame, values, F.when(is_short, line))
