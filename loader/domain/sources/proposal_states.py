"""States of proposals to change a source's contract, and the permitted transitions."""

from collections.abc import Mapping

OPEN, ACCEPTED, DISMISSED, SUPERSEDED = "open", "accepted", "dismissed", "superseded"

STEPS: Mapping[str, frozenset[str]] = {
    OPEN: frozenset({ACCEPTED, DISMISSED, SUPERSEDED}),
    ACCEPTED: frozenset(),
    DISMISSED: frozenset(),
    SUPERSEDED: frozenset(),
}
