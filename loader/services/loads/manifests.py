"""Load plans and manifests from metadata: the runner's complete input, read once."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from django.conf import settings

from architecture.domain.tables import event_log_table, history_table, raw_table, rawcore_table
from elevata.audit.services.transactions import snapshot
from loader.contract.manifest.loads import HistoryFiles, LoadManifest, ModelLoad, RawcoreLoad, RawLoad
from loader.contract.manifest.sources import SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.dependencies import LoadStep, is_plain_model
from loader.domain.historization.detection import detecting_inputs, key_list_source
from loader.domain.historization.references import (
    Feeds,
    as_checked,
    fed_stage_inputs,
    foreign_keys,
    referring_rows,
    sources_read,
)
from loader.domain.historization.stage import delivery_checked, entity_key_components, raw_names, row_hash_components
from loader.domain.models import model_load, model_query
from loader.domain.quality.checks import waits_for_checks
from loader.models import DatasetRun, LoadRun
from loader.services.loads.applied_runs import Applied, leading_table, newest_applied
from loader.services.loads.plans import LoadPlan
from loader.services.quality import check_specs, datasets_read
from loader.services.reads.read_permissions import SensitiveNames, sensitive_columns
from loader.services.sources.specs import source_datasets, source_of, source_spec
from metadata.domain.history.history_policy import BATCH_FILES, HistoryPolicy
from metadata.domain.sources.formats import reads_changes
from metadata.domain.sources.raw_keeping import LATEST, mode_of
from metadata.models import TargetDataset
from metadata.selectors.dataset_states import dataset_states


def load_manifest(
    *, run: LoadRun, plan: LoadPlan, rows: Mapping[str, DatasetRun], files: HistoryFiles | None = None
) -> LoadManifest:
    """Return the manifest of one attempt of a run. ``rows`` are its dataset rows by key, with their sequences.

    ``files`` are those of a history batch; the plan then has the one dataset they are for. Raise Refusal RULES_MOVED if
    checks or sources are not those of the plan any more.
    """
    with snapshot():
        refuse_moved_rules(plan)
        return _load_manifest(run, plan, rows, files)


def refuse_moved_rules(plan: LoadPlan) -> None:
    """Raise Refusal RULES_MOVED if rules that decide rows were edited since the plan was made and compared."""
    states = [plan.states[key] for key in sorted(plan.described)]
    described = TargetDataset.objects.filter(name__in={state.name for state in states})
    now = {state.qualified_name: state.load_policy for state in dataset_states(described)}
    for state in states:
        if now.get(state.qualified_name, state.load_policy) != state.load_policy:
            raise Refusal(
                "RULES_MOVED",
                f"rules that decide which rows {state.qualified_name} has were changed while the load was prepared",
                hint="start the load again: it compares them with the rules that were executed last",
            )


def _load_manifest(
    run: LoadRun, plan: LoadPlan, rows: Mapping[str, DatasetRun], files: HistoryFiles | None
) -> LoadManifest:
    if plan.copied is not None and files is not None and files.rows is not None:
        files = replace(files, rows=replace(files.rows, history=history_table(plan.copied)))
    raw = [step for step in plan.steps if step.dataset.layer == "raw"]
    models = [step for step in plan.steps if is_plain_model(step.dataset)]
    rawcore = [step for step in plan.steps if step.dataset.layer != "raw" and step not in models]
    sources = source_datasets(plan.states.values())
    specs = {key: source_spec(source, at=run.load_timestamp) for key, source in sources.items()}
    leading = {step.dataset.key: leading_table(step.dataset) for step in rawcore}
    newest = newest_applied(environment=run.environment, leading=leading, but=run)
    feeds = Feeds.of(plan.states, specs)
    sensitive = sensitive_columns([plan.states[key] for key in plan.read])
    of_run: dict[str, Any] = {"run_id": run.run_id, "load_timestamp": run.load_timestamp.isoformat()}
    checks = check_specs([step.dataset for step in plan.steps], plan.states, environment=run.environment)
    after = waits_for_checks(
        {step.dataset.key: step.depends_on for step in plan.steps},
        {key: datasets_read(specs) for key, specs in checks.items()},
    )

    def with_checks(load: _Load) -> _Load:
        waits: dict[str, Any] = {} if isinstance(load, RawLoad) else {"after": after.get(load.dataset, ())}
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
        policy=dataset.history_choices,
        sequence=rows[dataset.key].sequence or 0,
        newest_applied_at=applied.at.isoformat() if applied else None,
        newest_applied=applied.sequence if applied else None,
        depends_on=step.depends_on,
    )
