"""Warnings about the marks of a run: rows ahead, a mark that was too late, an endpoint that may have gone backwards."""

from elevata.core.words import counted
from loader.domain.sources.marks import Reading, Window


def window_warnings(window: Window, shown: str, reading: Reading, *, is_empty: bool = False) -> list[str]:
    """Return the warnings about the marks of a run. ``is_empty``: an endpoint delivered no rows."""
    warnings = [
        f"{shown}: the mark of the last load, {name} {text}, is later than the run and its tolerance: the source was "
        "read whole."
        for name, text in (window.passed or {}).items()
    ]
    for name, count in (window.ahead or {}).items():
        limit = (window.limits or {})[name]
        because = "the run's time and the tolerance" if name in (window.times or {}) else "far beyond all others"
        warnings.append(
            f"{shown}: {counted(count, 'row')} with {name} after {limit} ({because}). They are loaded, and the mark "
            "stays below them. Correct the rows at the source, or give the intake a longer tolerance."
        )
    known = reading.marks and all(mark is not None and mark.is_repeated for mark in reading.marks)
    if is_empty and window.start and not window.by_hand and (known or reading.intake.look_back is not None):
        mark = ", ".join(f"{name} {text}" for name, text in window.start.items())
        warnings.append(
            f"{shown}: no rows came, not even those of the mark ({mark}). If the source was restored, or its clock put "
            "back, load with --full."
        )
    return warnings
