"""Text of a report for a terminal, and Markdown for a ticket or a pull request."""

from collections import Counter
from collections.abc import Iterable

from architecture.domain import operations as ops
from architecture.domain.operations import Operation, Warning
from architecture.domain.report import ChangeReport

_MARKS = {ops.ALLOWED: "ok", ops.NEEDS_APPROVAL: "approve", ops.BLOCKED: "blocked", ops.METADATA_ONLY: "metadata"}
_STATUS = {"no_changes": "no changes", "open": "open", "blocked": "blocked"}


def as_text(report: ChangeReport) -> str:
    """Return the report as text: status, operations and warnings, one a line, and the fingerprint."""
    lines = [f"{report.scope}: {_status(report)}"]
    width = max((len(_mark(operation)) for operation in report.operations), default=0)
    for operation in report.operations:
        lines.append(f"  {_mark(operation):{width}}  {operation.describe()}")
        if operation.decision in (ops.NEEDS_APPROVAL, ops.BLOCKED):
            lines.append(f"  {'':{width}}  {operation.code}: {operation.message}")
        if operation.consumers:
            lines.append(f"  {'':{width}}  {operation.read_by}")
    lines += [f"  warning  {warning.code} {_about(warning)}: {warning.message}" for warning in report.warnings]
    lines.append(f"fingerprint {report.fingerprint}")
    return "\n".join(lines)


def as_markdown(report: ChangeReport) -> str:
    """Return the report as Markdown: headings and tables. Names and texts of users are escaped."""
    lines = [
        f"# Change report: {_escape(str(report.scope))}",
        "",
        f"**{_status(report)}**",
        "",
        f"Fingerprint `{report.fingerprint}`",
    ]
    if report.operations:
        lines += ["", "## Operations", "", "| decision | operation | dataset | change | why |", "|---|---|---|---|---|"]
        lines += [_row(operation) for operation in report.operations]
    if report.warnings:
        lines += ["", "## Warnings", "", "| code | about | what to do |", "|---|---|---|"]
        lines += [_cells(warning.code, _about(warning), warning.message) for warning in report.warnings]
    return "\n".join(lines)


def _status(report: ChangeReport) -> str:
    counts = Counter(operation.decision for operation in report.operations)
    parts = [
        f"{counts[decision]} {decision.replace('_', ' ')}" for decision in reversed(ops.DECISIONS) if counts[decision]
    ]
    destructive = ["destructive"] if report.destructive else []
    return ", ".join([_STATUS[report.status], *destructive, *parts])


def _mark(operation: Operation) -> str:
    return _MARKS[operation.decision] + ("!" if operation.destructive else "")


def _about(warning: Warning) -> str:
    return f"{warning.dataset}.{warning.column}" if warning.column else warning.dataset


def _row(operation: Operation) -> str:
    decision = operation.decision.replace("_", " ") + (", destructive" if operation.destructive else "")
    why = "; ".join(filter(None, (f"{operation.code}: {operation.message}", operation.read_by)))
    return _cells(decision, operation.op, operation.dataset, _change(operation), why)


def _change(operation: Operation) -> str:
    if operation.op in ops.NAMING:
        return operation.renaming
    if operation.from_ and operation.to:
        return f"{operation.column}: {operation.from_} → {operation.to}"
    return operation.column


def _cells(*cells: str) -> str:
    return "| " + " | ".join(map(_escape, cells)) + " |"


def _escape(text: str) -> str:
    """Return a text escaped for Markdown and HTML."""
    return "".join(_escaped_characters(text))


def _escaped_characters(text: str) -> Iterable[str]:
    for character in " ".join(text.split()):
        yield f"\\{character}" if character in "\\|`*_[]#<>" else character
