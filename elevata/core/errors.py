"""Errors of metadata, with messages for users."""


class MetadataError(Exception):
    """Refusal of metadata. Nothing was written.

    ``code`` is for programs and never changes; ``message`` is for people; ``field`` names what was
    wrong; ``where`` names the object (``rawcore.rc_air_airport.lid``), ``place`` the spot in a file
    (``systems/air.yaml:12:5``: line and column).
    """

    def __init__(self, code: str, message: str, field: str = "", where: str = "", *, place: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.where = where
        self.place = place

    def about(self, where: str = "", place: str = "") -> "MetadataError":
        """The same refusal, saying what it is about; what is known already is kept."""
        self.where = self.where or where
        self.place = self.place or place
        return self

    def __str__(self) -> str:
        return self.one_line()

    def one_line(self) -> str:
        """Place, object, field and message on one line, for a terminal."""
        parts = (self.place, self.where, self.field, self.message)
        return " ".join(": ".join(part for part in parts if part).split())

    def as_json(self) -> dict[str, str]:
        """Only what says something."""
        names = ("code", "message", "field", "where", "place")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


class StaleVersion(MetadataError):
    """Somebody else changed the row since it was read (optimistic lock)."""

    def __init__(self, where: str, expected: int, found: int) -> None:
        super().__init__(
            "stale_version",
            f"was changed by somebody else in the meantime (version {found}, you have seen {expected}); "
            "look at it again before changing it",
            "version",
            where,
        )
        self.expected = expected
        self.found = found


def as_sentence(text: str, name: str = "") -> str:
    """With a capital at its beginning, unless it begins with this name, and a mark at its end."""
    begins = text if name and text.startswith(f"{name} ") else text[:1].upper() + text[1:]
    return begins + ("" if not text or text.endswith((".", "?", "!")) else ".")
