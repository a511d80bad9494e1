"""Readers of the formats that are read record by record in Python."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any, BinaryIO, Protocol
from urllib.parse import quote

from elevata.core.words import counted
from loader.contract.refusals import Refusal
from loader.domain.extras import packages_of
from loader.readers.records.json_documents import read_json
from loader.readers.records.memory import MOST_MEMORY, limited_memory
from loader.readers.records.unpacking import too_large
from loader.readers.records.values import Record
from loader.readers.records.xml_documents import mixed_kinds, read_xml, without_rows
from metadata.domain.sources.formats import JSON, XLSX, XML
from metadata.domain.sources.reading_options import ReadingOptions


class Reader(Protocol):
    """Reader of one format. Raise Refusal TOO_LARGE for more than ``limit`` unpacked bytes, by default the format's."""

    def __call__(
        self,
        stored: BinaryIO,
        shown: str,
        options: ReadingOptions,
        wanted: Sequence[str],
        limit: int | None = None,
    ) -> Iterator[Record]:
        """Yield the records of the content ``stored`` in a file.

        The ending of its name ``shown`` gives the compression; ``wanted`` are the columns of the contract.
        """
        ...


def _read_workbook(
    stored: BinaryIO, shown: str, options: ReadingOptions, wanted: Sequence[str], limit: int | None = None
) -> Iterator[Record]:
    with packages_of("excel"):
        from loader.readers.records.workbooks import read_workbook
    return read_workbook(stored, shown, options, wanted, limit)


READERS: dict[str, Reader] = {JSON: read_json, XML: read_xml, XLSX: _read_workbook}
LOCAL = "file:"


@dataclass(frozen=True)
class FileReading:
    """Reader of files in Spark tasks. A file is (path with scheme, content); the content of a local file is None."""

    format: str
    options: ReadingOptions
    wanted: tuple[str, ...]

    def summary(self, file: tuple[str, bytes | None]) -> dict[str, Any]:
        """Return ``{"rows", "names", "texts", "objects", "warning"}``, the columns in order, or ``{"refusal"}``."""
        rows, names, warning = 0, dict[str, Any](), ""
        texts: set[str] = set()
        objects: set[str] = set()
        try:
            for record in self._records(file):
                rows += 1
                record.check(self.wanted, self.options.ignored)
                if not names.keys() >= record.values.keys():
                    names |= dict.fromkeys(record.values)
                warning = warning or record.note
                texts |= record.texts
                objects |= record.objects
            if not rows and self.format == XML and self.options.row_tag:
                with self._opened(file) as stored:
                    warning = without_rows(stored, _shown(file), self.options.row_tag)
        except Refusal as refusal:
            return {"refusal": refusal.as_json()}
        except MemoryError:
            message = f"record {rows + 1:,} takes more than {MOST_MEMORY >> 30} GB of memory to read"
            return {"refusal": replace(too_large(_shown(file), message, MOST_MEMORY), row=rows + 1).as_json()}
        return {"rows": rows, "names": list(names), "texts": texts, "objects": objects, "warning": warning}

    def rows(self, file: tuple[str, bytes | None]) -> Iterator[tuple[str, int, dict[str, str | None]]]:
        """Yield (URI, number, values by column) of each record. Raise the Refusal of the format."""
        uri = quote(file[0], safe="/:")
        for record in self._records(file):
            yield uri, record.number, dict(record.values)

    def _records(self, file: tuple[str, bytes | None]) -> Iterator[Record]:
        # The library of workbooks would end the process; limits of cells and bytes bound its memory.
        with self._opened(file) as stored, nullcontext() if self.format == XLSX else limited_memory():
            yield from READERS[self.format](stored, _shown(file), self.options, self.wanted)

    @staticmethod
    def _opened(file: tuple[str, bytes | None]) -> BinaryIO:
        return open(_shown(file), "rb") if file[1] is None else BytesIO(file[1])


def _shown(file: tuple[str, bytes | None]) -> str:
    return file[0].removeprefix(LOCAL)


def united_warnings(warnings: Sequence[str]) -> tuple[str, ...]:
    """Return the first warning of files, with the number of the others; an empty one is none."""
    first, *others = list(filter(None, warnings)) or [""]
    if not first:
        return ()
    return (f"{first} The same applies to {counted(len(others), 'other file')}." if others else first,)


def check_kinds(
    summaries: Sequence[dict[str, Any]], shown: str, wanted: Sequence[str], ignored: frozenset[str]
) -> None:
    """Raise Refusal BAD_XML for a column that is a text in one file and an object in another; all if none is wanted."""
    texts, objects = (set().union(*(summary[kind] for summary in summaries)) for kind in ("texts", "objects"))
    for name in sorted((texts & objects) - ignored):
        if not wanted or name in wanted:
            raise mixed_kinds(shown, name)
