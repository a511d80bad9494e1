"""Queries over published names: permission, masking and audit."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings

from architecture.models import Environment
from architecture.selectors.dataset_states import applied_states
from architecture.services.environments import current_environment
from elevata.accounts.actors import acting_as
from elevata.accounts.permissions import may
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission
from elevata.audit.services.change_log import record_change
from elevata.audit.services.transactions import assign, writing
from elevata.core.errors import MetadataError
from elevata.lists.services import delete_favourites_of
from loader.contract.manifest.reads import Masking, QuerySource, ReadManifest
from loader.contract.refusals import Refusal
from loader.domain.catalogs.catalog import TABLE, Entry, names_of_dataset
from loader.domain.catalogs.table_names import with_other_names
from loader.domain.queries.masked_lineage import masked_results
from loader.domain.queries.masking import masked_names
from loader.domain.queries.select_statements import MOST_ROWS, UNKNOWN, CheckedQuery, check_query, names_read
from loader.models import ReadRequest, SavedQuery
from loader.services.publication import missing_tables, published, published_names
from loader.services.reads.read_permissions import masking_for, may_read, record_sensitive_read
from metadata.domain.select_check import MAX_LENGTH
from metadata.domain.sensitivity import MASK
from metadata.domain.sql import quote_identifier
from metadata.domain.state import DatasetState
from metadata.models import TargetDataset, TargetSchema
from metadata.selectors.classification import classification
from metadata.services.rows.row_changes import remove, store

SQL = "sql"
MOST_COMPLETIONS = 50


@dataclass(frozen=True)
class _Read:
    """Published name that a query reads, for one user. ``dataset`` is None if the table is not described any more.

    A view over a history (``is_derived``) has columns of its own; the columns that it reads are masked.
    """

    entry: Entry
    dataset: TargetDataset | None
    masking: Masking | None

    @property
    def is_derived(self) -> bool:
        return self.entry.kind != TABLE and self.entry.table.qualified_name in self.entry.reads

    @property
    def masked(self) -> tuple[str, ...]:
        """Return names of the columns whose values are masked for the user."""
        return () if self.masking is None else tuple(masked_names(self.entry.table.columns, self.masking))

    @property
    def sensitive(self) -> frozenset[str]:
        """Return names in lower case of the sensitive columns that the user may read."""
        if self.dataset is None or self.masking is not None:
            return frozenset()
        return classification(self.dataset.history_of or self.dataset).sensitive_names


@dataclass(frozen=True)
class PreparedQuery:
    """Checked query with the permissions of its user. ``reads`` are by published name, including those of views."""

    checked: CheckedQuery
    reads: Mapping[str, _Read]

    @property
    def masked(self) -> dict[str, list[str]]:
        """Return the masked columns that the query uses, by published name."""
        used = {
            name: [column for column in self.reads[name].masked if self.checked.uses(column)]
            for name in self.checked.tables
        }
        return {name: columns for name, columns in used.items() if columns}

    @property
    def sensitive(self) -> dict[str, list[str]]:
        """Return the sensitive columns that the query uses unmasked, by published name."""
        by_name: dict[str, list[str]] = {}
        for name in self.checked.tables:
            read = self.reads[name]
            columns = [column.name for column in read.entry.table.columns if column.name.lower() in read.sensitive]
            used = [column for column in columns if self.checked.uses(column)]
            if used:
                by_name[name] = used
        return by_name

    def sources(self) -> tuple[QuerySource, ...]:
        """Return the temporary views, tables before the views that read them."""
        names = dict(self.checked.views)
        for name in self.reads:
            names.setdefault(name, f"__beneath_{len(names)}")
        quoted = {name.lower(): quote_identifier(view) for name, view in names.items()}
        ordered = sorted(self.reads.values(), key=lambda read: read.entry.kind != TABLE)
        return tuple(
            QuerySource(
                names[read.entry.name],
                read.entry.table,
                None if read.entry.query is None else with_other_names(read.entry.query, quoted),
                None if read.is_derived else read.masking,
            )
            for read in ordered
        )

    def masked_results(self) -> frozenset[int] | None:
        columns = {
            name: [column.name for column in self.reads[name].entry.table.columns] for name in self.checked.tables
        }
        return masked_results(self.checked, columns, self.masked)


def prepare(text: str, *, user: Any, environment: Environment) -> PreparedQuery:
    """Return the query prepared for a user. Raise Refusal for an invalid query, MetadataError ``not_permitted``.

    The user needs the permission to read data of every table, including those that views read, here and in the
    environment. Sensitive values of a table are masked without the permission to read them.
    """
    named = names_read(text)
    entries = {entry.name: entry for entry in published(environment=environment, names=named)}
    is_known = named.issubset(name.lower() for name in entries)
    checked = check_query(text, entries, others=() if is_known else published_names(environment=environment))
    wanted = [entries[name] for name in checked.tables]
    beneath = [entries[name] for entry in wanted for name in entry.reads]
    datasets = _datasets([*wanted, *beneath])
    places = tuple(dict.fromkeys((settings.ENVIRONMENT, environment.name)))
    reads = {entry.name: _read(user, entry, datasets.get(entry.name), places) for entry in (*wanted, *beneath)}
    return PreparedQuery(checked, reads)


def _read(user: Any, entry: Entry, dataset: TargetDataset | None, places: tuple[str, ...]) -> _Read:
    if user is not None and not _may_see(user, entry, dataset, *places):
        raise MetadataError("not_permitted", "reading its data needs the permission to read data", entry.name)
    if user is None:
        return _Read(entry, dataset, None)
    if dataset is None:
        # The sensitivity of the columns is not known any more, so all are masked.
        return _Read(entry, None, Masking((), (), (), ""))
    return _Read(entry, dataset, masking_for(user, dataset, entry.table, *places))


def _may_read_schema(user: Any, schema: str, layer: str | None = None, *, places: tuple[str, ...] = ()) -> bool:
    if layer is None:
        layer = TargetSchema.objects.filter(name=schema).values_list("layer", flat=True).first() or ""
    schemas = frozenset({(schema, layer)})
    names = places or (settings.ENVIRONMENT,)
    return all(may(user, Permission.READ_DATA, on=partial(Place, environment=name, schemas=schemas)) for name in names)


def _datasets(entries: Iterable[Entry]) -> dict[str, TargetDataset]:
    """Return the described datasets by entry name, matched by stable key, else by the table's name."""
    by_name = {entry.name: entry for entry in entries}
    rows = TargetDataset.objects.select_related("schema", "history_of__schema").filter(history_of=None)
    by_key = {str(row.key): row for row in rows.filter(key__among=[entry.dataset for entry in by_name.values()])}
    datasets = {name: by_key[entry.dataset] for name, entry in by_name.items() if entry.dataset in by_key}
    unmatched = {name: entry for name, entry in by_name.items() if name not in datasets}
    if unmatched:
        named = {
            str(row): row for row in rows.filter(schema__name__in={entry.parts[0] for entry in unmatched.values()})
        }
        datasets |= {name: named[name] for name in unmatched if name in named}
    return datasets


