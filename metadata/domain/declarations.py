"""Declarations of loads, models and checks in metadata files, and the fields by which they are stored.

``load`` of a source dataset declares load type, watermark, files and repeated keys at one place. ``query`` of a target
dataset is its SELECT, the materialization ``incremental`` a table with an increment, and a check that has a ``type``
names its arguments beside it. Files are written with the stored fields; both are read.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from elevata.core import strict_fields as strict
from elevata.core.strict_fields import Field, Node, Record, Spec, text
from metadata.domain.history.history_policy import APPEND, DELTA
from metadata.domain.history.load_types import FULL, UPSERT
from metadata.domain.models.increment import KEY
from metadata.domain.quality.check_kinds import QUERY, RELATIONSHIP, STOP
from metadata.domain.sources.formats import TABLE
from metadata.domain.sources.option_kinds import FIRST, LATEST

ALL_FILES, NEW_FILES = "all", "new"
QUERY_FORMAT, INCREMENTAL, SQL = "query", "incremental", "sql"


def _names(node: Node, name: str) -> list[str]:
    return [node.value] if isinstance(node.value, str) else strict.words(node, name)


def _span(node: Node, name: str) -> int | str:
    return node.value if isinstance(node.value, int) and not isinstance(node.value, bool) else text(node, name)


_DEDUPLICATE: Spec = {"by": Field(_names, required=True), "keep": Field(strict.choice(LATEST, FIRST), LATEST)}
_LOAD: Spec = {
    "type": Field(strict.choice(FULL, APPEND, UPSERT), FULL),
    "watermark": Field(_names, ()),
    "lookback": Field(_span),
    "files": Field(strict.choice(ALL_FILES, NEW_FILES)),
    "deduplicate": Field(strict.record(_DEDUPLICATE)),
}
# Fields of a check that are stored beside its arguments.
_OF_CHECK = ("name", "key", "severity", "description", "active")
_ARGUMENTS = {"column": "columns", "min": "minimum", "max": "maximum", "query": "sql"}


def with_stored_fields(file: Node) -> Node:
    """Return a metadata file with its declarations replaced by stored fields; positions stay those of the text.

    Raises MetadataError for a declaration that is invalid, or that contradicts a stored field beside it.
    """
    if not isinstance(file.value, dict):
        return file
    return _changed(file, {"system": _system, "dataset": _target})


def _changed(node: Node, readers: Mapping[str, Callable[[Node], Node]]) -> Node:
    """Return an object whose fields of these names are replaced."""
    if not isinstance(node.value, dict):
        return node
    fields = {name: readers[name](child) if name in readers else child for name, child in node.children().items()}
    return replace(node, value=fields)


def _each(node: Node, read: Callable[[Node], Node]) -> Node:
    if not isinstance(node.value, list):
        return node
    items: list[Node] = []
    for item in node.items():
        with strict.collected():
            items.append(read(item))
    return replace(node, value=items)


def _system(node: Node) -> Node:
    return _changed(node, {"datasets": lambda datasets: _each(datasets, _source)})


def _stored(value: object, node: Node) -> Node:
    """Return a stored value at the position of its declaration."""
    if isinstance(value, dict):
        value = {name: _stored(item, node) for name, item in value.items()}
    elif isinstance(value, list | tuple):
        value = [_stored(item, node) for item in value]
    return Node(value, node.where, str(value) if not isinstance(value, dict | list) else "", node.key_where)


def _with(fields: dict[str, Node], name: str, values: Mapping[str, object], declared: Node) -> None:
    """Add values to the object ``name``. Raise MetadataError if it has another value for one of them."""
    known = fields.get(name)
    inner = dict(known.value) if known is not None and isinstance(known.value, dict) else {}
    for field, value in values.items():
        if field in inner and inner[field].plain() != value:
            message = f"says {value!r}, but {name}.{field} is {inner[field].plain()!r}"
            raise declared.problem("contradiction", message, "load")
        inner[field] = inner.get(field) or _stored(value, declared)
    if inner:
        fields[name] = replace(known or declared, value=inner, text="")


def _source(node: Node) -> Node:
    if not isinstance(node.value, dict):
        return node
    fields = dict(node.children())
    if "format" in fields and fields["format"].value == QUERY_FORMAT:
        fields["format"] = _stored(TABLE, fields["format"])
    declared = fields.pop("load", None)
    if declared is not None:
        with strict.collecting(None):
            load = strict.read_record(declared, _LOAD, "load")
        _declare_load(fields, declared, load)
    return replace(node, value=fields)


def _declare_load(fields: dict[str, Node], declared: Node, load: Record) -> None:
    intake = {"watermark": load["watermark"], "look_back": load["lookback"]}
    _with(fields, "intake", {name: value for name, value in intake.items() if value}, declared)
    if load["deduplicate"] is not None:
        by = ", ".join(load["deduplicate"]["by"])
        _with(fields, "options", {"deduplicate": load["deduplicate"]["keep"], "order_by": by}, declared)
    policy = fields.get("history_policy")
    has_input = policy is not None and isinstance(policy.value, dict) and "input" in policy.value
    if load["type"] == APPEND:
        if load["files"] == ALL_FILES:
            message = "files all does not go with type append, which adds the rows of each file once"
            raise declared.problem("contradiction", message, "load")
        _with(fields, "history_policy", {"input": APPEND}, declared)
    elif not has_input and (load["type"] == UPSERT or load["watermark"] or load["files"] == NEW_FILES):
        # Rows that are read from a mark on, or from new files only, are not everything there is.
        _with(fields, "history_policy", {"input": DELTA}, declared)
    if load["type"] != FULL:
        if "historize" in fields and fields["historize"].value is True:
            message = f"type {load['type']} keeps no history, but historize is true"
            raise declared.problem("contradiction", message, "load")
        fields["historize"] = _stored(False, declared)


def _target(node: Node) -> Node:
    if not isinstance(node.value, dict):
        return node
    fields = dict(node.children())
    query = fields.pop("query", None)
    if query is not None:
        if "select" in fields:
            raise query.problem("contradiction", "stands beside select; one of them is enough", "query")
        fields["select"] = query
    materialization = fields.get("materialization")
    if materialization is not None and materialization.value == INCREMENTAL:
        fields["materialization"] = _stored("table", materialization)
        fields.setdefault("increment", _stored({"by": KEY}, materialization))
    if "checks" in fields:
        fields["checks"] = _each(fields["checks"], _check)
    return replace(node, value=fields)


def _check(node: Node) -> Node:
    if not isinstance(node.value, dict) or "type" not in node.value:
        return node
    declared = dict(node.children())
    kind = declared.pop("type")
    stored = {name: declared.pop(name) for name in _OF_CHECK if name in declared}
    stored["kind"] = _stored(QUERY, kind) if kind.value == SQL else kind
    arguments = {_ARGUMENTS.get(name, name): child for name, child in declared.items() if name != "to"}
    if "column" in declared:
        arguments["columns"] = _stored([text(declared["column"], "column")], declared["column"])
    if "to" in declared:
        arguments |= _referred(declared["to"], kind)
    stored.setdefault("severity", _stored(STOP, kind))
    stored.setdefault("name", _stored(_name_of(kind, arguments), kind))
    return replace(node, value=stored | {"arguments": replace(node, value=arguments)})


def _referred(to: Node, kind: Node) -> dict[str, Node]:
    """Return the arguments of ``to``, the qualified name of a column: ``rawcore.rc_geo_country.code``."""
    dataset, _, column = text(to, "to").rpartition(".")
    if kind.value != RELATIONSHIP or dataset.count(".") != 1 or not column:
        raise to.problem("wrong_value", "must name a column of a relationship, as rawcore.rc_geo_country.code", "to")
    return {"dataset": _stored(dataset, to), "other_columns": _stored([column], to)}


def _name_of(kind: Node, arguments: Mapping[str, Node]) -> str:
    columns = arguments["columns"].plain() if "columns" in arguments else []
    return " ".join([str(kind.value), *(str(column) for column in columns if isinstance(columns, list))])
