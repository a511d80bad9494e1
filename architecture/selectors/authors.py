"""Authors of a report's changes, and the change-log entries that retention keeps for them.

A desired dataset changes with edits of the dataset itself and of related objects: the name of its schema, the name of
a referenced dataset (the foreign key is named after it), references that add ghost rows to it, and the sources that it
reads or was generated from. Users who edited one of these after the dataset's mark are authors. A mark is the sequence
number of a link of the audit chain: links are created in commit order, so an edit that was committed later has a higher
number. An entry without a link counts as later than every mark.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import BigIntegerField, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from architecture.domain import operations as ops
from architecture.domain.operations import METADATA_ONLY, Operation
from architecture.models import AppliedDataset, Environment, ExecutionOperation
from architecture.services.row_signatures import is_proven, proven_marks
from elevata.audit.models import ChainLink, ChangeLogEntry
from metadata.domain.load_policy import GHOST_ROWS
from metadata.domain.state import DatasetState
from metadata.models import DatasetInput, Reference, TargetDataset

# Logged actions on a dataset that do not change its metadata.
NO_METADATA = ("execution", "lease", "maintenance", "report")
# Actions of a service account count as its owner's.
ANSWERS = Coalesce("user__service_account__owner__username", "user__username")

# Sequence number of an entry; entries without a link come last.
_UNSEALED = 2**63 - 1
_LINK = ChainLink.objects.filter(kind="change", subject_id=OuterRef("pk")).values("sequence")[:1]
_SEQUENCE = Coalesce(Subquery(_LINK), Value(_UNSEALED), output_field=BigIntegerField())

# Marks of datasets by stable key; 0 if no edit of the dataset was executed.
Since = Mapping[str, int]


@dataclass(frozen=True)
class Authorship:
    """Change-log entry that changed a desired dataset; ``user`` is empty for the system."""

    entry: int
    sequence: int
    at: datetime
    user: str


def carried_out(environment: Environment, keys: Collection[str]) -> dict[str, int]:
    """Return the marks of these datasets in an environment: edits with a higher number are not executed yet.

    A row that was not written by the product has no mark, so all its editors are authors.
    """
    return dict.fromkeys(keys, 0) | proven_marks(environment=environment, keys=keys)


def since_when(
    environment: Environment, operations: Iterable[Operation], desired: Iterable[DatasetState]
) -> dict[str, int]:
    """Return the marks of the datasets of these operations; later edits make authors.

    A resumed history is compared with its last logic. Therefore all edits of its dataset and upstream count since it
    was switched off, although they were executed in the meantime.
    """
    operations = tuple(operations)
    since = carried_out(environment, {operation.dataset_key for operation in operations})
    resumed = [
        operation
        for operation in operations
        if operation.op == ops.UNRETIRE_TABLE and operation.side == ops.HISTORY and operation.code != METADATA_ONLY
    ]
    if resumed:
        inputs = {state.key: state.inputs for state in desired}
        for operation in resumed:
            mark = _mark_at_retirement(environment, operation.dataset_key)
            for key in _with_upstream(operation.dataset_key, inputs):
                since[key] = min(mark, since.get(key, mark))
    return since


def _mark_at_retirement(environment: Environment, dataset: str) -> int:
    """Return the mark of a dataset when its history was retired; 0 if no proven execution retired it."""
    rows = ExecutionOperation.objects.filter(
        execution__environment=environment, dataset_key=dataset, op=ops.RETIRE_TABLE, status="succeeded"
    )
    for step in rows.order_by("-pk").select_related("execution"):
        planned = step.execution.planned
        if any(
            (row["op"], row["side"], row["dataset_key"]) == (ops.RETIRE_TABLE, ops.HISTORY, dataset)
            for row in planned["rows"]
        ):
            return planned.get("marks", {}).get(dataset, 0) if is_proven(step.execution) else 0
    return 0


def _with_upstream(dataset: str, inputs: Mapping[str, Collection[str]]) -> set[str]:
    keys, waiting = {dataset}, [dataset]
    while waiting:
        for key in inputs.get(waiting.pop(), ()):
            if key in inputs and key not in keys:
                keys.add(key)
                waiting.append(key)
    return keys


def authors(environment: Environment, since: Since) -> frozenset[str]:
    """Return the user names of all authors of the desired state of these datasets."""
    since = _with_new_keys(environment, since)
    renamed = (authorship.user for authorship in (*_of_schemas(since), *_of_parents(since)))
    edited = (user for trail in _trails(environment, since) for user in trail.users())
    return frozenset(user for user in (*renamed, *edited) if user)


def authorships(environment: Environment, since: Since) -> tuple[Authorship, ...]:
    """Return all entries that changed the desired state of these datasets, newest first."""
    since = _with_new_keys(environment, since)
    edits = (authorship for trail in _trails(environment, since) for authorship in trail.authorships())
    by_entry = {authorship.entry: authorship for authorship in (*edits, *_of_schemas(since), *_of_parents(since))}
    return tuple(by_entry[pk] for pk in sorted(by_entry, reverse=True))


def _with_new_keys(environment: Environment, since: Since) -> dict[str, int]:
    """Return the marks, also under the new keys of datasets that were removed and created again with a known name."""
    known = set(map(str, TargetDataset.objects.filter(key__among=since).values_list("key", flat=True)))
    applied = AppliedDataset.objects.filter(environment=environment)
    removed = applied.filter(dataset_key__among=[key for key in since if key not in known])
    names = {name.lower(): str(key) for key, name in removed.values_list("dataset_key", "qualified_name")}
    if not names:
        return dict(since)
    new = TargetDataset.objects.filter(history_of__isnull=True).exclude(key__in=applied.values("dataset_key"))
    pairs = ((str(row.key), names.get(name)) for row in new.select_related("schema") for name in _names(row))
    return {**since, **{key: since[before] for key, before in pairs if before is not None}}


def _names(row: TargetDataset) -> Iterable[str]:
    """Yield the current and former names of a dataset. A former name without a schema is in the current schema."""
    for name in (row.name, *row.former_names):
        yield (name if "." in name else f"{row.schema.name}.{name}").lower()


def _entries(*conditions: Q) -> QuerySet[Any]:
    """Return entries about metadata, oldest first, with the ``sequence`` of their links and their author as ``who``."""
    entries = ChangeLogEntry.objects.exclude(subject_kind__in=NO_METADATA).filter(*conditions).order_by("pk")
    return entries.annotate(who=ANSWERS, sequence=_SEQUENCE)


def _created(keys: Collection[str]) -> dict[str, int]:
    """Return the sequence numbers of the first entries that created these objects, if there are any."""
    first: dict[str, int] = {}
    entries = _entries(Q(subject_key__among=keys, action=ChangeLogEntry.Action.CREATED))
    for key, sequence in entries.values_list("subject_key", "sequence"):
        known = 0 if sequence == _UNSEALED else sequence
        first[key] = min(known, first.get(key, known))
    return first


@dataclass(frozen=True)
class _Trail:
    """Edits of objects after the mark of each key. ``about`` returns the condition for entries about some keys."""

    since: Since
    about: Callable[[Collection[str]], Q]

    def authorships(self) -> Iterator[Authorship]:
        return self._after(self.since)

    def users(self) -> Iterator[str]:
        """Yield the user names. Of datasets without a mark all entries count, so only their distinct names are read."""
        unmarked = [key for key, through in self.since.items() if not through]
        entries = _entries(self.about(unmarked)).order_by()
        yield from (user for user in entries.values_list("who", flat=True).distinct() if user)
        yield from (authorship.user for authorship in self._after({key: at for key, at in self.since.items() if at}))

    def _after(self, since: Since) -> Iterator[Authorship]:
        entries = _entries(self.about(since))
        if since and min(since.values()):
            entries = entries.filter(sequence__gt=min(since.values()))
        rows = entries.values_list("pk", "sequence", "at", "who", "dataset_key", "subject_key")
        for pk, sequence, at, user, dataset, subject in rows:
            if any(key in since and sequence > since[key] for key in (str(dataset), subject)):
                yield Authorship(pk, sequence, at, user or "")


def _trails(environment: Environment, since: Since) -> Iterator[_Trail]:
    yield _of_datasets(since)
    yield from _of_sources(since)
    yield _of_children(environment, since)


def _of_children(environment: Environment, since: Since) -> _Trail:
    """Return the edits of references whose unknown keys become, or became, rows of the datasets."""
    described = Reference.objects.filter(parent__key__among=since).values_list("key", "parent__key")
    applied = AppliedDataset.objects.filter(environment=environment, dataset_key__among=since)
    marks = {str(reference): since[str(parent)] for reference, parent in described}
    for key, policy in applied.values_list("dataset_key", "state__load_policy"):
        former = policy.get(GHOST_ROWS) if isinstance(policy, dict) else None
        for reference in former if isinstance(former, dict) else ():
            _earliest(marks, reference, since[str(key)])
    return _Trail(marks, lambda keys: Q(subject_key__among=keys))


def _of_datasets(since: Since) -> _Trail:
    """Return the edits of the datasets and their histories, with their parts."""
    histories = TargetDataset.objects.filter(history_of__key__among=since).values_list("key", "history_of__key")
    marks = dict(since) | {str(history): since[str(base)] for history, base in histories}
    return _Trail(marks, lambda keys: Q(dataset_key__among=keys) | Q(subject_key__among=keys))


def _of_schemas(since: Since) -> Iterator[Authorship]:
    """Yield the renames of the datasets' schemas. A schema has no stable key, so they are traced back by name."""
    wanted: dict[str, int] = {}
    made = _created([key for key, through in since.items() if not through])
    for key, schema in _datasets(since).values_list("key", "schema__name"):
        mark = since[str(key)] or made.get(str(key), 0)
        wanted[schema] = min(mark, wanted.get(schema, mark))
    if not wanted:
        return
    renames = list(_renames(_entries(Q(subject_kind="schema")).filter(sequence__gt=min(wanted.values()))))
    for schema, mark in wanted.items():
        yield from _renames_back(schema, mark, renames)


