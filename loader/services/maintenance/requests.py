"""Common checks and scope of requests for maintenance runs."""

from loader.domain.dependencies import DATASET, Scope, is_loaded
from loader.domain.refusals import Refusal
from loader.services.loads.plans import plan_named
from metadata.domain.state import DatasetState


def loaded_dataset(dataset: str) -> DatasetState:
    """Return a dataset that has a table loaded by runs. Raise Refusal NOT_LOADED."""
    state = plan_named(dataset).steps[0].dataset
    if not is_loaded(state):
        raise Refusal("NOT_LOADED", f"{state.qualified_name} is not loaded by runs: it has no table of its own")
    return state


def scope_of(dataset: str) -> Scope:
    return Scope(DATASET, dataset, target_only=True)


def check_reason(reason: str) -> None:
    if not reason.strip():
        raise Refusal("NO_REASON", "enter a reason: changing a history needs one")
