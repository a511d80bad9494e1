"""Who had a hand in what a report changes, by the change log.

What a dataset is desired to be moves with its own edits, and with those of other things: the name of its
schema, the name of a dataset that it refers to (its foreign key is called so), and the source that it was
generated from. Whoever edited one of these after the dataset was last carried out is an author.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce

from architecture.models import AppliedDataset, Environment
from metadata.models import ChangeLogEntry, DatasetInput, Reference, TargetDataset

# What is logged of a dataset without being a change of its description.
NO_METADATA = ("execution", "lease", "report")
# What a service account did, its owner did.
ANSWERS = Coalesce("user__service_account__owner__username", "user__username")

# When what was carried out last of each dataset had been described, by stable key; None: nothing was yet.
Since = Mapping[str, datetime | None]


@dataclass(frozen=True)
class Hand:
    """One entry of the log that moved what a dataset is to be; ``person`` is empty where the system did it."""

    entry: int
    at: datetime
    person: str


def carried_out(environment: Environment, keys: Collection[str]) -> dict[str, datetime | None]:
    """Since when edits of these datasets wait to be carried out in an environment."""
    found: dict[str, datetime | None] = dict.fromkeys(keys)
    rows = AppliedDataset.objects.filter(environment=environment, dataset_key__among=keys)
    return found | {str(key): at for key, at in rows.values_list("dataset_key", "described_at")}


def authors(environment: Environment, since: Since) -> frozenset[str]:
    """User names of everybody with a hand in what these datasets are to be."""
    since = _under_every_key(environment, since)
    renamed = (hand.person for hand in (*_of_schemas(since), *_of_parents(since)))
    edited = (person for trail in _trails(since) for person in trail.people())
    return frozenset(person for person in (*renamed, *edited) if person)


def hands(environment: Environment, since: Since) -> tuple[Hand, ...]:
    """Every entry behind what these datasets are to be, newest first."""
    since = _under_every_key(environment, since)
    edits = (hand for trail in _trails(since) for hand in trail.hands())
    found = {one.entry: one for one in (*edits, *_of_schemas(since), *_of_parents(since))}
    return tuple(found[pk] for pk in sorted(found, reverse=True))


def _under_every_key(environment: Environment, since: Since) -> dict[str, datetime | None]:
    """The same with the keys that metadata has by now for what it described anew under a name."""
    known = set(map(str, TargetDataset.objects.filter(key__among=since).values_list("key", flat=True)))
    applied = AppliedDataset.objects.filter(environment=environment)
    gone = applied.filter(dataset_key__among=[key for key in since if key not in known])
    names = {name.lower(): str(key) for key, name in gone.values_list("dataset_key", "qualified_name")}
    if not names:
        return dict(since)
    fresh = TargetDataset.objects.filter(history_of__isnull=True).exclude(key__in=applied.values("dataset_key"))
    anew = ((str(row.key), names.get(name)) for row in fresh.select_related("schema") for name in _names(row))
    return {**since, **{key: since[before] for key, before in anew if before is not None}}


def _names(row: TargetDataset) -> Iterable[str]:
    """What a dataset is and was called; a former name without a schema was in the schema of today."""
    for name in (row.name, *row.former_names):
        yield (name if "." in name else f"{row.schema.name}.{name}").lower()


# --- entries -----------------------------------------------------------------------------------


def _entries(*about: Q) -> QuerySet[ChangeLogEntry]:
    return ChangeLogEntry.objects.exclude(subject_kind__in=NO_METADATA).filter(*about).order_by("pk")


@dataclass(frozen=True)
class _Trail:
    """Edits of things, each after the time of its key (None: all of them); ``about`` finds those of some keys."""

    since: Since
    about: Callable[[Collection[str]], Q]

    def hands(self) -> Iterator[Hand]:
        return self._after(self.since)

    def people(self) -> Iterator[str]:
        """Who made them. What was never carried out has all of its log behind it, so only names are read of that."""
        never = [key for key, at in self.since.items() if at is None]
        named = _entries(self.about(never)).order_by().annotate(who=ANSWERS)
        yield from (person for person in named.values_list("who", flat=True).distinct() if person)
        yield from (hand.person for hand in self._after({key: at for key, at in self.since.items() if at is not None}))

    def _after(self, since: Since) -> Iterator[Hand]:
        found = _entries(self.about(since))
        if since and None not in since.values():
            found = found.filter(at__gt=min(since.values()))
        rows = found.annotate(who=ANSWERS).values_list("pk", "at", "who", "dataset_key", "subject_key")
        for pk, at, person, dataset, subject in rows:
            if any(key in since and _is_after(at, since[key]) for key in (str(dataset), subject)):
                yield Hand(pk, at, person or "")


def _trails(since: Since) -> Iterator[_Trail]:
    yield _own(since)
    yield from _of_sources(since)


def _is_after(at: datetime, since: datetime | None) -> bool:
    return since is None or at > since


def _own(since: Since) -> _Trail:
    """Edits of the datasets, of their histories, and of all that belongs to them."""
    histories = TargetDataset.objects.filter(history_of__key__among=since).values_list("key", "history_of__key")
    times = dict(since) | {str(history): since[str(base)] for history, base in histories}
    return _Trail(times, lambda keys: Q(dataset_key__among=keys) | Q(subject_key__among=keys))


def _of_schemas(since: Since) -> Iterator[Hand]:
    """New names of the datasets' schemas. A schema has no stable key: its names are followed back."""
    wanted: dict[str, datetime] = {}
    for key, schema, made in _described(since).values_list("key", "schema__name", "created_at"):
        at = since[str(key)] or made
        wanted[schema] = min(at, wanted.get(schema, at))
    if not wanted:
        return
    renames = list(_renames(_entries(Q(subject_kind="schema"), Q(at__gt=min(wanted.values())))))
    for schema, at in wanted.items():
        yield from _followed_back(schema, at, renames)


