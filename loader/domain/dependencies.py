"""Datasets of a load run, and their order.

A run loads raw and rawcore datasets, each rawcore dataset with its history, and models with a table. Views in between
are not loaded, but resolved to the tables that they read; models that are views are created if they are missing. A
dataset waits for the tables that it reads, for the parents of its references, and for the tables that its children read
if it gets ghost rows for them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from elevata.core.words import suggestion
from loader.contract.refusals import Refusal
from metadata.domain.history.history_policy import BATCH_FILES, HistoryPolicy
from metadata.domain.quality.unknown_parents import GHOST, KEEP
from metadata.domain.scope import ALL, DATASET, SCHEMA, SELECTION, Scope
from metadata.domain.selection import Node, NothingSelected, is_name, reached, select_nodes, select_states
from metadata.domain.state import DatasetState, ReferenceState

LOADED_LAYERS = ("raw", "rawcore")
HISTORY_SUFFIX = "_hist"


@dataclass(frozen=True)
class LoadStep:
    """Dataset to load, with the datasets of the same run that it waits for (stable keys)."""

    dataset: DatasetState
    depends_on: tuple[str, ...]


def load_steps(
    states: Iterable[DatasetState], scope: Scope, tags: Mapping[str, Collection[str]]
) -> tuple[tuple[LoadStep, ...], tuple[DatasetState, ...]]:
    """Return the datasets of a scope, each after those that it depends on, and its datasets that history batches feed.

    A load only creates the tables of the latter. ``tags`` are by the dataset's stable key. Raise Refusal BY_BATCH_FILES
    if the scope is such a dataset.
    """
    by_key = {state.key: state for state in states}
    waits_for = dependencies(by_key)
    chosen = _in_scope(by_key, waits_for, scope, tags) & waits_for.keys()
    by_files = come_by_files(by_key)
    if scope.kind == DATASET and chosen and chosen <= by_files:
        named = by_key[min(chosen)]
        raise Refusal(
            "BY_BATCH_FILES",
            f"{named.qualified_name} has no delivery that a load run could read: its history comes as batch files",
            hint=f"manage.py load_history_batch {named.qualified_name} takes them",
        )
    left_out = sorted((by_key[key] for key in chosen & by_files if by_key[key].historize), key=_place)
    chosen -= by_files
    steps = tuple(
        LoadStep(by_key[key], tuple(sorted(waits_for[key] & chosen, key=lambda upstream: _place(by_key[upstream]))))
        for key in _in_order(chosen, waits_for, by_key)
    )
    return steps, tuple(left_out)


def view_models(
    states: Iterable[DatasetState], scope: Scope, tags: Mapping[str, Collection[str]]
) -> tuple[DatasetState, ...]:
    """Return the models of a scope that are views, by name; see ``load_steps``."""
    by_key = {state.key: state for state in states}
    keys = _in_scope(by_key, dependencies(by_key), scope, tags)
    views = (by_key[key] for key in keys if is_view_model(by_key[key]))
    return tuple(sorted(views, key=lambda state: (state.qualified_name, state.key)))


def _in_scope(
    by_key: Mapping[str, DatasetState],
    waits_for: Mapping[str, frozenset[str]],
    scope: Scope,
    tags: Mapping[str, Collection[str]],
) -> frozenset[str]:
    """Return the keys of the loaded datasets and of the models with a view in a scope, with those that they read."""
    graph = {key: upstreams | _view_models_read(by_key[key], by_key) for key, upstreams in waits_for.items()}
    for key, state in by_key.items():
        if is_view_model(state):
            tables = frozenset(table.key for table in tables_read(state, by_key))
            graph[key] = (tables & waits_for.keys()) | _view_models_read(state, by_key)
    chosen = _selected(by_key, graph, scope, tags)
    return chosen if scope.target_only or scope.kind == SELECTION else frozenset(reached(chosen, graph))


def _view_models_read(state: DatasetState, by_key: Mapping[str, DatasetState]) -> frozenset[str]:
    return frozenset(key for key in views_read(state, by_key) if is_view_model(by_key[key]))


def dependencies(by_key: Mapping[str, DatasetState]) -> dict[str, frozenset[str]]:
    """Return for every loaded dataset the loaded datasets that it waits for.

    Raise Refusal CIRCULAR_INPUTS for datasets that read each other in a circle. A circle of references (orders and
    their latest invoice) is permitted, because a foreign key is hashed without reading the parent: the reference that
    closes the circle is ignored. With a rule for unknown parents it is refused (CIRCULAR_REFERENCES).
    """
    loaded = {key: state for key, state in by_key.items() if is_loaded(state)}
    graph = {key: {table.key for table in tables_read(state, by_key)} & loaded.keys() for key, state in loaded.items()}
    _refuse_circles(graph, by_key)
    children = sorted(loaded.values(), key=_place)
    for state in children:
        for reference in _looked_up(state, loaded):
            _wait(state, loaded[reference.parent], graph, by_key)
            if reference.unknown_parent == GHOST:
                for table in tables_read(state, by_key):
                    _wait(loaded[reference.parent], table, graph, by_key)
    for state in children:
        for reference in sorted(state.references, key=lambda item: item.key):
            parent = reference.parent
            if parent in loaded and state.key not in reached({parent}, graph):
                graph[state.key].add(parent)
    return {key: frozenset(upstreams) for key, upstreams in graph.items()}


def _looked_up(state: DatasetState, loaded: Mapping[str, DatasetState]) -> list[ReferenceState]:
    """Return the references of a dataset whose parents a load looks up, by key."""
    rules = (item for item in state.references if item.unknown_parent != KEEP and item.parent in loaded)
    return sorted(rules, key=lambda item: item.key)


def _wait(
    state: DatasetState, upstream: DatasetState, graph: dict[str, set[str]], by_key: Mapping[str, DatasetState]
) -> None:
    """Add a dependency that a rule for unknown parents needs. Raise Refusal CIRCULAR_REFERENCES."""
    if upstream.key not in graph:
        return
    if state.key in reached({upstream.key}, graph):
        raise Refusal(
            "CIRCULAR_REFERENCES",
            f"{state.qualified_name} and {upstream.qualified_name} wait for each other by a rule for unknown parents",
            hint="choose the rule keep for one of their references",
        )
    graph[state.key].add(upstream.key)


def referring(
    parent: DatasetState, by_key: Mapping[str, DatasetState]
) -> Iterator[tuple[DatasetState, ReferenceState]]:
    """Yield the loaded datasets with ghost rows in ``parent``, each with its reference."""
    for state in sorted(by_key.values(), key=_place):
        for reference in state.references if is_loaded(state) else ():
            if reference.parent == parent.key and reference.unknown_parent == GHOST:
                yield state, reference


def tables_looked_up(state: DatasetState, by_key: Mapping[str, DatasetState]) -> frozenset[str]:
    """Return the stable keys of the tables that a load reads by rules for unknown parents.

    They are the parents', and the children's with the tables that they read.
    """
    loaded = {key: item for key, item in by_key.items() if is_loaded(item)}
    keys = {reference.parent for reference in _looked_up(state, loaded)}
    for child, _ in referring(state, by_key):
        keys |= {child.key, *(table.key for table in tables_read(child, by_key))}
    return frozenset(keys)


def come_by_files(by_key: Mapping[str, DatasetState]) -> frozenset[str]:
    """Return the keys of datasets without deliveries.

    They are datasets whose history comes as batch files, and raw tables that only those read.
    """
    feeds = {
        key
        for key, state in by_key.items()
        if is_loaded(state) and state.historize and HistoryPolicy.from_dict(state.history_policy).input == BATCH_FILES
    }
    if feeds:
        readers: dict[str, set[str]] = {}
        for state in by_key.values():
            if is_loaded(state):
                for table in tables_read(state, by_key):
                    readers.setdefault(table.key, set()).add(state.key)
        feeds |= {key for key, keys in readers.items() if by_key[key].layer == "raw" and keys <= feeds}
    return frozenset(feeds)


def is_loaded(state: DatasetState) -> bool:
    """Return True if load runs write this dataset's table."""
    return state.active and state.materialization == "table" and (state.layer in LOADED_LAYERS or bool(state.select))


