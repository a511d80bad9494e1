"""Counts in words."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return ``1 column``, ``2 columns`` or ``1,200 columns``; ``plural`` defaults to the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
