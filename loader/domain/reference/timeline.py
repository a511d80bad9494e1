"""Event log of a key, and its fold into versions (rules 12 to 16)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Protocol

from loader.domain.historization.history import CHANGED, DELETED, NEW
from loader.domain.reference.values import canonical
from metadata.domain.history.history_policy import TOMBSTONE, HistoryPolicy

# The event log of a key is ordered by time, and the key's history is the fold of its events (``Fold.versions``). An
# event sets the values from a time on, or deletes the key. No-change events are stored like any other, because a late
# row may fall between such an event and the one that it repeats (rule 11). History depends on the set of events, not
# on their order of arrival.

VALUE, DELETE, ABSENT, RETURN = "value", "delete", "absent", "return"
# Of several events at one time, the one of the highest rank takes effect. A delete outranks a value (rule 1), as does
# an absence, because the gap after it is never filled. A return at the same time outranks both (rule 9).
_RANK = {VALUE: 0, DELETE: 1, ABSENT: 1, RETURN: 2}


class Time(Protocol):
    """A datetime, a date or a whole number. All times of a table are of one type, so they can be compared."""

    def __lt__(self, other: Any, /) -> bool: ...

    def __le__(self, other: Any, /) -> bool: ...

    def __gt__(self, other: Any, /) -> bool: ...

    def __ge__(self, other: Any, /) -> bool: ...


@dataclass(frozen=True)
class Event:
    """Values of a key from ``at`` on, or its deletion.

    ``own`` is the time in the delivered row, ``at`` the time from which the event takes effect. They differ only for
    a row that rule 9 dates by its run. ``values`` has exactly the attributes of the batch (rule 16). ``era`` is the
    number of policy changes before the event's run; the event is compared by the policy in force then.
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
    def order(self) -> tuple[Time, int, Time]:
        return (self.at, _RANK[self.kind], self.own)


@dataclass(frozen=True)
class Return:
    """Return of an absent key (rule 9): its row has the time ``own`` and takes effect at ``at``, its run's time."""

    own: Time
    at: Time


