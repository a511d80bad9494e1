"""Windows of sources with a watermark, as rows of runs store them and readers see them."""

from collections.abc import Callable, Mapping
from typing import Any

from elevata.core.words import counted
from loader.domain.sources.marks import AHEAD

HIDDEN = "hidden"


def window_text(window: Mapping[str, Any]) -> str:
    """Return the window of a dataset's run in words: ``read from n 7, up to n 9``."""
    if not window:
        return ""
    start, end = (
        ", ".join(f"{name} {text}" for name, text in (window.get(key) or {}).items()) for key in ("from", "to")
    )
    text = "read whole" if window.get("from") is None else f"read from {start}" if start else "read"
    text = f"{text}, up to {end}" if end else f"{text}, no rows"
    ahead = sum((window.get(AHEAD) or {}).values())
    return f"{text}, and {counted(ahead, 'row')} ahead" if ahead else text


def without_values(window: Mapping[str, Any], is_hidden: Callable[[str], bool]) -> dict[str, Any]:
    """Return a window without the watermark values of hidden columns; numbers of rows ahead stay."""

    def shown(values: Mapping[str, Any]) -> dict[str, Any]:
        return {column: HIDDEN if is_hidden(column.lower()) else text for column, text in values.items()}

    return {name: values if name == AHEAD else values and shown(values) for name, values in window.items()}
