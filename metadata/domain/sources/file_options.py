"""Reading options of files: fields, records and texts that stand for NULL."""

from metadata.domain.sources.formats import CSV, FIXED, JSON, JSONL, KAFKA, REST, TEXT_FORMATS, XLSX, XML
from metadata.domain.sources.option_kinds import (
    CHARACTER,
    DELIMITER,
    ENCODING,
    FLAG,
    KEEP,
    PATH,
    POSITIONS,
    RANGE,
    REFUSE,
    TEXT,
    one_of,
)
from metadata.domain.sources.options import Option

FILE_OPTIONS = (
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
)
