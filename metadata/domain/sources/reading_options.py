"""Reading options of source datasets, in one table.

The check when metadata is saved, the check before a load, the fields of the forms and the table of the documentation
come from ``OPTIONS``.
"""

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from metadata.domain.sources.formats import (
    CSV,
    DELTA,
    FILE_FORMATS,
    FIXED,
    JSON,
    JSONL,
    KAFKA,
    NAMES,
    REST,
    TABLE,
    TEXT_FORMATS,
    XLSX,
    XML,
)
from metadata.domain.sources.option_kinds import (
    BASE64,
    CASE,
    CHANGED_FILES,
    CHARACTER,
    COLUMNS,
    COUNT,
    DATE_FORMAT,
    DEBEZIUM,
    DECIMAL,
    DELIMITER,
    EARLIEST,
    ENCODING,
    FIRST,
    FLAG,
    HEADERS,
    HEX,
    KEEP,
    LATEST,
    LSN,
    NUMBER,
    OFFSET,
    PAGINGS,
    PARAMETERS,
    PATH,
    PLACEHOLDER,
    PLAIN,
    POSITIONS,
    PROVEN,
    QUARANTINE,
    RANGE,
    REFUSE,
    REFUSE_CHANGED,
    SKIP,
    TEXT,
    THOUSANDS,
    TIME,
    TIME_FORMAT,
    TIME_UNITS,
    TRUSTED,
    UNAVAILABLE,
    WORDS,
    ZONE,
    names_of,
    one_of,
)
from metadata.domain.sources.options import Option, bad_option, check_values, select_options
from metadata.domain.sources.rest_addresses import credential_header, shown_parameters
from metadata.domain.sources.value_formats import ValueFormats

