"""Opening of deliveries: files, checked options, columns."""

from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from loader.contract.refusals import Refusal
from loader.domain.sources.folders import shared_columns
from loader.domain.sources.options import check_source_options
from loader.engine.java_errors import JAVA_ERRORS
from loader.engine.pyspark_types import jvm_of
from loader.engine.sources.files import DeliveredFile, check_ended, is_read_failure, unreadable
from loader.engine.sources.formats.registry import reader_of
from loader.engine.sources.formats.text_lines import check_line_lengths
from loader.engine.sources.opened import Delivered, FileFormat, Opened
from metadata.domain.sources.formats import FOLDER_FORMATS
from metadata.domain.sources.locations import Roots
from metadata.domain.sources.reading_options import ReadingOptions

# Columns of a delivery that its contract does not name, which are read to describe them.
MOST_OTHER_COLUMNS = 2_000


def open_delivery(
    spark: SparkSession,
    name: str,
    location: str,
    format_name: str,
    options: dict,
    contract: tuple[str, ...] = (),
    keys: tuple[str, ...] = (),
    *,
    roots: Roots,
    files: tuple[DeliveredFile, ...] = (),
    reader: FileFormat | None = None,
) -> Opened:
    """List the files and determine their columns.

    ``contract`` has the names of the columns that a load wants, ``keys`` those of its business key.

    The files must be below ``roots``; ``files`` selects some of the location's files, by default all. ``reader``
    is that of the format, unless another one is given.

    Raise Refusal for errors of the whole delivery: see ``loader.engine.sources.deliveries``.
    """
    checked = checked_options(spark, name, format_name, options)
    reader = reader or reader_of(format_name, checked)
    files = files or reader.files(spark, location, roots)
    for file in files:
        check_ended(spark, file)
        if reader.has_lines and not checked.is_ebcdic:  # EBCDIC has line ends of its own, which its format looks for.
            check_line_lengths(spark, file, checked.encoding)
    delivered = Delivered(spark, name, location, roots, format_name, checked, files)
    shared = shared_columns(file.name for file in files) if reader.has_files and files else ()
    # Without a header, the fields are the columns that folders do not have.
    fields = contract if checked.header else tuple(column for column in contract if column not in shared)
    try:
        layout = reader.layout(delivered, fields)
    except JAVA_ERRORS as error:
        if is_read_failure(error):
            raise unreadable(delivered.shown, error) from error
        raise
    _check_number_of_columns(delivered, layout.names, contract)
    folders = tuple(column for column in contract if column in shared and column not in layout.names)
    layout = replace(
        layout,
        names=(*layout.names, *folders),
        types=(*layout.types, *(T.StringType() for _ in folders)),
        missing={column: files for column, files in layout.missing.items() if column not in folders},
    )
    return Opened(**vars(delivered), reader=reader, keys=keys, folders=folders, **vars(layout))


def _check_number_of_columns(delivered: Delivered, names: tuple[str, ...], contract: tuple[str, ...]) -> None:
    """Raise Refusal TOO_MANY_COLUMNS: Spark's plans would fill the memory of all runs."""
    others = len(set(names).difference(contract))
    if others > MOST_OTHER_COLUMNS:
        raise Refusal(
            "TOO_MANY_COLUMNS",
            f"{delivered.shown} has {len(names):,} columns; besides those of the contract, {MOST_OTHER_COLUMNS:,} may "
            "be delivered",
            file=delivered.first_shown,
            count=len(names),
            hint="Deliver fewer columns, or name the wanted ones in the contract. Is the delimiter right?",
        )


def missing_columns(opened: Opened, wanted: tuple[str, ...]) -> None:
    """Raise Refusal MISSING_COLUMN if the delivery, or any of its files, lacks a column of the contract."""
    absent = [name for name in wanted if name not in opened.names or name in opened.missing]
    if not absent:
        return
    where = next((opened.missing[name][0] for name in absent if name in opened.missing), opened.first_shown)
    similar = [
        f"{delivered} is delivered instead of {name}"
        for name in absent
        for delivered in opened.names
        if delivered.lower() == name.lower() and delivered != name
    ]
    raise Refusal(
        "MISSING_COLUMN",
        f"{where} lacks {'the column' if len(absent) == 1 else 'the columns'} {', '.join(absent)}",
        file=where,
        column=absent[0],
        count=len(absent),
        samples=tuple(absent[:5]),
        hint="; ".join(similar) + (": the case of names counts." if similar else "")
        or "Deliver it, or take it out of the contract.",
    )


# Character sets that Spark supports without the setting that enables all of Java's.
_SPARK_CHARSETS = {"utf-8", "us-ascii", "iso-8859-1", "utf-16", "utf-16be", "utf-16le", "utf-32"}


def checked_options(spark: SparkSession, name: str, format_name: str, given: dict) -> ReadingOptions:
    """Return a source's checked options; raise Refusal UNKNOWN_FORMAT, UNKNOWN_OPTION or BAD_OPTION."""
    if format_name not in FOLDER_FORMATS:
        raise Refusal(
            "UNKNOWN_FORMAT",
            f"{name}: there is no format {format_name}",
            hint=f"Known are {', '.join(FOLDER_FORMATS)}.",
        )
    check_source_options(name, format_name, given)
    options = ReadingOptions.of(format_name, given)
    _check_encoding(spark, name, options.encoding)
    _check_zone(spark, name, options.timezone)
    return options


def _check_encoding(spark: SparkSession, name: str, encoding: str) -> None:
    """Raise Refusal unless Java, which reads the rows, supports the character set too."""
    try:
        jvm_of(spark).java.nio.charset.Charset.forName(encoding)
    except JAVA_ERRORS:
        raise _bad_option(name, "encoding", encoding, "UTF-8, ISO-8859-1 and windows-1252 are common.") from None
    if encoding.lower() not in _SPARK_CHARSETS:
        spark.conf.set("spark.sql.legacy.javaCharsets", "true")


def _check_zone(spark: SparkSession, name: str, zone: str) -> None:
    try:
        jvm_of(spark).java.time.ZoneId.of(zone)
    except JAVA_ERRORS:
        raise _bad_option(name, "timezone", zone, "Zones are named like Europe/Berlin, or +02:00.") from None


def _bad_option(name: str, option: str, value: str, hint: str) -> Refusal:
    return Refusal("BAD_OPTION", f"{name}: the option {option} cannot be {value!r}", hint=hint)
