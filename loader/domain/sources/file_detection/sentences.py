"""Short sentences about what was detected in a file."""

from loader.domain.sources.file_detection.model import Detected
from metadata.domain.sources.formats import CSV, label_of

_SIGNS = {"\t": "tab", " ": "blank", "": "none"}
_DATES = {
    "%Y": "YYYY", "%m": "MM", "%d": "DD", "%-m": "M", "%-d": "D", "%b": "Mon", "%B": "Month", "%H": "HH", "%-H": "H",
    "%I": "hh", "%-I": "h", "%M": "MM", "%S": "SS", "%f": "fractions", "%p": "AM/PM", "%z": "+00:00",
}  # fmt: skip


def sentences(detected: Detected) -> list[str]:
    """Return the description, like ``windows-1252``, ``;``, ``decimal comma`` and ``DD.MM.YYYY``."""
    options = detected.options
    lines = [label_of(detected.format)]
    if detected.format == CSV:
        delimiter = options.get("delimiter", ",")
        lines += [options.get("encoding", "UTF-8"), _SIGNS.get(delimiter, delimiter)]
        if options.get("quote", '"') != '"':
            lines.append(f"quote {_SIGNS.get(options['quote'], options['quote'])}")
        lines += _of_lines(detected)
    if "decimal_separator" in options:
        lines.append("decimal comma" if options["decimal_separator"] == "," else "decimal point")
    if thousands := options.get("thousands_separator"):
        lines.append(f"thousands {_SIGNS.get(thousands, thousands)}")
    lines += [shown_format(options[name]) for name in ("date_format", "timestamp_format") if name in options]
    if "true_words" in options:
        lines.append(f"{options['true_words']} / {options['false_words']}")
    if detected.pattern:
        lines.append(f"dated name: {detected.pattern}")
    return lines


def _of_lines(detected: Detected) -> list[str]:
    options, lines = detected.options, []
    if skipped := options.get("skip_lines"):
        lines.append(f"{_counted(skipped)} before the header")
    if options.get("header") is False:
        lines.append("no header")
    elif (header := options.get("header_lines", 1)) > 1:
        lines.append(f"header of {header} lines")
    if "repeated_names" in options:
        lines.append("repeated names numbered")
    if ignored := options.get("ignored_columns"):
        lines.append(f"without a name and values: {ignored}")
    if after := options.get("footer_lines"):
        lines.append(f"{_counted(after)} after the records")
    return lines


def _counted(count: int) -> str:
    return f"{count} line{'s' * (count != 1)}"


def shown_format(text: str) -> str:
    """Return a format of dates as readers know it: ``DD.MM.YYYY`` for ``%d.%m.%Y``."""
    for directive in sorted(_DATES, key=len, reverse=True):
        text = text.replace(directive, _DATES[directive])
    return text