def is_view_model(state: DatasetState) -> bool:
    """Return True for a model that is a view: load runs create it and store no rows of it."""
    return state.active and state.materialization == "view" and bool(state.select)


def is_plain_model(state: DatasetState) -> bool:
    """Return True for a model without a history: a load replaces rows of its table."""
    return bool(state.select) and not state.historize


def tables_read(state: DatasetState, by_key: Mapping[str, DatasetState]) -> Iterator[DatasetState]:
    """Yield the tables that a dataset reads, directly or through views."""
    yield from _tables_read(state, by_key, (state.key,))


def _tables_read(
    state: DatasetState, by_key: Mapping[str, DatasetState], path: tuple[str, ...]
) -> Iterator[DatasetState]:
    for key in state.inputs:
        upstream = by_key.get(key)
        if upstream is None:
            continue  # a source dataset
        if upstream.materialization == "table":
            yield upstream
        elif key in path:
            raise _circle((*path[path.index(key) :], key), by_key)
        else:
            yield from _tables_read(upstream, by_key, (*path, key))


def views_read(state: DatasetState, by_key: Mapping[str, DatasetState]) -> frozenset[str]:
    """Return the stable keys of the views through which a dataset reads its tables."""
    views: set[str] = set()
    waiting = [state]
    while waiting:
        for key in waiting.pop().inputs:
            upstream = by_key.get(key)
            if upstream is not None and upstream.materialization != "table" and key not in views:
                views.add(key)
                waiting.append(upstream)
    return frozenset(views)


