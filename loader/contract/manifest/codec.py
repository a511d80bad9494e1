"""Manifests as plain JSON values on the pipe, and back."""

from dataclasses import asdict, fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


def to_json(value: Any) -> Any:
    """Return a manifest as plain JSON values. Raise TypeError for types that JSON does not have."""
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def from_json(kind: type, described: Any) -> Any:
    """Return an instance of the dataclass ``kind`` from its JSON. Raise TypeError for an unknown field."""
    hints = get_type_hints(kind)
    known = {f.name for f in fields(kind)}
    unknown = set(described) - known
    if unknown:
        raise TypeError(f"{kind.__name__} has no field {sorted(unknown)[0]}")
    return kind(**{name: _value(hints[name], value) for name, value in described.items()})


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _value(next(arg for arg in get_args(hint) if arg is not type(None)), value)
    if origin is tuple:
        args = get_args(hint)
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_value(args[0], item) for item in value)
        return tuple(_value(arg, item) for arg, item in zip(args, value, strict=True))
    if isinstance(hint, type) and is_dataclass(hint):
        return from_json(hint, value)
    return value
