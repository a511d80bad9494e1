"""Drift as pages show it: compared once, and kept until what was applied or what was seen moves."""

import hashlib

from django.core.cache import cache
from django.db.models import Count, Max

from architecture.models import Environment
from architecture.services.states.drift import Drift, drift_of

_KEPT = 3600  # seconds


def current_drift(environment: Environment) -> Drift:
    """The drift as things are now. Comparing thousands of tables takes a moment."""
    place = _place(environment)
    found = cache.get(place)
    if found is None:
        found = drift_of(environment)
        cache.set(place, found, _KEPT)
    return found


def known_drift(environment: Environment) -> Drift | None:
    """The same where somebody has asked before; None where it would have to be compared first."""
    return cache.get(_place(environment))


def _place(environment: Environment) -> str:
    """Another text once either side moved."""
    applied = environment.applied_datasets.aggregate(count=Count("pk"), newest=Max("updated_at"))
    seen = environment.observations.aggregate(count=Count("pk"), newest=Max("observed_at"))
    moved = repr((environment.pk, *applied.values(), *seen.values()))
    return f"drift-{hashlib.sha256(moved.encode()).hexdigest()}"
