"""Facts: all values of the metadata that affect the warehouse, as plain values under stable keys.

A fact is identified by a tuple of kind, dataset and, for a fact of a column, column. Names inside texts are replaced
by the stable keys of the columns that they refer to. So a rename changes no logic, and a text that refers to another
column does, however it is spelled. This module does not use the planner.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from metadata.domain.naming import foreign_key_name
from metadata.models import QualityCheck, Reference, SourceDataset, TargetColumn, TargetDataset

Fact = tuple[str, ...]
Facts = Mapping[Fact, Any]
# Stable keys of columns by name.
Names = Mapping[str, list[str]]

TABLE, VIEW = "table", "view"
# Facts of a dataset, and of a column, that decide which values a reader of it compares.
ROWS, VALUE = ("filter", "select", "inputs", "checks", "source", "ghosts", "held back"), "logic"
# Choices of a history policy that change no comparison.
_SHOWN_ONLY = {"views"}
_NAME = re.compile(r"'[^']*'|`?([A-Za-z_]\w*)`?")
# Names in the SELECT of a model: a column of its input, which is called o there, a dataset, or the name of a result.
_IN_SELECT = re.compile(r"`?(\w+)`?\.`?(\w+)`?|(?<= AS )`?(\w+)`?")


def described() -> dict[Fact, Any]:
    """Return every fact of the metadata as it is now."""
    datasets = list(
        TargetDataset.objects.filter(history_of__isnull=True)
        .select_related("schema")
        .prefetch_related("inputs__upstream__schema", "inputs__source", "checks")
    )
    references = list(
        Reference.objects.select_related("child", "parent").prefetch_related(
            "pairs__child_column__dataset", "pairs__parent_column__dataset"
        )
    )
    columns = TargetColumn.objects.prefetch_related("inputs__upstream_column", "inputs__source_column")
    by_dataset: dict[int, list[TargetColumn]] = {}
    for column in columns.order_by("ordinal", "pk"):
        by_dataset.setdefault(column.dataset_id, []).append(column)
    facts: dict[Fact, Any] = {}
    for dataset in datasets:
        facts |= _of_dataset(dataset, by_dataset)
        facts |= _of_references(str(dataset.key), references)
    return facts


def _of_references(key: str, references: list[Reference]) -> dict[Fact, Any]:
    """Return the facts of a dataset's references: their columns, and the rows that they hold back here or add here."""
    own = [row for row in references if str(row.child.key) == key]
    facts: dict[Fact, Any] = {
        ("ghosts", key): _pairs((row for row in references if str(row.parent.key) == key), "ghost", "child"),
        ("held back", key): _pairs(own, "quarantine", "parent"),
    }
    for row in own:
        name = str(row.key)
        children = frozenset(str(pair.child_column.key) for pair in row.pairs.all())
        facts |= {
            ("name", key, name): foreign_key_name(row.role_name, row.parent.name),
            ("type", key, name): "string",
            ("not null", key, name): False,
            ("in use", key, name): row.active,
            ("reference", key, name): True,
            (VALUE, key, name): ("", children),
        }
    return facts


def _pairs(references: Iterable[Reference], rule: str, end: str) -> frozenset[tuple[str, str]]:
    """Return the columns by which references with a rule find rows of their child or parent, each with its dataset."""
    pairs = (pair for row in references if row.active and row.unknown_parent == rule for pair in row.pairs.all())
    columns = (getattr(pair, f"{end}_column") for pair in pairs)
    return frozenset((str(column.dataset.key), str(column.key)) for column in columns)


def _of_dataset(dataset: TargetDataset, columns: Mapping[int, list[TargetColumn]]) -> dict[Fact, Any]:
    key, own = str(dataset.key), columns.get(dataset.pk, [])
    upstream = [item.upstream for item in dataset.inputs.all() if item.upstream]
    read: dict[str, list[str]] = {}
    filling: dict[str, list[str]] = {}
    for column in (column for feeder in upstream for column in columns.get(feeder.pk, [])):
        read.setdefault(column.name.lower(), []).append(str(column.key))
        if column.active:
            filling.setdefault(column.name, []).append(str(column.key))
    facts = {
        ("name", key): f"{dataset.schema.name}.{dataset.name}",
        ("in use", key): dataset.active,
        ("kind", key): dataset.materialization,
        ("history", key): dataset.historize,
        ("policy", key): _policy(dataset.history_policy, own),
        ("filter", key): _meaning(dataset.filter, read),
        ("select", key): _select(dataset.select, read, upstream, own),
        ("inputs", key): frozenset(str(feeder.key) for feeder in upstream),
        ("checks", key): frozenset(_check(check, own) for check in dataset.checks.all() if _holds_back(check)),
        ("source", key): frozenset(_source(item.source) for item in dataset.inputs.all() if item.source),
        ("key", key): frozenset(str(c.key) for c in own if c.active and c.role == "business_key"),
    }
    for column in own:
        name = str(column.key)
        facts |= {
            ("name", key, name): column.name,
            ("type", key, name): str(column.type),
            ("not null", key, name): not column.nullable,
            ("in use", key, name): column.active,
            (VALUE, key, name): ("", frozenset()) if dataset.select else _logic(column, read, filling),
        }
    return facts


def _holds_back(check: QualityCheck) -> bool:
    return check.active and check.severity in ("quarantine", "stop")


