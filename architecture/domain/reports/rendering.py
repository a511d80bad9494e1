"""A change report for people: as text for a terminal, as Markdown for a ticket or a pull request."""

from collections import Counter
from collections.abc import Iterable

from architecture.domain import operations as ops
from architecture.domain.operations import Operation, Warning
from architecture.domain.reports.report import ChangeReport

_MARKS = {ops.ALLOWED: "ok", ops.NEEDS_APPROVAL: "approve", ops.BLOCKED: "blocked", ops.METADATA_ONLY: "metadata"}
_STATUS = {"no_changes": "no changes", "open": "open", "blocked": "blocked"}


def as_text(report: ChangeReport) -> str:
    """Status, operations one a line, warnings, and what would be needed, without a line end at the end."""
    lines = [f"{report.scope.describe()}: {_status(report)}"]
    width = max((len(_mark(operation)) for operation in report.operations), default=0)
    for operation in report.operations:
        lines.append(f"  {_mark(operation):{width}}  {operation.describe()}")
        if operation.decision in (ops.NEEDS_APPROVAL, ops.BLOCKED):
            lines.append(f"  {'':{width}}  {operation.code}: {operation.message}")
    lines += [f"  warning  {warning.code} {_about(warning)}: {warning.message}" for warning in report.warnings]
    lines.append(f"fingerprint {report.fingerprint}")
    return "\n".join(lines)


def as_markdown(report: ChangeReport) -> str:
    """Headings and tables; what people wrote is escaped."""
    lines = [
        f"# Change report: {_plain(report.scope.describe())}",
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
        lines += [_cells(one.code, _about(one), one.message) for one in report.warnings]
    return "\n".join(lines)


def _status(report: ChangeReport) -> str:
    counts = Counter(operation.decision for operation in report.operations)
    said = [
        f"{counts[decision]} {decision.replace('_', ' ')}" for decision in reversed(ops.DECISIONS) if counts[decision]
    ]
    destructive = ["destructive"] if report.destructive else []
    return ", ".join([_STATUS[report.status], *destructive, *said])


def _mark(operation: Operation) -> str:
    return _MARKS[operation.decision] + ("!" if operation.destructive else "")


def _about(warning: Warning) -> str:
    return f"{warning.dataset}.{warning.column}" if warning.column else warning.dataset


def _row(operation: Operation) -> str:
    decision = operation.decision.replace("_", " ") + (", destructive" if operation.destructive else "")
    return _cells(
        decision, operation.op, operation.dataset, _change(operation), f"{operation.code}: {operation.message}"
    )


def _change(operation: Operation) -> str:
    if operation.op in (ops.RENAME_TABLE, ops.RENAME_COLUMN):
        return f"{operation.from_} → {operation.to}"
    if operation.from_ and operation.to:
        return f"{operation.column}: {operation.from_} → {operation.to}"
    return operation.column


def _cells(*cells: str) -> str:
    return "| " + " | ".join(map(_plain, cells)) + " |"


def _plain(text: str) -> str:
    """Names may hold anything that can be seen, also what Markdown or HTML takes for its own."""
    return "".join(_escaped(text))


def _escaped(text: str) -> Iterable[str]:
    for character in " ".join(text.split()):
        yield f"\\{character}" if character in "\\|`*_[]#<>" else character
