"""Warnings about the marks of a run: rows ahead, a mark that was too late, an endpoint that may have gone backwards."""

from elevata.core.words import counted
from loader.domain.sources.marks import Reading, Window


def window_warnings(window: Window, shown: str, reading: Reading, *, is_empty: bool = False) -> list[str]:
    """Return the warnings about the marks of a run. ``is_empty``: an endpoint delivered no rows."""
    warnings = [
        f"{shown}: the mark of the last load is later in {name} than the run's time and the tolerance: the source was "
        "read whole."
        for name in window.passed or {}
    ]
    for name, count in (window.ahead or {}).items():
        limit = (window.times or {}).get(name)
        where = f"after {limit} (the run's time and the tolerance)" if limit else "far beyond all others"
        warnings.append(
            f"{shown}: {counted(count, 'row')} with {name} {where}. Such rows are loaded, and the mark stays below. "
            "Correct the rows at the source, or give the intake a longer tolerance."
        )
    known = reading.marks and all(mark is not None and mark.is_repeated for mark in reading.marks)
    if is_empty and window.start and not window.by_hand and (known or reading.intake.look_back is not None):
        warnings.append(
            f"{shown}: no rows came, not even those of the mark. If the source was restored, or its clock put back, "
            "load and read everything (Read whole, --full)."
        )
    return warnings