def _in_order(
    chosen: frozenset[str], waits_for: Mapping[str, frozenset[str]], by_key: Mapping[str, DatasetState]
) -> Iterator[str]:
    """Yield keys in topological order, and those without order among them raw first, then by name."""
    sorter = TopologicalSorter({key: waits_for[key] & chosen for key in chosen})
    sorter.prepare()
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=lambda key: _place(by_key[key]))
        yield from ready
        sorter.done(*ready)


def _place(state: DatasetState) -> tuple[int, str, str]:
    layer = LOADED_LAYERS.index(state.layer) if state.layer in LOADED_LAYERS else len(LOADED_LAYERS)
    return layer, state.qualified_name, state.key


def _refuse_circles(graph: Mapping[str, Iterable[str]], by_key: Mapping[str, DatasetState]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise _circle(tuple(reversed(error.args[1])), by_key) from None


def _circle(keys: Iterable[str], by_key: Mapping[str, DatasetState]) -> Refusal:
    names = " → ".join(by_key[key].qualified_name for key in keys)
    return Refusal(
        "CIRCULAR_INPUTS",
        f"these datasets read each other in a circle: {names}",
        hint="take one of the inputs out of the metadata",
    )


def _selected(
    by_key: Mapping[str, DatasetState],
    waits_for: Mapping[str, Iterable[str]],
    scope: Scope,
    tags: Mapping[str, Collection[str]],
) -> frozenset[str]:
    if scope.kind == ALL:
        return _keys_or_refuse(filter(_is_made, by_key.values()), "there is no dataset to load")
    if scope.kind == SELECTION:
        nodes = [Node.of(state, tags) for state in by_key.values() if _is_made(state)]
        try:
            keys = select_nodes(nodes, waits_for, scope.name, scope.exclude)
        except NothingSelected as unknown:
            raise _nothing_selected(unknown) from unknown
        return _keys_or_refuse((by_key[key] for key in keys), f"nothing is selected by {scope}")
    named = _named_schema(by_key, scope.name) if scope.kind == SCHEMA else [named_dataset(by_key, scope.name)]
    loaded_states = [loaded for state in named for loaded in _loaded_for(state, by_key)]
    return _keys_or_refuse(loaded_states, f"nothing is loaded for {scope}")


def _is_made(state: DatasetState) -> bool:
    return is_loaded(state) or is_view_model(state)


def _keys_or_refuse(states: Iterable[DatasetState], message: str) -> frozenset[str]:
    keys = frozenset(state.key for state in states)
    if not keys:
        raise Refusal(
            "NOTHING_TO_LOAD",
            message,
            hint="load runs write active raw and rawcore tables, their history, and tables and views of models",
        )
    return keys


def _named_schema(by_key: Mapping[str, DatasetState], name: str) -> list[DatasetState]:
    states = [state for state in by_key.values() if state.schema == name]
    if not states:
        raise _unknown_name("SCHEMA", name, {state.schema for state in by_key.values()})
    return states


def named_dataset(by_key: Mapping[str, DatasetState], name: str) -> DatasetState:
    """Return the active dataset ``schema.name``, or the base of a history of that name.

    Raise Refusal UNKNOWN_DATASET or RETIRED.
    """
    names = {state.qualified_name: state for state in by_key.values()}
    histories = {f"{qualified}{HISTORY_SUFFIX}": state for qualified, state in names.items() if state.historize}
    dataset = (names | histories).get(name)
    if dataset is None:
        raise _unknown_name("DATASET", name, names.keys() | histories.keys())
    if not dataset.active:
        raise Refusal("RETIRED", f"dataset {name} is retired", hint="activate it before loading it")
    return dataset


def datasets_selected(
    by_key: Mapping[str, DatasetState], word: str, tags: Mapping[str, Collection[str]]
) -> list[DatasetState]:
    """Return the active datasets that a word selects, by name; a name is that of ``named_dataset``.

    Raise Refusal NOTHING_SELECTED, UNKNOWN_DATASET or RETIRED.
    """
    if is_name(word):
        return [named_dataset(by_key, word)]
    try:
        return select_states((state for state in by_key.values() if state.active), word, tags)
    except NothingSelected as unknown:
        raise _nothing_selected(unknown) from unknown


def _nothing_selected(unknown: NothingSelected) -> Refusal:
    return Refusal("NOTHING_SELECTED", unknown.message, hint=unknown.hint)


def _unknown_name(what: str, name: str, names: Iterable[str]) -> Refusal:
    names = sorted(names)
    hint = suggestion(name, names) or f"known: {', '.join(names[:8]) or 'none'}"
    return Refusal(f"UNKNOWN_{what}", f"there is no {what.lower()} {name}", hint=hint)


def _loaded_for(state: DatasetState, by_key: Mapping[str, DatasetState]) -> Iterator[DatasetState]:
    """Yield the dataset itself if it is loaded or the view of a model, or the loaded datasets that read a view."""
    if _is_made(state):
        yield state
    elif state.materialization == "view":
        for reader in by_key.values():
            if is_loaded(reader) and state.key in views_read(reader, by_key):
                yield reader
