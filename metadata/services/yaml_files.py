"""YAML text to nodes that know their places, and plain values to YAML that people like to read.

Reading composes nodes and builds nothing from tags, so a file can hold values and nothing else.
Anchors and aliases are refused: they have no use here, and a few lines of them can describe
gigabytes.
"""

from pathlib import Path
from typing import Any

import yaml

from metadata.domain.errors import MetadataError
from metadata.domain.exchange import Node

MAX_BYTES = 10 * 1024 * 1024
MAX_NODES = 500_000
MAX_DEPTH = 30

_TRUE = ("true", "yes", "on")


def read_yaml(path: Path, shown: str) -> Node:
    """The one document of a file; ``shown`` is what errors call the file."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise MetadataError("too_big", f"is {size} bytes; {MAX_BYTES} are read", place=shown)
        content = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise MetadataError("unreadable", f"cannot be read: {error.strerror}", place=shown) from None
    except UnicodeDecodeError as error:
        raise MetadataError("wrong_encoding", f"is not UTF-8 at byte {error.start}", place=shown) from None
    return parse_yaml(content, shown)


def parse_yaml(content: str, shown: str) -> Node:
    try:
        loader = _Composer(content, shown)
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise MetadataError("bad_yaml", _said(error), place=_place(shown, mark)) from None
    except yaml.YAMLError as error:
        raise MetadataError("bad_yaml", str(error).splitlines()[0], place=shown) from None
    if root is None:
        raise MetadataError("empty", "holds nothing", place=shown)
    return _node(root, shown)


class _Composer(yaml.SafeLoader):
    """SafeLoader's composer with limits."""

    def __init__(self, content: str, shown: str) -> None:
        super().__init__(content)
        self._shown = shown
        self._nodes = 0
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            self._refuse("alias", "holds an anchor or alias (& or *), which is not taken; write it out", event)
        self._nodes += 1
        self._depth += 1
        if self._nodes > MAX_NODES or self._depth > MAX_DEPTH:
            self._refuse("too_big", "holds too many values or is nested too deeply", event)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def _refuse(self, code: str, message: str, event: yaml.Event) -> None:
        raise MetadataError(code, message, place=_place(self._shown, event.start_mark))


def _node(node: yaml.Node, shown: str, key_where: str = "") -> Node:
    where = _place(shown, node.start_mark)
    if isinstance(node, yaml.SequenceNode):
        return Node([_node(item, shown) for item in node.value], where, key_where=key_where)
    if isinstance(node, yaml.MappingNode):
        return Node(_fields(node, shown), where, key_where=key_where)
    return Node(_scalar(node, where), where, node.value, key_where)


def _fields(node: yaml.MappingNode, shown: str) -> dict[str, Node]:
    read: dict[str, Node] = {}
    for key, value in node.value:
        key_where = _place(shown, key.start_mark)
        if not isinstance(key, yaml.ScalarNode):
            raise MetadataError("bad_yaml", "the name of a field must be text", place=key_where)
        if key.value in read:
            raise MetadataError("duplicate_field", "is given twice", key.value, place=key_where)
        read[key.value] = _node(value, shown, key_where)
    return read


def _scalar(node: yaml.ScalarNode, where: str) -> Any:
    """The value by YAML's own idea of its type; numbers only in the plain notation."""
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    if kind == "str":
        if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in node.value):
            raise MetadataError("bad_text", "holds a character that cannot be stored", place=where)
        return node.value
    if kind == "bool":
        return node.value.lower() in _TRUE
    if kind == "null":
        return None
    if kind in ("int", "float"):
        try:
            return int(node.value) if kind == "int" else float(node.value)
        except ValueError:
            return float("nan")  # an octal, sexagesimal or .inf: a number, but none that a field takes
    if kind == "timestamp":
        return _Moment()
    raise MetadataError("bad_yaml", f"the tag {node.tag} is not taken", place=where)


class _Moment:
    """A date or time in YAML's notation; fields that take one read its text."""


def _said(error: yaml.MarkedYAMLError) -> str:
    return "is not YAML: " + ", ".join(part for part in (error.context, error.problem) if part)


def _place(shown: str, mark: yaml.Mark | None) -> str:
    return shown if mark is None else f"{shown}:{mark.line + 1}:{mark.column + 1}"


# libyaml's writer is twenty times as fast. A PyYAML built without it writes what reads the same.
class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):
    """Block style, lists of plain values on one line, longer texts as blocks, no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _list(dumper: _Dumper, items: list) -> yaml.Node:
    simple = all(not isinstance(item, list | dict) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=simple)


def _text(dumper: _Dumper, value: str) -> yaml.Node:
    # Some characters (NEL, line separators) count as line ends to YAML and would be folded: escape them.
    plain = value.replace("\n", "").isprintable()
    style = '"' if not plain else "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(list, _list)
_Dumper.add_representer(str, _text)


def dump_yaml(value: Any) -> str:
    """The same value gives the same text, always."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
