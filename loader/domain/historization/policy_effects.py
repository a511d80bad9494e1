"""Effects of another history policy on an existing history: refused, from now on, or from the next load on."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from metadata.domain.history.history_form import WAY_OUT, form_differences, form_of
from metadata.domain.history.history_policy import TOMBSTONE, HistoryPolicy

REFUSED, FROM_NOW, NEXT_LOAD = "refused", "from_now", "next_load"
# Fields that are part of the form; some values of ``input`` and ``deletes`` are, too.
_FORM_FIELDS = ("time", "open_end", "state_labels", "profile")
_COMPARED_FIELDS = ("track", "untracked", "op", "delete_flag")
_FIELD_NAMES = {
    "input": "what a delivery is",
    "op": "the operation's column",
    "delete_flag": "the delete flag",
    "absent_keys": "absent keys",
    "delete_detection": "delete detection",
    "late": "late rows",
    "late_horizon": "how long late rows are remembered",
    "deletes": "deletes",
    "track": "the tracked columns",
    "untracked": "the other columns",
    "null_string": "the text for NULL",
    "unmodified_string": "the text for “as before”",
    "views": "views",
}


@dataclass(frozen=True)
class Effect:
    """Effect of a change of policy; ``kind`` is refused, from_now or next_load."""

    kind: str
    text: str


def effects(before: HistoryPolicy, now: HistoryPolicy) -> tuple[Effect, ...]:
    """Return the effects of the policy ``now`` on versions made under ``before``; both use present column names."""
    return tuple(_effects(before, now))


def _effects(before: HistoryPolicy, now: HistoryPolicy) -> Iterator[Effect]:
    form = form_differences(form_of(before, {}), form_of(now, {}))
    if form:
        message = f"It would differ in {' and '.join(form)}, so every load is refused while there are versions."
        yield Effect(REFUSED, f"{message} {WAY_OUT}")
    names = [field.name for field in fields(HistoryPolicy) if getattr(before, field.name) != getattr(now, field.name)]
    compared = [name for name in names if name in _COMPARED_FIELDS]
    if compared:
        message = "what is in the history stays, and rows that come from now on are compared anew."
        yield Effect(FROM_NOW, f"{_field_names(compared)}: {message}")
    rest = [
        name for name in names if name not in (*_FORM_FIELDS, *_COMPARED_FIELDS) and not _in_form(name, before, now)
    ]
    if rest:
        yield Effect(NEXT_LOAD, f"{_field_names(rest)}: so from the next load on; nothing that is there changes.")


def _in_form(name: str, before: HistoryPolicy, now: HistoryPolicy) -> bool:
    """Return True if the change adds or removes tombstones, which are part of the form."""
    return name == "deletes" and TOMBSTONE in (before.deletes, now.deletes)


def _field_names(names: list[str]) -> str:
    *most, last = (_FIELD_NAMES[name] for name in names)
    message = f"{', '.join(most)} and {last}" if most else last
    return message[0].upper() + message[1:]