def _renames_back(name: str, since: int, renames: "list[_Rename]") -> Iterator[Authorship]:
    """Yield the renames of a schema after a mark, newest first, starting from its current name."""
    unit: datetime | None = None
    for rename in reversed(renames):
        # Two schemas that swap names are renamed in one unit of work, each once.
        if rename.after == name and rename.authorship.at != unit and rename.authorship.sequence > since:
            yield rename.authorship
            name, unit = rename.before, rename.authorship.at


def _of_parents(since: Since) -> Iterator[Authorship]:
    """Yield the renames of referenced datasets, after which foreign keys are named."""
    references = Reference.objects.filter(active=True, child__key__among=since)
    rows = list(references.values_list("key", "child__key", "parent__key"))
    made = _created([str(key) for key, _, _ in rows])
    marks: dict[str, int] = {}
    for key, child, parent in rows:
        mark = max(since[str(child)], made.get(str(key), 0))
        marks[str(parent)] = min(mark, marks.get(str(parent), mark))
    for rename in _renames(_entries(Q(subject_kind="dataset"), Q(subject_key__among=marks))):
        if rename.authorship.sequence > marks[rename.subject]:
            yield rename.authorship


def _of_sources(since: Since) -> tuple[_Trail, _Trail]:
    """Return the edits of the source datasets from which these were generated, or which they read, and of systems."""
    sources: dict[str, int] = {}
    systems: dict[str, int] = {}
    fed = DatasetInput.objects.filter(dataset__key__among=since, source__isnull=False)
    for key, source, system in (
        *_datasets(since).values_list("key", "generated_from__key", "generated_from__system__short_name"),
        *fed.values_list("dataset__key", "source__key", "source__system__short_name"),
    ):
        if source is not None:
            _earliest(sources, str(source), since[str(key)])
            _earliest(systems, system, since[str(key)])
    return (
        _Trail(sources, lambda keys: Q(dataset_key__among=keys)),
        _Trail(systems, lambda keys: Q(subject_kind="system", subject_key__among=keys)),
    )


