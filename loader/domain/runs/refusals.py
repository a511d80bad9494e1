"""Refusals: expected errors for data or a request that cannot be accepted.

A refusal is a result, not a crash: it names the problem, the place, a count, some samples and the remedy. It
crosses the pipe between runner and worker as JSON and is shown as it is.
"""

from dataclasses import asdict, dataclass, field


@dataclass(eq=False)
class Refusal(Exception):
    """Expected error with code, message and hint. ``samples`` holds a few offending rows, keys or values as text.

    Not frozen: Python writes the traceback into an exception that is raised.
    """

    code: str
    message: str
    hint: str = ""
    file: str = ""
    row: int | None = None
    column: str = ""
    count: int | None = None
    samples: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return self.message

    def as_json(self) -> dict:
        """Return the fields that are not empty; ``message`` and ``code`` always."""
        described = asdict(self) | {"samples": list(self.samples)}
        return {name: value for name, value in described.items() if value not in ("", None, [])}

    @classmethod
    def from_json(cls, described: dict) -> "Refusal":
        return cls(**{**described, "samples": tuple(described.get("samples", ()))})

    def one_line(self) -> str:
        """Return message, samples and hint on one line, for a terminal."""
        parts = [self.message]
        if self.samples:
            parts.append("for example " + ", ".join(self.samples))
        if self.hint:
            parts.append(self.hint)
        return "; ".join(parts)
