"""Event log of one key, ordered by time. History is the fold of its events (``timeline``).

An event defines what holds from a time on: a value, or that the key is deleted. No-change events are
kept like any other, because a late row may later fall between them and what they repeat (rule 11).
The set of events, not the order they came in, decides what the history is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

Time = datetime | date | int

VALUE, DELETE, ABSENT, RETURN = "value", "delete", "absent", "return"
# Of several events at one time one counts. A delete beats a value (rule 1); so does an absence, for
# the gap after it is never filled; a return at that very time beats both (rule 9).
_RANK = {VALUE: 0, DELETE: 1, ABSENT: 1, RETURN: 2}


@dataclass(frozen=True)
class Event:
    """Values of a key from ``at`` on, or its deletion.

    ``own`` is the time its row carried, ``at`` the one it counts from: they differ only for a row
    that rule 9 dates by its run. ``values`` holds exactly the attributes its batch had (rule 16).
    ``era`` is the number of policy changes before its run: it is compared by the policy of that time.
    """

    kind: str
    at: Time
    own: Time
    values: Mapping[str, Any]
    run_id: str
    era: int = 0

    @property
    def is_delete(self) -> bool:
        return self.kind in (DELETE, ABSENT)

    @property
    def order(self) -> tuple:
        return (self.at, _RANK[self.kind], self.own)


@dataclass(frozen=True)
class Return:
    """Return of an absent key (rule 9): its row is dated ``own``, and counts from its run's ``at``."""

    own: Time
    at: Time


@dataclass(frozen=True)
class KeyLog:
    """One key: its values, its events in order, and the rows that rule 9 dated by their run."""

    key: Mapping[str, Any]
    events: tuple[Event, ...] = ()
    returns: tuple[Return, ...] = ()

    @property
    def newest(self) -> Time | None:
        """The newest known time, no-change events and deletes included (rule 10)."""
        return self.events[-1].at if self.events else None

    @property
    def absent_since(self) -> Time | None:
        """The time the key was closed by absence, if that is its last event; else None."""
        return self.events[-1].at if self.events and self.events[-1].kind == ABSENT else None

    def counts_from(self, own: Time) -> Time:
        """Return the time from which a row dated ``own`` counts: its own, unless that lies before a return it follows.

        Rule 9 dates the row that brings a key back by its run. A later row that is no older than
        that one, yet lies before the run, describes the returned key: it takes the return's
        time, since the gap is never filled.
        """
        for came_back in reversed(self.returns):
            if came_back.own <= own < came_back.at:
                return came_back.at
        return own

    def is_return(self, at: Time) -> bool:
        """Return whether ``at`` is the time of an absent key's return."""
        return any(came_back.at == at for came_back in self.returns)

    def at_time(self, at: Time, own: Time) -> Event | None:
        """Return the event of a row that carried this time, if there is one."""
        return next((e for e in self.events if e.at == at and e.own == own and e.kind != ABSENT), None)

    def with_event(self, event: Event) -> "KeyLog":
        """Return the log with ``event``, in the place of one of the same time if there is one."""
        others = [e for e in self.events if e.kind == ABSENT or (e.at, e.own) != (event.at, event.own)]
        return replace(self, events=tuple(sorted([*others, event], key=lambda e: e.order)))

    def coming_back(self, own: Time, at: Time) -> "KeyLog":
        """Return the log in which a row dated ``own`` counts from ``at`` (rule 9)."""
        return replace(self, returns=(*self.returns, Return(own, at)))

    def absent(self, at: Time, run_id: str) -> "KeyLog":
        """Return the log closed by absence at ``at``, without events and returns from that time on."""
        event = Event(ABSENT, at, at, {}, run_id)
        earlier = tuple(e for e in self.events if e.at < at)
        return replace(self, events=(*earlier, event), returns=tuple(r for r in self.returns if r.at < at))

    def mapped(self, change: Callable[[Mapping[str, Any]], dict[str, Any]], dates: Callable[[Any], Time]) -> "KeyLog":
        """Return the log with all values, and all times, converted: columns were renamed or widened."""
        events = tuple(replace(e, values=change(e.values), at=dates(e.at), own=dates(e.own)) for e in self.events)
        return KeyLog(change(self.key), events, tuple(Return(dates(r.own), dates(r.at)) for r in self.returns))
