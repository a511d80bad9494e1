"""Meaning of the names in a SELECT, which a change of the columns that it reads must keep.

A column that is added upstream may take a name over that meant a result, a column outside of a subquery or one of
another table. A column that is retired may leave its name to one of these.
"""

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from metadata.domain.models.description import ReadColumn, described_items
from metadata.domain.models.queries import Queries
from metadata.domain.models.scopes import NO_MORE, PAIRS, USING, Expansion, Reference
from metadata.domain.models.statement import ModelProblem, Statement, parse_model

Datasets = Mapping[str, Sequence[ReadColumn]]


def check_meaning(text: str, before: Datasets, after: Datasets) -> None:
    """Raise ModelProblem if a part of the SELECT means something else over other columns of its datasets.

    A SELECT that is not valid over the columns ``before`` has no meaning to keep.
    """
    statement = parse_model(text)
    if not _may_differ(statement, before, after):
        return
    try:
        _, was = described_items(statement, before)
    except ModelProblem:
        return
    _, now = described_items(statement, after)
    _check_references(statement, was.references, now.references)
    _check_expansions(statement, was, now)


def _may_differ(statement: Statement, before: Datasets, after: Datasets) -> bool:
    """Return True unless the names of columns that differ do not occur in the SELECT."""
    if statement.has_star:
        return True
    old, new = ({name.lower(): {each.name.lower() for each in columns} for name, columns in of.items()}
                for of in (before, after))  # fmt: skip
    differing = {column for name in old.keys() | new.keys() for column in old.get(name, set()) ^ new.get(name, set())}
    return not differing.isdisjoint(token.text.lower() for token in statement.tokens)


def _check_references(statement: Statement, was: Sequence[Reference], now: Sequence[Reference]) -> None:
    for old, new in zip_longest(was, now):
        if old is None or new is None or place_of(old) != place_of(new):
            name = (old or new).name
            meant, means = ("nothing" if each is None else _in_words(each) for each in (old, new))
            message = f"{name.name} is {meant} and would become {means}: qualify it, or write its expression, first"
            raise statement.problem(name, message)


def place_of(reference: Reference) -> tuple[int, str, str, int]:
    """Return what a name stands for, as a value to compare."""
    return reference.name.meta.get("start", -1), reference.owner, reference.column, reference.depth


def _in_words(reference: Reference) -> str:
    if not reference.owner:
        return f"the result {reference.column}"
    if reference.owner == USING:
        return f"the column of {reference.column} in USING"
    return f"{reference.owner}.{reference.column}" + (" outside of the subquery" if reference.depth else "")


def _check_expansions(statement: Statement, was: Queries, now: Queries) -> None:
    for old, new in zip(was.expansions, now.expansions, strict=True):
        if not _agree(old, new):
            added = [name for name in new.columns if name not in old.columns]
            what = {
                NO_MORE: "* compares all columns, so a new one would change the rows",
                PAIRS: "columns of both sides would be united in another way",
            }.get(new.rule, "its places would stand for other columns")
            more = f" ({', '.join(map(str, added))})" if added and new.rule == NO_MORE else ""
            raise statement.problem(new.node, f"{what}{more}: name the columns first")


def _agree(old: Expansion, new: Expansion) -> bool:
    if old.rule == NO_MORE:
        return set(new.columns) <= set(old.columns)
    if old.rule == PAIRS:
        was, now = ([pair for pair in each.columns if isinstance(pair, tuple)] for each in (old, new))
        return all(
            dict(mapping).get(name, other) == other
            for mapping, two in ((was, now), ([(b, a) for a, b in was], [(b, a) for a, b in now]))
            for name, other in two
        )
    return old.columns == new.columns
