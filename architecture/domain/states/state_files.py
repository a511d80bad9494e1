"""State files (``architecture-state/v1``).

Reading is strict: unknown fields and wrong types are refused with path and line. Keys may be any text, so that files
of other installations and hand-written ones can be compared. The order of datasets, columns and fields has no
meaning and is not preserved.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from architecture.domain.states.flat_states import contract_of, flat
from architecture.domain.states.json_positions import offset_of
from elevata.core import strict_fields as strict
from elevata.core import strict_json
from elevata.core.strict_fields import Field, Node, Path, Record, Spec
from metadata.domain.naming import HISTORY_SUFFIX
from metadata.domain.quality.check_kinds import KINDS, SEVERITIES
from metadata.domain.state import (
    ATTRIBUTE,
    BUSINESS_KEY,
    TECHNICAL,
    ColumnState,
    ContractState,
    DatasetState,
    ExposureState,
)
from metadata.domain.types import TypeProblem, parse

ROLES = (BUSINESS_KEY, ATTRIBUTE, TECHNICAL)
MATERIALIZATIONS = ("table", "view")

_TABLE_NAME = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_VERSION = re.compile(r"[1-9]\d{0,8}\.\d{1,9}", re.ASCII)
# Limit of a policy's nesting: no real one is so deep, and other readers of JSON may have lower limits.
_MAX_DEPTH = 100


def _kind_in_words(value: Any) -> str:
    return strict.called(Node(value, path=()))


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"must be visible text, not {'blank' if isinstance(value, str) else _kind_in_words(value)}")
    if not value.isprintable() and any(ord(character) < 32 for character in value):
        raise ValueError("holds a control character")
    return _encodable(value)


def _encodable(text: str) -> str:
    """Return the text; raise ValueError for an unpaired surrogate, which UTF-8 cannot encode."""
    if not text.isascii() and any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise ValueError("holds half a character (an escape \\ud800 to \\udfff without its other half)")
    return text


def _table_name(value: Any) -> str:
    name = _text(value)
    if not _TABLE_NAME.fullmatch(name):
        raise ValueError(f"{value!r} must hold only A-Z, a-z, 0-9 and _: other table names cannot be published")
    return name


def _texts(node: Node, name: str) -> tuple[str, ...]:
    return tuple(strict.list_of(_TEXT)(node, name))


def _sql(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"must be text or null, not {_kind_in_words(value)}")
    return _encodable(value) if value else None


def _policy(value: Any) -> dict[str, Any] | str | None:
    """Return a policy unchecked, because it is compared and not executed; None for an empty one."""
    if value is not None and not isinstance(value, dict | str):
        raise ValueError(f"must be an object, text or null, not {_kind_in_words(value)}")
    _refuse_inexact(value)
    return value or None


def _refuse_inexact(value: Any, depth: int = 0) -> None:
    if depth > _MAX_DEPTH:
        raise ValueError("is nested too deeply")
    if isinstance(value, float):
        raise ValueError(f"{value!r}: write it as text or as a whole number, a fraction has more than one spelling")
    if isinstance(value, str):
        _encodable(value)
    items = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        _refuse_inexact(item, depth + 1)


@lru_cache(maxsize=4096)
def _normal_type(text: str) -> str:
    return str(parse(text))


def _type(value: Any) -> str:
    try:
        return _normal_type(_text(value))
    except TypeProblem as problem:
        raise ValueError(problem.message) from None


def _version(value: Any) -> str:
    if not isinstance(value, str) or not _VERSION.fullmatch(value):
        raise ValueError(f"must be a version as 1.0, not {value!r}")
    return value


_TEXT = strict.checked(_text)
COLUMN: Spec = {
    "key": Field(_TEXT, required=True),
    "name": Field(_TEXT, required=True),
    "former_names": Field(_texts, required=True),
    "type": Field(strict.checked(_type), required=True),
    "nullable": Field(strict.flag, required=True),
    "role": Field(strict.choice(*ROLES), required=True),
    "active": Field(strict.flag, required=True),
    "expression": Field(strict.checked(_sql), required=True),
    "inputs": Field(_texts, required=True),
}
_CHECK: Spec = {
    "key": Field(_TEXT, required=True),
    "name": Field(_TEXT, required=True),
    "kind": Field(strict.choice(*KINDS), required=True),
    "severity": Field(strict.choice(*SEVERITIES), required=True),
    "arguments": Field(strict.checked(lambda value: _policy(value) or {}), {}),
}
_PROMISED: Spec = {
    "name": Field(_TEXT, required=True),
    "type": Field(strict.checked(_type), required=True),
    "nullable": Field(strict.flag, True),
    "is_key": Field(strict.flag, False),
}
CONTRACT: Spec = {
    "checks": Field(strict.records(_CHECK), ()),
    "version": Field(strict.checked(_version), ""),
    "dataset": Field(strict.text, ""),
    "columns": Field(strict.records(_PROMISED), ()),
}
EXPOSURE: Spec = {name: Field(_TEXT, required=True) for name in ("name", "kind", "owner", "link")}
DATASET: Spec = {
    "key": Field(_TEXT, required=True),
    "schema": Field(strict.checked(_table_name), required=True),
    "name": Field(strict.checked(_table_name), required=True),
    "former_names": Field(_texts, required=True),
    "active": Field(strict.flag, required=True),
    "materialization": Field(strict.choice(*MATERIALIZATIONS), required=True),
    "historize": Field(strict.flag, required=True),
    "columns": Field(strict.records(COLUMN), required=True),
    "filter": Field(strict.checked(_sql)),
    "inputs": Field(lambda node, name: () if node.value is None else _texts(node, name), ()),
    "load_policy": Field(strict.checked(_policy)),
    "history_policy": Field(strict.checked(_policy)),
    "select": Field(strict.checked(_sql)),
    "increment": Field(strict.checked(_policy)),
    "contract": Field(strict.record(CONTRACT)),
    "exposures": Field(strict.records(EXPOSURE), ()),
}
STATE: Spec = {
    "format": Field(strict.anything, required=True),
    "datasets": Field(strict.records(DATASET), required=True),
}


FORMAT = "architecture-state/v1"


@dataclass(frozen=True)
class ArchitectureState:
    """All datasets of one side of a comparison."""

    datasets: tuple[DatasetState, ...] = ()


class StateProblem(strict.BadField):
    """Error of an invalid state file."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(path, message, "bad_state_file")