OPTIONS = (
    Option("delimiter", (CSV,), DELIMITER, ",", "`;`", "character between fields"),
    Option(
        "quote",
        (CSV,),
        CHARACTER,
        '"',
        "`'`",
        "character around a field that contains a delimiter, quote or line end; empty: no field is quoted",
    ),
    Option(
        "escape",
        (CSV,),
        CHARACTER,
        None,
        "`\\`",
        "character before a quote inside a quoted field; by default the quote itself, doubled; empty: none",
    ),
    Option(
        "quotes_inside",
        (CSV,),
        one_of(REFUSE, KEEP),
        REFUSE,
        "`keep`",
        "effect of a quote inside of a field that does not begin with one: the delivery is refused, since a delimiter "
        "before the quote may be missing, or the quote is part of the value",
        label="Quotes inside of values",
    ),
    Option("encoding", (CSV, FIXED), ENCODING, "UTF-8", "`windows-1252`", "character set of the file"),
    Option(
        "header",
        (CSV, XLSX),
        FLAG,
        True,
        "`false`",
        "the first record has the names; if false, the fields are the contract's columns in their order",
    ),
    Option(
        "columns",
        (FIXED,),
        POSITIONS,
        None,
        "`id:1-8, name:9-30`",
        "names of the columns, each with its first and last character. Positions between columns are not read; text "
        "after the last column refuses the delivery, so name what follows and leave it out with ignored_columns",
        longest=4000,
        required=True,
    ),
    Option("short_lines", (FIXED,), FLAG, False, "`true`", "a line may end early: what is missing is empty"),
    Option(
        "path",
        (JSON, REST),
        PATH,
        None,
        "`result.items`",
        "place of the array of objects in the document; by default the document itself",
        label="Path",
        longest=200,
    ),
    Option(
        "row_tag",
        (XML,),
        TEXT,
        None,
        "`order`",
        "name of the element that is one row; by default each element in the root element",
        label="Row element",
        longest=200,
    ),
    Option("sheet", (XLSX,), TEXT, None, "`Prices`", "name of the sheet; by default the first one"),
    Option(
        "range", (XLSX,), RANGE, None, "`B3:F200`", "cells that are read, the header in the first row; by default all"
    ),
    Option(
        "empty_is_null",
        TEXT_FORMATS,
        FLAG,
        True,
        "`false`",
        "an empty text is NULL, quoted or not; false keeps a quoted empty text of CSV as it is",
        default_in={JSONL: False, JSON: False, KAFKA: False, REST: False},
        label="Empty is NULL",
    ),
    Option(
        "null_string",
        TEXT_FORMATS,
        TEXT,
        None,
        "`N/A`",
        "a text that stands for NULL, quoted or not",
        label="NULL text",
    ),
    Option(
        "query",
        (TABLE,),
        TEXT,
        None,
        "`SELECT id, name FROM sales.customer`",
        "one SELECT that is read instead of the location, in the database's SQL",
        longest=20_000,
    ),
    Option(
        "filter",
        (TABLE,),
        TEXT,
        None,
        "`deleted_at IS NULL`",
        "one condition over the columns of the table or query; only these rows are read",
        longest=4_000,
    ),
    Option(
        "partition_column",
        (TABLE,),
        TEXT,
        None,
        "`id`",
        "column by whose ranges connections divide the rows: numbers, dates or timestamps, best indexed",
        longest=200,
    ),
    Option(
        "partitions",
        (TABLE,),
        COUNT,
        None,
        "`4`",
        "number of ranges, each with a connection of its own; by default Spark's parallelism",
    ),
    Option(
        "fetch_size", (TABLE,), COUNT, 10_000, "`1000`", "rows that a connection fetches at a time; fewer for wide rows"
    ),
    Option(
        "timeout",
        (TABLE, REST),
        COUNT,
        3600,
        "`600`",
        "seconds that a statement, or all requests of an endpoint, may take",
    ),
    Option(
        "paging",
        (REST,),
        one_of(*PAGINGS),
        "none",
        "`cursor`",
        "way to ask for the next page: page by its number, offset by the number of records before it, cursor by a "
        "value of the page before, next_url by a URL in the page before, link by the header Link",
    ),
    Option(
        "page_parameter",
        (REST,),
        TEXT,
        None,
        "`after`",
        "query parameter of the page number, offset or cursor; by default page, offset or cursor",
    ),
    Option("first_page", (REST,), NUMBER, 1, "`0`", "number of the first page, with paging page"),
    Option(
        "page_size",
        (REST,),
        COUNT,
        None,
        "`200`",
        "records of a page that are asked for; needed with paging offset",
    ),
    Option("page_size_parameter", (REST,), TEXT, "limit", "`per_page`", "query parameter of the page size"),
    Option(
        "next_path",
        (REST,),
        PATH,
        "next",
        "`meta.next_cursor`",
        "place of the next cursor or URL in the document, with paging cursor and next_url. The last page has none",
        longest=200,
    ),
    Option(
        "total_path",
        (REST,),
        PATH,
        None,
        "`meta.pages`",
        "place of the number of pages (paging page) or records (all other paging) in the document; without it, "
        "paging page and offset ask until a page is empty",
        longest=200,
    ),
    Option(
        "has_more_path",
        (REST,),
        PATH,
        None,
        "`meta.has_more`",
        "place of true or false in the document: if more pages follow. With paging cursor, the last page may have a "
        "cursor, too",
        longest=200,
    ),
    Option(
        "complete",
        (REST,),
        one_of(PROVEN, TRUSTED),
        PROVEN,
        "`trusted`",
        "evidence that all records came: proven holds the pages against what the API says of its size, and closes no "
        "key that unproven pages lack; trusted takes the pages as they are",
    ),
    Option("max_pages", (REST,), COUNT, 10_000, "`500`", "pages of a run; more refuse the load"),
    Option(
        "parameters",
        (REST,),
        PARAMETERS,
        None,
        "`status=open&day={run_date}`",
        "query parameters of each request; dates are written as in a location",
        longest=1000,
    ),
    Option("headers", (REST,), HEADERS, None, "`X-Version: 2`", "headers of each request, one a line", longest=2_000),
    Option(
        "incremental_parameter",
        (REST,),
        TEXT,
        None,
        "`updated_since`",
        "query parameter for the mark of the last load; a load without a mark sends none",
    ),
    Option(
        "envelope",
        (KAFKA,),
        one_of(PLAIN, DEBEZIUM),
        PLAIN,
        "`debezium`",
        "content of a message: one JSON object with the columns, or a change event of Debezium",
    ),
    Option(
        "sequence",
        (KAFKA,),
        one_of(LSN, TIME, OFFSET),
        LSN,
        "`time`",
        "order of Debezium's events, the column `_sequence`: PostgreSQL's log position (`source.lsn`), the time of the "
        "change (`source.ts_ms`, then the offset), or the offset",
    ),
    Option(
        "time_unit",
        (KAFKA,),
        TIME_UNITS,
        "microseconds",
        "`milliseconds, seen_at=nanoseconds`",
        "unit of timestamps that Debezium delivers as numbers since 1970 without a schema, of all columns or of single "
        "ones, of times of day, too. A schema in the message has the units, which come first",
        longest=2_000,
    ),
    Option(
        "unavailable_value",
        (KAFKA,),
        PLACEHOLDER,
        UNAVAILABLE,
        "`__unchanged`",
        "placeholder of Debezium's setting unavailable.value.placeholder for values that the database did not log",
        longest=200,
    ),
    Option(
        "binary_values",
        (KAFKA,),
        one_of(HEX, BASE64),
        None,
        "`base64`",
        "text of binary columns that Debezium delivers without a schema; by default a text that can be both refuses "
        "the delivery",
    ),
    Option(
        "truncates",
        (KAFKA,),
        one_of(REFUSE, SKIP),
        REFUSE,
        "`skip`",
        "effect of Debezium's event of a truncated table: the run is refused, or the event skipped with a warning",
    ),
    Option(
        "lost_offsets",
        (KAFKA,),
        one_of(REFUSE, EARLIEST),
        REFUSE,
        "`earliest`",
        "effect of messages that the topic no longer has, though they were not read: the run is refused, or reads from "
        "the earliest message, with a warning and their number",
    ),
    Option(
        "changes",
        (DELTA,),
        FLAG,
        False,
        "`true`",
        "the changes of the table's versions (Change Data Feed) are read, each once, with the columns `_op` (I, U or "
        "D) and `_sequence` (the version); the first load reads the whole table",
    ),
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
        "format of dates in text, with the directives %Y %m %d, %b %B (names of months in any case) and, "
        "for numbers without leading zeros, %-m %-d. A blank stands for no-break spaces, too. "
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
        "faulty_rows",
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


def options_of(format_name: str) -> dict[str, Option]:
    """Return the reading options of a format by name."""
    return select_options(OPTIONS, format_name)


def check_options(format_name: str, given: Any) -> None:
    """Raise MetadataError ``bad_option`` unless a source of this format takes these options."""
    check_values(OPTIONS, format_name, given)
    for name, reason in ValueFormats.of(given).problems():
        raise bad_option(f"options.{name}", reason)
    if header := credential_header(given.get("headers")):
        message = f"names {header}, which carries a credential; choose the option authentication of the system, whose"
        raise bad_option("options.headers", f"{message} secret is in an environment variable")
    if given.get("paging") == "offset" and "page_size" not in given:
        raise bad_option("options.page_size", "is needed with paging offset")
    for name, other in (("deduplicate", "order_by"), ("order_by", "deduplicate")):
        if name in given and other not in given:
            raise bad_option(f"options.{name}", f"needs {other}, too")


def shown_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options for pages, without the values of query parameters that may be secrets."""
    return {name: shown_parameters(value) if name == "parameters" else value for name, value in given.items()}


@dataclass(frozen=True)
class ReadingOptions:
    """Options of one source, with the format's defaults for those that are not given."""

    delimiter: str
    quote: str
    escape: str
    quotes_inside: str
    encoding: str
    header: bool
    columns: str | None
    short_lines: bool
    path: str | None
    row_tag: str | None
    sheet: str | None
    range: str | None
    empty_is_null: bool
    null_string: str | None
    timezone: str
    date_format: str | None
    timestamp_format: str | None
    decimal_separator: str
    thousands_separator: str | None
    true_words: str | None
    false_words: str | None
    trim_keys: bool
    fold_keys: str | None
    ignored_columns: str | None
    deduplicate: str | None
    order_by: str | None
    faulty_rows: str
    expected_files: int | None
    changed_files: str

    @classmethod
    def of(cls, format_name: str, given: Mapping[str, Any]) -> "ReadingOptions":
        """Return the checked options. Raise MetadataError ``bad_option``."""
        check_options(format_name, given)
        values = {option.name: given.get(option.name, option.default_of(format_name)) for option in OPTIONS}
        if values["escape"] is None:
            values["escape"] = values["quote"]
        return cls(**{entry.name: values[entry.name] for entry in fields(cls)})

    @property
    def ignored(self) -> frozenset[str]:
        """Return the names of the delivered columns to leave out without a report."""
        return frozenset(names_of(self.ignored_columns))

    @property
    def order(self) -> tuple[str, ...]:
        """Return the columns that order rows of one key, empty without deduplication."""
        return names_of(self.order_by)

    @property
    def keeps_faulty_rows(self) -> bool:
        """Return True if rows with faults are quarantined, and the others loaded."""
        return self.faulty_rows == QUARANTINE

    @property
    def is_utf8(self) -> bool:
        return codecs.lookup(self.encoding).name == "utf-8"

    @property
    def is_wide(self) -> bool:
        """Return True if a character takes two bytes or more, a line end included."""
        return codecs.lookup(self.encoding).name.startswith(("utf-16", "utf-32"))

    @property
    def is_ebcdic(self) -> bool:
        """Return True for a character set of mainframes, in which lines end with a byte of their own."""
        return not self.is_wide and " ".encode(self.encoding) == b"\x40"
