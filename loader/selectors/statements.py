"""SELECT statements of datasets, those of their inputs first."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Q
from django.db.models.functions import Coalesce

from elevata.core.errors import ProductError
from loader.domain.historization.displayed_statements import history_sql, layer_sql
from loader.services.sources.specs import source_datasets, source_of, source_spec
from metadata.domain.quality.unknown_parents import GHOST, KEEP
from metadata.domain.state import DatasetState
from metadata.models import DatasetInput, Reference, TargetDataset
from metadata.selectors.dataset_states import dataset_states


def dataset_sql(dataset: TargetDataset) -> str:
    """Return the statement of a dataset, or a comment line with the reason if there is none."""
    by_key = {state.key: state for state in dataset_states()}
    base = dataset.history_of or dataset
    state = by_key[str(base.key)]
    try:
        if dataset.history_of_id is not None:
            return history_sql(state, by_key)
        source = None
        if state.layer == "raw":
            specs = {key: source_spec(source_dataset) for key, source_dataset in source_datasets([state]).items()}
            source = source_of(state, specs)
        return layer_sql(state, by_key, source)
    except ProductError as refusal:
        return f"-- {' '.join(refusal.one_line().split())}"


@dataclass(frozen=True)
class Statement:
    """Statement of one layer; ``problem`` is the reason if there is none."""

    dataset: TargetDataset
    sql: str = ""
    problem: str = ""


def statements(dataset: TargetDataset) -> list[Statement]:
    """Return the statements in the order of the data flow, from the raw datasets to the dataset's history."""
    base = dataset.history_of or dataset
    upstream = upstream_of(base.pk)
    parents = Reference.objects.filter(child=base).exclude(unknown_parent=KEEP).values("parent")
    children = Reference.objects.filter(parent=base, unknown_parent=GHOST).values("child")
    datasets = TargetDataset.objects.filter(Q(pk__in=upstream) | Q(pk__in=parents) | Q(pk__in=children))
    by_key = {state.key: state for state in dataset_states(datasets)}
    rows = {
        str(row.key): row
        for row in TargetDataset.objects.filter(pk__in=upstream).select_related("schema", "history__schema")
    }
    states = [state for state in by_key.values() if state.key in rows]
    result = [_statement(rows[state.key], state, by_key) for state in _upstreams_first(states, by_key)]
    state = by_key[str(base.key)]
    if state.historize and state.history_key:
        result.append(_statement_or_problem(rows[state.key].history, lambda: history_sql(state, by_key)))
    return result


def upstream_of(pk: int) -> set[int]:
    """Return the ids of the dataset and of all its direct and indirect upstreams, with one query for each level."""
    pks, level = {pk}, {pk}
    while level:
        inputs = DatasetInput.objects.filter(dataset__in=level, upstream__isnull=False).order_by()
        level = set(inputs.values_list(Coalesce("upstream__history_of_id", "upstream_id"), flat=True)) - pks
        pks |= level
    return pks


def _upstreams_first(states: Iterable[DatasetState], by_key: dict[str, DatasetState]) -> list[DatasetState]:
    """Return the states in an order in which upstreams come first."""
    ordered: dict[str, DatasetState] = {}

    def visit(state: DatasetState, path: tuple[str, ...]) -> None:
        if state.key in ordered or state.key in path:
            return
        for key in state.inputs:
            if key in by_key:
                visit(by_key[key], (*path, state.key))
        ordered[state.key] = state

    for state in states:
        visit(state, ())
    return list(ordered.values())


def _statement(row: TargetDataset, state: DatasetState, by_key: dict[str, DatasetState]) -> Statement:
    def sql() -> str:
        source = None
        if state.layer == "raw":
            source = source_of(
                state, {key: source_spec(source_dataset) for key, source_dataset in source_datasets([state]).items()}
            )
        return layer_sql(state, by_key, source)

    return _statement_or_problem(row, sql)


def _statement_or_problem(row: TargetDataset, render) -> Statement:
    try:
        return Statement(row, sql=render())
    except ProductError as refusal:
        return Statement(row, problem=refusal.one_line())
