"""Event log of a key, and its fold into versions (rules 12 to 16)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import groupby
from typing import Any

from loader.domain.historization.history import CHANGED, DELETED, NEW
from loader.domain.reference.values import canonical
from metadata.domain.history_policy import TOMBSTONE, HistoryPolicy

# Event log of one key, ordered by time. History is the fold of its events (``timeline``). An event gives the state
# from a time on: a value, or a delete. No-change events are stored like any other, because a late row may later fall
# between them and the event they repeat (rule 11). History depends on the set of events, not on the order of their
# arrival.


Time = datetime | date | int

VALUE, DELETE, ABSENT, RETURN = "value", "delete", "absent", "return"
# Of several events at one time one counts. A delete beats a value (rule 1); so does an absence, because the gap after
# it is never filled; a return at that very time beats both (rule 9).
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
        """Return the newest known time, no-change events and deletes included (rule 10)."""
        return self.events[-1].at if self.events else None

    @property
    def absent_since(self) -> Time | None:
        """Return the time the key was closed by absence, if that is its last event; else None."""
        return self.events[-1].at if self.events and self.events[-1].kind == ABSENT else None

    def counts_from(self, own: Time) -> Time:
        """Return the time from which a row dated ``own`` counts: its own, unless that is before a return it follows.

        Rule 9 dates the returning row by its run. A later row that is not older than that one, but before the run,
        describes the returned key: it takes the return's time, since the gap is never filled.
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


LIVE = "live"


@dataclass(frozen=True)
class Version:
    """Values of a key over ``[valid_from, valid_to)``; a column that is not in ``values`` is NULL."""

    values: Mapping[str, Any]
    valid_from: Time
    valid_to: Time | None
    state: str
    opened_by: str
    closed_by: str | None = None

    @property
    def is_open(self) -> bool:
        return self.valid_to is None

    def closed(self, at: Time, state: str, run_id: str) -> "Version":
        return replace(self, valid_to=at, state=state, closed_by=run_id)


@dataclass(frozen=True)
class Fold:
    """Rules that turn events into versions: the policy, and the key columns.

    ``former`` are the former policies, oldest first: an event is compared by that of its era.
    """

    policy: HistoryPolicy
    keys: tuple[str, ...]
    former: tuple[HistoryPolicy, ...] = ()

    @property
    def tombstones(self) -> bool:
        return self.policy.deletes == TOMBSTONE

    @property
    def era(self) -> int:
        """Return the era of new events."""
        return len(self.former)

    def policy_of(self, event: Event) -> HistoryPolicy:
        return (*self.former, self.policy)[event.era]

    def is_attribute(self, column: str, policy: HistoryPolicy | None = None) -> bool:
        """Return whether a column is compared; keys, the time column (rule 12) and the operation never are."""
        policy = policy or self.policy
        return column not in self.keys and column not in (policy.time_column, policy.op)

    def is_tracked(self, column: str, policy: HistoryPolicy | None = None) -> bool:
        policy = policy or self.policy
        return self.is_attribute(column, policy) and (policy.track is None or column in policy.track)

    def was_tracked(self, column: str) -> bool:
        """Return whether the column opens versions under this policy or a former one."""
        return any(self.is_tracked(column, policy) for policy in (*self.former, self.policy))

    def may_repeat(self, columns: Iterable[str]) -> bool:
        """Return whether neighbours may hold equal values: the value that opened one was later updated in place."""
        in_place = [policy for policy in (*self.former, self.policy) if policy.untracked == "update_in_place"]
        return any(
            self.was_tracked(column) and not all(self.is_tracked(column, policy) for policy in in_place)
            for column in columns
            if self.is_attribute(column)
        )

    def differences(self, event: Event, stored: Mapping[str, Any]) -> tuple[str, ...]:
        """Return an event's columns that differ from ``stored``; columns it lacks are not compared (rule 16)."""
        policy = self.policy_of(event)
        return tuple(
            name
            for name, value in event.values.items()
            if self.is_attribute(name, policy) and canonical(value) != canonical(stored.get(name))
        )

    def versions(self, log: KeyLog) -> tuple[Version, ...]:
        """Return the history of one key."""
        timeline = _Timeline(self)
        for event in _counting(log.events):
            if event.is_delete:
                timeline.delete(event)
            else:
                timeline.put(event)
        return tuple(timeline.versions)

    def is_live(self, log: KeyLog) -> bool:
        versions = self.versions(log)
        return bool(versions) and versions[-1].is_open and not self.is_tombstone(versions[-1])

    def is_tombstone(self, version: Version) -> bool:
        return self.tombstones and version.state == DELETED

    def same(self, one: KeyLog, other: KeyLog) -> bool:
        """Return whether two logs of a key give the same history, whichever runs wrote it."""
        return _visible(self.versions(one)) == _visible(self.versions(other))

    def corrected(self, known: Event, event: Event) -> Event:
        """Return the event of a time after another row of that same time came in a later batch (rule 10).

        A delete stays one, as within a batch, so that the order does not matter. Columns that the later batch does
        not have are retained. If untracked columns are kept, only a row whose tracked columns differ corrects
        anything. A corrected value keeps the run that first delivered it: no version is opened.
        """
        if known.is_delete or event.is_delete:
            return known if known.is_delete else event
        different = self.differences(event, known.values)
        if self.policy.untracked == "keep":
            different = tuple(name for name in different if self.is_tracked(name))
        return replace(known, values={**known.values, **event.values}, era=event.era) if different else known

    def compacted(self, log: KeyLog, before: Time) -> KeyLog:
        """Return the log without no-change events older than ``before`` (rule 11).

        The visible part of that time stays: each version as one value, and each end.
        """
        past = tuple(e for e in log.events if e.at < before)
        openers: list[Event] = []
        for version in self.versions(replace(log, events=past)):
            opener = _winner(past, version.valid_from)
            openers.append(opener if opener.is_delete else replace(opener, values=version.values))
            if version.state == DELETED and version.valid_to is not None and not self.tombstones:
                openers.append(_winner(past, version.valid_to))
        return replace(log, events=(*openers, *(e for e in log.events if e.at >= before)))


