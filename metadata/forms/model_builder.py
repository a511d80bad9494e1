"""State of the guided builder, as its form sends it, and the choices that it offers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from django.http import QueryDict

from metadata.domain import naming
from metadata.domain.models import ModelProblem, ReadColumn
from metadata.domain.models.builder import (
    FUNCTIONS,
    INNER,
    IS_NOT_NULL,
    IS_NULL,
    JOINS,
    OPERATORS,
    Build,
    Condition,
    Join,
    Pick,
    alias_of,
    literal_of,
    value_of,
)
from metadata.models import Reference
from metadata.selectors.models import Readable, readable_called

_BETWEEN = "|"


@dataclass
class ChosenColumn:
    """Column of a chosen dataset. ``value`` identifies it in the form."""

    value: str
    column: ReadColumn
    picked: bool = False
    name: str = ""
    function: str = ""

    @property
    def label(self) -> str:
        """Return ``alias.column``."""
        return self.value.replace(_BETWEEN, ".")


@dataclass
class Chosen:
    """Chosen dataset with its columns and the joins that it may have."""

    readable: Readable
    alias: str
    columns: list[ChosenColumn]
    options: list[tuple[str, str]] = field(default_factory=list)
    join: str = ""
    kind: str = INNER


@dataclass
class ConditionRow:
    """Condition as typed."""

    column: str = ""
    operator: str = "="
    value: str = ""


class BuilderState:
    """Choices of a user, from the form or from a build."""

    joins, functions, operators = JOINS, FUNCTIONS, OPERATORS

    def __init__(self) -> None:
        self.chosen: list[Chosen] = []
        self.conditions: list[ConditionRow] = []
        self.problem = ""

    @classmethod
    def from_form(cls, data: QueryDict) -> "BuilderState":
        """Return the state that the form sends, with a dataset added or removed as its buttons say."""
        state = cls()
        names = data.getlist("dataset")
        for place, name in enumerate(names):
            if data.get("remove") != str(place):
                state.add(name)
        for place, chosen in enumerate(state.chosen):
            chosen.join = data.get(f"join-{place}", "")
            chosen.kind = data.get(f"kind-{place}", INNER)
            for column in chosen.columns:
                column.picked = column.value in data.getlist("pick")
                column.name = data.get(f"name-{column.value}", "").strip() or column.name
                column.function = data.get(f"function-{column.value}", "")
        rows = zip(*(data.getlist(f"where-{name}") for name in ("column", "operator", "value")), strict=False)
        state.conditions = [ConditionRow(*row) for row in rows if row[0]]
        if added := str(data.get("add", "")).strip():
            state.add(added)
        return state

    @classmethod
    def from_build(cls, build: Build) -> "BuilderState":
        state = cls()
        picks = {(pick.alias.lower(), pick.column.lower()): pick for pick in build.picks}
        state.add(build.dataset, build.alias)
        for joined in build.joins:
            state.add(joined.dataset, joined.alias)
        for chosen, join in zip(state.chosen[1:], build.joins, strict=False):
            chosen.kind = join.kind
            chosen.join = _BETWEEN.join((join.own, join.other, join.column))
        for chosen in state.chosen:
            for column in chosen.columns:
                pick = picks.get((chosen.alias.lower(), column.column.name.lower()))
                if pick is not None:
                    column.picked, column.name, column.function = True, pick.name, pick.function
        state.conditions = [
            ConditionRow(f"{row.alias}{_BETWEEN}{row.column}", row.operator, value_of(row)) for row in build.conditions
        ]
        return state

    def add(self, name: str, alias: str = "") -> None:
        """Add a dataset; the problem says why it cannot be."""
        readable = readable_called(name)
        if readable is None:
            self.problem = f"There is no dataset {name!r} that a model can read."
            return
        alias = alias or alias_of(readable.name, [chosen.alias for chosen in self.chosen])
        columns = [
            ChosenColumn(f"{alias}{_BETWEEN}{column.name}", column, name=column.name) for column in readable.columns
        ]
        chosen = Chosen(readable, alias, columns)
        chosen.options = list(_join_options(chosen, self.chosen))
        chosen.join = chosen.options[0][0] if chosen.options else ""
        self.chosen.append(chosen)

    def all_columns(self) -> list[ChosenColumn]:
        return [column for chosen in self.chosen for column in chosen.columns]

    def build(self) -> Build:
        """Return the build of complete choices. Raise ModelProblem."""
        if not self.chosen:
            raise ModelProblem("choose a dataset first")
        first, *others = self.chosen
        picks = [
            Pick(chosen.alias, column.column.name, column.name, column.function)
            for chosen in self.chosen
            for column in chosen.columns
            if column.picked
        ]
        if not picks:
            raise ModelProblem("choose at least one column")
        joins = tuple(_join(chosen) for chosen in others)
        types = {column.value: column.column for column in self.all_columns()}
        conditions = tuple(_condition(row, types) for row in self.conditions)
        return Build(first.readable.name, first.alias, joins, tuple(picks), conditions)


def _join(chosen: Chosen) -> Join:
    parts = chosen.join.split(_BETWEEN)
    if len(parts) != 3 or chosen.kind not in JOINS:
        raise ModelProblem(f"choose how {chosen.alias} is joined")
    return Join(chosen.readable.name, chosen.alias, chosen.kind, *parts)


def _condition(row: ConditionRow, types: Mapping[str, ReadColumn]) -> Condition:
    column = types.get(row.column)
    if column is None or row.operator not in OPERATORS:
        raise ModelProblem(f"{row.column.replace(_BETWEEN, '.')} is no column of a chosen dataset")
    alias = row.column.partition(_BETWEEN)[0]
    value = "" if row.operator in (IS_NULL, IS_NOT_NULL) else literal_of(row.value, column.type)
    return Condition(alias, column.name, row.operator, value)


def _join_options(chosen: Chosen, before: list[Chosen]) -> Iterator[tuple[str, str]]:
    """Yield the joins of a dataset with those before it: by declared references, then by columns of one name."""
    for other in before:
        yield from _by_reference(chosen, other)
    for other in before:
        theirs = {column.column.name.lower(): column.column for column in other.columns}
        for column in chosen.columns:
            same = theirs.get(column.column.name.lower())
            if same is not None and not (same.technical or column.column.technical):
                value = _BETWEEN.join((column.column.name, other.alias, same.name))
                yield value, f"{chosen.alias}.{column.column.name} = {other.alias}.{same.name}"


def _by_reference(chosen: Chosen, other: Chosen) -> Iterator[tuple[str, str]]:
    ends = {chosen.readable.dataset.pk: chosen, other.readable.dataset.pk: other}
    rows = Reference.objects.filter(active=True, child__in=ends, parent__in=ends).select_related("parent")
    for reference in rows:
        child, parent = ends[reference.child_id], ends[reference.parent_id]
        if child is parent:
            continue
        foreign = naming.foreign_key_name(reference.role_name, reference.parent.name)
        key = naming.entity_key_name(reference.parent.name)
        own, theirs = (foreign, key) if child is chosen else (key, foreign)
        role = f" as {reference.role_name}" if reference.role_name else ""
        yield _BETWEEN.join((own, other.alias, theirs)), f"reference {child.alias} → {parent.alias}{role}"
