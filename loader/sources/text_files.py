"""First rows of a CSV or JSON lines file, as text: a type is inferred, never taken from a parser's guess.

So CSV goes through the standard library's reader, which keeps ``007`` as it is written.
"""

import bz2
import codecs
import csv
import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from loader.domain.runs.refusals import Refusal
from loader.domain.sources.sampling import Value

ROWS = 2_000
# Characters of one file; a file whose first rows are longer is sampled by fewer rows.
MOST_CHARACTERS = 16_000_000
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open}
_DELIMITERS = (",", ";", "\t", "|")
_UNREADABLE = (OSError, EOFError, gzip.BadGzipFile)

Rows = tuple[list[str], list[list[Value]], bool]


class _Number(str):
    """A number of a JSON text, as it is written there."""


def guess_delimiter(path: Path, encoding: str) -> str:
    """Return the delimiter that is most frequent in the first line; a comma if there is none."""
    with _opened(path, encoding) as stream:
        line = next(_lines(stream, path, encoding), "")
    return max(_DELIMITERS, key=line.count) if any(sign in line for sign in _DELIMITERS) else ","


def read_csv(path: Path, options: dict[str, Any], rows: int = ROWS) -> Rows:
    """Return names, rows of text, and whether these are all. Raise Refusal as a load would."""
    encoding = checked_encoding(options.get("encoding") or "UTF-8")
    quote = options.get("quote", '"')
    escape = options.get("escape", quote)
    dialect: dict[str, Any] = {"delimiter": options.get("delimiter") or ",", "strict": True}
    if not quote:
        dialect |= {"quoting": csv.QUOTE_NONE}
    elif escape == quote:
        dialect |= {"quotechar": quote}
    else:
        dialect |= {"quotechar": quote, "escapechar": escape or None, "doublequote": False}
    nulls = _nulls(options, empty_is_null=True)
    with _opened(path, encoding) as stream:
        try:
            reader = csv.reader(_lines(stream, path, encoding), **dialect)
            records = (record for record in reader if record)
            header = next(records, None)
            if header is None:
                raise _empty(path)
            named = options.get("header", True)
            names = _names(path, header) if named else [f"column_{n}" for n in range(1, len(header) + 1)]
            found: list[list[Value]] = [] if named else [_values(header, nulls)]
            for record in records:
                if len(record) != len(names):
                    raise _ragged(path, reader.line_num, record, names, dialect["delimiter"])
                if len(found) == rows:
                    return names, found, False
                found.append(_values(record, nulls))
        except csv.Error as error:
            raise Refusal(
                "UNREADABLE_ROW",
                f"{path.name}, line {reader.line_num}: {error}",
                file=path.name,
                row=reader.line_num,
                hint="A quote may not be closed, or another sign may be the quote: correct how the file is read.",
            ) from error
    return names, found, True


def read_json_lines(path: Path, options: dict[str, Any], rows: int = ROWS) -> tuple[list[str], list[dict], bool]:
    """Return keys in order of appearance, objects by key, and whether these are all. Raise Refusal as a load would.

    Text stays ``str``; ``is_number`` distinguishes numbers from it.
    """
    found: list[dict[str, Any]] = []
    names: dict[str, None] = {}
    nulls = _nulls(options, empty_is_null=False)
    with _opened(path, checked_encoding(options.get("encoding") or "UTF-8")) as stream:
        for number, line in enumerate(_lines(stream, path, "UTF-8"), start=1):
            if not line.strip():
                continue
            if len(found) == rows:
                return list(names), found, False
            described = _object(path, number, line)
            found.append({name: None if text_of(value) in nulls else value for name, value in described.items()})
            names.update(dict.fromkeys(found[-1]))
    if not found:
        raise _empty(path)
    return list(names), found, True


def is_number(value: Any) -> bool:
    return isinstance(value, _Number)


def checked_encoding(encoding: str) -> str:
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise Refusal(
            "BAD_OPTION",
            f"there is no encoding {encoding!r}",
            hint="UTF-8, ISO-8859-1 and windows-1252 are common.",
        ) from None
    return encoding


