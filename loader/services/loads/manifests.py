"""Load plans and manifests from metadata: the runner's complete input, read once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from django.conf import settings
from django.db.models import Max, Prefetch, QuerySet
from django.utils import timezone

from architecture.domain.tables import (
    TableSpec,
    event_log_table,
    history_table,
    raw_table,
    rawcore_table,
)
from architecture.models import Environment
from architecture.selectors.environments import described_states, desired_tables, tables_created_at
from architecture.services.states import current_environment
from elevata.core.errors import MetadataError
from loader.domain.dependencies import (
    SELECTION,
    LoadStep,
    Scope,
    is_loaded,
    is_plain_model,
    load_steps,
    named_dataset,
    tables_looked_up,
    tables_read,
    views_read,
)
from loader.domain.historization.detection import detecting_inputs, key_list_source
from loader.domain.historization.layers import entity_key_components, row_hash_components
from loader.domain.historization.references import (
    Feeds,
    as_checked,
    fed_stage_inputs,
    foreign_keys,
    referring_rows,
    sources_read,
)
from loader.domain.historization.stage import delivery_checked, raw_names
from loader.domain.manifest.loads import HistoryFiles, LoadManifest, ModelLoad, RawcoreLoad, RawLoad
from loader.domain.manifest.sources import ApiSpec, ClusterSpec, DatabaseSpec, DeliveredColumn, SourceSpec
from loader.domain.models import model_load, model_query
from loader.domain.quality.order import waits_for_checks
from loader.domain.refusals import Refusal
from loader.domain.run_states import BRINGING
from loader.models import DatasetRun, LoadRun
from loader.services.quality import check_specs, datasets_read
from loader.services.reads.read_permissions import SensitiveNames, sensitive_columns
from metadata.domain.history.history_policy import APPEND, BATCH_FILES, HistoryPolicy
from metadata.domain.sources.clusters import ClusterPlace, parse_cluster
from metadata.domain.sources.formats import FORMATS_OF_KIND, reads_changes
from metadata.domain.sources.locations import (
    DatabasePlace,
    Roots,
    check_secret_name,
    dated,
    joined,
    parse_database,
    parse_location,
)
from metadata.domain.sources.raw_keeping import LATEST, mode_of
from metadata.domain.sources.rest_addresses import check_endpoint, parse_api
from metadata.domain.sources.system_options import check_system_options
from metadata.domain.state import DatasetState
from metadata.models import SourceColumn, SourceDataset, System, TargetDataset


@dataclass(frozen=True)
class LoadPlan:
    """Datasets of a run, in order, read once: later edits of metadata have no effect.

    ``left_out`` are datasets of its scope that history batches feed: only their tables are prepared.
    """

    states: Mapping[str, DatasetState]
    steps: tuple[LoadStep, ...]
    left_out: tuple[DatasetState, ...] = ()

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        """Return the tables this run writes or reads; all of them must match their description before it starts."""
        chosen = sorted((self.states[key] for key in self.read), key=lambda state: (state.qualified_name, state.key))
        return desired_tables(chosen)

    @property
    def read(self) -> frozenset[str]:
        """Return the stable keys of the datasets whose tables this run writes or reads."""
        wanted = {step.dataset.key for step in self.steps} | {state.key for state in self.left_out}
        for dataset in (*(step.dataset for step in self.steps), *self.left_out):
            wanted.update(table.key for table in tables_read(dataset, self.states))
            wanted |= tables_looked_up(dataset, self.states)
        return frozenset(wanted)

    @property
    def described(self) -> frozenset[str]:
        """Return the keys of the datasets that must be applied as described: its tables' and those of views between."""
        keys = {table.dataset_key for table in self.tables}
        return frozenset(keys.union(*(views_read(self.states[key], self.states) for key in keys)))

    @property
    def written(self) -> frozenset[str]:
        """Return the stable keys of the datasets that this run may write to, or whose tables it may prepare."""
        return frozenset({step.dataset.key for step in self.steps} | {state.key for state in self.left_out})


@dataclass(frozen=True)
class Applied:
    """The newest run applied to a dataset: its load timestamp, and its sequence if its table is still the same."""

    at: datetime
    sequence: int | None


def plan_load(scope: Scope, states: Sequence[DatasetState] | None = None) -> LoadPlan:
    """Return the load plan of a scope; ``states`` default to those of the metadata.

    Raise Refusal for an empty scope, words that select nothing, or circular inputs.
    """
    states = described_states(environment=current_environment()) if states is None else states
    tags = _tags() if scope.kind == SELECTION else {}
    return LoadPlan({state.key: state for state in states}, *load_steps(states, scope, tags))


