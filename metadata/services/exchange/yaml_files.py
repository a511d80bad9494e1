"""YAML reading into nodes with positions, and YAML writing.

Reading builds nodes from the parser's events and takes no tags but those of YAML's own values, so a file can contain
only values. Anchors and aliases are refused: metadata does not need them, and a few lines of them can expand to
gigabytes.
"""

import re
from pathlib import Path
from typing import Any

import yaml

from elevata.core.errors import MetadataError
from elevata.core.strict_fields import Node

MAX_BYTES = 10 * 1024 * 1024
MAX_NODES = 500_000
MAX_DEPTH = 30

_CORE = "tag:yaml.org,2002:"
_TAGS = {None, "!", *(_CORE + kind for kind in ("str", "bool", "null", "int", "float", "timestamp", "seq", "map"))}
_TRUE = ("true", "yes", "on")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
# PyYAML gives the same results without libyaml, but is many times slower.
_Parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: Path, shown: str) -> Node:
    """Return the only document of a file; ``shown`` is the file's name in errors."""
    return parse_yaml(read_text(path, shown), shown)


def read_text(path: Path, shown: str) -> str:
    """Return the text of a file of metadata; ``shown`` is the file's name in errors."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise MetadataError("too_big", f"is {size} bytes; {MAX_BYTES} are read", place=shown)
        return decoded(path.read_bytes(), shown)
    except OSError as error:
        raise MetadataError("unreadable", f"cannot be read: {error.strerror}", place=shown) from None


def decoded(content: bytes, shown: str) -> str:
    """Return the text of a file's bytes; ``shown`` is the file's name in errors."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MetadataError("wrong_encoding", f"is not UTF-8 at byte {error.start}", place=shown) from None


def parse_yaml(content: str, shown: str) -> Node:
    """Return the only document of a text; ``shown`` is its name in errors."""
    refuse_unstorable(content, shown)
    try:
        return _Reader(content, shown).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise MetadataError("bad_yaml", _message(error), place=_place(shown, mark)) from None
    except yaml.YAMLError as error:
        raise MetadataError("bad_yaml", str(error).splitlines()[0], place=shown) from None


def refuse_unstorable(content: str, shown: str) -> None:
    """Refuse a text with a character that the database cannot store."""
    if (wrong := _UNSTORABLE.search(content)) is not None:
        line, column = content.count("\n", 0, wrong.start()), wrong.start() - content.rfind("\n", 0, wrong.start()) - 1
        raise MetadataError(
            "bad_text", "holds a character that cannot be stored", place=f"{shown}:{line + 1}:{column + 1}"
        )


class _Reader:
    """Reader of parser events that enforces the limits before it builds a node."""

    def __init__(self, content: str, shown: str) -> None:
        self._parser = _Parser(content)
        self._shown = shown
        self._nodes = 0

    def document(self) -> Node:
        """Return the root of the only document."""
        self._next()  # the stream's start
        if isinstance(self._next(), yaml.StreamEndEvent):
            raise MetadataError("empty", "holds nothing", place=self._shown)
        root = self._node(self._next(), 1)
        self._next()  # the document's end
        after = self._next()
        if not isinstance(after, yaml.StreamEndEvent):
            message = "is not YAML: expected a single document in the stream, but found another document"
            raise MetadataError("bad_yaml", message, place=self._where(after))
        return root

    def _next(self) -> yaml.Event:
        return self._parser.get_event()

    def _take(self, event: Any, depth: int) -> None:
        """Count a node; MetadataError for an anchor, an alias, an unknown tag, or an exceeded limit."""
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            self._refuse("alias", "holds an anchor or alias (& or *), which is not taken; write it out", event)
        if event.tag not in _TAGS:
            self._refuse("bad_yaml", f"the tag {event.tag} is not taken", event)
        self._nodes += 1
        if self._nodes > MAX_NODES or depth > MAX_DEPTH:
            self._refuse("too_big", "holds too many values or is nested too deeply", event)

    def _node(self, event: yaml.Event, depth: int, key_where: str = "") -> Node:
        self._take(event, depth)
        where = self._where(event)
        if isinstance(event, yaml.ScalarEvent):
            return Node(self._scalar(event, where), where, event.value, key_where)
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(item := self._next(), yaml.SequenceEndEvent):
                items.append(self._node(item, depth + 1))
            return Node(items, where, key_where=key_where)
        return Node(self._fields(depth), where, key_where=key_where)

    def _fields(self, depth: int) -> dict[str, Node]:
        read: dict[str, Node] = {}
        while not isinstance(key := self._next(), yaml.MappingEndEvent):
            self._take(key, depth + 1)
            key_where = self._where(key)
            if not isinstance(key, yaml.ScalarEvent):
                raise MetadataError("bad_yaml", "the name of a field must be text", place=key_where)
            if key.value in read:
                raise MetadataError("duplicate_field", "is given twice", key.value, place=key_where)
            read[key.value] = self._node(self._next(), depth + 1, key_where)
        return read

    def _scalar(self, event: yaml.ScalarEvent, where: str) -> Any:
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._parser.resolve(yaml.ScalarNode, event.value, event.implicit)
        return _scalar(tag, event.value, where)

    def _refuse(self, code: str, message: str, event: yaml.Event) -> None:
        raise MetadataError(code, message, place=self._where(event))

    def _where(self, event: yaml.Event) -> str:
        return _place(self._shown, event.start_mark)


def _scalar(tag: str, text: str, where: str) -> Any:
    """Return the value of a scalar by its YAML type; numbers in decimal notation only."""
    kind = tag.removeprefix(_CORE)
    if kind == "str":
        if _UNSTORABLE.search(text):
            raise MetadataError("bad_text", "holds a character that cannot be stored", place=where)
        return text
    if kind == "bool":
        return text.lower() in _TRUE
    if kind == "null":
        return None
    if kind in ("int", "float"):
        try:
            return int(text) if kind == "int" else float(text)
        except ValueError:
            return float("nan")  # an octal, sexagesimal or .inf: a number, but none that a field takes
    if kind == "timestamp":
        return _Moment()
    raise MetadataError("bad_yaml", f"the tag {tag} is not taken", place=where)


class _Moment:
    """Marker for a YAML date or time; the field that reads it parses its text."""


def _message(error: yaml.MarkedYAMLError) -> str:
    return "is not YAML: " + ", ".join(part for part in (error.context, error.problem) if part)


def _place(shown: str, mark: Any) -> str:
    return shown if mark is None else f"{shown}:{mark.line + 1}:{mark.column + 1}"


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # PyYAML without libyaml lacks it
    """Dumper: block style, lists of plain values on one line, multi-line texts as blocks, no aliases."""

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
    """Return the value as YAML; equal values give equal texts."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
