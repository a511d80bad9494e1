"""Parts of packed workbooks (``.xlsx``, ``.xlsm``, ``.xlsb``, ``.ods``): their sizes, and the part of each sheet.

The library unpacks the parts into memory and allocates every cell between the first and the last filled one, so the
sizes of the parts are checked first. Declared sizes and checksums may be false: every part is unpacked in pieces.
"""

import posixpath
import zipfile
from collections import Counter
from collections.abc import Callable
from xml.parsers import expat

from loader.readers.records.unpacking import too_large
from loader.readers.records.values import local_name

LARGEST_CONTENT = 512 << 20  # bytes of all parts, unpacked
LARGEST_RATIO = 250  # unpacked to packed size of a part
_RATIO_FROM = 16 << 20  # bytes; the ratio of smaller parts is not checked
_CHUNK = 1 << 20


class PartMissing(ValueError):
    """Error of a workbook without a part that it needs."""


class EncryptedWorkbook(Exception):
    """Error of a workbook that needs a password."""


def check_sizes(packed: zipfile.ZipFile, shown: str) -> None:
    """Raise Refusal TOO_LARGE if a workbook would need too much memory, PartMissing or BadZipFile if it is broken.

    Programs differ in which of two parts with one name they read, so such a workbook is broken.
    """
    names = Counter(_normal(name) for name in packed.namelist())
    for name, count in names.items():
        if count > 1:
            raise PartMissing(f"it has {count} parts with the name {name}")
    total = 0
    for part in packed.infolist():
        total += part.file_size
        if total > LARGEST_CONTENT:
            raise too_large(shown, f"its parts are more than {LARGEST_CONTENT >> 20} MB", LARGEST_CONTENT)
        if part.file_size > max(_RATIO_FROM, LARGEST_RATIO * part.compress_size):
            message = f"{part.filename} is packed to less than 1/{LARGEST_RATIO} of its size"
            raise too_large(shown, message, LARGEST_RATIO)
        if part.flag_bits & 1:
            continue  # An encrypted part is refused when it is read.
        with packed.open(part) as unpacked:
            while unpacked.read(_CHUNK):
                pass


def part_named(packed: zipfile.ZipFile, *paths: str) -> str:
    """Return the first of these parts that exists, in whatever case. Raise PartMissing."""
    parts = {_normal(name): name for name in packed.namelist()}
    for path in paths:
        if path.lower() in parts:
            return parts[path.lower()]
    raise PartMissing(f"it has no part {paths[0]}")


def _normal(name: str) -> str:
    return posixpath.normpath(name.replace("\\", "/")).lower()


def has_part(packed: zipfile.ZipFile, path: str) -> bool:
    """Return True if a workbook has a part, in whatever case."""
    try:
        return bool(part_named(packed, path))
    except PartMissing:
        return False


def main_folder(packed: zipfile.ZipFile) -> str:
    """Return the folder of the workbook's own part, mostly ``xl``."""
    targets = [
        attributes.get("Target", "")
        for attributes in elements(packed, part_named(packed, "_rels/.rels"), "Relationship")
        if attributes.get("Type", "").endswith("/relationships/officeDocument")
    ]
    return posixpath.dirname(targets[-1]).strip("/") if targets else "xl"


def related_parts(packed: zipfile.ZipFile, folder: str, name: str) -> dict[str, str]:
    """Return the paths of the parts that the workbook's part ``name`` refers to, by their ids."""
    relations = elements(packed, part_named(packed, posixpath.join(folder, "_rels", f"{name}.rels")), "Relationship")
    return {entry.get("Id", ""): _absolute(folder, entry.get("Target", "")) for entry in relations}


def _absolute(folder: str, target: str) -> str:
    is_absolute = target.startswith(("/", "xl/"))  # The library takes the second form as absolute, too.
    return posixpath.normpath(target.lstrip("/") if is_absolute else posixpath.join(folder, target))


def elements(packed: zipfile.ZipFile, name: str, wanted: str) -> list[dict[str, str]]:
    """Return the attributes of each element ``wanted`` of a part."""
    result: list[dict[str, str]] = []

    def element(kind: str, attributes: dict[str, str]) -> None:
        if local_name(kind) == wanted:
            result.append(attributes)

    parse(packed, name, element)
    return result


def parse(packed: zipfile.ZipFile, name: str, element: Callable[[str, dict[str, str]], None]) -> None:
    """Call ``element`` with the name and attributes of each element of a part. Raise ExpatError for broken XML."""
    parser = expat.ParserCreate()
    parser.StartElementHandler = element
    with packed.open(name) as unpacked:
        parser.ParseFile(unpacked)
