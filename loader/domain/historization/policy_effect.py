"""Effects of another history policy on an existing history: refused, from now on, or from the next load on."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from metadata.domain.history_form import WAY_OUT, form_of, moved
from metadata.domain.history_policy import TOMBSTONE, HistoryPolicy

REFUSED, FROM_NOW, NEXT_LOAD = "refused", "from_now", "next_load"
# Fields that are part of the form; of ``input`` and ``deletes`` only some values are.
_OF_FORM = ("time", "open_end", "state_labels", "profile")
_COMPARED = ("track", "untracked", "op")
_CALLED = {
    "input": "what a delivery is",
    "op": "the operation's column",
    "absent_keys": "absent keys",
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
    """One effect of a change of policy; ``kind`` is refused, from_now or next_load."""

    kind: str
    said: str


def effects(before: HistoryPolicy, now: HistoryPolicy) -> tuple[Effect, ...]:
    """Return the effects of ``now`` on versions made under ``before``; both use the columns' current names."""
    return tuple(_effects(before, now))


def _effects(before: HistoryPolicy, now: HistoryPolicy) -> Iterator[Effect]:
    form = moved(form_of(before, {}), form_of(now, {}))
    if form:
        said = f"It would differ in {' and '.join(form)}, so every load is refused while there are versions."
        yield Effect(REFUSED, f"{said} {WAY_OUT}")
    names = [field.name for field in fields(HistoryPolicy) if getattr(before, field.name) != getattr(now, field.name)]
    compared = [name for name in names if name in _COMPARED]
    if compared:
        said = "what is in the history stays, and rows that come from now on are compared anew."
        yield Effect(FROM_NOW, f"{_called(compared)}: {said}")
    rest = [name for name in names if name not in (*_OF_FORM, *_COMPARED) and not _in_form(name, before, now)]
    if rest:
        yield Effect(NEXT_LOAD, f"{_called(rest)}: so from the next load on; nothing that is there changes.")


def _in_form(name: str, before: HistoryPolicy, now: HistoryPolicy) -> bool:
    """Return whether the change adds or removes tombstones, which belong to the form."""
    return name == "deletes" and TOMBSTONE in (before.deletes, now.deletes)


def _called(names: list[str]) -> str:
    *most, last = (_CALLED[name] for name in names)
    said = f"{', '.join(most)} and {last}" if most else last
    return said[0].upper() + said[1:]
