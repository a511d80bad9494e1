"""Handlers of jobs by kind. The setting ``JOB_HANDLERS`` names lists of them, as ``package.module.NAME``."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from elevata.jobs import states
from elevata.jobs.models import Job

# Lanes of a worker: jobs of the first run one after another, those of the second beside them.
WORK, ASIDE = "work", "aside"


def _nothing(*_: Any) -> None:
    return None


@dataclass(frozen=True)
class Handler:
    """Treatment of the jobs of some kinds.

    ``perform(job_pk, worker=…, runner=…, stopping=…)`` does one job from claim to end, and returns None if it could
    not be claimed. Lower ``priority`` goes first within a lane. ``lost_as`` is the status of a job whose worker died
    and ``lost_hint`` the advice in its error. Callbacks run in the transaction of the change: ``lost(job, error)``,
    ``wake_failed(job, reason)``, ``woken(job)``.
    """

    kinds: tuple[str, ...]
    perform: Callable[..., Any]
    lane: str = WORK
    priority: int = 0
    lost_as: str = states.LOST
    lost_hint: str = ""
    lost: Callable[[Job, dict], None] = _nothing
    wake_failed: Callable[[Job, str], None] = _nothing
    woken: Callable[[Job], None] = _nothing


@cache
def _handlers() -> dict[str, Handler]:
    return {
        kind: handler for name in settings.JOB_HANDLERS for handler in import_string(name) for kind in handler.kinds
    }


def handler_of(kind: str) -> Handler:
    """Return the handler of a kind. Raise KeyError if no setting names one."""
    return _handlers()[kind]


def kinds_in(lane: str) -> list[tuple[int, tuple[str, ...]]]:
    """Return the kinds of a lane by priority, lowest first."""
    by_priority: dict[int, list[str]] = {}
    for kind, handler in _handlers().items():
        if handler.lane == lane:
            by_priority.setdefault(handler.priority, []).append(kind)
    return [(priority, tuple(kinds)) for priority, kinds in sorted(by_priority.items())]
