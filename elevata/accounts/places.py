"""Places for which roles are granted: an environment, a layer, a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from elevata.core.registry import Provided

KINDS = ("environment", "layer", "schema")
# Functions that return the names of environments and of schemas.
ENVIRONMENT_NAMES: Provided[Callable[[], Iterable[str]]] = Provided("ENVIRONMENT_NAMES")
SCHEMA_NAMES: Provided[Callable[[], Iterable[str]]] = Provided("SCHEMA_NAMES")


def known_places(kind: str) -> list[str]:
    """Return the names of the places of a kind."""
    names = {"environment": ENVIRONMENT_NAMES.get, "layer": lambda: lambda: LAYERS, "schema": SCHEMA_NAMES.get}
    return list(names[kind]()())


@dataclass(frozen=True)
class Place:
    """Place of an action: an environment, and the schemas (name, layer) of its objects.

    If both are empty, only global roles cover it.
    """

    environment: str = ""
    schemas: frozenset[tuple[str, str]] = frozenset()


LAYERS = {"raw": "Raw", "stage": "Stage", "rawcore": "Rawcore", "bizcore": "Bizcore", "serving": "Serving"}
