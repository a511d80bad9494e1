"""Manifests of reads and of history checks."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from architecture.domain.tables import TableSpec, current_table, event_log_table, history_table, rawcore_table
from architecture.models import Environment
from architecture.selectors.dataset_states import described_state
from architecture.selectors.environments import environment_named
from architecture.services.environments import current_environment
from elevata.core.errors import MetadataError
from loader.contract.manifest.publication import PublishManifest
from loader.contract.manifest.reads import CheckManifest, Masking, QuerySource, ReadManifest
from loader.contract.manifest.sources import SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.catalogs.catalog import VIEW, view_table
from loader.domain.dependencies import datasets_selected
from loader.domain.historization.history import DELETED
from loader.domain.historization.stage import entity_key_components, row_hash_components
from loader.domain.queries.answers import COMPARE, DESCENDANTS, EXPORT, ORIGIN, rows_kind
from loader.domain.queries.comparison import DATES, ENVIRONMENTS, Comparison
from loader.domain.queries.masking import must_not_tell
from loader.models import ReadRequest
from loader.services.loads.applied_runs import leading_table, newest_applied
from loader.services.publication import PUBLISH, publish_manifest
from loader.services.quality import failing_rows_arguments, quality_arguments
from loader.services.quality_results import stored_profile
from loader.services.reads.exports import export_file
from loader.services.reads.origins import descendants_manifest, origin_manifest
from loader.services.reads.queries import SQL, query_manifest, view_sources
from loader.services.reads.read_permissions import (
    entry_secret,
    environments_of,
    masking_for,
    may_read,
    must_read,
    other_environments,
)
from loader.services.reads.read_requests import (
    CHECK,
    CHECK_SAMPLES,
    CHECK_TIMEOUT_SECONDS,
    LONG,
    PROFILE,
    QUALITY,
    QUARANTINED,
)
from loader.services.reads.trial_checks import trial_manifest
from loader.services.reads.trials import TRY_MODEL
from loader.services.sources.specs import source_datasets, source_of, source_spec
from metadata.domain.history.history_columns import ends_inclusive
from metadata.domain.history.history_policy import TOMBSTONE, HistoryPolicy
from metadata.domain.selection import is_name
from metadata.domain.state import DatasetState
from metadata.models import SourceDataset, TargetDataset
from metadata.selectors.classification import classification
from metadata.selectors.dataset_states import dataset_state, dataset_states
from metadata.selectors.datasets import tags_by_key

# Kinds that read the history if there is one, because they need versions.
_OF_HISTORY = ("key_search", "versions", "as_of", "changes", ORIGIN, COMPARE)
_TIMEOUT_SECONDS, _SQL_TIMEOUT_SECONDS = 60.0, 180.0
# Kinds whose manifests follow from a text with permissions of its own.
_MANIFESTS = {SQL: query_manifest, TRY_MODEL: trial_manifest}


def historized(names: Collection[str] = ()) -> list[TargetDataset]:
    """Return the named datasets (by their own or their history's name), or all historized ones, by name.

    Words that are no names select the historized ones among their datasets. Raise Refusal ``UNKNOWN_DATASET``,
    ``RETIRED`` or ``NO_HISTORY`` for a name without one, ``NOTHING_SELECTED`` for a word.
    """
    states = dataset_states()
    by_key = {state.key: state for state in states}
    chosen = [] if names else [state for state in states if _has_history(state)]
    tags = tags_by_key() if names else {}
    for name in names:
        selected = datasets_selected(by_key, name, tags)
        chosen += [state for state in selected if _has_history(state)]
        if is_name(name) and not _has_history(selected[0]):
            raise Refusal("NO_HISTORY", f"{selected[0].qualified_name} is not historized")
    rows = {str(row.key): row for row in TargetDataset.objects.filter(key__among=[state.key for state in chosen])}
    return [rows[key] for key in dict.fromkeys(state.key for state in chosen)]


def _has_history(state: DatasetState) -> bool:
    return state.active and state.historize and state.materialization == "table" and state.history_key is not None


def check_manifest(*, dataset: TargetDataset, samples: int, timeout_seconds: float) -> CheckManifest:
    """Return the manifest of a check of a dataset's history. Raise Refusal ``NO_HISTORY``."""
    state = described_state(dataset, environment=current_environment())
    if not _has_history(state):
        raise Refusal("NO_HISTORY", f"{state.qualified_name} is not historized")
    leading = {state.key: leading_table(state)}
    applied = newest_applied(environment=current_environment(), leading=leading).get(state.key)
    return CheckManifest(
        name=state.qualified_name,
        history=history_table(state),
        rawcore=rawcore_table(state),
        entity_key=entity_key_components(state),
        row_hash=row_hash_components(state),
        policy=state.history_choices,
        samples=samples,
        timeout_seconds=timeout_seconds,
        newest_applied=applied.sequence if applied else None,
        sensitive=tuple(sorted(classification(dataset).sensitive_names)),
        event_log=event_log_table(state),
    )


def read_manifest(*, read: ReadRequest) -> ReadManifest | CheckManifest | PublishManifest:
    """Return the manifest of a read.

    Raise Refusal MASKED_COLUMN or MetadataError ``not_permitted`` for data that its user may not read.
    """
    for row in (read.dataset, read.arguments.get("source_dataset") and _source_dataset(read)):
        if row:
            must_read(read.requested_by, row)
    if read.kind == CHECK:
        return check_manifest(
            dataset=read.own_dataset,
            samples=read.arguments.get("samples", CHECK_SAMPLES),
            timeout_seconds=CHECK_TIMEOUT_SECONDS,
        )
    if read.kind == PUBLISH:
        return publish_manifest(environment=read.environment, check=read.arguments["check"])
    if read.kind in _MANIFESTS:
        return _MANIFESTS[read.kind](read, timeout_seconds=_SQL_TIMEOUT_SECONDS)
    timeout_seconds = CHECK_TIMEOUT_SECONDS if read.kind in LONG else _TIMEOUT_SECONDS
    arguments = {name: value for name, value in read.arguments.items() if name != "source_dataset"}
    if read.kind == "discover":
        return ReadManifest("discover", source=_source(read), arguments=arguments, timeout_seconds=timeout_seconds)
    return _table_manifest(read, arguments, timeout_seconds=timeout_seconds)


def _table_manifest(read: ReadRequest, arguments: dict[str, Any], *, timeout_seconds: float) -> ReadManifest:
    """Return the manifest of a read of the dataset's table or view."""
    dataset = read.own_dataset
    state = described_state(dataset, environment=read.environment)
    kind = rows_kind(read.kind, arguments)
    table = read_table(dataset, kind, state)
    if kind in ("as_of", "changes", ORIGIN):
        arguments |= _interval_arguments(dataset)
    masking = masking_for(read.requested_by, dataset, table, *environments_of(read))
    if read.kind == QUALITY:
        check = arguments.get("check")
        arguments = quality_arguments(state, environment=read.environment, user=read.requested_by, check=check)
        arguments["sensitive"] = sorted(classification(dataset).sensitive_names)
    if read.kind == QUARANTINED:
        arguments["secret"] = entry_secret()
    if read.kind == PROFILE:
        known = stored_profile(dataset, read.environment, masked=masking is not None)
        arguments = {"known_version": known.table_version} if known is not None else {}
    if masking is not None:
        must_not_tell(read.kind, arguments, table, masking)
    if failing := arguments.get("failing"):
        arguments |= failing_rows_arguments(
            state, table, masking, failing, environment=read.environment, user=read.requested_by
        )
    if read.kind == ORIGIN:
        return origin_manifest(read, state, table, arguments, timeout_seconds=timeout_seconds)
    if read.kind == DESCENDANTS:
        return descendants_manifest(read, state, table, timeout_seconds=timeout_seconds)
    if read.kind in (EXPORT, COMPARE):
        arguments["path"] = str(export_file(read))
    if read.kind == COMPARE:
        return comparison_manifest(read, table, arguments, masking, timeout_seconds=timeout_seconds)
    sources = view_sources(state, user=read.requested_by, environment=read.environment) if table.kind == VIEW else ()
    if read.kind == PROFILE:  # it counts masked values, too, and has none
        sources = tuple(replace(source, masking=None) for source in sources)
    return ReadManifest(
        read.kind, table=table, arguments=arguments, timeout_seconds=timeout_seconds, masking=masking, sources=sources
    )


def must_be_askable(user: Any, dataset: TargetDataset, kind: str, arguments: Mapping[str, Any]) -> None:
    """Raise Refusal for a read that cannot be answered.

    NO_TABLE, NO_HISTORY, NO_KEY, MASKED_COLUMN, and for quality checks NO_CHECK, NO_FAILING_ROWS, CHECK_BROKEN or
    NOT_PERMITTED.
    """
    table = read_table(dataset, rows_kind(kind, arguments))
    if kind == COMPARE:
        _must_have_states(table, Comparison.from_arguments(arguments))
    masking = masking_for(user, dataset, table)
    if masking is not None:
        must_not_tell(kind, arguments, table, masking)
    if arguments.get("failing") or kind == QUALITY:
        _must_be_checked(user, dataset, kind, arguments, table)


def _must_be_checked(
    user: Any, dataset: TargetDataset, kind: str, arguments: Mapping[str, Any], table: TableSpec
) -> None:
    environment = current_environment()
    state = described_state(dataset, environment=environment)
    if kind != QUALITY and rows_kind(kind, arguments) != "sample":
        hint = "Choose the rows of the table as it is."
        raise Refusal("NO_FAILING_ROWS", "checks read the table as it is, not its versions", hint=hint)
    try:
        if kind == QUALITY:
            quality_arguments(state, environment=environment, user=user, check=arguments.get("check"))
        else:
            masking, failing = masking_for(user, dataset, table), arguments["failing"]
            failing_rows_arguments(state, table, masking, failing, environment=environment, user=user)
    except MetadataError as error:
        raise Refusal("NOT_PERMITTED", error.one_line()) from error


def _interval_arguments(dataset: TargetDataset) -> dict[str, Any]:
    """Return the arguments that describe the policy's inclusive ends and tombstones to readers of intervals."""
    policy = HistoryPolicy.from_dict((dataset.history_of or dataset).history_policy)
    arguments: dict[str, Any] = {"inclusive_ends": True} if ends_inclusive(policy) else {}
    return arguments | ({"tombstone": policy.label(DELETED)} if policy.deletes == TOMBSTONE else {})


def read_table(dataset: TargetDataset, kind: str, known: DatasetState | None = None) -> TableSpec:
    """Return the table that a read of a dataset uses, or the view for its rows.

    Raise Refusal NO_TABLE for a view in other reads, NO_HISTORY or NO_KEY.
    ``known`` is the dataset's state with the keys of its tables. Without it, the table's keys are those of the
    metadata.
    """
    state = known or dataset_state(dataset)
    if state.materialization == "view" and kind in ("sample", PROFILE, COMPARE):
        return view_table(state)
    if state.materialization != "table":
        raise Refusal("NO_TABLE", f"{state.qualified_name} is a view, it holds no rows of its own")
    if kind == DESCENDANTS and state.layer != "raw":
        hint = "Choose a row of a raw table."
        raise Refusal("NO_RAW", f"{state.qualified_name} has no delivered rows", hint=hint)
    if kind == ORIGIN and not state.business_key:
        raise Refusal("NO_KEY", f"{state.qualified_name} has no business key by which delivered rows could be found")
    if state.historize and (dataset.history_of_id is not None or kind in _OF_HISTORY):
        return history_table(state)
    if dataset.history_of_id is not None or kind in ("versions", "as_of", "changes"):
        raise Refusal("NO_HISTORY", f"{state.qualified_name} is not historized")
    if kind == "key_search" and not state.business_key:
        raise Refusal("NO_KEY", f"{state.qualified_name} has no business key to search")
    return current_table(state)


def _source(read: ReadRequest) -> SourceSpec:
    key = read.arguments.get("source_dataset")
    if key is not None:
        source = _source_dataset(read)
        if source.format == SourceDataset.Format.TABLE:
            raise Refusal("SOURCE_KIND", f"{source} is a table, whose columns its database describes")
        if source.format == SourceDataset.Format.REST:
            raise Refusal("SOURCE_KIND", f"{source} is an endpoint, whose columns its page compares")
        return source_spec(source)
    state = dataset_state(read.own_dataset)
    return source_of(state, {key: source_spec(row) for key, row in source_datasets([state]).items()})


def _source_dataset(read: ReadRequest) -> SourceDataset:
    sources = SourceDataset.objects.select_related("system").prefetch_related("columns")
    return sources.get(key=read.arguments["source_dataset"])


def checked_comparison(
    user: Any, dataset: TargetDataset, arguments: Mapping[str, Any], *, by_number: bool
) -> dict[str, str]:
    """Return the arguments of a comparison, times in UTC. Raise Refusal BAD_COMPARISON.

    ``by_number``: the dataset's history is dated by numbers.
    """
    environments = other_environments(user, dataset)
    comparison = Comparison.from_arguments(arguments).checked(by_number=by_number, environments=environments)
    return comparison.as_arguments()


def comparison_manifest(
    read: ReadRequest,
    table: TableSpec,
    arguments: dict[str, Any],
    masking: Masking | None,
    *,
    timeout_seconds: float,
) -> ReadManifest:
    """Return the manifest of a comparison; by environments, its source is the table of the other one.

    Raise Refused UNKNOWN_ENVIRONMENT, or MetadataError ``not_permitted`` without the permission in both environments.
    """
    comparison, user, dataset = Comparison.from_arguments(arguments), read.requested_by, read.own_dataset
    sources: tuple[QuerySource, ...] = ()
    other_sources: tuple[QuerySource, ...] = ()
    _must_have_states(table, comparison)
    if dataset.history_of_id is not None and comparison.by != DATES:
        arguments |= {"of_versions": True}
    if comparison.by == ENVIRONMENTS:
        environment = environment_named(comparison.base)
        if user is not None and not may_read(user, dataset, *environments_of(read)):
            message = f"comparing with {environment} needs the permission to read data there"
            raise MetadataError("not_permitted", message, where=str(dataset))
        state = described_state(dataset, environment=environment)
        there = read_table(dataset, COMPARE, state)
        hidden = masking_for(user, dataset, there, *environments_of(read))
        sources, arguments = (QuerySource("", there, masking=hidden),), arguments | {"warehouse": environment.warehouse}
        if VIEW in (table.kind, there.kind):
            here = described_state(dataset, environment=read.environment)
            sources = _sources_of_view(here, user, read.environment, masking)
            other_sources = _sources_of_view(state, user, environment, hidden)
            arguments |= {} if here.select else {"whole_rows": True}
    return ReadManifest(
        COMPARE,
        table=table,
        arguments=arguments,
        timeout_seconds=timeout_seconds,
        masking=masking,
        sources=sources,
        other_sources=other_sources,
    )


def _sources_of_view(
    state: DatasetState, user: Any, environment: Environment, masking: Masking | None
) -> tuple[QuerySource, ...]:
    """Return the sources of a view's rows in an environment. Raise Refusal BAD_COMPARISON for a table."""
    if state.materialization != VIEW:
        hint = "Execute its change report there, or compare the tables that it reads."
        raise Refusal("BAD_COMPARISON", f"{state.qualified_name} is a table in one of the environments", hint=hint)
    *beneath, view = view_sources(state, user=user, environment=environment)
    return (*beneath, replace(view, masking=masking))


def _must_have_states(table: TableSpec, comparison: Comparison) -> None:
    """Raise Refusal BAD_COMPARISON for a comparison of a view with an earlier state of it."""
    if table.kind == VIEW and comparison.by != ENVIRONMENTS:
        hint = "Compare it with another environment, or compare the tables that it reads."
        raise Refusal("BAD_COMPARISON", f"{table.qualified_name} is a view, which has no earlier states", hint=hint)