def _opened(path: Path, encoding: str) -> TextIO:
    try:
        if path.suffix in _OPENERS:
            return _OPENERS[path.suffix](path, "rt", encoding=encoding, newline="")
        if path.suffix in (".zst", ".snappy", ".lz4", ".deflate", ".xz"):
            raise Refusal(
                "UNREADABLE_FILE",
                f"{path.name} is packed as {path.suffix}, which these pages do not unpack",
                file=path.name,
                hint="A load may read it all the same. Describe the source in YAML, or deliver it as .gz.",
            )
        return path.open(encoding=encoding, newline="")
    except OSError as error:
        raise unreadable(path, error) from error


def _lines(stream: TextIO, path: Path, encoding: str) -> Iterator[str]:
    """Yield lines until too much was read. The BOM is removed from the first one."""
    taken = 0
    try:
        while taken < MOST_CHARACTERS and (line := stream.readline(MOST_CHARACTERS)):
            yield line.removeprefix("\ufeff") if taken == 0 else line
            taken += len(line)
    except UnicodeDecodeError as error:
        raise Refusal(
            "WRONG_ENCODING",
            f"{path.name} is not {encoding}: the bytes {error.object[error.start : error.start + 4].hex(' ')} "
            "are no character there",
            file=path.name,
            hint="Say the file's encoding above; windows-1252 and ISO-8859-1 are common.",
        ) from None
    except _UNREADABLE as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> Refusal:
    said = getattr(error, "strerror", None) or str(error)
    return Refusal(
        "UNREADABLE_FILE",
        f"{path.name} cannot be read: {said[:300]}",
        file=path.name,
        hint="Check that the file is whole, that its ending says how it is packed, and who may read it.",
    )


def _names(path: Path, header: list[str]) -> list[str]:
    names = [field.strip() or f"(column {place})" for place, field in enumerate(header, start=1)]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise Refusal(
            "DUPLICATE_COLUMN",
            f"{path.name}: the header names {', '.join(twice[:5])} more than once",
            file=path.name,
            row=1,
            column=twice[0],
            count=len(twice),
            hint="Every column needs a name of its own: ask for another delivery, or say that the file has no header.",
        )
    return names


def _nulls(options: dict[str, Any], *, empty_is_null: bool) -> frozenset[str]:
    """Return the texts that stand for no value."""
    empty = [""] if options.get("empty_is_null", empty_is_null) else []
    return frozenset([*empty, *([options["null_string"]] if options.get("null_string") else [])])


def _values(record: list[str], nulls: frozenset[str]) -> list[Value]:
    return [None if value in nulls else value for value in record]


def _empty(path: Path) -> Refusal:
    return Refusal(
        "EMPTY_FILE",
        f"{path.name} is empty: it has nothing that would name its columns",
        file=path.name,
        hint="A delivery without rows still names its columns in its first line.",
    )


def _ragged(path: Path, line: int, record: list[str], names: list[str], delimiter: str) -> Refusal:
    other = next((sign for sign in _DELIMITERS if sign != delimiter and len(names) == 1 and sign in names[0]), "")
    hint = "A field that holds the delimiter or a line end must be in quotes. Is the delimiter right?"
    if other:
        hint = f"The header has {other!r} in it: is that the delimiter?"
    return Refusal(
        "RAGGED_ROW",
        f"{path.name}, line {line}: {len(record)} field{'' if len(record) == 1 else 's'}, where the header has "
        f"{len(names)}",
        file=path.name,
        row=line,
        samples=(delimiter.join(record)[:80],),
        hint=hint,
    )


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise ValueError("a key is there twice")
        return dict(pairs)

    try:
        found = json.loads(line, parse_int=_Number, parse_float=_Number, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        said = str(error).partition(":")[0]
    else:
        if isinstance(found, dict):
            return found
        said = "it is no object"
    raise Refusal(
        "BAD_JSON",
        f"{path.name}, line {number}: not one JSON object ({said})",
        file=path.name,
        row=number,
        samples=(line.strip()[:80],),
        hint="JSON lines hold one object per line, from { to }.",
    )


def text_of(value: Any) -> Value:
    """Return a value of a JSON object as a load reads it: text as it is, all else as it is written."""
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


# The csv module refuses fields above 128 kB by default; a description may well be longer.
csv.field_size_limit(io.DEFAULT_BUFFER_SIZE * 256)
