"""Refusals.

A refusal is a result, not a crash: it names the problem, the place, a count, some samples and the remedy. It
crosses the pipe between runner and worker as JSON and is shown as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from dataclasses import field as dataclass_field
from typing import Any

from elevata.core.errors import ProductError

# The runner of reads ended while it answered.
READS_ENDED = "READS_ENDED"


@dataclass(eq=False)
class Refusal(ProductError):
    """Refusal of data or of a run.

    ``samples`` holds a few offending rows, keys or values as text. ``faults`` are the refusals for all classes of
    faults in the rows of a delivery; the refusal itself is for the first of them.

    Not frozen: Python writes the traceback into an exception that is raised.
    """

    code: str
    message: str
    hint: str = ""
    file: str = ""
    row: int | None = None
    column: str = ""
    count: int | None = None
    samples: tuple[str, ...] = dataclass_field(default=())
    faults: "tuple[Refusal, ...]" = dataclass_field(default=())
    # Schema of the refused delivery, for the worker: names and, if known, types. It is no part of the message.
    schema: tuple[dict[str, Any], ...] = dataclass_field(default=(), repr=False)

    @property
    def status(self) -> int:
        """Return the HTTP status of the response; 422 for the name of a dataset in a request's body."""
        return self.STATUS if self.code == "UNKNOWN_DATASET" else super().status

    def __str__(self) -> str:
        return self.message

    def as_json(self) -> dict[str, Any]:
        """Return the fields that are not empty; ``message`` and ``code`` always."""
        described = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "schema"}
        described |= {"samples": list(self.samples), "faults": [fault.as_json() for fault in self.faults]}
        return {name: value for name, value in described.items() if value not in ("", None, [])}

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> "Refusal":
        faults = tuple(cls.from_json(fault) for fault in described.get("faults", ()))
        return cls(**{**described, "samples": tuple(described.get("samples", ())), "faults": faults})

    def one_line(self) -> str:
        """Return message, samples and hint on one line, for a terminal."""
        parts = [self.message]
        if self.samples:
            parts.append("for example " + ", ".join(self.samples))
        if self.hint:
            parts.append(self.hint)
        return "; ".join(parts)
