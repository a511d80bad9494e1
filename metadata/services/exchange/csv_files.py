"""CSV files with target datasets and their columns, read into the nodes that YAML files give.

A line describes a column, or, with an empty cell in ``column``, its dataset. The header has the field names of YAML
files. A field without a column in the header stays as it is stored; an empty cell gives it its default. Lineage,
references and checks are in YAML files only.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterator

from elevata.core import strict_fields as strict
from elevata.core.errors import MetadataError
from elevata.core.strict_fields import Node, Spec, collected, report
from metadata.domain.exchange import FORMAT, TARGET, TARGET_COLUMN
from metadata.services.exchange.yaml_files import MAX_NODES, refuse_unstorable

SCHEMA, DATASET, COLUMN = "schema", "dataset", "column"
_LEADING = (SCHEMA, DATASET, COLUMN)
# Fields with objects or any names in them, which a cell cannot have.
_NESTED = ("history_policy", "history", "increment", "inputs", "columns", "references", "checks", "exposures")
_OF_DATASET = tuple(name for name in TARGET if name not in (*_NESTED, "schema", "name"))
_OF_COLUMN = tuple(name for name in TARGET_COLUMN if name not in (*_NESTED, "name"))
COLUMNS = (*_LEADING, *dict.fromkeys((*_OF_COLUMN, *_OF_DATASET)))
SEPARATOR = ";"
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def csv_nodes(content: str, shown: str) -> list[Node]:
    """Return a node for each dataset of a CSV text, like that of a YAML file; ``shown`` is its name in errors."""
    refuse_unstorable(content, shown)
    rows = _rows(content, shown)
    header = next(rows, None)
    if header is None:
        raise MetadataError("empty", "holds nothing", place=shown)
    names = _header(header)
    datasets: dict[tuple[str, str], _Dataset] = {}
    for row in rows:
        with collected():
            cells = _cells(row, names)
            for name in (SCHEMA, DATASET):
                if name not in cells:
                    raise MetadataError("missing_field", "is empty; every line names it", name, place=row.place)
            key = cells[SCHEMA], cells[DATASET]
            datasets.setdefault(key, _Dataset(row.place, names)).add(row.place, cells)
    return [dataset.node(*key) for key, dataset in datasets.items()]


class _Row(list[str]):
    """Cells of a line, with its place."""

    place = ""


def _rows(content: str, shown: str) -> Iterator[_Row]:
    """Yield the lines that are not empty. Raise MetadataError for a text that is no CSV, or too long."""
    first_line = content.partition("\n")[0]
    separator = ";" if ";" in first_line and "," not in first_line else ","
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=separator, strict=True)
    start, cells = 1, 0
    try:
        for values in reader:
            row = _Row(value.strip() for value in values)
            row.place, start = f"{shown}:{start}", reader.line_num + 1
            cells += len(row)
            if cells > MAX_NODES:
                raise MetadataError("too_big", f"holds more than {MAX_NODES} cells", place=row.place)
            if any(row):
                yield row
    except csv.Error as error:
        raise MetadataError("bad_csv", f"is not CSV: {error}", place=f"{shown}:{start}") from None


def _header(row: _Row) -> list[str]:
    """Return the names of the header. Report its faults, and raise the last one, since no line can be read then."""
    faults = [
        MetadataError("unknown_field", f"is not known here; known are {', '.join(COLUMNS)}", name, place=row.place)
        for name in row
        if name not in COLUMNS
    ]
    faults += [
        MetadataError("duplicate_field", "is given twice", name, place=row.place)
        for name, count in Counter(row).items()
        if count > 1
    ]
    faults += [
        MetadataError("missing_field", "is missing in the header", name, place=row.place)
        for name in _LEADING
        if name not in row
    ]
    for fault in faults[:-1]:
        report(fault)
    if faults:
        raise faults[-1]
    return list(row)


def _cells(row: _Row, names: list[str]) -> dict[str, str]:
    """Return the cells of a line that are not empty, by name."""
    if len(row) != len(names):
        message = f"holds {len(row)} cells, but the header {len(names)}; put cells with a separator in quotes"
        raise MetadataError("wrong_count", message, place=row.place)
    return {name: cell for name, cell in zip(names, row, strict=True) if cell}


class _Dataset:
    """Nodes of a dataset and of its columns, from the lines that name it."""

    def __init__(self, place: str, names: list[str]) -> None:
        self._place = place
        self._names = frozenset(names)
        self._own: dict[str, Node] | None = None
        self._columns: list[Node] = []

    def add(self, place: str, cells: dict[str, str]) -> None:
        given = {name: cell for name, cell in cells.items() if name not in _LEADING}
        if COLUMN in cells:
            fields = _fields(given, TARGET_COLUMN, _OF_COLUMN, place) | {"name": Node(cells[COLUMN], place)}
            self._columns.append(Node(fields, place, kept=frozenset(TARGET_COLUMN) - self._names))
            return
        if self._own is not None:
            message = f"has a line without a column already, at {self._place}"
            raise MetadataError("described_twice", message, COLUMN, f"{cells[SCHEMA]}.{cells[DATASET]}", place=place)
        self._own, self._place = _fields(given, TARGET, _OF_DATASET, place), place

    def node(self, schema: str, name: str) -> Node:
        """Return the node of a file with this dataset."""
        own, place = self._own or {}, self._place
        given = self._names if self._own is not None else frozenset[str]()
        fields = own | {"schema": Node(schema, place), "name": Node(name, place), "columns": Node(self._columns, place)}
        dataset = Node(fields, place, kept=frozenset(TARGET) - given)
        return Node({"format": Node(FORMAT, place), "dataset": dataset}, place)


def _fields(cells: dict[str, str], spec: Spec, known: tuple[str, ...], place: str) -> dict[str, Node]:
    """Return nodes of cells. A cell that does not apply to the object becomes a field that the spec refuses."""
    return {name: _node(cell, spec[name].read if name in known else strict.text, place) for name, cell in cells.items()}


def _node(cell: str, read: strict.Reader, place: str) -> Node:
    """Return the node of a cell, as YAML would give it to the reader of its field."""
    value: object = cell
    if read is strict.flag:
        value = _FLAGS.get(cell.lower(), cell)
    elif read is strict.number and cell.isdecimal():
        value = int(cell)
    elif read is strict.words:
        value = [Node(part.strip(), place) for part in cell.split(SEPARATOR) if part.strip()]
    return Node(value, place, cell, place)