def _check(check: QualityCheck, own: list[TargetColumn]) -> tuple:
    keys = {column.name: str(column.key) for column in own}
    columns = [keys.get(name, name) for name in check.arguments["columns"]]
    return check.kind, check.severity, *columns, repr(check.arguments.get("values"))


# An option with its default value is equal to a missing one.
_DEFAULTS = {("faulty_rows", "refuse")}


def _source(source: SourceDataset) -> tuple:
    """Return what decides which rows of a source are kept; any text fits a string that may be empty."""
    options = sorted((name, repr(value)) for name, value in source.options.items() if (name, value) not in _DEFAULTS)
    checked: set[tuple] = set()
    if source.options.get("faulty_rows") == "quarantine":
        columns = source.columns.filter(active=True)
        checked = {(str(row.key), str(row.type), row.key_ordinal, row.nullable) for row in columns}
        checked = {column for column in checked if column[1:] != ("string", None, True)}
    return tuple(options), source.new_columns, frozenset(checked)


def _policy(described: dict, own: list[TargetColumn]) -> tuple:
    keys = {column.name: str(column.key) for column in own}
    compared = {name: value for name, value in described.items() if name not in _SHOWN_ONLY}
    if "track" in compared:
        compared["track"] = sorted(keys.get(name, name) for name in compared["track"])
    return tuple(sorted((name, repr(value)) for name, value in compared.items()))


def _logic(column: TargetColumn, read: Names, filling: Names) -> tuple[str, frozenset[str]]:
    """Return the meaning of a column's expression, and the keys of the columns that it reads."""
    inputs = [str((item.upstream_column or item.source_column).key) for item in column.inputs.all()]
    if not inputs and not column.expression:  # the column is matched by name
        inputs = filling.get(column.name, [])
    return _meaning(column.expression, read), frozenset(inputs)


def _select(text: str, read: Names, upstream: list[TargetDataset], own: list[TargetColumn]) -> str:
    """Return a SELECT with keys in place of the names of columns, datasets and results."""
    known = {f"o.{name}": keys for name, keys in read.items()}
    known |= {f"{row.schema.name}.{row.name}".lower(): [str(row.key)] for row in upstream}
    known |= {column.name.lower(): [str(column.key)] for column in own}

    def keyed(match: re.Match[str]) -> str:
        keys = known.get(".".join(filter(None, match.groups())).lower())
        return f"<{' '.join(sorted(keys))}>" if keys else match[0]

    return _IN_SELECT.sub(keyed, text)


def _meaning(text: str, read: Names) -> str:
    """Return a text with the keys of columns in place of their names."""

    def keyed(match: re.Match[str]) -> str:
        keys = read.get((match[1] or "").lower())
        return f"<{' '.join(sorted(keys))}>" if keys else match[0]

    return _NAME.sub(keyed, text)


def _named(text: str) -> Iterator[str]:
    for group in re.findall(r"<([^>]*)>", text):
        yield from group.split(" ")


def columns_of(facts: Facts, dataset: str) -> list[str]:
    """Return the stable keys of a dataset's columns that are in use."""
    return [fact[2] for fact in facts if len(fact) == 3 and fact[:2] == ("in use", dataset) and facts[fact]]


def feeding(facts: Facts, dataset: str, *, own_run: bool = False) -> frozenset[Fact]:
    """Return the facts that decide the rows of a dataset after a load: its own, and those upstream.

    ``own_run``: only those of the load of this one table, which ends at the tables that it reads.
    """
    result: set[Fact] = set()
    visited: set[tuple[str, str]] = set()
    waiting = [(dataset, column) for column in columns_of(facts, dataset)]
    for place in _read_by(facts, dataset, own_run):
        result.update((kind, place) for kind in ROWS)
        if facts[("kind", place)] == TABLE:
            result.add(("key", place))
        for text in (facts[("filter", place)], facts[("select", place)]):
            waiting += _columns_read(facts, place, _named(text))
        if not own_run:
            waiting += (*facts[("ghosts", place)], *facts[("held back", place)])
    while waiting:
        place, column = waiting.pop()
        if (place, column) in visited:
            continue
        visited.add((place, column))
        if place != dataset and facts[("kind", place)] == TABLE and own_run:
            continue
        if place != dataset:
            result.add(("in use", place, column))
            if not facts[("in use", place, column)]:
                continue  # readers get NULL instead of its values
            if facts[("kind", place)] == VIEW:
                result.add(("type", place, column))
        result.add((VALUE, place, column))
        text, inputs = facts[(VALUE, place, column)]
        waiting += _columns_read(facts, place, {*inputs, *_named(text)})
    return frozenset(result | {("policy", dataset)} if facts[("history", dataset)] else result)


def _read_by(facts: Facts, dataset: str, own_run: bool) -> list[str]:
    """Return the dataset and all its upstream datasets, with the ends of references that decide its rows."""
    reached, waiting = [dataset], [dataset]
    while waiting:
        place = waiting.pop()
        paired = set() if own_run else {key for key, _ in facts[("ghosts", place)] | facts[("held back", place)]}
        for upstream in facts[("inputs", place)] | paired:
            ends = own_run and facts[("kind", upstream)] == TABLE
            if upstream not in reached and not ends:
                reached.append(upstream)
                waiting.append(upstream)
    return reached


def _columns_read(facts: Facts, reader: str, keys: Any) -> list[tuple[str, str]]:
    keys = set(keys)
    return [(up, key) for up in facts[("inputs", reader)] for key in keys if (VALUE, up, key) in facts]