def _tags() -> dict[str, list[str]]:
    """Return the tags of all datasets by stable key."""
    return {str(key): tags for key, tags in TargetDataset.objects.values_list("key", "tags")}


def plan_history_batch(name: str) -> LoadPlan:
    """Return the plan that applies batch files to one dataset. Raise Refusal NOT_BY_BATCH_FILES."""
    plan = plan_one(name)
    (step,) = plan.steps
    if HistoryPolicy.from_dict(step.dataset.history_policy).input != BATCH_FILES:
        raise Refusal(
            "NOT_BY_BATCH_FILES",
            f"{step.dataset.qualified_name} does not take history batches",
            hint="its history policy would have to say input batch_files; manage.py load reads its deliveries",
        )
    return plan


def plan_one(name: str) -> LoadPlan:
    """Return the plan of one dataset by itself, which must have a history. Raise Refusal NO_HISTORY."""
    plan = plan_named(name)
    state = plan.steps[0].dataset
    if not (is_loaded(state) and state.historize and state.history_key):
        raise Refusal("NO_HISTORY", f"{state.qualified_name} is not historized")
    return plan


def plan_revertible(name: str) -> LoadPlan:
    """Return the plan of one dataset by itself, of which runs can be reverted. Raise Refusal NO_HISTORY.

    They are those with a history, with an event log, or to which rows are only appended.
    """
    return _plan_with_rows_of_runs(name, appended=True)


def plan_prunable(name: str) -> LoadPlan:
    """Return the plan of one dataset by itself, with versions or events to prune. Raise Refusal NO_HISTORY."""
    return _plan_with_rows_of_runs(name, appended=False)


def _plan_with_rows_of_runs(name: str, *, appended: bool) -> LoadPlan:
    plan = plan_named(name)
    state = plan.steps[0].dataset
    policy = HistoryPolicy.from_dict(state.history_policy)
    has_rows = policy.keeps_events(historize=state.historize) or (appended and policy.input == APPEND)
    return plan if is_loaded(state) and has_rows else plan_one(name)


def plan_named(name: str) -> LoadPlan:
    """Return the plan of one dataset by itself, of any kind. Raise Refusal for an unknown name."""
    by_key = {state.key: state for state in described_states(environment=current_environment())}
    return LoadPlan(by_key, (LoadStep(named_dataset(by_key, name), ()),))


def load_manifest(
    *, run: LoadRun, plan: LoadPlan, rows: Mapping[str, DatasetRun], files: HistoryFiles | None = None
) -> LoadManifest:
    """Return the manifest of one attempt of a run. ``rows`` are its dataset rows by key, with their sequences.

    ``files`` are those of a history batch; the plan then has the one dataset they are for.
    """
    raw = [step for step in plan.steps if step.dataset.layer == "raw"]
    models = [step for step in plan.steps if is_plain_model(step.dataset)]
    rawcore = [step for step in plan.steps if step.dataset.layer != "raw" and step not in models]
    sources = source_datasets(plan.states.values())
    specs = {key: source_spec(source, at=run.load_timestamp) for key, source in sources.items()}
    leading = {step.dataset.key: leading_table(step.dataset) for step in rawcore}
    newest = newest_applied(environment=run.environment, leading=leading, but=run)
    feeds = Feeds.of(plan.states, specs)
    sensitive = sensitive_columns([plan.states[key] for key in plan.read])
    of_run = {"run_id": run.run_id, "load_timestamp": run.load_timestamp.isoformat()}
    checks = check_specs([step.dataset for step in plan.steps], plan.states, environment=run.environment)
    after = waits_for_checks(
        {step.dataset.key: step.depends_on for step in plan.steps},
        {key: datasets_read(specs) for key, specs in checks.items()},
    )

    def with_checks(load: _Load) -> _Load:
        waits = {} if isinstance(load, RawLoad) else {"after": after.get(load.dataset, ())}
        return replace(_with_sensitive(load, sensitive), quality=checks.get(load.dataset, ()), **waits)

    return LoadManifest(
        **of_run,
        attempt=run.attempt,
        raw=tuple(with_checks(_raw_load(step, specs, feeds)) for step in raw),
        rawcore=tuple(
            replace(
                with_checks(_rawcore_load(step, plan, specs, rows, newest, feeds)),
                files=files,
                query=model_query(step.dataset, plan.states, **of_run) if step.dataset.select else None,
            )
            for step in rawcore
        ),
        models=tuple(
            with_checks(
                model_load(
                    step.dataset,
                    plan.states,
                    **of_run,
                    sequence=rows[step.dataset.key].sequence or 0,
                    full=run.full,
                    depends_on=step.depends_on,
                )
            )
            for step in models
        ),
        allow_empty=run.allow_empty,
        allow_deletes=run.allow_deletes,
        deletes_share=settings.DELETES_SHARE,
        deletes_keys=settings.DELETES_KEYS,
        small_rows=settings.SMALL_TABLE_ROWS,
        full=run.full,
        since=run.since,
        already_done=tuple(
            step.dataset.key for step in plan.steps if rows[step.dataset.key].status == DatasetRun.Status.SUCCEEDED
        ),
    )


