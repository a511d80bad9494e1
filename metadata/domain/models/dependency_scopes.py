"""Tables in a SELECT, and the columns that choose their rows, for ``dependencies``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from sqlglot import exp

# Dataset like ``schema.name`` and column, in lower case.
Column = tuple[str, str]
# ROWS in place of a column stands for the row set of the dataset. VARYING stands for values that differ by row without
# a column, such as row numbers.
ROWS = "*"
VARYING: Column = ("", ROWS)
# Marks that a source is used, also where only a constant of it is selected.
_USE: Column = ("", "")


@dataclass(frozen=True)
class Choice:
    """Columns of one table that decide which of its rows are left out.

    Choices of a query contain those of the queries beneath it, which they share: equal ones of a statement are the
    same object, and a reader must visit each of them once, since the number of ways to one doubles with each query.
    """

    among: "frozenset[Column | Choice]"

    @property
    def columns(self) -> "frozenset[Column]":
        """Return the columns, without those of choices within."""
        return frozenset(each for each in self.among if not isinstance(each, Choice))

    @property
    def within(self) -> "frozenset[Choice]":
        return frozenset(each for each in self.among if isinstance(each, Choice))


Dependency = Column | Choice


def columns_of(depends: "Iterable[Dependency]") -> set[Column]:
    """Return the columns among dependencies, those of choices included."""
    columns: set[Column] = set()
    seen: set[Choice] = set()
    pending = [depends]
    while pending:
        for each in pending.pop():
            if not isinstance(each, Choice):
                columns.add(each)
            elif each not in seen:
                seen.add(each)
                pending.append(each.among)
    return columns


# A dependency by the source of a SELECT that it was read from; 0 for another place.
Tagged = frozenset[tuple[int, Dependency]]
NONE: Tagged = frozenset()


@dataclass(frozen=True)
class Relation:
    """Columns of a query in their order with what they depend on, and what decides its rows."""

    columns: tuple[tuple[str, Tagged], ...]
    rows: Tagged

    @property
    def all(self) -> Tagged:
        return self.rows.union(*(tagged for _, tagged in self.columns))


@dataclass
class Source:
    """Table or subquery in FROM. ``chosen`` are the dependencies by which its rows are chosen."""

    number: int
    name: str
    dataset: str
    relation: Relation
    keys: tuple[frozenset[str], ...] = ()
    columns: dict[str, Tagged] = field(default_factory=dict)
    chosen: set[tuple[int, Dependency]] = field(default_factory=set)

    def __post_init__(self) -> None:
        own = {name: self._own(tagged) | {(self.number, _USE)} for name, tagged in self.relation.columns}
        self.columns, self.rows = own, self._own(self.relation.rows)

    def _own(self, tagged: Tagged) -> Tagged:
        return frozenset((tag or self.number, each) for tag, each in tagged)


@dataclass
class Scope:
    """Names that expressions of one SELECT may use.

    ``links`` are pairs of sources, where the rows of the first are chosen by those of the second. ``rows`` decide
    which rows the SELECT has. ``hidden`` are sources that only filter. ``leaves_out`` is True in HAVING, which compares
    the arguments of aggregates: the rows that these have were chosen before. ``choices`` are all of the statement.
    """

    tables: Mapping[str, Relation]
    outer: "Scope | None"
    choices: dict[Choice, Choice]
    sources: list[Source] = field(default_factory=list)
    hidden: list[Source] = field(default_factory=list)
    merged: dict[str, list[Source]] = field(default_factory=dict)
    results: dict[str, Tagged] = field(default_factory=dict)
    windows: list[exp.Expr] = field(default_factory=list)
    links: set[tuple[int, int]] = field(default_factory=set)
    rows: set[tuple[int, Dependency]] = field(default_factory=set)
    # Own columns of sources in the conditions of joins that repeat no row, and whether another join may.
    compared: list[tuple[Source, Tagged]] = field(default_factory=list)
    repeats: bool = False
    leaves_out: bool = False

    @property
    def every_source(self) -> list[Source]:
        return [*self.sources, *self.hidden]

    @property
    def numbers(self) -> set[int]:
        return {source.number for source in self.every_source}

    def find(self, column: exp.Column) -> Tagged | None:
        """Return the dependencies of a name here or around; None for an unknown one."""
        here = self._here(column)
        if here is not None:
            return here
        return self.outer.find(column) if self.outer is not None else None

    def _here(self, column: exp.Column) -> Tagged | None:
        name, table = column.name.lower(), column.table.lower()
        if column.args.get("db"):
            dataset = f"{column.text('db')}.{table}".lower()
            named = [source for source in self.sources if source.dataset == dataset]
        elif table:
            named = [source for source in self.sources if source.name == table]
        else:
            named = self.merged.get(name) or self.sources
        candidates = [source.columns[name] for source in named if name in source.columns]
        if not table and name in self.results:
            candidates.append(self.results[name])
        return frozenset(chain.from_iterable(candidates)) if candidates else None

    def decide(self, tagged: Tagged, *, unrepeated: Iterable[Source] = ()) -> None:
        """Add a condition: it leaves out rows of one source, or chooses rows of several.

        It repeats no rows of the ``unrepeated`` sources: over one of them, it only leaves out rows of it.
        """
        tags = {tag for tag, _ in tagged}
        if len(tags) < 2:
            self.leave_out(tagged)
            return
        self.rows |= tagged
        kept = tags & (self.numbers if len(tags & self.numbers) < 2 else {source.number for source in unrepeated})
        kept = kept if len(kept) == 1 else set()
        self.repeats = self.repeats or not kept
        for source in self.every_source:
            own = frozenset((tag, each) for tag, each in tagged if tag == source.number)
            if own:
                source.chosen |= tagged - own | {self._choice(own)} if source.number in kept else tagged
                self.links |= {(source.number, tag) for tag in tags & self.numbers - {source.number}}
                if source.number in kept:
                    self.compared.append((source, own))

    def leave_out(self, tagged: Tagged) -> None:
        """Add a condition over rows as they are, which leaves some of them out."""
        self.rows |= tagged
        if {tag for tag, _ in tagged} & self.numbers:
            for source in self.sources:
                source.chosen.add(self._choice(tagged))

    def settle(self) -> None:
        """Pass on choices along the joins: rows that are joined with chosen rows are chosen, too."""
        by_number = {source.number: source for source in self.every_source}
        for source, own in self.compared if self.repeats else ():
            source.chosen |= own
        is_new = True
        while is_new:
            is_new = False
            for chosen, by in self.links:
                passed = {(tag, each) for tag, each in by_number[by].chosen if self.repeats or tag != chosen}
                if not passed <= by_number[chosen].chosen:
                    by_number[chosen].chosen |= passed
                    is_new = True

    def with_choices(self, tagged: Tagged) -> Tagged:
        """Return dependencies with those by which the rows of their sources are chosen."""
        tags = {tag for tag, _ in tagged}
        chosen = (source.chosen for source in self.every_source if source.number in tags)
        return tagged.union(*chosen)

    def closed(self, tagged: Iterable[tuple[int, Dependency]]) -> Tagged:
        """Return dependencies as they are outside of the SELECT."""
        own = self.numbers
        return frozenset((0 if tag in own else tag, each) for tag, each in tagged if tag not in own or each != _USE)

    def _choice(self, tagged: Tagged) -> tuple[int, Choice]:
        choice = Choice(frozenset(each for _, each in tagged if each != _USE))
        return (0, self.choices.setdefault(choice, choice))
