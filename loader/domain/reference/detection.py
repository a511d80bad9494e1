"""Delete detection: live keys whose absence from a delta shows that the source deleted them.

A batch has the evidence: ``keys``, all keys of the source, or ``window``, the column and the value from which the delta
is complete. Without evidence no key is closed.
"""

from collections.abc import Collection, Mapping
from typing import Any

from loader.domain.historization.load_guards import KEY_LIST, READ_WINDOW, DeleteGuard
from loader.domain.reference.batch import Columns, KeyText, check_not_null, key_text, typed_columns
from loader.domain.reference.values import typed


def detected_keys(
    batch: Mapping[str, Any],
    name: str,
    keys: tuple[str, ...],
    columns: Columns,
    live: Mapping[KeyText, Mapping[str, Any]],
    delivered: Collection[KeyText],
) -> set[KeyText]:
    """Return the keys to close. ``live`` has the values of the open versions.

    Raise Refusal NULL_KEY for a key list with an incomplete key, EMPTY_SNAPSHOT or TOO_MANY_DELETES (rule 4).
    """
    if "keys" in batch:
        what, rows = KEY_LIST, len(batch["keys"])
        absent = live.keys() - _listed(batch["keys"], keys, columns)
    elif "window" in batch:
        what, rows = READ_WINDOW, len(batch["rows"])
        absent = _within(batch["window"], columns, live)
    else:
        return set()
    detected = set(absent) - set(delivered)
    guard = DeleteGuard(bool(batch.get("allow_empty")), bool(batch.get("allow_deletes")))
    guard.check(name=name, rows=rows, would_close=len(detected), open_keys=len(live), what=what)
    return detected


def _listed(rows: list[Mapping[str, Any]], keys: tuple[str, ...], columns: Columns) -> set[KeyText]:
    listed = typed_columns(list(rows), keys, columns)
    check_not_null(listed, keys, "NULL_KEY", "of the key list have no value in their key")
    return set(map(key_text, listed))


def _within(window: Mapping[str, Any], columns: Columns, live: Mapping[KeyText, Mapping[str, Any]]) -> set[KeyText]:
    """Return the keys whose value is in the window; without a start, all keys are.

    A key without a value in the column is in no window that has a start.
    """
    if window["from"] is None:
        return set(live)
    name = window["column"]
    start = typed(window["from"], columns.types[name])
    return {key for key, values in live.items() if values.get(name) is not None and values[name] >= start}
