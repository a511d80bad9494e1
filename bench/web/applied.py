"""Applied and observed state of the environment: all but a few datasets match their descriptions."""

from dataclasses import asdict, replace
from random import Random

from architecture.domain.data_contracts import FIRST_VERSION, desired_contract
from architecture.domain.states.flat_states import as_row
from architecture.domain.steps.step import shape_of_spec
from architecture.domain.tables import ObservedTable, TableSpec, tables_of
from architecture.models import AppliedDataset, Environment
from architecture.services.observations import store_observations
from architecture.services.states import sign_applied
from bench.web.described import stored
from bench.web.size import Size
from elevata.audit.services import chain
from metadata.domain.state import DatasetState
from metadata.selectors.dataset_states import dataset_states


def apply(environment: Environment, size: Size) -> tuple[DatasetState, ...]:
    """Write applied states and observations; return the described states of datasets edited since."""
    random = Random(size.seed + 2)
    chain.seal()
    through = chain.sealed_through()
    states = dataset_states()
    tables = [state for state in states if state.layer == "rawcore"]
    chosen = random.sample(tables, min(len(tables), size.pending + size.drifted))
    pending = {state.key for state in chosen[: size.pending]}
    drifted = {state.key for state in chosen[size.pending :]}
    before = [_in_force(_before(state) if state.key in pending else state) for state in states]
    stored(
        sign_applied(
            AppliedDataset(
                environment=environment,
                dataset_key=state.key,
                qualified_name=state.qualified_name,
                state=as_row(state),
                table_versions={table.key: 20 for table in tables_of(state)},
                through=through,
            )
        )
        for state in before
    )
    seen = {table.key: asdict(observed(table)) for state in before for table in tables_of(state)}
    for key in drifted:
        seen[key]["columns"] = seen[key]["columns"][:-4] + seen[key]["columns"][-3:]
    sizes = {key: {"rows": random.randrange(10**7), "bytes": random.randrange(10**10), "files": 40} for key in seen}
    store_observations(environment=environment, asked=seen, tables=seen, sizes=sizes)
    return tuple(state for state in states if state.key in pending)


def _before(state: DatasetState) -> DatasetState:
    """Return a dataset without its last attribute."""
    last = state.attributes[-1]
    return replace(state, columns=tuple(column for column in state.columns if column != last))


def _in_force(state: DatasetState) -> DatasetState:
    """Return a dataset with its contract, if it has one, in force."""
    promise = desired_contract(state)
    return state if promise is None else replace(state, contract=replace(promise, version=FIRST_VERSION))


def observed(table: TableSpec, version: int = 20) -> ObservedTable:
    """Return a table as observed in a warehouse after its creation."""
    shape = shape_of_spec(table)
    return ObservedTable(table.key, shape.qualified_name, shape.columns, version, partition_by=shape.partition_by)
