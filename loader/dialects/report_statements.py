"""Renderer of a report's steps, which the app of reports cannot import.

The statements of all operations, one operation after the other, run in the order of the steps where it matters: steps
change types under the names before the report, and swap names by way of another one.
"""

from collections.abc import Iterable, Mapping, Sequence

from architecture.domain.steps import step as ops
from architecture.domain.steps.step import Step
from loader.dialects.catalog import DIALECTS
from loader.dialects.dialect import Dialect
from loader.dialects.loads import NOT_EXECUTED
from loader.dialects.refusals import NOT_RENDERED
from loader.dialects.table_changes import StepStatements, render_steps


def statements_by_operation(
    steps: Iterable[Step], dialect: str, reasons: Mapping[int, str] | None = None
) -> Mapping[int, list[str]]:
    """Return the statements by operation, each with its semicolon.

    An operation of which a step has no statements has none, but the reasons as comments. So has one that has a reason
    of its own (``reasons``). A statement that has to follow one of a later operation is among the statements of that.
    """
    rules = DIALECTS[dialect]
    items = [(item.step.operation, item) for item in render_steps(steps, rules) if item.step.operation is not None]
    result: dict[int, list[str]] = {operation: [] for operation, _ in items}
    refused = {operation: [_comment(NOT_RENDERED, reason)] for operation, reason in (reasons or {}).items()}
    for operation, item in items:
        if item.refusal is not None:
            refused.setdefault(operation, []).append(_comment(NOT_RENDERED, item.refusal.one_line()))
    rendered = [(operation, item) for operation, item in items if operation not in refused]
    places = _places(rendered)
    for (operation, item), place in zip(rendered, places, strict=True):
        texts = [_finished(statement, rules) for statement in item.statements]
        if place != operation and texts:
            subject = item.step.describe()
            result[operation].append(_comment("among the statements of a later operation", subject))
            texts[0] = f"{_comment('of an earlier operation', subject)}\n{texts[0]}"
        result[place] += texts
    checks = [_finished(check, rules) for _, item in rendered for check in item.checks]
    if checks:
        first = min(operation for operation, _ in rendered)
        result[first] = [*checks, *result[first]]
    return result | refused


def _places(items: Sequence[tuple[int, StepStatements]]) -> list[int]:
    """Return the operations among whose statements those of each step are."""
    places: list[int] = []
    of_table: dict[str, list[tuple[int, StepStatements]]] = {}
    of_name: dict[str, int] = {}
    for operation, item in items:
        place = operation
        if item.statements:
            names, earlier = _table_names(item.step), of_table.setdefault(item.step.table.key, [])
            place = max([place, *(other for other, before in earlier if _share_columns(item, before))])
            place = max([place, *(of_name.get(name, place) for name in names)])
            earlier.append((place, item))
            of_name |= dict.fromkeys(names, place)
        places.append(place)
    return places


def _share_columns(item: StepStatements, other: StepStatements) -> bool:
    return item.columns is None or other.columns is None or not item.columns.isdisjoint(other.columns)


def _table_names(step: Step) -> set[str]:
    """Return the names, in lower case, that a step gives to tables or takes from them."""
    if step.op == ops.CREATE_TABLE:
        return {step.table.qualified_name.lower()}
    if step.op == ops.DROP_TABLE and step.assumes is not None:
        return {step.assumes.qualified_name.lower()}
    return {step.from_name.lower(), step.to_name.lower()} if step.op == ops.RENAME_TABLE else set()


def _finished(statement: str, dialect: Dialect) -> str:
    return f"{statement};" if dialect.executed else f"{NOT_EXECUTED}\n{statement};"


def _comment(subject: str, reason: str) -> str:
    return f"-- {subject}: {' '.join(reason.split())}"
