"""Changes of the load policy: rules that decide which rows a dataset has."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from architecture.domain.planning.sensitive_copies import describe_sensitive_copies
from metadata.domain.load_policy import (
    CHECKS,
    COLUMNS,
    COPIES,
    GHOST_ROWS,
    INTAKE,
    OPTIONS,
    SOURCES,
    Policy,
    without_keeping,
)
from metadata.domain.sources.option_kinds import FAULTY_ROWS, QUARANTINE

# Names of columns by their former names, in lower case.
Names = Mapping[str, str]


@dataclass(frozen=True)
class FollowedNames:
    """Names that checks of a dataset follow.

    ``own`` are the dataset's columns, ``of`` returns the new name of another dataset and its columns, ``follows``
    returns True if the second text is the first one after renames.
    """

    own: Names
    of: Callable[[str], tuple[str, Names]]
    follows: Callable[[str | None, str | None], bool]


def changed_rules(before: Policy, after: Policy, names: FollowedNames) -> Iterator[tuple[str, bool]]:
    """Yield the changes of rules as clauses, each with True if other rows are loaded."""
    was, is_ = (without_keeping(policy) for policy in (before, after))
    if not isinstance(was, dict) or not isinstance(is_, dict):
        if was != is_:
            yield "the load policy moved", True
        return
    if not _are_same_checks(was.get(CHECKS), is_.get(CHECKS), names):
        yield "the checks that hold rows back moved", True
    elif was.get(CHECKS) != is_.get(CHECKS):
        yield "the checks follow renamed columns", False
    for part in sorted(part for part in {*was, *is_} - {CHECKS} if was.get(part) != is_.get(part)):
        if part == SOURCES:
            choices = _changed_choices(was.get(part), is_.get(part))
            listed = f"rows of a source are read in another way ({', '.join(choices)})"
            yield (listed, True) if choices else ("a source promises other columns", False)
        elif part == GHOST_ROWS:
            yield "the rules for unknown parents by which references add ghost rows moved", True
        elif part == COPIES:
            if not describe_sensitive_copies(before, after):
                yield "fewer copies have sensitive columns", False
        else:
            yield "the load policy moved", True


# --- sources -----------------------------------------------------------------------------------


def _changed_choices(before: Any, after: Any) -> list[str]:
    """Return the names of the choices of sources that differ."""
    was, is_ = _choices(before), _choices(after)
    return sorted({choice for _, choice in {*was, *is_} if not _is_same(choice, was, is_)})


def _is_same(choice: str, before: Mapping[tuple[str, str], Any], after: Mapping[tuple[str, str], Any]) -> bool:
    keys = {key for key, name in {*before, *after} if name == choice}
    if choice != COLUMNS:
        return all(before.get((key, choice)) == after.get((key, choice)) for key in keys)
    return all(
        _is_same_contract(
            before.get((key, choice)),
            after.get((key, choice)),
            checks_values=QUARANTINE in (before.get((key, FAULTY_ROWS)), after.get((key, FAULTY_ROWS))),
        )
        for key in keys
    )


def _is_same_contract(before: Any, after: Any, *, checks_values: bool) -> bool:
    """Compare the columns of a contract. A column that one of them lacks counts if it can keep a row out by itself.

    It can by its key or a required value and, with ``checks_values``, by each type that not every text fits.
    """
    if not isinstance(before or {}, dict) or not isinstance(after or {}, dict):
        return bool(before == after)
    was, is_ = before or {}, after or {}

    def counts(key: str) -> bool:
        rule = str(was.get(key, is_.get(key)))
        return (key in was and key in is_) or ", " in rule or (checks_values and rule != "string")

    return all(was.get(key) == is_.get(key) for key in filter(counts, {*was, *is_}))


def _choices(part: Any) -> dict[tuple[str, str], Any]:
    """Return the choices of sources by the source's key and the choice's name."""
    choices = {} if isinstance(part, dict | None) else {("", SOURCES): part}
    for key, rule in part.items() if isinstance(part, dict) else ():
        grouped = rule if isinstance(rule, dict) else {SOURCES: rule}
        for name, value in grouped.items():
            is_group = name in (OPTIONS, INTAKE) and isinstance(value, dict)
            choices |= {(key, field): item for field, item in value.items()} if is_group else {(key, name): value}
    return choices


# --- checks ------------------------------------------------------------------------------------


def _are_same_checks(before: Any, after: Any, names: FollowedNames) -> bool:
    was, is_ = before or {}, after or {}
    if not isinstance(was, dict) or not isinstance(is_, dict) or was.keys() != is_.keys():
        return was == is_
    return all(_is_same_check(was[key], is_[key], names) for key in was)


def _is_same_check(before: Any, after: Any, names: FollowedNames) -> bool:
    """Return True if two descriptions of a check are equal but for renames. The same name may mean another column."""
    if not isinstance(before, dict) or not isinstance(after, dict) or before.keys() != after.keys():
        return bool(before == after)
    other, columns = names.of(str(before.get("dataset", "")))
    followed = {
        "columns": _renamed(before.get("columns"), names.own),
        "dataset": other,
        "other_columns": _renamed(before.get("other_columns"), columns),
    }
    return all(
        names.follows(value, after[field])
        if field in ("condition", "where") and isinstance(value, str) and isinstance(after[field], str)
        else after[field] == followed.get(field, value)
        for field, value in before.items()
    )


def _renamed(columns: Any, names: Names) -> Any:
    return [names.get(str(name).lower(), name) for name in columns] if isinstance(columns, list) else columns
