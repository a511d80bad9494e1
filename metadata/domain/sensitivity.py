"""How widely a table or a column may be shown, as people classify it; empty where nobody did."""

from metadata.domain.errors import MetadataError

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = "public", "internal", "confidential", "restricted"
# From the most open to the most closed.
LEVELS = (PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED)


def read_sensitivity(text: str) -> str:
    """The level that ``text`` names, in any case; empty stays empty. MetadataError for any other word."""
    word = text.strip().lower()
    if word and word not in LEVELS:
        said = f"must be {', '.join(LEVELS[:-1])} or {LEVELS[-1]}, or empty, not {text.strip()[:100]!r}"
        raise MetadataError("invalid", said, "sensitivity")
    return word
