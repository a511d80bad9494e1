"""CSV files with datasets and their columns, read into the nodes that YAML files give.

A line describes a column, or, with an empty cell in ``column``, its dataset: a target dataset of a ``schema``, or a
source dataset of a ``system``. The header has the field names of YAML files. A field without a column in the header
stays as it is stored; an empty cell gives it its default. Systems, lineage, references and checks are in YAML files
only.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from elevata.core import strict_fields as strict
from elevata.core.errors import MetadataError
from elevata.core.spreadsheets import unguarded
from elevata.core.strict_fields import Node, Spec, collected, report
from metadata.domain.exchange import FORMAT, SOURCE_COLUMN, SOURCE_DATASET, SYSTEM, TARGET, TARGET_COLUMN
from metadata.services.exchange.yaml_files import MAX_NODES, refuse_unstorable

DATASET, COLUMN = "dataset", "column"
# Fields with objects or any names in them, which a cell cannot have.
_NESTED = frozenset(
    {"history_policy", "history", "increment", "inputs", "columns", "references", "checks", "exposures", "copies"}
    | {"options", "intake"}
)


@dataclass(frozen=True)
class Layout:
    """Columns of a kind of CSV file: ``parent`` names what a dataset belongs to, and the specs have the fields."""

    parent: str
    dataset: Spec
    column: Spec

    @property
    def leading(self) -> tuple[str, ...]:
        return self.parent, DATASET, COLUMN

    @cached_property
    def of_dataset(self) -> tuple[str, ...]:
        return tuple(name for name in self.dataset if name not in {*_NESTED, "schema", "name"})

    @cached_property
    def of_column(self) -> tuple[str, ...]:
        return tuple(name for name in self.column if name not in {*_NESTED, "name"})

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the names that a header may have."""
        return (*self.leading, *dict.fromkeys((*self.of_column, *self.of_dataset)))


TARGETS = Layout("schema", TARGET, TARGET_COLUMN)
SOURCES = Layout("system", SOURCE_DATASET, SOURCE_COLUMN)
SEPARATOR = ";"
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def csv_nodes(content: str, shown: str) -> list[Node]:
    """Return a node for each file that the CSV text stands for; ``shown`` is its name in errors.

    That is a node for each target dataset, or one for each system with its source datasets.
    """
    refuse_unstorable(content, shown)
    rows = _rows(content, shown)
    header = next(rows, None)
    if header is None:
        raise MetadataError("empty", "holds nothing", place=shown)
    layout = SOURCES if SOURCES.parent in header and TARGETS.parent not in header else TARGETS
    names = _header(header, layout)
    datasets: dict[tuple[str, str], _Dataset] = {}
    for row in rows:
        with collected():
            cells = _cells(row, names)
            for name in (layout.parent, DATASET):
                if name not in cells:
                    raise MetadataError("missing_field", "is empty; every line names it", name, place=row.place)
            key = cells[layout.parent], cells[DATASET]
            datasets.setdefault(key, _Dataset(layout, row.place, names)).add(row.place, cells)
    return (_systems if layout is SOURCES else _targets)(datasets)


def _targets(datasets: dict[tuple[str, str], "_Dataset"]) -> list[Node]:
    return [
        _file("dataset", dataset.node(name, schema=Node(schema, dataset.place)), dataset.place)
        for (schema, name), dataset in datasets.items()
    ]


def _systems(datasets: dict[tuple[str, str], "_Dataset"]) -> list[Node]:
    """Return a node for each system, whose own fields stay as they are stored."""
    systems: dict[str, list[Node]] = {}
    for (system, name), dataset in datasets.items():
        systems.setdefault(system, []).append(dataset.node(name))
    kept = frozenset(SYSTEM) - {"short_name", "datasets"}
    files = []
    for name, nodes in systems.items():
        place = nodes[0].where
        fields = {"short_name": Node(name, place), "datasets": Node(nodes, place)}
        files.append(_file("system", Node(fields, place, kept=kept), place))
    return files


def _file(name: str, node: Node, place: str) -> Node:
    return Node({"format": Node(FORMAT, place), name: node}, place)


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
            row = _Row(unguarded(value.strip()) for value in values)
            row.place, start = f"{shown}:{start}", reader.line_num + 1
            cells += len(row)
            if cells > MAX_NODES:
                raise MetadataError("too_big", f"holds more than {MAX_NODES} cells", place=row.place)
            if any(row):
                yield row
    except csv.Error as error:
        raise MetadataError("bad_csv", f"is not CSV: {error}", place=f"{shown}:{start}") from None


def _header(row: _Row, layout: Layout) -> list[str]:
    """Return the names of the header. Report its faults, and raise the last one, since no line can be read then."""
    faults = [
        MetadataError("unknown_field", f"is not known here; known are {', '.join(layout.names)}", name, place=row.place)
        for name in row
        if name not in layout.names
    ]
    faults += [
        MetadataError("duplicate_field", "is given twice", name, place=row.place)
        for name, count in Counter(row).items()
        if count > 1
    ]
    faults += [
        MetadataError("missing_field", "is missing in the header", name, place=row.place)
        for name in layout.leading
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

    def __init__(self, layout: Layout, place: str, names: list[str]) -> None:
        self.place = place
        self._layout = layout
        self._names = frozenset(names)
        self._own: dict[str, Node] | None = None
        self._columns: list[Node] = []

    def add(self, place: str, cells: dict[str, str]) -> None:
        layout = self._layout
        given = {name: cell for name, cell in cells.items() if name not in layout.leading}
        if COLUMN in cells:
            fields = _fields(given, layout.column, layout.of_column, place) | {"name": Node(cells[COLUMN], place)}
            self._columns.append(Node(fields, place, kept=frozenset(layout.column) - self._names))
            return
        if self._own is not None:
            message = f"has a line without a column already, at {self.place}"
            name = f"{cells[layout.parent]}.{cells[DATASET]}"
            raise MetadataError("described_twice", message, COLUMN, name, place=place)
        self._own, self.place = _fields(given, layout.dataset, layout.of_dataset, place), place

    def node(self, name: str, **more: Node) -> Node:
        """Return the node of this dataset."""
        own, place = self._own or {}, self.place
        given = self._names if self._own is not None else frozenset[str]()
        fields = own | more | {"name": Node(name, place), "columns": Node(self._columns, place)}
        return Node(fields, place, kept=frozenset(self._layout.dataset) - given - {"name"})


def _fields(cells: dict[str, str], spec: Spec, known: tuple[str, ...], place: str) -> dict[str, Node]:
    """Return nodes of cells. A cell that does not apply to the object becomes a field that the spec refuses."""
    return {name: _node(cell, spec[name].read if name in known else strict.text, place) for name, cell in cells.items()}


def _node(cell: str, read: strict.Reader, place: str) -> Node:
    """Return the node of a cell, as YAML would give it to the reader of its field."""
    value: object = cell
    if read is strict.flag:
        value = _FLAGS.get(cell.lower(), cell)
    elif read is strict.number and cell.isascii() and cell.isdecimal():
        value = int(cell)
    elif read is strict.words:
        value = [Node(part.strip(), place) for part in cell.split(SEPARATOR) if part.strip()]
    return Node(value, place, cell, place)
