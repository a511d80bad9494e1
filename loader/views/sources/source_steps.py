"""Steps of the guided path that adds a source, and their addresses."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from metadata.models import System

STEPS = ("Kind", "System", "Contents", "Columns", "Load type", "Summary", "First rows")


@dataclass(frozen=True)
class Step:
    """Step as the head of a page shows it; ``address`` is empty for the current step and those after it."""

    label: str
    address: str = ""
    is_current: bool = False


def step_address(name: str, system: System, location: str, **parameters: str) -> str:
    """Return the address of a step about one location of a system."""
    return f"{reverse(name, args=[system.short_name])}?{urlencode({'location': location, **parameters})}"


def steps_of(current: str, system: System | None = None, *, kind: str = "", location: str = "") -> list[Step]:
    """Return all steps for the head of the page of ``current``, with the addresses of those before it."""
    addresses = {"Kind": reverse("source_add")}
    if system is not None:
        addresses |= {
            "System": reverse("source_add_system", args=[system.kind]),
            "Contents": reverse("system_discover", args=[system.short_name]),
        }
        if location:
            addresses |= {
                "Columns": step_address("source_import", system, location, draft="1"),
                "Load type": step_address("source_load_type", system, location),
            }
    elif kind:
        addresses["System"] = reverse("source_add_system", args=[kind])
    place = STEPS.index(current)
    return [
        Step(label, addresses.get(label, "") if number < place else "", number == place)
        for number, label in enumerate(STEPS)
    ]