def _followed_back(name: str, since: datetime, renames: "list[_Rename]") -> Iterator[Hand]:
    """New names that a schema was given since, found by the name it has now."""
    unit: datetime | None = None
    for rename in reversed(renames):
        # Two that swap names do so in one unit of work: each of them is renamed once there.
        if rename.after == name and rename.hand.at != unit and rename.hand.at > since:
            yield rename.hand
            name, unit = rename.before, rename.hand.at


def _of_parents(since: Since) -> Iterator[Hand]:
    """New names of the datasets that these refer to: the column of a foreign key is called after them."""
    references = Reference.objects.filter(active=True, child__key__among=since)
    times: dict[str, datetime] = {}
    for child, parent, made in references.values_list("child__key", "parent__key", "created_at"):
        at = max(since[str(child)] or made, made)
        times[str(parent)] = min(at, times.get(str(parent), at))
    for rename in _renames(_entries(Q(subject_kind="dataset"), Q(subject_key__among=times))):
        if rename.hand.at > times[rename.subject]:
            yield rename.hand


def _of_sources(since: Since) -> tuple[_Trail, _Trail]:
    """Edits of the source datasets that these were generated from, or read, and of their systems."""
    times: dict[str, datetime | None] = {}
    systems: dict[str, datetime | None] = {}
    fed = DatasetInput.objects.filter(dataset__key__among=since, source__isnull=False)
    for key, source, system in (
        *_described(since).values_list("key", "generated_from__key", "generated_from__system__short_name"),
        *fed.values_list("dataset__key", "source__key", "source__system__short_name"),
    ):
        if source is not None:
            _earliest(times, str(source), since[str(key)])
            _earliest(systems, system, since[str(key)])
    return (
        _Trail(times, lambda keys: Q(dataset_key__among=keys)),
        _Trail(systems, lambda keys: Q(subject_kind="system", subject_key__among=keys)),
    )


def _earliest(times: dict[str, datetime | None], key: str, at: datetime | None) -> None:
    known = times.get(key, at)
    times[key] = None if at is None or known is None else min(at, known)


def _described(since: Since) -> QuerySet[TargetDataset]:
    return TargetDataset.objects.filter(key__among=since)


@dataclass(frozen=True)
class _Rename:
    subject: str
    before: str
    after: str
    hand: Hand


def _renames(found: QuerySet[ChangeLogEntry]) -> Iterator[_Rename]:
    """Those of the entries that gave something another name, oldest first."""
    rows = found.annotate(who=ANSWERS).values_list("pk", "at", "who", "subject_key", "changes")
    for pk, at, person, subject, changes in rows:
        name = json.loads(changes).get("name", {})
        if "before" in name and "after" in name:
            yield _Rename(subject, name["before"], name["after"], Hand(pk, at, person or ""))
