"""History rules shared by the engines: changes of a key, and the history policy that a history records.

``loader.domain.reference`` and, on Delta, ``loader.engine.historization.history`` implement the same rules; tests
compare them.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from elevata.core.canonical_json import canonical_json
from loader.contract.refusals import Refusal
from metadata.domain.history.history_form import DATED_BY, WAY_OUT, form_differences, form_of
from metadata.domain.history.history_policy import HistoryPolicy

NEW, CHANGED, DELETED, REAPPEARED, UNCHANGED = "new", "changed", "deleted", "reappeared", "unchanged"


def parse_instant(text: str) -> datetime:
    """Return the instant of an ISO 8601 text; without a zone it is UTC."""
    instant = datetime.fromisoformat(text)
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)


# History policy as recorded in a history's commit metadata, for comparison by later loads. Stored versions depend on
# two parts of a policy that the table does not show: its *form* (``metadata.domain.history.history_columns``), which
# must be the same for all versions of a history, so a load under another form is refused; and its *choices*, the
# columns that were compared and those that opened a version, which may change. An event is compared by the choices of
# the run that delivered it, so a change affects later runs only. An *era* is the runs from one such change to the next.
# Columns are listed by stable key: a rename changes neither.
FORM, ERAS = "form", "eras"


@dataclass(frozen=True)
class Choices:
    """Choices of a policy on the comparison of rows, by stable keys of columns.

    ``tracked`` None: a difference in any column opens a version. ``aside``: time and operation, which are never
    compared. ``in_place``: an untracked column is updated in the version in force. ``by_value``: the columns with
    a uuid, a time or json whose values are compared (``compared_texts``), not their texts, each with its type.
    """

    tracked: tuple[str, ...] | None = None
    aside: tuple[str, ...] = ()
    in_place: bool = False
    by_value: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls, policy: HistoryPolicy, columns: Iterable[tuple[str, str]], by_value: Iterable[tuple[str, str]] = ()
    ) -> "Choices":
        """Return the choices of a policy for a table with these columns: (stable key, name)."""
        pairs, values = list(columns), tuple(sorted(by_value))
        aside = tuple(sorted(key for key, name in pairs if name in policy.uncompared))
        if policy.track is None:
            return cls(None, aside, by_value=values)
        tracked = tuple(sorted(key for key, name in pairs if name in policy.track))
        return cls(tracked, aside, policy.untracked == "update_in_place", values)

    def compares(self, key: str) -> bool:
        return key not in self.aside

    def opens(self, key: str) -> bool:
        """Return True if a difference in this column opens a version."""
        return self.compares(key) and (self.tracked is None or key in self.tracked)

    def updates(self, key: str) -> bool:
        """Return True if a difference in this column is written into the version in force."""
        return self.in_place and self.compares(key) and not self.opens(key)


@dataclass(frozen=True)
class Era:
    """Choices from run number ``since`` on."""

    since: int
    choices: Choices


def eras_with(noted: Mapping[str, str], sequence: int, choices: Choices) -> tuple[Era, ...]:
    """Return the eras of a history after run ``sequence`` delivered rows under these choices, oldest first.

    A history without recorded eras is assumed to have one, with the given choices.
    """
    eras = noted_eras(noted)
    if not eras:
        return (Era(0, choices),)
    return eras if eras[-1].choices == choices else (*eras, Era(sequence, choices))


def ever_tracked(eras: Iterable[Era], key: str) -> bool:
    """Return True if a difference in this column opens a version in any era."""
    return any(era.choices.opens(key) for era in eras)


def may_repeat(eras: Iterable[Era], keys: Iterable[str]) -> bool:
    """Return True if neighbours may have equal values, because a value that opened one was later updated in place."""
    all_eras = list(eras)
    return any(ever_tracked(all_eras, key) and any(era.choices.updates(key) for era in all_eras) for key in keys)


def noted_eras(noted: Mapping[str, str]) -> tuple[Era, ...]:
    """Return the eras recorded in a commit's notes, oldest first."""
    if ERAS not in noted:
        return ()

    def choices(era: Mapping[str, Any]) -> Choices:
        tracked = None if era["tracked"] is None else tuple(era["tracked"])
        by_value = tuple((key, type_name) for key, type_name in era.get("by_value", ()))
        return Choices(tracked, tuple(era["aside"]), era["in_place"], by_value)

    return tuple(Era(era["since"], choices(era)) for era in json.loads(noted[ERAS]))


def eras_note(eras: Iterable[Era]) -> dict[str, str]:
    """Return the eras as a note of commit metadata."""
    described = [
        {
            "since": era.since,
            "tracked": None if era.choices.tracked is None else list(era.choices.tracked),
            "aside": list(era.choices.aside),
            "in_place": era.choices.in_place,
        }
        | ({"by_value": [list(pair) for pair in era.choices.by_value]} if era.choices.by_value else {})
        for era in eras
    ]
    return {ERAS: canonical_json(described).decode()}


def form_note(policy: HistoryPolicy, keys: Mapping[str, str]) -> dict[str, str]:
    """Return the form of a history under this policy as a note. ``keys`` are stable keys of its columns, by name."""
    return {FORM: canonical_json(form_of(policy, keys)).decode()}


def refuse_other_form(
    *,
    name: str,
    policy: HistoryPolicy,
    keys: Mapping[str, str],
    noted: Mapping[str, str],
    versions: int | None,
    historized: bool = True,
) -> None:
    """Raise Refusal HISTORY_POLICY_CHANGED if the versions of a history do not have the form of the policy.

    ``versions`` is their number, None if unknown; without versions every policy is accepted. Without a history only
    the time that dates the events must be the same.
    """
    if FORM not in noted or versions == 0:
        return
    before, now = json.loads(noted[FORM]), form_of(policy, keys)
    if not historized:
        before = {part: value for part, value in before.items() if part == DATED_BY}
    differing = form_differences(before, now)
    if differing and not historized:
        raise Refusal(
            "HISTORY_POLICY_CHANGED",
            f"the events of {name} were delivered under a policy that differs in {', '.join(differing)}",
            hint="Set the history policy back, or give the data a dataset of its own.",
        )
    if differing:
        raise Refusal(
            "HISTORY_POLICY_CHANGED",
            f"the history of {name} was made under a policy that differs in {', '.join(differing)}: "
            "versions of both kinds cannot stand in one table",
            hint=WAY_OUT,
        )
