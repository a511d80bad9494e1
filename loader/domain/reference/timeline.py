"""Fold of a key's events, in order, into its versions (rules 12 to 16)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from loader.domain.historization.history import CHANGED, DELETED, NEW
from loader.domain.reference.events import Event, KeyLog, Time
from loader.domain.reference.values import canonical
from metadata.domain.history_policy import TOMBSTONE, HistoryPolicy

LIVE = "live"


@dataclass(frozen=True)
class Version:
    """Values of a key over ``[valid_from, valid_to)``; a column that ``values`` does not name is NULL."""

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
    """Rules that make versions of events: the policy, and the columns that are keys.

    ``former`` are the policies that held before, oldest first: an event is compared by that of its era.
    """

    policy: HistoryPolicy
    keys: tuple[str, ...]
    former: tuple[HistoryPolicy, ...] = ()

    @property
    def tombstones(self) -> bool:
        return self.policy.deletes == TOMBSTONE

    @property
    def era(self) -> int:
        """The era of events that come now."""
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
        in_place = [one for one in (*self.former, self.policy) if one.untracked == "update_in_place"]
        return any(
            self.was_tracked(column) and not all(self.is_tracked(column, one) for one in in_place)
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

        A delete stays one, as it does within a batch, so that it does not matter which came first.
        Columns the later batch does not have are kept. With untracked columns that are kept, only a
        row whose tracked columns differ corrects anything. A corrected value keeps the run that
        first brought it: no version is opened.
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
        kept: list[Event] = []
        for version in self.versions(replace(log, events=past)):
            opener = _winner(past, version.valid_from)
            kept.append(opener if opener.is_delete else replace(opener, values=version.values))
            if version.state == DELETED and version.valid_to is not None and not self.tombstones:
                kept.append(_winner(past, version.valid_to))
        return replace(log, events=(*kept, *(e for e in log.events if e.at >= before)))


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