def maintenance_load(*, run: LoadRun, plan: LoadPlan, rows: Mapping[str, DatasetRun]) -> RawcoreLoad:
    """Return a plan's one dataset as a load has it, with the number that a maintenance run has in its history."""
    sources = source_datasets(plan.states.values())
    specs = {key: source_spec(source, at=run.load_timestamp) for key, source in sources.items()}
    dataset = plan.steps[0].dataset
    newest = newest_applied(environment=run.environment, leading={dataset.key: leading_table(dataset)}, but=run)
    load = _rawcore_load(plan.steps[0], plan, specs, rows, newest, Feeds.of(plan.states, specs))
    return _with_sensitive(load, sensitive_columns([plan.steps[0].dataset]))


_Load = TypeVar("_Load", RawLoad, RawcoreLoad, ModelLoad)
_Place = TypeVar("_Place", DatabasePlace, ClusterPlace)


def _with_sensitive(load: _Load, sensitive: Mapping[str, SensitiveNames]) -> _Load:
    """Return the load with the names of its sensitive columns; of a raw dataset also as they are delivered."""
    names = set(sensitive.get(load.dataset, SensitiveNames()).names)
    if isinstance(load, RawcoreLoad):
        for child in load.children:
            names |= sensitive.get(child.table.key, SensitiveNames()).names
    if isinstance(load, RawLoad):
        names |= {delivered.lower() for own, delivered in load.columns if own.lower() in names}
    return replace(load, sensitive=tuple(sorted(names)))


def _raw_load(step: LoadStep, specs: Mapping[str, SourceSpec], feeds: Feeds) -> RawLoad:
    dataset = step.dataset
    feeds.refuse_shared_append(dataset)
    source = as_checked(source_of(dataset, specs), dataset.key, feeds)
    delivered = raw_names(dataset, source.columns)
    for column in dataset.active_columns:
        if column.name not in delivered:
            raise Refusal(
                "NO_INPUT",
                f"{dataset.qualified_name}.{column.name} comes from no column of {source.name}",
                hint="give the column an input in the metadata, or retire it",
            )
    if reads_changes(source.format, source.options) and dataset.key not in feeds.read_once:
        raise Refusal(
            "BAD_OPTION",
            f"{dataset.qualified_name}: changes of {source.name} are loaded once, so each dataset that reads them "
            "needs history input cdc",
            hint="Set the history input of these datasets to cdc, or remove the source's option changes.",
        )
    return RawLoad(
        dataset=dataset.key,
        name=dataset.qualified_name,
        table=raw_table(dataset),
        source=source,
        columns=tuple((name, column.name) for name, column in delivered.items()),
        feed=dataset.key in feeds.read_once,
        keeps_all=mode_of(dataset.load_policy) != LATEST,
        depends_on=step.depends_on,
        key_list=key_list_source(source) if dataset.key in feeds.with_key_list else None,
    )


def source_of(raw: DatasetState, specs: Mapping[str, SourceSpec]) -> SourceSpec:
    """Return the one source behind a raw dataset. Raise Refusal NO_SOURCE."""
    sources = [specs[key] for key in raw.inputs if key in specs]
    if len(sources) != 1:
        raise Refusal(
            "NO_SOURCE",
            f"{raw.qualified_name} has {len(sources)} active sources, a raw dataset needs exactly one",
            hint="correct its inputs in the metadata, or retire it",
        )
    return sources[0]


