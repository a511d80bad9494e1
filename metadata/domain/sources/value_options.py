"""Reading options of all formats: values in text, keys, rows and files of a delivery."""

from metadata.domain.sources.formats import FILE_FORMATS, NAMES
from metadata.domain.sources.option_kinds import (
    CASE,
    CHANGED_FILES,
    COLUMNS,
    COUNT,
    DATE_FORMAT,
    DECIMAL,
    FAULTY_ROWS,
    FIRST,
    FLAG,
    LATEST,
    NEGATIVE,
    QUARANTINE,
    REFUSE,
    REFUSE_CHANGED,
    THOUSANDS,
    TIME_FORMAT,
    WORDS,
    YEAR,
    ZONE,
    one_of,
)
from metadata.domain.sources.options import Option

VALUE_OPTIONS = (
    Option(
        "timezone",
        NAMES,
        ZONE,
        "UTC",
        "`Europe/Berlin`",
        "zone of timestamps without one. A time that daylight saving skips refuses the delivery with its row; an "
        "ambiguous one is read as the earlier, with a warning and a count",
        label="Time zone",
    ),
    Option(
        "date_format",
        NAMES,
        DATE_FORMAT,
        None,
        "`%d.%m.%Y`",
        "format of dates in text, with the directives %Y %m %d, %b %B (short and full names of months in English, "
        "German and French, in any case; a short one with or without a dot), %y (a year of two digits, with "
        "`first_year`) and, for numbers without leading zeros, %-m %-d. A blank stands for no-break spaces, too. "
        "By default ISO 8601",
    ),
    Option(
        "timestamp_format",
        NAMES,
        TIME_FORMAT,
        None,
        "`%d.%m.%Y %H:%M`",
        "format of timestamps in text, with %H %M %S, %f (one to nine digits, those after the sixth are zeros), %I %p "
        "and the offset %z (+02:00, +0200, +02 or Z) besides those of dates. By default ISO 8601",
    ),
    Option(
        "first_year",
        NAMES,
        YEAR,
        None,
        "`1970`",
        "first of the hundred years to which years of two digits belong: with 1970, 69 is 2069 and 70 is 1970",
        label="First year",
    ),
    Option(
        "decimal_separator",
        NAMES,
        DECIMAL,
        ".",
        "`,`",
        "character before the decimals of numbers in text",
    ),
    Option(
        "thousands_separator",
        NAMES,
        THOUSANDS,
        None,
        "`.`",
        "character between groups of three digits of numbers in text",
    ),
    Option(
        "negative_numbers",
        NAMES,
        NEGATIVE,
        None,
        "`trailing`",
        "way in which negative numbers in text are written beside `-12.5`: `12.5-` (trailing), `(12.5)` (brackets) or "
        "`- 12.5` (spaced)",
    ),
    Option(
        "true_words",
        NAMES,
        WORDS,
        None,
        "`ja, wahr`",
        "words for true, in any case, in place of true, yes, y, t and 1. They need false_words",
    ),
    Option("false_words", NAMES, WORDS, None, "`nein, falsch`", "words for false, in any case"),
    Option("trim_keys", NAMES, FLAG, False, "`true`", "blanks around text in the business key are removed"),
    Option("fold_keys", NAMES, CASE, None, "`upper`", "case to which text in the business key is changed"),
    Option(
        "ignored_columns",
        NAMES,
        COLUMNS,
        None,
        "`note, filler`",
        "delivered columns that are left out without being reported as drift",
        longest=4000,
    ),
    Option(
        "deduplicate",
        NAMES,
        one_of(LATEST, FIRST),
        None,
        "`latest`",
        "row that is kept of rows of one business key that differ: the last or the first. `order_by` orders "
        "them; the others are counted as superseded. Without it such rows refuse the delivery with "
        "`CONFLICTING_ROWS`, as rows do that are equal in `order_by`. It does not go with rows that have a time of "
        "their own",
        label="Repeated keys",
    ),
    Option(
        "order_by",
        NAMES,
        COLUMNS,
        None,
        "`changed_at, number`",
        "columns that order the rows of one business key; NULL comes before every value for latest, "
        "and after it for first",
        label="Order of repeated keys",
        longest=1_000,
    ),
    Option(
        FAULTY_ROWS,
        NAMES,
        one_of(REFUSE, QUARANTINE),
        REFUSE,
        "`quarantine`",
        "effect of rows that do not fit the contract: the delivery is refused, or they are kept in the quarantine of "
        "the raw dataset and the others are loaded. Keys that such a delivery lacks stay open. A delivery without "
        "any other row is refused",
        label="Faulty rows",
    ),
    Option(
        "expected_files",
        FILE_FORMATS,
        COUNT,
        None,
        "`3`",
        "number of files of a delivery (for a feed: of new files). Fewer are refused with `MISSING_FILE`, more with "
        "`EXTRA_FILE`",
        label="Number of files",
    ),
    Option(
        "changed_files",
        FILE_FORMATS,
        CHANGED_FILES,
        REFUSE_CHANGED,
        "`reload`",
        "what a feed does with a file that changed after it was loaded: refuse the load, keep what was loaded with a "
        "warning, or read the file again",
    ),
)
