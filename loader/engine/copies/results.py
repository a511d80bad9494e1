"""Result of one copy, as the worker stores it."""

from dataclasses import asdict, dataclass, field
from typing import Any

from loader.contract.refusals import Refusal
from loader.domain.copies import Content

COPIED, UNCHANGED, FAILED = "copied", "unchanged", "failed"


@dataclass
class CopyResult:
    """Result of one copy. ``error`` is a refusal, or the finding of a check; ``changed`` counts keys of ``changes``."""

    status: str
    version: int | None = None
    row_count: int | None = None
    checksum: str = ""
    mode: str = ""
    changed: int | None = None
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)
    error: dict[str, Any] | None = None

    @classmethod
    def of(cls, status: str, version: int, content: Content, mode: str = "") -> "CopyResult":
        return cls(status, version, content.row_count, content.checksum, mode)

    @classmethod
    def failed(cls, refusal: Refusal) -> "CopyResult":
        return cls(FAILED, error=refusal.as_json())

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