def _winner(events: Iterable[Event], at: Time) -> Event:
    return max((e for e in events if e.at == at), key=lambda e: e.order)


def _counting(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events that count: of those at one time, the last in order."""
    for _, of_one_time in groupby(events, key=lambda e: e.at):
        *_, last = of_one_time
        yield last


def _visible(versions: Iterable[Version]) -> list[tuple]:
    return [
        (
            v.valid_from,
            v.valid_to,
            v.state,
            {name: canonical(value) for name, value in v.values.items() if value is not None},
        )
        for v in versions
    ]


@dataclass
class _Timeline:
    """Versions of a key under construction. The key is live if the last one is open and no tombstone."""

    rules: Fold
    versions: list[Version] = field(default_factory=list)

    @property
    def live(self) -> Version | None:
        last = self.versions[-1] if self.versions else None
        return last if last and last.is_open and not self.rules.is_tombstone(last) else None

    def put(self, event: Event) -> None:
        live = self.live
        if live is None:
            if self.versions and self.versions[-1].is_open:
                self.versions[-1] = replace(self.versions[-1], valid_to=event.at, closed_by=event.run_id)
            self._open(event, LIVE if self.rules.tombstones else NEW)
            return
        policy, different = self.rules.policy_of(event), self.rules.differences(event, live.values)
        if any(self.rules.is_tracked(name, policy) for name in different):
            self.versions[-1] = live.closed(event.at, LIVE if self.rules.tombstones else CHANGED, event.run_id)
            self._open(event, LIVE if self.rules.tombstones else CHANGED)
        elif different and policy.untracked == "update_in_place":
            # Rule 13: the version in force at the event's time, which in a fold is the last one.
            self.versions[-1] = replace(live, values={**live.values, **{n: event.values[n] for n in different}})

    def delete(self, event: Event) -> None:
        live = self.live
        if live is None:
            return  # a delete of a key that is not there adds no version (rule 15)
        if not self.rules.tombstones:
            self.versions[-1] = live.closed(event.at, DELETED, event.run_id)
            return
        self.versions[-1] = live.closed(event.at, LIVE, event.run_id)
        self.versions.append(Version(live.values, event.at, None, DELETED, event.run_id))

    def _open(self, event: Event, state: str) -> None:
        self.versions.append(Version(dict(event.values), event.at, None, state, event.run_id))
