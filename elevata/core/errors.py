"""Expected errors with a code, a message and a place. Pages, API and commands handle them alike."""

import re
from collections.abc import Sequence
from typing import Any, ClassVar

# HTTP statuses by code; other codes have the status of their class. After 409 and 429, the same request may succeed.
_STATUSES = {"stale_version": 412, "gone": 404, "not_permitted": 403, "no_person": 403, "token_scope": 403} | {
    code: status
    for status, codes in {
        403: ("NOT_PERMITTED", "NO_PERSON", "SERVICE_ACCOUNT", "OWN_CHANGE", "OWN_PROPOSAL", "MASKED_COLUMN"),
        404: (
            "UNKNOWN_REPORT",
            "UNKNOWN_DATASET",
            "UNKNOWN_ENVIRONMENT",
            "UNKNOWN_RECORD",
            "UNKNOWN_OPERATION",
            "UNKNOWN_PROPOSAL",
        ),
        409: (
            *("name_taken", "in_use", "order_changed", "constraint", "still_going", "webhook_off"),
            *("proposal_closed", "proposal_changed", "changed_since", "comment_answered"),
            *("RUN_ID_TAKEN", "RUN_REVERTED", "RUN_FINISHED", "READ_ALREADY", "READ_UNFINISHED"),
            *("NO_ROWS", "STILL_GOING"),
        ),
        413: ("TOO_LARGE_UNPACKED",),
        429: ("TOO_MANY_READS", "TOO_MANY_MESSAGES", "TOO_MANY_STREAMS", "TOO_MANY_BATCHES", "too_many_notices"),
    }.items()
    for code in codes
}


# A file, with or without line and column.
_PLACE = re.compile(r"(.*?)(?::(\d+))?(?::\d+)?", re.DOTALL)
# Codes of errors with a message of Spark, which can have values of rows.
MESSAGES_OF_SPARK = ("UNEXPECTED", "STEP_FAILED", "SOURCE_FAILED")


class ProductError(Exception):
    """Expected error with a message for users; nothing was written.

    ``code`` is for programs and never changes. ``field`` is the name of the invalid field, and ``hint`` says what to
    do; both may be empty.
    """

    STATUS: ClassVar[int] = 422

    code: str
    message: str
    field: str = ""
    hint: str = ""

    @property
    def status(self) -> int:
        """Return the HTTP status of the response."""
        return _STATUSES.get(self.code, self.STATUS)

    def one_line(self) -> str:
        """Return place, message and hint on one line, for a terminal."""
        return self.message

    def as_json(self) -> dict[str, Any]:
        """Return the fields that are not empty."""
        return {"code": self.code, "message": self.message}


class MetadataError(ProductError):
    """Error of a violated rule of metadata, accounts or notifications.

    ``where`` names the object (``rawcore.rc_air_airport.lid``), ``place`` the position in a file, with line and column
    (``systems/air.yaml:12:5``). ``total`` is the number of errors that it stands for.
    """

    total: int = 1

    def __init__(self, code: str, message: str, field: str = "", where: str = "", *, place: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.where = where
        self.place = place

    def about(self, where: str = "", place: str = "") -> "MetadataError":
        """Set the object and the place, unless they are set, and return the error."""
        self.where = self.where or where
        self.place = self.place or place
        return self

    @property
    def listed(self) -> list["MetadataError"]:
        """Return the errors to show a user: itself, unless it stands for others."""
        return [self]

    @property
    def file(self) -> str:
        """Return the file of the place."""
        match = _PLACE.fullmatch(self.place)
        return match[1] if match else self.place

    @property
    def line(self) -> str:
        """Return the line of the place; empty for one without."""
        match = _PLACE.fullmatch(self.place)
        return (match[2] if match else "") or ""

    def __str__(self) -> str:
        return self.one_line()

    def one_line(self) -> str:
        """Return place, object, field and message on one line, for a terminal."""
        parts = (self.place, self.where, self.field, self.message)
        return " ".join(": ".join(part for part in parts if part).split())

    def as_json(self) -> dict[str, str]:
        """Return the fields that are not empty."""
        names = ("code", "message", "field", "where", "place")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


class Refusals(MetadataError):
    """Several independent errors of one request, in the order of their places.

    The code is that of the errors if all have the same one, else ``bad_rows``. Only the first ``MOST_LISTED`` errors
    are ``listed``.
    """

    MOST_LISTED = 200

    def __init__(self, errors: Sequence[MetadataError]) -> None:
        codes = {error.code for error in errors}
        message = f"{len(errors):,} faults; nothing was written"
        super().__init__(codes.pop() if len(codes) == 1 else "bad_rows", message)
        self.total = len(errors)
        self.errors = sorted(errors, key=_by_place)

    @property
    def listed(self) -> list[MetadataError]:
        return self.errors[: self.MOST_LISTED]

    @property
    def status(self) -> int:
        """Return the HTTP status: 412 for a stale version, else 409, else 403, else 422."""
        statuses = {error.status for error in self.errors}
        return next((status for status in (412, 409, 403) if status in statuses), self.STATUS)


def raise_all(errors: Sequence[MetadataError]) -> None:
    """Raise the only error as it is, or several as ``Refusals``; without errors do nothing."""
    if len(errors) > 1:
        raise Refusals(errors)
    for error in errors:
        raise error


def _by_place(error: MetadataError) -> list[tuple[int, str]]:
    """Return a sort key with the numbers of a place as numbers."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in error.place.split(":")]


class StaleVersion(MetadataError):
    """Error of the optimistic lock: another user changed the row since it was read."""

    def __init__(self, where: str, expected: int, actual: int) -> None:
        super().__init__(
            "stale_version",
            f"was changed by another user (version {actual}, you have seen {expected}); reload it before changing it",
            "version",
            where,
        )
        self.expected = expected
        self.found = actual


def as_sentence(text: str, name: str = "") -> str:
    """Return the text with a capital, unless it starts with ``name``, and a final full stop."""
    sentence = text if name and text.startswith(f"{name} ") else text[:1].upper() + text[1:]
    return sentence + ("" if not text or text.endswith((".", "?", "!")) else ".")
