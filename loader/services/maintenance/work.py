"""Interface of the worker's side of maintenance runs, and their preparation."""

from collections.abc import Callable
from typing import Any, Protocol

from architecture.services.automatic_changes import Pending
from elevata.core.database import retried
from loader.contract.refusals import Refusal
from loader.domain.dependencies import is_loaded
from loader.models import DatasetRun, LoadRun
from loader.runner.conversation import Conversation
from loader.services.loads.attempts import LoadAttempt
from loader.services.loads.plans import LoadPlan, plan_named
from metadata.domain.scope import DATASET, Scope
from metadata.domain.state import DatasetState


class RunWork(Protocol):
    """Interface of ``loader.services.loads.load_work.LoadWork`` that maintenance runs use."""

    @property
    def run(self) -> LoadRun: ...

    attempt: LoadAttempt
    talk: Conversation

    def pending(self, plan: LoadPlan) -> Pending: ...
    def store(self, event: dict[str, Any]) -> None: ...
    def keep_commits(self, finished: dict[str, Any]) -> None: ...
    def must_answer(self, finished: dict[str, Any]) -> str: ...


def prepare(work: RunWork, planned: Callable[[str], LoadPlan]) -> tuple[LoadPlan, dict[str, DatasetRun]]:
    """Return the plan and its rows. Raise Refusal TABLES_DIFFER if changes of the tables are pending."""
    plan = retried(lambda: planned(work.run.scope["name"]))
    rows = work.attempt.prepare(steps=plan.steps, comes_last=True)
    operations = work.pending(plan).operations
    if operations:
        raise Refusal(
            "TABLES_DIFFER",
            f"the tables of {work.run.scope['name']} are not as the metadata describe them: "
            f"{operations[0].describe()} is pending",
            hint="load it first, so that they are",
        )
    return plan, rows


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
