"""State files, ``architecture-state/v1``: datasets and columns as one JSON document.

Reading is strict: what is not known, or of the wrong type, is refused with the path and the line it
stands at. Keys are any text: files of other installations and hand-written ones compare, too. The
order of datasets, of columns and of fields says nothing, so it is not kept.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from architecture.domain.states.flat import flat
from architecture.domain.states.state_fields import COLUMN, DATASET, OPTIONAL_DATASET, ROLES, STATE, Reader, kind_of
from elevata.core.errors import MetadataError
from metadata.domain.naming import HISTORY_SUFFIX
from metadata.domain.state import TECHNICAL, ColumnState, DatasetState

FORMAT = "architecture-state/v1"
Path = tuple[str | int, ...]
# Far more than policies need; readers of JSON have limits of their own beyond.
_MOST_DIGITS = 1000


@dataclass(frozen=True)
class ArchitectureState:
    """All datasets of one side of a comparison."""

    datasets: tuple[DatasetState, ...] = ()


class StateProblem(MetadataError):
    """A state file that cannot be taken. ``path`` says where (``datasets[2].columns[0].type``)."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__("bad_state_file", message, path_text(path))
        self.path = path


def path_text(path: Path) -> str:
    said = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return said.lstrip(".")


def parse_state(text: str, name: str = "") -> ArchitectureState:
    """The state that a file holds, datasets and columns in order of their keys.

    ``name`` is what the error calls the file. Raises StateProblem with the path and the line.
    """
    try:
        document = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant, parse_int=_whole)
    except json.JSONDecodeError as error:
        message = f"is not JSON: {error.msg} (column {error.colno})"
        raise StateProblem((), message).about(place=f"{name or 'line'}:{error.lineno}") from None
    except RecursionError:
        raise StateProblem((), "is nested too deeply").about(place=name) from None
    except StateProblem as problem:
        raise problem.about(place=name) from None
    try:
        return _state(document)
    except StateProblem as problem:
        line = text.count("\n", 0, offset_of(text, problem.path)) + 1
        raise problem.about(place=f"{name or 'line'}:{line}") from None


def dump_state(state: ArchitectureState) -> str:
    """The state as a file: one text for equal states, and ``parse_state`` reads the same state back.

    A foreign key is written as the technical column that it is in the table.
    """
    datasets = sorted((dataset_document(dataset) for dataset in state.datasets), key=lambda one: one["key"])
    return json.dumps({"format": FORMAT, "datasets": datasets}, indent=2, ensure_ascii=False) + "\n"


def dataset_document(dataset: DatasetState) -> dict[str, Any]:
    """One dataset with the fields of a state file."""
    dataset = flat(dataset)
    document = {
        "key": dataset.key,
        "schema": dataset.schema,
        "name": dataset.name,
        "former_names": list(dataset.former_names),
        "active": dataset.active,
        "materialization": dataset.materialization,
        "historize": dataset.historize,
        "filter": dataset.filter,
        "inputs": sorted(dataset.inputs),
        "load_policy": dataset.load_policy,
        "history_policy": dataset.history_policy,
        "columns": [_column_document(column) for column in sorted(dataset.columns, key=lambda one: one.key)],
    }
    return {name: value for name, value in document.items() if value or name not in OPTIONAL_DATASET}


def _column_document(column: ColumnState) -> dict[str, Any]:
    return {
        "key": column.key,
        "name": column.name,
        "former_names": list(column.former_names),
        "type": column.type,
        "nullable": column.nullable,
        "role": column.role if column.role in ROLES else TECHNICAL,
        "active": column.active,
        "expression": column.expression,
        "inputs": sorted(column.inputs),
    }


# --- reading ---------------------------------------------------------------------------------


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise StateProblem((), f"the field {twice!r} stands twice in one object")
    return found


def _no_constant(name: str) -> Any:
    raise StateProblem((), f"is not JSON: {name} is no value")


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise StateProblem((), f"holds a number of more than {_MOST_DIGITS} digits ({digits[:20]}…)")
    return int(digits)