def parse_state(text: str, name: str = "", type_of: Callable[[str], str] | None = None) -> ArchitectureState:
    """Return the state in a file, datasets and columns ordered by key.

    ``name`` is the file's name in errors. ``type_of`` reads the types that have another meaning in each database, or
    raises TypeProblem. Raises StateProblem with path and line.
    """
    try:
        document = strict_json.loads(text)
    except strict_json.BadJson as error:
        place = f"{name or 'line'}:{error.line}" if error.line else name
        raise StateProblem((), f"is not JSON: {error}").about(place=place) from None
    if type_of is not None:
        _read_physical_types(document, type_of)
    try:
        return _state(strict.read_record(Node(document, path=()), STATE))
    except strict.BadField as problem:
        line = text.count("\n", 0, offset_of(text, problem.path)) + 1
        raise StateProblem(problem.path, problem.message).about(place=f"{name or 'line'}:{line}") from None


def _read_physical_types(document: Any, type_of: Callable[[str], str]) -> None:
    """Replace the types of columns that only a database has by those of metadata; others are refused later."""
    datasets = document.get("datasets") if isinstance(document, dict) else None
    for dataset in datasets if isinstance(datasets, list) else ():
        columns = dataset.get("columns") if isinstance(dataset, dict) else None
        for column in columns if isinstance(columns, list) else ():
            text = column.get("type") if isinstance(column, dict) else None
            if isinstance(text, str):
                with suppress(TypeProblem):
                    column["type"] = _physical_type(text, type_of)


