"""Reading options of source datasets, in one table.

The check when metadata is saved, the check before a load, the fields of the forms and the table of the documentation
come from ``OPTIONS``.
"""

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from metadata.domain.sources.file_options import FILE_OPTIONS
from metadata.domain.sources.option_kinds import QUARANTINE, names_of
from metadata.domain.sources.options import Option, bad_option, check_values, select_options
from metadata.domain.sources.rest_addresses import credential_header, shown_parameters
from metadata.domain.sources.server_options import SERVER_OPTIONS
from metadata.domain.sources.value_formats import ValueFormats
from metadata.domain.sources.value_options import VALUE_OPTIONS

OPTIONS = (*FILE_OPTIONS, *SERVER_OPTIONS, *VALUE_OPTIONS)


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
    if given.get("header", True) is False and given.get("header_lines", 1) > 1:
        raise bad_option("options.header_lines", "needs header: true")
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
    repeated_headers: str
    encoding: str
    header: bool
    skip_lines: int
    header_lines: int
    footer_lines: int
    repeated_names: str
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
    first_year: int | None
    decimal_separator: str
    thousands_separator: str | None
    negative_numbers: str | None
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
    def has_other_lines(self) -> bool:
        """Return True for CSV with lines that are neither its records nor a header of one record."""
        return self.skip_lines > 0 or self.footer_lines > 0 or self.header_lines > 1

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
