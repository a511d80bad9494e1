"""Statements of a report in an SQL dialect. The app above, which has the dialects, provides the renderer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from architecture.domain.operations import BLOCKED, WIDEN_COLUMN, Operation
from architecture.domain.report import ChangeReport
from architecture.domain.states.file_steps import steps_between
from architecture.domain.states.state_files import ArchitectureState
from architecture.domain.steps.step import Step
from elevata.core.registry import Provided
from metadata.domain.state import DatasetState
from metadata.domain.types import parse, stored_type


class Renderer(Protocol):
    """Renderer of steps. ``titles`` are the dialects' titles by name."""

    @property
    def titles(self) -> Mapping[str, str]: ...

    def type_of(self, text: str, dialect: str) -> str:
        """Return the type of a physical type in the dialect's spelling. Raise TypeProblem."""
        ...

    def statements(self, steps: Iterable[Step], dialect: str, refused: Mapping[int, str]) -> Mapping[int, list[str]]:
        """Return the statements by the ordinal of their operation; a comment stands for a step without any.

        ``refused`` are the reasons why operations have no statements, by ordinal.
        """
        ...


RENDERER: Provided[Renderer] = Provided("statements of SQL dialects")


def statements_of_files(
    previous: ArchitectureState, desired: ArchitectureState, report: ChangeReport, dialect: str
) -> list[list[str]]:
    """Return the statements of each operation of a report on two state files."""
    plan = partial(steps_between, previous, desired)
    return statements_of_operations(report.operations, plan, (*previous.datasets, *desired.datasets), dialect)


def statements_of_operations(
    operations: Sequence[Operation],
    plan: Callable[[Sequence[Operation]], Iterable[Step]],
    datasets: Iterable[DatasetState],
    dialect: str,
) -> list[list[str]]:
    """Return the statements of each operation; a blocked one has none and is not planned.

    ``datasets`` are those of the operations, as they are or as they should be.
    """
    places = [place for place, item in enumerate(operations) if item.decision != BLOCKED]
    planned = [operations[place] for place in places]
    rendered = RENDERER.get().statements(plan(planned), dialect, keys_hashed_otherwise(planned, datasets))
    texts: list[list[str]] = [[] for _ in operations]
    for ordinal, statements in rendered.items():
        texts[places[ordinal]] = statements
    return texts


def keys_hashed_otherwise(operations: Sequence[Operation], datasets: Iterable[DatasetState]) -> dict[int, str]:
    """Return the reasons why operations have no statements that would keep stored keys, by ordinal.

    A business key of a uuid, a time or json that becomes text is stored as before but hashed in another way. Loads of
    the product find its stored keys (``docs/understand/identity_and_hashing.md``), rendered loads do not.
    """
    keys = {(dataset.key, column.key) for dataset in datasets for column in dataset.business_key}
    return {
        ordinal: f"{item.describe()}: rendered loads do not find the stored keys of a {item.from_}"
        for ordinal, item in enumerate(operations)
        if item.op == WIDEN_COLUMN
        and (item.dataset_key, item.column_key) in keys
        and parse(item.from_).name != parse(item.to).name
        and stored_type(parse(item.from_)) == stored_type(parse(item.to))
    }


def with_statements(described: dict[str, Any], statements: Sequence[list[str]]) -> dict[str, Any]:
    """Return a report's JSON with the statements of each operation."""
    pairs = zip(described["operations"], statements, strict=True)
    return described | {"operations": [operation | {"statements": texts} for operation, texts in pairs]}


def as_file(changes: Iterable[tuple[Operation, Sequence[str]]]) -> str:
    """Return the text of a file with the statements of operations, which end with their semicolons."""
    parts = []
    for operation, texts in changes:
        described = f"-- {' '.join(operation.describe().split())}"
        parts.append("".join(f"{line}\n" for line in (described, *(texts or ["-- no statements"]))))
    return "\n".join(parts) or "-- no statements\n"