def _rawcore_load(
    step: LoadStep,
    plan: LoadPlan,
    specs: Mapping[str, SourceSpec],
    rows: Mapping[str, DatasetRun],
    newest: Mapping[str, Applied],
    feeds: Feeds,
) -> RawcoreLoad:
    dataset = step.dataset
    applied = newest.get(dataset.key)
    sources = sources_read(dataset, plan.states, specs, feeds)
    by_files = dataset.historize and HistoryPolicy.from_dict(dataset.history_policy).input == BATCH_FILES
    has_stage = not by_files and not dataset.select
    inputs = fed_stage_inputs(dataset, plan.states, sources, feeds) if has_stage else ()
    inputs = detecting_inputs(dataset, inputs, plan.states, sources)
    return RawcoreLoad(
        dataset=dataset.key,
        name=dataset.qualified_name,
        table=rawcore_table(dataset),
        history=history_table(dataset) if dataset.historize else None,
        inputs=inputs,
        delivery_checked=has_stage and delivery_checked(dataset, inputs, plan.states, sources),
        entity_key=entity_key_components(dataset),
        row_hash=row_hash_components(dataset),
        foreign_keys=foreign_keys(dataset, plan.states),
        children=referring_rows(dataset, plan.states, specs, feeds),
        event_log=event_log_table(dataset),
        policy=dict(dataset.history_policy),
        sequence=rows[dataset.key].sequence or 0,
        newest_applied_at=applied.at.isoformat() if applied else None,
        newest_applied=applied.sequence if applied else None,
        depends_on=step.depends_on,
    )


def newest_applied(
    *, environment: Environment, leading: Mapping[str, str], but: LoadRun | None = None
) -> dict[str, Applied]:
    """Return the newest run applied to each dataset, except the run ``but``.

    ``leading`` gives the key of the table that a dataset's runs commit to first, by the dataset's key.
    """
    succeeded = applied_rows().filter(run__environment=environment)
    if but is not None:
        succeeded = succeeded.exclude(run=but)
    created = tables_created_at(environment=environment, keys=leading.values())
    applied: dict[str, Applied] = {}
    rows = succeeded.filter(dataset_key__among=leading).order_by()
    newest = rows.values_list("dataset_key").annotate(
        at=Max("run__load_timestamp"), newest=Max("sequence"), finished=Max("finished_at")
    )
    for key, at, sequence, finished in newest:
        made = created.get(leading[str(key)])
        applied[str(key)] = Applied(at, None if made is not None and made > finished else sequence)
    return applied


def leading_table(dataset: DatasetState) -> str:
    """Return the stable key of the table that a dataset's runs commit to first."""
    return (dataset.history_key if dataset.historize else None) or dataset.key


def applied_rows() -> QuerySet[DatasetRun]:
    """Return the rows of runs that are applied to histories (and rawcore tables), without reverted ones."""
    return DatasetRun.objects.filter(
        run__kind__in=BRINGING,
        status=DatasetRun.Status.SUCCEEDED,
        sequence__isnull=False,
        reverted_by__isnull=True,
    )


def source_datasets(states: Iterable[DatasetState]) -> dict[str, SourceDataset]:
    """Return the active source datasets that these datasets name as inputs, by stable key."""
    wanted = {key for state in states for key in state.inputs}
    known = {state.key for state in states}
    sources = (
        SourceDataset.objects.filter(key__among=wanted - known, active=True, system__active=True)
        .select_related("system")
        .prefetch_related(Prefetch("columns", SourceColumn.objects.filter(active=True).order_by("ordinal", "id")))
    )
    return {str(source.key): source for source in sources}


