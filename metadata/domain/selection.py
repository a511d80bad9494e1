"""Selection of datasets by words, for loads, reports and checks of a part of the warehouse.

A word is a name (``serving.sales``), a name with ``*`` (``serving.*``), ``tag:finance`` or ``layer:serving``. A plus
before it adds everything upstream, one after it everything downstream. Words are united.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from elevata.core.words import suggestion
from metadata.domain.state import DatasetState

# Characters of the words of a selection: names of as many datasets as a list selects at once.
MAX_WORDS = 100_000
HINT = (
    "A word is schema.name, schema.*, tag:NAME or layer:NAME, with a plus before or after it for everything upstream "
    "or downstream."
)

# Characters of words that are no names.
_OF_WORDS = frozenset("+*:")
_TAG, _LAYER = "tag:", "layer:"


class NothingSelected(Exception):
    """Error raised for a word that selects nothing; loads and reports give it a code of their own."""

    def __init__(self, word: str, hint: str) -> None:
        self.message, self.hint = f"no dataset is selected by {word}", hint
        super().__init__(self.message)


@dataclass(frozen=True)
class Node:
    """Dataset that can be selected."""

    key: str
    name: str
    layer: str
    tags: frozenset[str] = frozenset()

    @classmethod
    def of(cls, state: DatasetState, tags: Mapping[str, Collection[str]]) -> "Node":
        """Return the node of a dataset; ``tags`` are by stable key."""
        return cls(state.key, state.qualified_name, state.layer, frozenset(tags.get(state.key, ())))


def is_name(word: str) -> bool:
    """Return True if a word is a name, and can select only the dataset of this name."""
    return _OF_WORDS.isdisjoint(word)


def select_states(
    states: Iterable[DatasetState], select: str, tags: Mapping[str, Collection[str]], exclude: str = ""
) -> list[DatasetState]:
    """Return the datasets that words select, by name; upstream are their inputs. Raise NothingSelected."""
    by_key = {state.key: state for state in states}
    inputs = {key: by_key.keys() & set(state.inputs) for key, state in by_key.items()}
    keys = select_nodes((Node.of(state, tags) for state in by_key.values()), inputs, select, exclude)
    return sorted((by_key[key] for key in keys), key=lambda state: state.qualified_name)


def select_nodes(
    nodes: Iterable[Node], waits_for: Mapping[str, Iterable[str]], select: str, exclude: str = ""
) -> frozenset[str]:
    """Return the keys of the selected datasets.

    Args:
        nodes: all datasets.
        waits_for: upstreams of each dataset, by key.
        select: words of the datasets.
        exclude: words of datasets to leave out.

    Raises:
        NothingSelected: for a word that selects nothing.
    """
    nodes = list(nodes)
    readers: dict[str, set[str]] = {}
    for key, upstreams in waits_for.items():
        for upstream in upstreams:
            readers.setdefault(upstream, set()).add(key)
    chosen: set[str] = set()
    for word in select.split():
        chosen |= _selected_by(word, nodes, waits_for, readers)
    for word in exclude.split():
        chosen -= _selected_by(word, nodes, waits_for, readers)
    return frozenset(chosen)


def _selected_by(
    word: str, nodes: list[Node], waits_for: Mapping[str, Iterable[str]], readers: Mapping[str, Iterable[str]]
) -> set[str]:
    name = word.removeprefix("+").removesuffix("+")
    keys = {node.key for node in nodes if _matches(node, name)}
    if not keys:
        raise NothingSelected(word, _meant(name, nodes) or HINT)
    selected = set(keys)
    if word.startswith("+"):
        selected |= reached(keys, waits_for)
    if word.endswith("+"):
        selected |= reached(keys, readers)
    return selected


def _meant(name: str, nodes: list[Node]) -> str:
    """Return the suggestion of a word like this one; empty for a pattern, or if there is none."""
    if name.startswith(_TAG):
        return suggestion(name, {f"{_TAG}{tag}" for node in nodes for tag in node.tags})
    if name.startswith(_LAYER):
        return suggestion(name, {f"{_LAYER}{node.layer}" for node in nodes})
    return "" if "*" in name else suggestion(name.lower(), {node.name for node in nodes})


def _matches(node: Node, name: str) -> bool:
    if name.startswith(_TAG):
        return name.removeprefix(_TAG) in node.tags
    if name.startswith(_LAYER):
        return name.removeprefix(_LAYER) == node.layer
    return fnmatchcase(node.name.lower(), name.lower())


def reached(keys: Iterable[str], edges: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """Return these keys and all that edges lead to from them, directly or over others."""
    seen: set[str] = set()
    pending = list(keys)
    while pending:
        key = pending.pop()
        if key not in seen:
            seen.add(key)
            pending.extend(edges.get(key, ()))
    return frozenset(seen)