def must_run(text: str, user: Any) -> PreparedQuery:
    """Return the query prepared for a user in this environment. Raise Refusal for a query that may not run."""
    try:
        return prepare(text, user=user, environment=current_environment())
    except MetadataError as error:
        raise Refusal("NOT_PERMITTED", error.one_line()) from error


def view_sources(state: DatasetState, *, user: Any, environment: Environment) -> tuple[QuerySource, ...]:
    """Return the sources of a published view's rows, the view last.

    Raise Refusal NO_TABLE if it is not published, MetadataError ``not_permitted`` if the user may not read a table
    beneath.
    """
    try:
        name = f"{quote_identifier(state.schema)}.{quote_identifier(state.name)}"
        return prepare(f"SELECT * FROM {name}", user=user, environment=environment).sources()
    except Refusal as refusal:
        if refusal.code != UNKNOWN:
            raise
        raise Refusal(
            "NO_TABLE",
            f"{state.qualified_name} reads a table that does not exist in the warehouse yet",
            hint="A load run creates it.",
        ) from refusal


def query_arguments(text: str, limit: int) -> dict[str, Any]:
    return {"text": text, "limit": max(1, min(limit, MOST_ROWS))}


def query_manifest(read: ReadRequest, *, timeout_seconds: float) -> ReadManifest:
    """Return the manifest of a query with the present permissions of its user."""
    prepared = must_run(read.arguments["text"], read.requested_by)
    arguments = {
        "text": prepared.checked.text,
        "query": prepared.checked.query,
        "replaced": [list(pair) for pair in prepared.checked.replaced],
        "limit": read.arguments["limit"],
    }
    return ReadManifest(SQL, arguments=arguments, timeout_seconds=timeout_seconds, sources=prepared.sources())


