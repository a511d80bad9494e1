"""Location at which an uploaded file becomes a delivery of a source."""

import glob
from fnmatch import fnmatchcase

from loader.contract.refusals import Refusal
from metadata.domain.sources.formats import PACKED, format_of, label_of


def upload_location(location: str, name: str, *, source_format: str, is_folder: bool) -> str:
    """Return the location at which a file is stored that was uploaded under ``name``.

    ``location`` is that of the source, with its dates filled in. A location of one file is kept whatever the upload is
    called; in a folder, or beside the files of a pattern, the file has its own name. Raise Refusal OTHER_FORMAT for a
    file that a load could not read by its ending, NO_MATCH for one that the pattern leaves out, and NO_PLACE for a
    pattern of folders.
    """
    folder, _, last = location.rpartition("/")
    if is_folder:
        _check_format(name, source_format)
        return f"{location.rstrip('/')}/{name}" if location.strip("./") else name
    if not glob.has_magic(location):
        _check_format(name, source_format)
        if _packing(name) != _packing(location):
            raise Refusal(
                "OTHER_FORMAT",
                f"{name} cannot replace {location}: their endings stand for different compression",
                file=name,
                hint="Compress the file like the one before, or unpack it.",
            )
        return location
    if glob.has_magic(folder):
        raise Refusal(
            "NO_PLACE",
            f"{location} matches several folders, and a file can be stored in one only",
            file=name,
            hint="Put the file into its folder by other means.",
        )
    if not fnmatchcase(name, last):
        raise Refusal(
            "NO_MATCH",
            f"{name} does not match {last}, so no load would read it",
            file=name,
            hint=f"Rename the file to match {last}.",
        )
    return f"{folder}/{name}" if folder else name


def _check_format(name: str, source_format: str) -> None:
    name_format = format_of(name)
    if name_format and name_format != source_format:
        raise Refusal(
            "OTHER_FORMAT",
            f"{name} is {label_of(name_format)} by its ending, and the source is {label_of(source_format)}",
            file=name,
            hint="Upload a file of the source's format, or edit the source.",
        )


def _packing(name: str) -> str:
    return next((ending for ending in PACKED if name.lower().endswith(ending)), "")
