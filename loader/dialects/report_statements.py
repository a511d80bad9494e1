"""Renderer of a report's steps, which the app of reports cannot import."""

from collections.abc import Iterable, Mapping

from architecture.domain.steps.step import Step
from loader.dialects.catalog import DIALECTS
from loader.dialects.loads import NOT_EXECUTED
from loader.dialects.refusals import NOT_RENDERED
from loader.dialects.table_changes import render_steps


def statements_by_operation(
    steps: Iterable[Step], dialect: str, reasons: Mapping[int, str] | None = None
) -> Mapping[int, list[str]]:
    """Return the statements by operation, each with its semicolon.

    An operation of which a step has no statements has none, but the reasons as comments. So has one that has a reason
    of its own (``reasons``).
    """
    rules = DIALECTS[dialect]
    result: dict[int, list[str]] = {}
    refused = {operation: [_comment(reason)] for operation, reason in (reasons or {}).items()}
    for item in render_steps(steps, rules):
        if item.step.operation is None:
            continue
        texts = [f"{statement};" for statement in item.statements]
        if not rules.executed:
            texts = [f"{NOT_EXECUTED}\n{text}" for text in texts]
        result.setdefault(item.step.operation, []).extend(texts)
        if item.refusal is not None:
            refused.setdefault(item.step.operation, []).append(_comment(item.refusal.one_line()))
    return result | refused


def _comment(reason: str) -> str:
    return f"-- {NOT_RENDERED}: {' '.join(reason.split())}"