def query_answer(read: ReadRequest, answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with a mask for every value that is computed from a masked column.

    If it is unknown which ones are, that is every NULL. ``masked`` are the masked columns of the result, ``hidden``
    those that the query uses, by published name.
    """
    prepared = must_run(read.arguments["text"], read.requested_by)
    places = prepared.masked_results()

    def is_masked(place: int, value: Any) -> bool:
        return value is None if places is None else place in places

    cells = [[is_masked(place, value) for place, value in enumerate(row)] for row in answer["rows"]]
    rows = [
        [MASK if hidden else value for hidden, value in zip(own, row, strict=True)]
        for own, row in zip(cells, answer["rows"], strict=True)
    ]
    shown = places if places is not None else {place for own in cells for place, hidden in enumerate(own) if hidden}
    masked = [name for place, name in enumerate(answer["columns"]) if place in shown]
    return {**answer, "rows": rows, "masked": masked, "hidden": prepared.masked}


def record_query(read: ReadRequest, answer: dict[str, Any]) -> None:
    """Write a change-log entry for each table whose sensitive columns a query used unmasked."""
    prepared = must_run(read.arguments["text"], read.requested_by)
    with acting_as(read.requested_by):
        for name, columns in prepared.sensitive.items():
            dataset = prepared.reads[name].dataset
            record_sensitive_read(
                name=name,
                key=str(dataset.key) if dataset is not None else "",
                kind=SQL,
                columns=columns,
                found_by=[],
                rows=len(answer.get("rows", ())),
                reason=read.reason,
            )


def must_still_see(user: Any, read: ReadRequest) -> None:
    """Raise Refusal NOT_PERMITTED for an answer with values that its user may not read any more."""
    prepared = must_run(read.arguments["text"], user)
    hidden = (read.answer or {}).get("hidden", {})
    shown = [
        f"{name}.{column}"
        for name, columns in prepared.masked.items()
        for column in columns
        if column not in hidden.get(name, ())
    ]
    if shown and read.answer:
        message = f"you may not read {', '.join(shown)} any more"
        raise Refusal("NOT_PERMITTED", message, hint="Run the query again: what you may not read is masked then.")


@dataclass(frozen=True)
class Completion:
    """Published name, or a column of one, that a query can contain; ``label`` has the table of a column."""

    text: str
    label: str


def has_published(user: Any) -> bool:
    """Return True if a table is published whose data a user may read."""
    environment = current_environment()
    missing = missing_tables(environment=environment)
    tables = (state for state in _visible(user, environment) if state.materialization == TABLE)
    return any(state.key not in missing for state in tables)


def tree_of_schemas(user: Any) -> list[str]:
    """Return the names of the schemas with published tables whose data a user may read."""
    environment = current_environment()
    return sorted({state.schema for state in _visible(user, environment)})


def readable_names(user: Any, schema: str = "") -> list[str]:
    """Return the published names, of one schema or of all, whose data a user may read."""
    environment = current_environment()
    missing = missing_tables(environment=environment)
    states = [state for state in _visible(user, environment) if not schema or state.schema == schema]
    entries = {state.qualified_name: state for state in states if state.key not in missing}
    described = _described(entries.values())
    readable = [state for name, state in entries.items() if name not in described or may_read(user, described[name])]
    return sorted({name for state in readable for name in names_of_dataset(state)}, key=str.lower)


def readable_columns(user: Any, names: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
    """Return the columns of published names as name and type, without names whose data a user may not read."""
    chosen = {name.lower() for name in names}
    known = published(environment=current_environment(), names=chosen)
    datasets = _datasets(known)
    return {
        entry.name: [(column.name, column.type) for column in entry.table.columns]
        for entry in known
        if entry.name.lower() in chosen and _may_see(user, entry, datasets.get(entry.name))
    }


def found_completions(user: Any, text: str) -> list[Completion]:
    """Return published names that contain a text, then columns whose name contains it, for one user.

    Tables and columns whose data the user may not read are left out.
    """
    environment, text = current_environment(), text.strip().lower()
    states = _visible(user, environment)
    names = [name for state in states for name in names_of_dataset(state) if text in name.lower()]
    names += [state.qualified_name for state in states if any(text in item.name.lower() for item in state.columns)]
    chosen = list(dict.fromkeys(names))[:MOST_COMPLETIONS]
    columns = readable_columns(user, chosen)
    options = [Completion(name, "") for name in columns if text in name.lower()]
    options += [
        Completion(column, f"{name}, {type_}")
        for name, own in columns.items()
        for column, type_ in own
        if text in column.lower()
    ]
    return options[:MOST_COMPLETIONS]


def _described(states: Iterable[DatasetState]) -> dict[str, TargetDataset]:
    """Return the described datasets of applied states, by the names of the states."""
    by_key = {state.key: state.qualified_name for state in states}
    by_name = set(by_key.values())
    rows = TargetDataset.objects.select_related("schema").filter(history_of=None)
    named = {str(row): row for row in rows if str(row.key) in by_key or str(row) in by_name}
    keyed = {by_key[str(row.key)]: row for row in named.values() if str(row.key) in by_key}
    return named | keyed


def _visible(user: Any, environment: Environment) -> list[DatasetState]:
    """Return the applied datasets in schemas whose data a user may read, by name."""
    states = sorted(applied_states(environment=environment), key=lambda state: state.qualified_name)
    layers = dict(TargetSchema.objects.values_list("name", "layer"))
    names = {state.schema for state in states}
    readable = {name for name in names if _may_read_schema(user, name, layers.get(name, ""))}
    return [state for state in states if state.schema in readable]


def _may_see(user: Any, entry: Entry, dataset: TargetDataset | None, *places: str) -> bool:
    if dataset is None:
        return _may_read_schema(user, entry.parts[0], places=places)
    return may_read(user, dataset, *places)


FIELDS = ("name", "text", "shared")


def save_query(*, owner: Any, name: str, text: str, shared: bool = False) -> SavedQuery:
    """Save a query under a name; the owner's query of that name is replaced. Raise MetadataError."""
    name = name.strip()
    if not name or len(name) > 100:
        raise MetadataError("bad_name", "a query needs a name of up to 100 characters", "name")
    if not text.strip() or len(text) > MAX_LENGTH:
        raise MetadataError("bad_query", f"a query needs a text of up to {MAX_LENGTH} characters", "text")
    with writing():
        saved = SavedQuery.objects.select_for_update().filter(owner=owner, name=name).first()
        before = None if saved is None else logged_values(saved)
        saved = saved or SavedQuery(owner=owner)
        assign(saved, {"name": name, "text": text, "shared": shared}, FIELDS)
        store(saved)
        _log("created" if before is None else "changed", saved, before=before, after=logged_values(saved))
        return saved


def delete_query(*, saved: SavedQuery) -> None:
    """Delete a saved query."""
    with writing():
        _log("deleted", saved, before=logged_values(saved))
        delete_favourites_of(kind="saved_query", keys=[saved.key])
        remove([saved])


def logged_values(saved: SavedQuery) -> dict[str, Any]:
    return {name: getattr(saved, name) for name in FIELDS} | {"owner": saved.owner.get_username()}


def _log(action: str, saved: SavedQuery, **sides: Any) -> None:
    record_change(action=action, subject_kind="query", subject_key=str(saved.key), subject_name=saved.name, **sides)
