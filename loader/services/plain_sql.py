"""Warehouse as SQL files: what the metadata describe, rendered for one dialect."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from django.db.models import Q, QuerySet

from architecture.domain.states.state_files import ArchitectureState, dump_state
from architecture.domain.tables import TableSpec, current_table, history_table, rawcore_table, tables_of
from architecture.models import ChangeReport
from architecture.services.dialects import statements_of_report
from architecture.services.environments import current_environment
from architecture.services.reports import operations_of
from elevata.core.errors import ProductError
from loader.contract.manifest.checks import CheckSpec
from loader.contract.manifest.loads import RawcoreLoad, StageInput
from loader.dialects.catalog import DIALECTS
from loader.dialects.dialect import Dialect
from loader.dialects.refusals import NOT_RENDERED, NotRendered
from loader.dialects.runs import TABLE as RUNS
from loader.dialects.selects import ModelView
from loader.dialects.views import DescribedView, View, views_of
from loader.dialects.warehouse import (
    HASH_VERSION,
    MANIFEST,
    Unrendered,
    Warehouse,
    delivered_table,
    render_objects,
    render_warehouse,
)
from loader.domain.dependencies import referring
from loader.domain.historization.references import foreign_keys
from loader.domain.historization.stage import (
    entity_key_components,
    row_hash_components,
    stage_inputs,
    view_inputs,
)
from loader.selectors.statements import upstream_of
from loader.services.loads.plans import LoadPlan, plan_load
from loader.services.quality import check_specs
from loader.services.sources.specs import source_datasets
from metadata.domain.quality.unknown_parents import GHOST
from metadata.domain.scope import Scope
from metadata.domain.sources.reading_options import options_of
from metadata.domain.state import DatasetState
from metadata.models import Reference, SourceDataset, TargetDataset
from metadata.selectors.dataset_states import dataset_states

_NULL_OPTIONS = ("empty_is_null", "null_string")
_CREATED = ("raw", "rawcore", "history", "model")


def render_sql(dialect: str, scope: Scope, report: ChangeReport | None = None) -> dict[str, str]:
    """Return the files of a scope of the metadata by path, with the statements of a report if there is one.

    Raise Refusal for an unknown scope; Refused for a report that is outdated.
    """
    warehouse = described_warehouse(scope)
    if report is not None:
        statements = statements_of_report(report, dialect)
        pairs = zip(operations_of(report), statements, strict=True)
        warehouse = replace(warehouse, changes=tuple(pairs))
    return render_warehouse(warehouse, DIALECTS[dialect])


@dataclass(frozen=True)
class RenderedObject:
    """Table, view or load of a dataset with its statements, each with its semicolon."""

    kind: str
    name: str
    statements: tuple[str, ...]


@dataclass(frozen=True)
class RenderedDataset:
    """Statements of a dataset in a dialect, and the parts that have none."""

    dialect: Dialect
    objects: tuple[RenderedObject, ...]
    not_rendered: tuple[Unrendered, ...]

    def as_file(self, title: str) -> str:
        """Return all statements as the text of one file."""
        parts = [f"-- {title} in {self.dialect.title}"]
        parts += [f"-- {item.code}: {item.dataset}: {' '.join(item.message.split())}" for item in self.not_rendered]
        lines = "\n".join(parts)
        texts = ["\n".join((f"-- {item.kind} {item.name}", *item.statements)) for item in self.objects]
        return "\n\n".join((lines, *texts)) + "\n"


def dataset_in_dialect(dataset: TargetDataset, dialect_name: str) -> RenderedDataset:
    """Return the statements that create a dataset and its views, and load it.

    The history belongs to its dataset, and the table of applied runs to a dataset with a load.
    """
    base, dialect = dataset.history_of or dataset, DIALECTS[dialect_name]
    states = {state.key: state for state in dataset_states(_datasets_around(base))}
    state = states[str(base.key)]
    tables = [spec.qualified_name for spec in tables_of(state)]
    views = [state.qualified_name, *(view.name for view in views_of(state))]
    own = {*tables, *views}
    rendered = render_objects(_warehouse_of(state, states), dialect)
    load = rendered.loads.get(state.qualified_name)
    tables += [RUNS] if load is not None else []
    objects: list[tuple[str, str, Sequence[str]]] = []
    schemas: set[str] = set()
    for name in (name for name in tables if name in rendered.tables):
        schema = name.partition(".")[0]
        creations = () if schema in schemas else (rendered.schemas[schema],)
        schemas.add(schema)
        objects.append(("table", name, (*creations, rendered.tables[name])))
    objects += [("view", name, rendered.views[name]) for name in views if name in rendered.views]
    objects += [("load", state.qualified_name, load.statements)] if load is not None else []
    return RenderedDataset(
        dialect,
        tuple(RenderedObject(kind, name, tuple(f"{text};" for text in texts)) for kind, name, texts in objects),
        tuple(item for item in rendered.not_rendered if item.dataset in own),
    )


def _warehouse_of(dataset: DatasetState, states: Mapping[str, DatasetState]) -> Warehouse:
    """Return the tables around a dataset, with its own load and views. A retired dataset has neither."""
    if not dataset.active:
        return Warehouse("", (), (), not_rendered=(Unrendered(dataset.qualified_name, NOT_RENDERED, "it is retired"),))
    is_view, options = dataset.materialization == "view", _reading_options(states)
    filled = [] if is_view or dataset.layer == "raw" else [dataset]
    loads, left_out = _loads(filled, states, options)
    views, without_query = _views([dataset] if is_view else [], _history_views(filled, loads), states, options)
    tables = (spec for state in states.values() if state.active for spec in _created_tables(state))
    return Warehouse("", tuple(tables), tuple(loads), tuple(views), (*left_out, *without_query))


def _datasets_around(base: TargetDataset) -> QuerySet[TargetDataset]:
    """Return the dataset, its upstreams, its parents, and the children that add rows to it."""
    parents = Reference.objects.filter(child=base).values("parent")
    children = Reference.objects.filter(parent=base, unknown_parent=GHOST).values("child")
    of_references = Q(pk__in=parents) | Q(pk__in=children)
    return TargetDataset.objects.filter(Q(pk__in=upstream_of(base.pk)) | of_references)


def described_warehouse(scope: Scope) -> Warehouse:
    """Return tables and loads of a scope as the metadata describe them, whatever an environment has."""
    states = dataset_states()
    plan = plan_load(scope, states)
    datasets = [*(step.dataset for step in plan.steps), *plan.left_out]
    options = _reading_options(plan.states)
    loads, left_out = _loads([step.dataset for step in plan.steps if step.dataset.layer != "raw"], plan.states, options)
    over_histories = _history_views([step.dataset for step in plan.steps], loads)
    views, without_query = _views(_described_views(plan), over_histories, plan.states, options)
    of_files = "its history comes as batch files"
    files = [Unrendered(state.qualified_name, NOT_RENDERED, of_files) for state in plan.left_out]
    return Warehouse(
        sha256(dump_state(ArchitectureState(states)).encode()).hexdigest(),
        tuple(spec for state in datasets for spec in _created_tables(state)),
        tuple(loads),
        tuple(sorted(views, key=lambda view: view.name)),
        (*files, *left_out, *without_query),
    )


def _created_tables(state: DatasetState) -> list[TableSpec]:
    return [_created(spec) for spec in tables_of(state) if spec.kind in _CREATED]


def _created(spec: TableSpec) -> TableSpec:
    return delivered_table(spec) if spec.kind == "raw" else spec


def _reading_options(states: Mapping[str, DatasetState]) -> dict[str, dict[str, Any]]:
    """Return the reading options of the sources of raw datasets, by the key of the raw dataset."""
    sources = source_datasets(states.values())
    return {
        state.key: _with_null_rules(sources[key])
        for state in states.values()
        if state.layer == "raw"
        for key in state.inputs
        if key in sources
    }


def _with_null_rules(source: SourceDataset) -> dict[str, Any]:
    """Return the options of a source, with the defaults of its format for texts that stand for NULL."""
    known = options_of(source.format)
    return {name: known[name].default_of(source.format) for name in _NULL_OPTIONS if name in known} | source.options


def _loads(
    filled: Sequence[DatasetState], states: Mapping[str, DatasetState], options: Mapping[str, dict[str, Any]]
) -> tuple[list[RawcoreLoad], list[Unrendered]]:
    """Return the loads that are plain statements, and the datasets with another one."""
    checks = check_specs(filled, states, environment=current_environment())
    loads, left_out = [], []
    for dataset in filled:
        try:
            loads.append(_load(dataset, states, options, checks.get(dataset.key, ())))
        except ProductError as problem:
            left_out.append(Unrendered(dataset.qualified_name, problem.code, problem.one_line()))
    return loads, left_out


def _load(
    dataset: DatasetState,
    states: Mapping[str, DatasetState],
    options: Mapping[str, dict],
    checks: tuple[CheckSpec, ...],
) -> RawcoreLoad:
    """Return the load of a dataset. Raise NotRendered for what is no load of raw rows; Refusal as a load run does."""
    refusals = {
        "a model is computed by its own SELECT": bool(dataset.select),
        "it has rows for unknown parents of other datasets": any(True for _ in referring(dataset, states)),
        f"its hashes have the version {dataset.hash_version}": dataset.hash_version != HASH_VERSION,
    }
    for message, applies in refusals.items():
        if applies:
            raise NotRendered(message, where=dataset.qualified_name)
    inputs = stage_inputs(dataset, states, dict(options))
    if any(stage_input.table.kind != "raw" for stage_input in inputs):
        raise NotRendered("it reads a table that is not raw", where=dataset.qualified_name)
    return RawcoreLoad(
        dataset=dataset.key,
        name=dataset.qualified_name,
        table=rawcore_table(dataset),
        history=history_table(dataset) if dataset.historize else None,
        inputs=tuple(_delivered(stage_input) for stage_input in inputs),
        entity_key=entity_key_components(dataset),
        row_hash=row_hash_components(dataset),
        foreign_keys=foreign_keys(dataset, states),
        policy=dataset.history_choices,
        quality=checks,
    )


def _described_views(plan: LoadPlan) -> list[DatasetState]:
    """Return the views that a plan reads or has, by name."""
    wanted = {key: plan.states[key] for key in plan.described if plan.states[key].materialization == "view"}
    wanted |= {state.key: state for state in plan.views}
    return sorted(wanted.values(), key=lambda state: state.qualified_name)


def _history_views(datasets: Iterable[DatasetState], loads: Iterable[RawcoreLoad]) -> list[View]:
    """Return the views over the histories of these datasets."""
    by_key = {load.dataset: load for load in loads}
    return [view for state in datasets if state.historize for view in views_of(state, by_key.get(state.key))]


def _views(
    described: Iterable[DatasetState],
    over_histories: Iterable[View],
    states: Mapping[str, DatasetState],
    options: Mapping[str, dict[str, Any]],
) -> tuple[list[View], list[Unrendered]]:
    """Return described views and those over histories, and the views without a query."""
    views: list[View] = []
    left_out = []
    for state in described:
        try:
            views.append(_view(state, states, options))
        except ProductError as problem:
            left_out.append(Unrendered(state.qualified_name, problem.code, problem.one_line()))
    return [*views, *over_histories], left_out


def _view(view: DatasetState, states: Mapping[str, DatasetState], options: Mapping[str, dict[str, Any]]) -> View:
    """Return a view. Raise NotRendered for one without inputs; Refusal UNKNOWN_INPUT."""
    if view.select:
        columns = tuple((column.name, column.type) for column in view.active_columns)
        return ModelView(view.qualified_name, view.select, _tables_read(view, states), columns)
    inputs = view_inputs(view, states, options)
    if not inputs:
        raise NotRendered("it has no input", where=view.qualified_name)
    return DescribedView(view.qualified_name, tuple(_delivered(stage_input) for stage_input in inputs))


def _tables_read(model: DatasetState, states: Mapping[str, DatasetState]) -> dict[str, TableSpec]:
    """Return the tables of a model's inputs by the names in its SELECT, in lower case: no raw ones, no views."""
    tables = []
    for upstream in (states[key] for key in model.inputs if key in states):
        if upstream.materialization != "view" and upstream.layer != "raw":
            tables.append(current_table(upstream))
            tables += [history_table(upstream)] if upstream.historize and upstream.history_key else []
    return {table.qualified_name.lower(): table for table in tables}


def _delivered(stage_input: StageInput) -> StageInput:
    """Return the input with its raw table as a caller fills it."""
    return replace(stage_input, table=_created(stage_input.table))


def read_files(folder: Path) -> dict[str, str]:
    """Return the files that a former rendering wrote into a folder, by path; none without its manifest."""
    if not (folder / MANIFEST).is_file():
        return {}
    paths = [MANIFEST, *(str(path.relative_to(folder)) for path in sorted(folder.rglob("*.sql")))]
    return {path: (folder / path).read_bytes().decode("utf-8", "replace") for path in paths}


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a rendering, the manifest last, and delete those left from a former one."""
    for path in read_files(folder).keys() - files.keys():
        (folder / path).unlink()
    for path, text in sorted(files.items(), key=lambda item: item[0] == MANIFEST):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode())