def source_spec(source: SourceDataset, *, at: datetime | None = None) -> SourceSpec:
    """Return location, format and declared columns of a source's deliveries.

    Raise Refusal SOURCE_KIND for a format that the system's kind does not have, BAD_LOCATION or BAD_OPTION.
    """
    system, options, place = source.system, dict(source.options), {}
    if source.format not in FORMATS_OF_KIND[system.kind]:
        raise Refusal(
            "SOURCE_KIND",
            f"{source} has the format {source.format}, and {system} is {system.get_kind_display()}",
            hint="Sources in a database have the format table, those in a cluster kafka, those of an API rest, and "
            "files another one.",
        )
    location, key_list = source.location.strip(), source.intake.get("key_list", "")
    match system.kind:
        case System.Kind.JDBC:
            place = {"database": DatabaseSpec(database_place(system), system.secret)}
        case System.Kind.KAFKA:
            place = {"cluster": ClusterSpec(cluster_place(system), system.secret)}
        case System.Kind.REST:
            at, undated = at or timezone.now(), (location, str(options.get("parameters", "")))
            location, options = endpoint_at(source.location, options, source=str(source), at=at)
            key_list = key_list and endpoint_at(key_list, {}, source=str(source), at=at)[0]
            place = {"api": api_of(system), "undated": undated}
        case _:
            location = source_location(source, at=at)
            key_list = key_list and place_of(key_list, system.location, shown=str(source), at=at)
    return SourceSpec(
        name=str(source),
        location=location,
        format=source.format,
        columns=tuple(
            DeliveredColumn(
                key=str(column.key),
                name=column.name,
                type=str(column.type),
                nullable=column.nullable,
                business_key=column.key_ordinal is not None,
            )
            for column in source.columns.all()
        ),
        options=options,
        intake=dict(source.intake) | ({"key_list": key_list} if key_list else {}),
        **place,
    )


def api_of(system: System) -> ApiSpec:
    """Return the REST API of a system. Raise Refusal BAD_LOCATION or BAD_OPTION."""
    try:
        check_secret_name(system.secret)
        check_system_options(system.kind, system.options, secret=system.secret)
        return ApiSpec(parse_api(system.location), dict(system.options), system.secret)
    except MetadataError as problem:
        code = "BAD_OPTION" if problem.code == "bad_option" else "BAD_LOCATION"
        raise Refusal(code, f"{system}: {problem.message}", hint="Edit the system and correct it.") from None


def endpoint_at(location: str, options: Mapping[str, Any], *, source: str, at: datetime) -> tuple[str, dict[str, Any]]:
    """Return path and options of an endpoint with the dates filled in. Raise Refusal BAD_LOCATION."""
    filled = dict(options)
    try:
        check_endpoint(location)
        if isinstance(options.get("parameters"), str):
            filled["parameters"] = dated(options["parameters"], at)
        return dated(location.strip(), at), filled
    except MetadataError as problem:
        hint = "Correct the location or the parameters of the source."
        raise Refusal("BAD_LOCATION", f"{source}: {problem.message}", hint=hint) from None


def database_place(system: System) -> DatabasePlace:
    """Return the database of a system. Raise Refusal BAD_LOCATION."""
    return _place(system, parse_database, "database")


def cluster_place(system: System) -> ClusterPlace:
    """Return the Kafka cluster of a system. Raise Refusal BAD_LOCATION."""
    return _place(system, parse_cluster, "cluster")


def _place(system: System, parse: Callable[[str], _Place], what: str) -> _Place:
    try:
        check_secret_name(system.secret)
        return parse(system.location)
    except MetadataError as problem:
        raise Refusal(
            "BAD_LOCATION",
            f"{system}: {problem.message}" if system.location else f"{system} names no {what}",
            hint="Edit the system and correct it.",
        ) from None


def source_location(source: SourceDataset, *, at: datetime | None = None) -> str:
    """Return the dataset's place below its system's; absolute paths and URIs stay as they are.

    ``{{ data_dir }}`` is the data folder in force, dates are those of the time ``at``, by default now; relative paths
    are below the project. Raise Refusal BAD_LOCATION.
    """
    return place_of(source.location, source.system.location, shown=str(source), at=at)


def stands_at(text: str) -> str:
    """Return a place as users write it, made absolute like a source's location. Raise Refusal BAD_LOCATION."""
    return place_of(text, shown=text)


def place_of(own: str, base: str = "", *, shown: str, at: datetime | None = None) -> str:
    """Return the absolute path or URI of a location below another one. Raise Refusal BAD_LOCATION, naming ``shown``."""
    try:
        text = joined(own, base, data_dir=str(settings.DATA_DIR), at=at or timezone.now())
        return str(parse_location(text, folder=str(settings.BASE_DIR)))
    except MetadataError as problem:
        raise Refusal(
            "BAD_LOCATION", f"{shown}: the location {problem.message}", hint="Correct the location."
        ) from None


def source_roots() -> Roots:
    """Return the places below which sources may be: those of the settings, without the product's own folders."""
    closed = [str(settings.DATA_DIR), *([settings.WAREHOUSE] if settings.WAREHOUSE.startswith("/") else [])]
    return Roots.of(settings.SOURCE_ROOTS, closed, folder=str(settings.BASE_DIR))