def _physical_type(text: str, type_of: Callable[[str], str]) -> str:
    """Return the type of a text, which is metadata's if it has one."""
    try:
        return _normal_type(text)
    except TypeProblem:
        return type_of(text)


def dump_state(state: ArchitectureState) -> str:
    """Return the state as the text of a file; equal states give equal texts that ``parse_state`` reads.

    A foreign key is written as a technical column, which it is in the table.
    """
    datasets = sorted((dataset_document(dataset) for dataset in state.datasets), key=lambda document: document["key"])
    return json.dumps({"format": FORMAT, "datasets": datasets}, indent=2, ensure_ascii=False) + "\n"


def dataset_document(dataset: DatasetState) -> dict[str, Any]:
    """Return a dataset as an object of a state file."""
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
        "select": dataset.select,
        "increment": dataset.increment,
        "contract": _contract_document(dataset.contract) if dataset.contract else None,
        "exposures": [asdict(exposure) for exposure in dataset.exposures],
        "columns": [_column_document(column) for column in sorted(dataset.columns, key=lambda column: column.key)],
    }
    return {name: value for name, value in document.items() if value or DATASET[name].required}


def _contract_document(contract: ContractState) -> dict[str, Any]:
    return {name: value for name, value in asdict(contract).items() if value or name == "checks"}


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


def _state(fields: Record) -> ArchitectureState:
    if fields["format"] != FORMAT:
        raise StateProblem(("format",), f"{fields['format']!r} is not known; known is {FORMAT}")
    datasets = [_dataset(record, ("datasets", index)) for index, record in enumerate(fields["datasets"])]
    _refuse_duplicates("key", [(dataset.key, True) for dataset in datasets], ("datasets",))
    _refuse_duplicates(
        "name", [(dataset.qualified_name.lower(), dataset.active) for dataset in datasets], ("datasets",)
    )
    return ArchitectureState(tuple(sorted(datasets, key=lambda dataset: dataset.key)))


def _dataset(fields: Record, path: Path) -> DatasetState:
    columns = [_column(record) for record in fields["columns"]]
    _refuse_duplicates("key", [(column.key, True) for column in columns], (*path, "columns"))
    _refuse_duplicates("name", [(column.name.lower(), column.active) for column in columns], (*path, "columns"))
    if fields["name"].lower().endswith(HISTORY_SUFFIX):
        message = f"the suffix {HISTORY_SUFFIX} is reserved: a history follows from a dataset with historize true"
        raise StateProblem((*path, "name"), message)
    normal = {
        "layer": fields["schema"],
        "columns": tuple(sorted(columns, key=lambda column: column.key)),
        "inputs": tuple(sorted({*fields["inputs"]})),
        "history_policy": fields["history_policy"] or {},
        "increment": fields["increment"] or {},
        "contract": None if fields["contract"] is None else _contract(fields["contract"]),
        "exposures": tuple(ExposureState(**exposure.values) for exposure in fields["exposures"]),
    }
    return DatasetState(**fields.values | normal)


def _contract(fields: Record) -> ContractState:
    lists = {name: [record.values for record in fields[name]] for name in ("checks", "columns")}
    return contract_of({**fields.values, **lists})


def _column(fields: Record) -> ColumnState:
    return ColumnState(**fields.values | {"inputs": tuple(sorted({*fields["inputs"]}))})


def _refuse_duplicates(field: str, values: list[tuple[str, bool]], path: Path) -> None:
    """Raise StateProblem for the first duplicate among the values marked True.

    Keys are always unique, names only among active objects: a retired one may share its name with its successor.
    """
    seen: set[str] = set()
    for index, (value, counts) in enumerate(values):
        if counts and value in seen:
            raise StateProblem((*path, index, field), f"{value!r} occurs twice")
        if counts:
            seen.add(value)
