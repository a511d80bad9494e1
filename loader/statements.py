"""SQL statements that a dataset's page shows: its own, and those of its upstream layers."""

from collections.abc import Iterable
from dataclasses import dataclass

from loader.domain.historization.layers import history_sql, layer_sql
from loader.domain.runs.refusals import Refusal
from loader.services.runs.manifests import source_datasets, source_of, source_spec
from metadata.domain.state import DatasetState
from metadata.models import DatasetInput, TargetDataset
from metadata.selectors import dataset_states


@dataclass(frozen=True)
class Statement:
    """SQL of one layer; ``problem`` is the reason if there is none."""

    dataset: TargetDataset
    sql: str = ""
    problem: str = ""


def statements(dataset: TargetDataset) -> list[Statement]:
    """Return the statements in the order of the data flow: raw datasets first, the dataset's history last."""
    base = dataset.history_of or dataset
    upstream = _upstream_of(base.pk)
    states = dataset_states(TargetDataset.objects.filter(pk__in=upstream))
    by_key = {state.key: state for state in states}
    rows = {
        str(row.key): row
        for row in TargetDataset.objects.filter(pk__in=upstream).select_related("schema", "history__schema")
    }
    found = [_statement(rows[state.key], state, by_key) for state in _in_order(states, by_key)]
    state = by_key[str(base.key)]
    if state.historize and state.history_key:
        found.append(_made(rows[state.key].history, lambda: history_sql(state, by_key)))
    return found


def _upstream_of(pk: int) -> set[int]:
    """Return the ids of the dataset and of all its direct and indirect upstreams, by one query a level."""
    found, level = {pk}, {pk}
    while level:
        inputs = DatasetInput.objects.filter(dataset__in=level, upstream__isnull=False).order_by()
        level = set(inputs.values_list("upstream_id", flat=True)) - found
        found |= level
    return found


def _in_order(states: Iterable[DatasetState], by_key: dict[str, DatasetState]) -> list[DatasetState]:
    """Return the states with every upstream before its readers."""
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
            source = source_of(state, {key: source_spec(one) for key, one in source_datasets([state]).items()})
        return layer_sql(state, by_key, source)

    return _made(row, sql)


def _made(row: TargetDataset, make) -> Statement:
    try:
        return Statement(row, sql=make())
    except Refusal as refusal:
        return Statement(row, problem=refusal.one_line())