def _earliest(marks: dict[str, int], key: str, mark: int) -> None:
    marks[key] = min(mark, marks.get(key, mark))


def _datasets(since: Since) -> QuerySet[TargetDataset]:
    return TargetDataset.objects.filter(key__among=since)


@dataclass(frozen=True)
class _Rename:
    subject: str
    before: str
    after: str
    authorship: Authorship


def _renames(entries: QuerySet[Any]) -> Iterator[_Rename]:
    """Yield the renames among the entries, in their order."""
    rows = entries.values_list("pk", "sequence", "at", "who", "subject_key", "changes")
    for pk, sequence, at, user, subject, changes in rows:
        name = json.loads(changes).get("name", {})
        if "before" in name and "after" in name:
            yield _Rename(subject, name["before"], name["after"], Authorship(pk, sequence, at, user or ""))


# Retention keeps these entries, because approvals still depend on them.
def entries_needed() -> set[int]:
    """Return the entries of all edits that are not executed yet in some environment.

    The authors of these edits may not approve them; without the entries they would be unknown.
    """
    described = set(map(str, TargetDataset.objects.filter(history_of__isnull=True).values_list("key", flat=True)))
    needed: set[int] = set()
    for environment in Environment.objects.all():
        applied = AppliedDataset.objects.filter(environment=environment).values_list("dataset_key", flat=True)
        keys = described | set(map(str, applied))
        needed.update(authorship.entry for authorship in authorships(environment, carried_out(environment, keys)))
    return needed
