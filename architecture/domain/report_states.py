"""States of reports, and the permitted transitions between them.

Services change a state by compare-and-set along ``REPORT_STEPS``, so that only one of two concurrent steps succeeds.
"""

from collections.abc import Mapping

from architecture.domain.refusals import Refused

OPEN, BLOCKED, NO_CHANGES = "open", "blocked", "no_changes"
APPROVED, REJECTED, SUPERSEDED = "approved", "rejected", "superseded"
WITHDRAWN = "withdrawn"

REPORT_STEPS: Mapping[str, frozenset[str]] = {
    OPEN: frozenset({APPROVED, REJECTED, SUPERSEDED}),
    BLOCKED: frozenset({WITHDRAWN}),
    NO_CHANGES: frozenset(),
    APPROVED: frozenset(),
    REJECTED: frozenset(),
    SUPERSEDED: frozenset(),
    WITHDRAWN: frozenset(),
}


def refuse_closed(status: str) -> None:
    """Raise Refused for a report in a final state."""
    codes = {
        BLOCKED: "REPORT_BLOCKED",
        NO_CHANGES: "NO_CHANGES",
        REJECTED: "REPORT_REJECTED",
        SUPERSEDED: "REPORT_SUPERSEDED",
        WITHDRAWN: "REPORT_WITHDRAWN",
    }
    if status in codes:
        raise Refused(codes[status])
