"""Options of source datasets and systems: their check, and their table in the documentation.

``reading_options`` has the options of source datasets, ``system_options`` those of systems.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from elevata.core.errors import MetadataError
from metadata.domain.sources.option_kinds import Kind
from metadata.domain.text_formats import VARIABLE


@dataclass(frozen=True)
class Option:
    """Option of the source datasets of some formats, or of the systems of some kinds, which ``formats`` then names.

    ``default_in`` has the formats with another default.
    """

    name: str
    formats: tuple[str, ...]
    kind: Kind
    default: Any
    example: str
    meaning: str
    default_in: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    longest: int = 64
    required: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.name.replace("_", " ").capitalize())

    @property
    def short_meaning(self) -> str:
        """Return the first sentence of the meaning, without its period."""
        return self.meaning.partition(". ")[0]

    def default_of(self, format_name: str) -> Any:
        return self.default_in.get(format_name, self.default)


def select_options(options: Iterable[Option], format_name: str) -> dict[str, Option]:
    """Return the options of a format, or of a kind of systems, by name."""
    return {option.name: option for option in options if format_name in option.formats}


def check_values(options: Iterable[Option], format_name: str, given: Any) -> None:
    """Raise MetadataError ``bad_option`` for unknown options, values of another kind, and missing required options."""
    if not isinstance(given, Mapping):
        raise bad_option("options", f"must be fields with values, not {given!r}")
    known = select_options(options, format_name)
    for name, value in given.items():
        where = f"options.{name}"
        if name not in known:
            message = f"known are {', '.join(known)}" if known else "there are none"
            raise bad_option(where, f"is no option of {format_name}; {message}")
        if isinstance(value, str) and VARIABLE in value:
            raise bad_option(where, f"holds {VARIABLE}, which would stand for a variable of the worker")
        kind = known[name].kind
        if not kind.fits(value):
            raise bad_option(where, f"must be {kind.description}" + ("" if kind.may_be_secret else f", not {value!r}"))
    for name, option in known.items():
        if option.required and name not in given:
            raise bad_option(f"options.{name}", f"is needed: {option.kind.description}")


def bad_option(where: str, message: str) -> MetadataError:
    """Return the error about the option in the field ``where``, like ``options.delimiter``."""
    return MetadataError("bad_option", message, where)
