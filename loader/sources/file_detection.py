"""Detection of how files are read: their bytes for CSV, and their first rows for other formats."""

import errno
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elevata.core.errors import MetadataError
from loader.contract.refusals import Refusal
from loader.domain.sources.file_detection.detect import detect_csv, target_names
from loader.domain.sources.file_detection.file_names import dated_name
from loader.domain.sources.file_detection.model import Detected, DetectedColumn
from loader.domain.sources.file_detection.personal_columns import personal_reason
from loader.sources.file_bytes import ending_of_packed, sample_bytes
from loader.sources.file_samples import sample_files
from loader.sources.text_files import unreadable
from metadata.domain import naming
from metadata.domain.sources.formats import AVRO, CSV, JSON, JSONL, ORC, PARQUET, XLSX, XML, format_of
from metadata.domain.sources.locations import Roots

# Names of formats that begin their files; a text may begin with the same letters.
_BINARY = (
    (b"PAR1", PARQUET),
    (b"ORC", ORC),
    (b"Obj\x01", AVRO),
    (b"PK\x03\x04", XLSX),
    (b"\xd0\xcf\x11\xe0", XLSX),
)
# Control characters that no text has; \x01 and \x1f may be delimiters.
_CONTROL = re.compile(rb"[\x00\x02-\x08\x0e-\x1a\x1c-\x1e]")
_DOCUMENT = re.compile(rb"<\?xml\s|<[A-Za-z_][\w:.-]*(?:\s[^<>]{0,2000})?>\s*<[A-Za-z_!]")
_PAGE = re.compile(rb"<(?:!doctype\s+html|html|head|body|table|meta)[\s>]", re.IGNORECASE)
_OBJECT = re.compile(rb"(?:\[\s*)?\{\s*(?:\"[^\"\r\n]{0,1000}\"\s*:|\}\s*$)")
# Of other endings of CSV, like .txt, the first bytes may show another format.
_CSV_ENDINGS = (".csv", ".tsv")
_READ = 1 << 14  # bytes that show a format


def detect_file(path: Path, roots: Roots, *, name: str = "") -> Detected:
    """Return how a file is read; ``name`` is that in the answer, by default the file's path.

    Raise Refusal for a file that is missing, empty or cannot be read.
    """
    shown = name or str(path)
    _check_file(path, shown)
    sample = sample_bytes(path, shown)
    format_name = _format(path, sample.beginning)
    return detect_csv(sample) if format_name == CSV else _of_other_format(path, format_name, roots, shown)


def _check_file(path: Path, shown: str) -> None:
    """Raise Refusal MISSING_FILE or UNREADABLE_FILE for anything but a file."""
    try:
        mode = path.stat().st_mode
    except PermissionError as error:
        raise unreadable(path, error) from None
    except OSError as error:
        is_absent = error.errno in (errno.ENOENT, errno.ENOTDIR)
        raise _missing(shown, "is not there" if is_absent else f"is no file: {error.strerror}") from None
    except ValueError:  # of a name with a NUL
        raise _missing(shown, "is no name of a file") from None
    if not stat.S_ISREG(mode):
        raise _missing(shown, "is a folder, not a file" if stat.S_ISDIR(mode) else "is no regular file")


def _missing(shown: str, reason: str) -> Refusal:
    return Refusal("MISSING_FILE", f"{shown} {reason}", file=shown, hint="Correct the name.")


def _format(path: Path, beginning: bytes) -> str:
    """Return the format that the ending indicates, or else the first bytes; CSV if neither does.

    Raise Refusal UNREADABLE_FILE for a page of HTML, which programs save as a table of a spreadsheet.
    """
    content = beginning[:_READ].removeprefix(b"\xef\xbb\xbf").lstrip()
    known = next((name for magic, name in _BINARY if content.startswith(magic)), "")
    if known and _CONTROL.search(content):
        return known
    if _PAGE.match(content):
        raise Refusal(
            "UNREADABLE_FILE",
            f"{path.name} cannot be read: it is a page of HTML, whatever its ending",
            file=path.name,
            hint="Save its table as CSV or as a workbook.",
        )
    if content.startswith(b"<?xml"):
        return XML
    named, is_csv = format_of(path.name), path.name.removesuffix(ending_of_packed(path)).lower().endswith(_CSV_ENDINGS)
    if named and (named != CSV or is_csv):
        return named
    if _DOCUMENT.match(content):
        return XML
    if not _OBJECT.match(content):
        return CSV
    lines = content.splitlines()
    return JSONL if len(lines) > 1 and content.startswith(b"{") and lines[1].lstrip().startswith(b"{") else JSON


def _of_other_format(path: Path, format_name: str, roots: Roots, shown: str) -> Detected:
    try:
        sample = sample_files(path, format_name, None, roots=roots, shown=shown)
    except MetadataError as problem:
        raise Refusal("BAD_OPTION", f"{shown}: {problem.message}", file=shown) from None
    except OSError as error:
        raise unreadable(path, error) from None
    names = target_names([column.name for column in sample.columns])
    pattern, short = dated_name(shown)
    columns = []
    for column, target, values in zip(sample.columns, names, sample.values, strict=True):
        personal = personal_reason(column.name, [text or "" for text in values])
        columns.append(DetectedColumn(column.name, column.type, target, personal))
    short_name = naming.safe_table_part(short)
    return Detected(
        shown,
        format_name,
        sample.options,
        tuple(columns),
        sample.questions,
        pattern,
        short_name,
        sample.unread_columns,
        sample.notes,
    )


def detect_files(files: Sequence[str], roots: Roots) -> list[Detected | Refusal]:
    """Return for each file how it is read, or the refusal of one that cannot be."""
    results: list[Detected | Refusal] = []
    for file in files:
        try:
            results.append(detect_file(Path(file), roots, name=file))
        except Refusal as refusal:
            results.append(refusal)
    return results


def detection_json(file: str, result: Detected | Refusal) -> dict[str, Any]:
    """Return how a file is read, or its refusal, as documents name it."""
    return {"file": file, "error": result.as_json()} if isinstance(result, Refusal) else result.as_json()
