"""Export to CSV files: the contents of YAML files, as far as cells can have them."""

from collections.abc import Iterable, Mapping
from typing import Any

from elevata.core.spreadsheets import csv_text
from metadata.services.exchange.csv_files import COLUMN, DATASET, SEPARATOR, SOURCES, TARGETS, Layout

# Not exported: an empty cell would generate targets.
_UNEXPORTED = frozenset({"generate"})
DATASETS_FILE, SOURCES_FILE = "datasets.csv", "sources.csv"


def csv_exports(contents: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the datasets of YAML files' contents, with their columns, as texts by the names of CSV files."""
    targets: list[tuple[str, Mapping[str, Any]]] = []
    sources: list[tuple[str, Mapping[str, Any]]] = []
    for content in contents:
        if "dataset" in content:
            targets.append((content["dataset"]["schema"], content["dataset"]))
        if "system" in content:
            sources += ((content["system"]["short_name"], item) for item in content["system"].get("datasets", ()))
    return {DATASETS_FILE: _exported(TARGETS, targets), SOURCES_FILE: _exported(SOURCES, sources)}


def _exported(layout: Layout, datasets: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    names = [name for name in layout.names if name not in _UNEXPORTED]
    lines = []
    for parent, dataset in datasets:
        leading = {layout.parent: parent, DATASET: dataset["name"]}
        lines.append({name: dataset[name] for name in layout.of_dataset if name in dataset} | leading)
        for column in dataset.get("columns", ()):
            fields = {name: column[name] for name in layout.of_column if name in column}
            lines.append(fields | leading | {COLUMN: column["name"]})
    return csv_text(names, ([_cell(line.get(name)) for name in names] for line in lines))


def _cell(value: Any) -> str | None:
    """Return the text of a value, as ``_node`` reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"{SEPARATOR} ".join(value)
    return None if value is None else str(value)