def _state(document: Any) -> ArchitectureState:
    fields = _object(document, (), STATE, {})
    if fields["format"] != FORMAT:
        raise StateProblem(("format",), f"{fields['format']!r} is not known; known is {FORMAT}")
    items = _list(fields["datasets"], ("datasets",))
    datasets = [_dataset(item, ("datasets", index)) for index, item in enumerate(items)]
    _refuse_twice("key", [(dataset.key, True) for dataset in datasets], ("datasets",))
    _refuse_twice("name", [(dataset.qualified_name.lower(), dataset.active) for dataset in datasets], ("datasets",))
    return ArchitectureState(tuple(sorted(datasets, key=lambda dataset: dataset.key)))


def _dataset(document: Any, path: Path) -> DatasetState:
    fields = _object(document, path, DATASET, OPTIONAL_DATASET)
    items = _list(fields["columns"], (*path, "columns"))
    columns = [_column(item, (*path, "columns", index)) for index, item in enumerate(items)]
    _refuse_twice("key", [(column.key, True) for column in columns], (*path, "columns"))
    _refuse_twice("name", [(column.name.lower(), column.active) for column in columns], (*path, "columns"))
    if fields["name"].lower().endswith(HISTORY_SUFFIX):
        said = f"the suffix {HISTORY_SUFFIX} is reserved: a history follows from a dataset with historize true"
        raise StateProblem((*path, "name"), said)
    return DatasetState(
        key=fields["key"],
        schema=fields["schema"],
        layer=fields["schema"],
        name=fields["name"],
        columns=tuple(sorted(columns, key=lambda column: column.key)),
        former_names=fields["former_names"],
        active=fields["active"],
        materialization=fields["materialization"],
        historize=fields["historize"],
        filter=fields.get("filter"),
        inputs=tuple(sorted({*(fields.get("inputs") or ())})),
        load_policy=fields.get("load_policy"),
        history_policy=fields.get("history_policy") or {},
    )


def _column(document: Any, path: Path) -> ColumnState:
    fields = _object(document, path, COLUMN, {})
    return ColumnState(**{**fields, "inputs": tuple(sorted({*fields["inputs"]}))})


def _object(document: Any, path: Path, known: Mapping[str, Reader], optional: Mapping[str, Reader]) -> dict:
    if not isinstance(document, dict):
        raise StateProblem(path, f"must be an object, not {kind_of(document)}")
    found = {}
    for name, value in document.items():
        read = known.get(name) or optional.get(name)
        if read is None:
            raise StateProblem((*path, name), f"is not known; known are {', '.join([*known, *optional])}")
        try:
            found[name] = read(value)
        except ValueError as error:
            raise StateProblem((*path, name), str(error)) from None
    for name in known:
        if name not in found:
            raise StateProblem(path, f"{name} is missing")
    return found


def _refuse_twice(what: str, values: list[tuple[str, bool]], path: Path) -> None:
    """Refuse duplicates: a retired object may share its name with its successor, no object shares a key."""
    seen: set[str] = set()
    for index, (value, counts) in enumerate(values):
        if counts and value in seen:
            raise StateProblem((*path, index, what), f"{value!r} stands twice")
        if counts:
            seen.add(value)


def _list(value: Any, path: Path) -> list:
    if not isinstance(value, list):
        raise StateProblem(path, f"must be a list, not {kind_of(value)}")
    return value


# --- places ----------------------------------------------------------------------------------

_BLANK = re.compile(r"[ \t\n\r]*")


def offset_of(text: str, path: Path) -> int:
    """Return the offset of the value at ``path`` in a JSON text; of a missing one, that of its owner."""
    decoder, at = json.JSONDecoder(), _BLANK.match(text, 0).end()
    for part in path:
        found = _member(text, at, part, decoder)
        if found is None:
            break
        at = found
    return at


def _member(text: str, at: int, part: str | int, decoder: json.JSONDecoder) -> int | None:
    is_object, index = text[at] == "{", 0
    if text[at] not in "{[":
        return None
    at = _BLANK.match(text, at + 1).end()
    while text[at] not in "}]":
        name: str | int = index
        if is_object:
            name, at = decoder.raw_decode(text, at)
            at = _BLANK.match(text, _BLANK.match(text, at).end() + 1).end()
        if name == part:
            return at
        _, at = decoder.raw_decode(text, at)
        at = _BLANK.match(text, at).end()
        if text[at] == ",":
            at, index = _BLANK.match(text, at + 1).end(), index + 1
    return None
