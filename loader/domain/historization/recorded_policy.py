"""History policy as recorded in a history's commit metadata, for later loads to compare with.

Two parts of a policy apply to the stored versions and cannot be read from the table:

* its *form* (``metadata.domain.history_form``). Versions of two forms cannot be in one history, so
  a load under another form is refused.
* its *choices*: which columns were compared, which of them opened a version. They may change. An event
  is compared by the choices of the run that brought it: what is in the history stays, and new choices apply
  from the run that brings them. An *era* is the runs from one such change to the next.

Columns are named by stable key: a rename changes neither.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from elevata.core.canonical_json import canonical_json
from loader.domain.runs.refusals import Refusal
from metadata.domain.history_form import WAY_OUT, form_of, moved
from metadata.domain.history_policy import HistoryPolicy

FORM, ERAS = "form", "eras"


@dataclass(frozen=True)
class Choices:
    """Choices of a policy that decide how rows compare, over stable keys of columns.

    ``tracked`` None: every column opens a version. ``aside``: the time and the operation, which are
    never compared. ``in_place``: an untracked column is updated in the version in force.
    """

    tracked: tuple[str, ...] | None = None
    aside: tuple[str, ...] = ()
    in_place: bool = False

    @classmethod
    def of(cls, policy: HistoryPolicy, columns: Iterable[tuple[str, str]]) -> "Choices":
        """Return a policy's choices for a table with these columns: (stable key, name)."""
        known = list(columns)
        aside = tuple(sorted(key for key, name in known if name in (policy.time_column, policy.op)))
        if policy.track is None:
            return cls(None, aside)
        tracked = tuple(sorted(key for key, name in known if name in policy.track))
        return cls(tracked, aside, policy.untracked == "update_in_place")

    def compares(self, key: str) -> bool:
        return key not in self.aside

    def opens(self, key: str) -> bool:
        """Return whether a difference in this column opens a version."""
        return self.compares(key) and (self.tracked is None or key in self.tracked)

    def updates(self, key: str) -> bool:
        """Return whether a difference in this column is written into the version in force."""
        return self.in_place and self.compares(key) and not self.opens(key)


@dataclass(frozen=True)
class Era:
    """The choices that hold from run number ``since`` on."""

    since: int
    choices: Choices


def eras_with(noted: Mapping[str, str], sequence: int, choices: Choices) -> tuple[Era, ...]:
    """Return the eras of a history once run ``sequence`` brought rows under these choices, oldest first.

    A history without recorded eras is assumed to have been made under the given choices.
    """
    known = noted_eras(noted)
    if not known:
        return (Era(0, choices),)
    return known if known[-1].choices == choices else (*known, Era(sequence, choices))


def ever_tracked(eras: Iterable[Era], key: str) -> bool:
    """Return whether a difference in this column opens a version in any era."""
    return any(era.choices.opens(key) for era in eras)


def may_repeat(eras: Iterable[Era], keys: Iterable[str]) -> bool:
    """Return whether neighbours may hold equal values: the value that opened one was later updated in place."""
    known = list(eras)
    return any(ever_tracked(known, key) and any(era.choices.updates(key) for era in known) for key in keys)


def noted_eras(noted: Mapping[str, str]) -> tuple[Era, ...]:
    """Return the eras recorded in a commit's notes, oldest first."""
    if ERAS not in noted:
        return ()

    def choices(tracked: list[str] | None, aside: list[str], in_place: bool) -> Choices:
        return Choices(None if tracked is None else tuple(tracked), tuple(aside), in_place)

    return tuple(
        Era(one["since"], choices(one["tracked"], one["aside"], one["in_place"])) for one in json.loads(noted[ERAS])
    )


def eras_note(eras: Iterable[Era]) -> dict[str, str]:
    """Return the eras as a note of commit metadata."""
    described = [
        {
            "since": era.since,
            "tracked": None if era.choices.tracked is None else list(era.choices.tracked),
            "aside": list(era.choices.aside),
            "in_place": era.choices.in_place,
        }
        for era in eras
    ]
    return {ERAS: canonical_json(described).decode()}


def form_note(policy: HistoryPolicy, keys: Mapping[str, str]) -> dict[str, str]:
    """Return the form of a history under this policy as a note; ``keys``: stable keys of its columns by name."""
    return {FORM: canonical_json(form_of(policy, keys)).decode()}


def refuse_other_form(
    *, name: str, policy: HistoryPolicy, keys: Mapping[str, str], noted: Mapping[str, str], versions: int | None
) -> None:
    """Raise Refusal HISTORY_POLICY_CHANGED if the history's versions have another form than the policy gives them.

    ``versions`` is their number, None if unknown; without versions every policy is accepted.
    """
    if FORM not in noted or versions == 0:
        return
    differing = moved(json.loads(noted[FORM]), form_of(policy, keys))
    if differing:
        raise Refusal(
            "HISTORY_POLICY_CHANGED",
            f"the history of {name} was made under a policy that differs in {', '.join(differing)}: "
            "versions of both kinds cannot stand in one table",
            hint=WAY_OUT,
        )
