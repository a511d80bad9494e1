"""Counts in words."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return ``1 column``, ``2 columns`` or ``1,200 columns``; ``plural`` defaults to the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def noun_for(number: int, plural: str) -> str:
    """Return a plural noun with a regular ending as it is beside a number: ``entries``, and beside 1 ``entry``."""
    if number != 1:
        return plural
    return f"{plural.removesuffix('ies')}y" if plural.endswith("ies") else plural.removesuffix("s")