@dataclass(frozen=True)
class KeyLog:
    """Event log of one key: the key's values, its events in order, and its returns (rule 9)."""

    key: Mapping[str, Any]
    events: tuple[Event, ...] = ()
    returns: tuple[Return, ...] = ()

    @property
    def newest(self) -> Time | None:
        """Return the time of the last event, no-change events and deletes included (rule 10)."""
        return self.events[-1].at if self.events else None

    @property
    def absent_since(self) -> Time | None:
        """Return the time of the last event if it is an absence, else None."""
        return self.events[-1].at if self.events and self.events[-1].kind == ABSENT else None

    def counts_from(self, own: Time) -> Time:
        """Return the time from which a row with the time ``own`` takes effect.

        That is ``own``, with one exception. Rule 9 dates the row of a returning key by its run. A row that is not
        older than the returning one, but older than that run, belongs to the returned key: it takes effect at the
        return, since the gap before is never filled.
        """
        for key_return in reversed(self.returns):
            if key_return.own <= own < key_return.at:
                return key_return.at
        return own

    def is_return(self, at: Time) -> bool:
        """Return True if ``at`` is the time of an absent key's return."""
        return any(key_return.at == at for key_return in self.returns)

    def at_time(self, at: Time, own: Time) -> Event | None:
        """Return the event of a row with the times ``at`` and ``own``, None if there is none."""
        return next((e for e in self.events if e.at == at and e.own == own and e.kind != ABSENT), None)

    def with_event(self, event: Event) -> "KeyLog":
        """Return the log with ``event``, which replaces an event of the same times."""
        others = [e for e in self.events if e.kind == ABSENT or (e.at, e.own) != (event.at, event.own)]
        return replace(self, events=tuple(sorted([*others, event], key=lambda e: e.order)))

    def coming_back(self, own: Time, at: Time) -> "KeyLog":
        """Return the log with a return: a row with the time ``own`` takes effect at ``at`` (rule 9)."""
        return replace(self, returns=(*self.returns, Return(own, at)))

    def absent(self, at: Time, run_id: str) -> "KeyLog":
        """Return the log closed by absence at ``at``, without events and returns from that time on."""
        event = Event(ABSENT, at, at, {}, run_id)
        earlier = tuple(e for e in self.events if e.at < at)
        return replace(self, events=(*earlier, event), returns=tuple(r for r in self.returns if r.at < at))

    def mapped(self, change: Callable[[Mapping[str, Any]], dict[str, Any]], dates: Callable[[Any], Time]) -> "KeyLog":
        """Return the log with all values converted by ``change`` and all times by ``dates``.

        This is needed after columns were renamed or widened.
        """
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
    """Fold of events into versions, by a policy and the key columns.

    ``former`` are the former policies, oldest first; an event is compared by the policy of its era.
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
        """Return True if a column is compared: not keys, the time column (rule 12) or the operation column."""
        policy = policy or self.policy
        return column not in self.keys and column not in policy.uncompared

    def is_tracked(self, column: str, policy: HistoryPolicy | None = None) -> bool:
        policy = policy or self.policy
        return self.is_attribute(column, policy) and (policy.track is None or column in policy.track)

    def was_tracked(self, column: str) -> bool:
        """Return True if the column opens versions under this policy or a former one."""
        return any(self.is_tracked(column, policy) for policy in (*self.former, self.policy))

    def may_repeat(self, columns: Iterable[str]) -> bool:
        """Return True if adjacent versions may be equal, after an update in place of the value that opened one."""
        in_place = [policy for policy in (*self.former, self.policy) if policy.untracked == "update_in_place"]
        return any(
            self.was_tracked(column) and not all(self.is_tracked(column, policy) for policy in in_place)
            for column in columns
            if self.is_attribute(column)
        )

    def differences(self, event: Event, stored: Mapping[str, Any]) -> tuple[str, ...]:
        """Return an event's columns that differ from ``stored``; columns that it lacks are not compared (rule 16)."""
        policy = self.policy_of(event)
        return tuple(
            name
            for name, value in event.values.items()
            if self.is_attribute(name, policy) and canonical(value) != canonical(stored.get(name))
        )

    def versions(self, log: KeyLog) -> tuple[Version, ...]:
        """Return the history of one key."""
        timeline = _Timeline(self)
        for event in _effective_events(log.events):
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

    def same(self, log: KeyLog, other: KeyLog) -> bool:
        """Return True if two logs of a key give the same history; the ids of the runs are not compared."""
        return _comparable(self.versions(log)) == _comparable(self.versions(other))

    def corrected(self, known: Event, event: Event) -> Event:
        """Return the event ``known``, corrected by ``event`` of the same time from a later batch (rule 10).

        A delete outranks a value, as within a batch, so the order of the batches does not matter. Columns that the
        later batch lacks keep their values. If the policy keeps untracked columns, only a row whose tracked columns
        differ is a correction. A corrected event keeps the run that first delivered it, since no version is opened.
        """
        if known.is_delete or event.is_delete:
            return known if known.is_delete else event
        different = self.differences(event, known.values)
        if self.policy.untracked == "keep":
            different = tuple(name for name in different if self.is_tracked(name))
        return replace(known, values={**known.values, **event.values}, era=event.era) if different else known

    def compacted(self, log: KeyLog, before: Time) -> KeyLog:
        """Return the log without no-change events older than ``before`` (rule 11).

        The versions of that time stay the same: one event opens each, and one ends each that was deleted.
        """
        past = tuple(e for e in log.events if e.at < before)
        events: list[Event] = []
        for version in self.versions(replace(log, events=past)):
            opener = _event_at(past, version.valid_from)
            events.append(opener if opener.is_delete else replace(opener, values=version.values))
            if version.state == DELETED and version.valid_to is not None and not self.tombstones:
                events.append(_event_at(past, version.valid_to))
        return replace(log, events=(*events, *(e for e in log.events if e.at >= before)))


def _event_at(events: Iterable[Event], at: Time) -> Event:
    return max((e for e in events if e.at == at), key=lambda e: e.order)


def _effective_events(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events that take effect: of those at one time, the last in order."""
    for _, of_one_time in groupby(events, key=lambda e: e.at):
        *_, last = of_one_time
        yield last


def _comparable(versions: Iterable[Version]) -> list[tuple[Any, ...]]:
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
    """Builder of a key's versions. The key is live if the last version is open and no tombstone."""

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
            # Rule 13 updates the version in force at the event's time; in a fold that is the last version.
            self.versions[-1] = replace(live, values={**live.values, **{n: event.values[n] for n in different}})

    def delete(self, event: Event) -> None:
        live = self.live
        if live is None:
            return  # a delete of a key that is not live adds no version (rule 15)
        if not self.rules.tombstones:
            self.versions[-1] = live.closed(event.at, DELETED, event.run_id)
            return
        self.versions[-1] = live.closed(event.at, LIVE, event.run_id)
        self.versions.append(Version(live.values, event.at, None, DELETED, event.run_id))

    def _open(self, event: Event, state: str) -> None:
        self.versions.append(Version(dict(event.values), event.at, None, state, event.run_id))
