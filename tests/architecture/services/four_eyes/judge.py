"""Judge: records the edits and approvals of facts and checks the guarantee when a fact reaches the warehouse.

It implements the contract ("Operations and decisions") independently of the planner and the change log. It accepts
a product that is stricter than the guarantee.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from architecture.domain.steps.step import CHECK_NOT_NULL
from tests.architecture.services.four_eyes.facts import ROWS, TABLE, VALUE, Fact, Facts, feeding
from tests.architecture.services.four_eyes.warehouse import Stepped

WAREHOUSE = ""  # reads every fact; the other readers are historized datasets, by key
SAFE, REVIEW, COMPARES, RETYPES, DROPS = "safe", "review", "compares", "retypes", "drops"
_NEVER = 99

_WIDER = {
    "string(20)": {"string(50)", "string"},
    "string(50)": {"string"},
    "integer": {"bigint"},
}
# Twenty characters hold every bigint.
_REBUILT = dict.fromkeys(("integer", "bigint"), {"string(20)", "string(50)", "string"})
_KINDS_OF_COLUMN = ("name", "type", "not null", "in use", VALUE)
_COMPARED = (VALUE, *ROWS, "policy", "key")
_SHOWN_BY = {
    "rename_column": ("name",),
    "add_column": _KINDS_OF_COLUMN,
    "drop_column": _KINDS_OF_COLUMN,
    "widen_column": ("type",),
    "retype_column": ("type",),
    "rebuild_table": ("type",),
    "retire_column": ("in use",),
    "unretire_column": ("in use",),
    "rename_table": ("name",),
    "retire_table": ("in use",),
    "unretire_table": ("in use",),
}


class Broken(AssertionError):
    """Violation: a fact reached the warehouse without the approvals that it needed."""


@dataclass(frozen=True)
class Edit:
    person: str
    fact: Fact
    before: Any
    after: Any


@dataclass(frozen=True)
class Approval:
    person: str
    fact: Fact
    content: Any
    at: int


@dataclass(frozen=True)
class Seen:
    """Facts at one moment, and the number of edits until then.

    ``undone`` are facts as an undo report restores them; their only author is its requester.
    """

    facts: Facts
    edits: int
    requester: str = ""
    undone: frozenset[Fact] = frozenset()


@dataclass
class ChangePolicy:
    """Change policy that is legitimately in force, without choices that one user alone loosened."""

    safe: int = 0
    review: int = 1
    maintenance: int = 1
    drops: str = "block"
    retypes: str = "block"
    compares: str = "needs_approval"

    def needed(self, level: str) -> int:
        """Return the number of approvals that a change of this level needs."""
        if level in (DROPS, RETYPES):
            return _NEVER if getattr(self, level) == "block" else self.review
        if level == COMPARES:
            return self.safe if self.compares == "allow" else self.review
        return self.safe if level == SAFE else self.review

    def is_looser(self, choice: str, value: Any) -> bool:
        now = getattr(self, choice)
        scale = [0, 1, 2] if isinstance(now, int) else ["allow", "needs_approval", "block"]
        return scale.index(value) < scale.index(now)


@dataclass
class Judge:
    """Record of edits and approvals, which checks each fact that reaches the warehouse.

    ``followed`` is the content of each fact that the warehouse, or a history in it, last applied, and when. ``before``
    has the facts of the warehouse before each execution, and ``moved`` the number of changes by kind.
    """

    facts: Facts
    policy: ChangePolicy = field(default_factory=ChangePolicy)
    edits: list[Edit] = field(default_factory=list)
    approvals: list[Approval] = field(default_factory=list)
    followed: dict[tuple[str, Fact], tuple[Any, int]] = field(default_factory=dict)
    before: dict[int, Facts] = field(default_factory=dict)
    moved: Counter[str] = field(default_factory=Counter)
    clock: int = 0

    def now(self) -> Seen:
        return Seen(self.facts, len(self.edits))

    def undone(self, person: str, operations: Iterable[Mapping], execution: int) -> Seen:
        """Return the facts that an undo report of an execution restores."""
        undone = _shown(operations, self.facts)
        # A column that did not exist before is dropped, or stays in the table without values.
        absent = {fact: {"in use": False, "type": None}.get(fact[0], self.facts.get(fact)) for fact in undone}
        facts = {fact: self.before[execution].get(fact, missing) for fact, missing in absent.items()}
        return Seen({**self.facts, **facts}, len(self.edits), person, frozenset(undone))

    def edited(self, person: str, facts: Facts) -> None:
        """Record a user as author of all facts that differ from ``facts``, the metadata after the edit."""
        for fact in {*self.facts, *facts}:
            before, after = self.facts.get(fact), facts.get(fact)
            if before != after:
                self.edits.append(Edit(person, fact, before, after))
        self.facts = facts

    def approved(self, person: str, operations: Iterable[Mapping], seen: Seen) -> None:
        """Record the approval of a report with these operations."""
        self.clock += 1
        for fact in _shown(operations, seen.facts):
            self.approvals.append(Approval(person, fact, seen.facts.get(fact), self.clock))

    # --- facts that reach the warehouse ----------------------------------------------------------

    def executed(self, operations: Iterable[Mapping], steps: Iterable[Stepped], seen: Seen, *, execution: int) -> None:
        """Check executed operations against the facts that the report had ``seen``."""
        warehouse = {fact: content for (reader, fact), (content, _) in self.followed.items() if reader == WAREHOUSE}
        self.before.setdefault(execution, warehouse)
        facts = _shown(operations, seen.facts)
        for fact in _touched(steps):
            if fact not in facts:
                raise Broken(f"a step changed {fact}, of which no operation speaks")
        histories = [history for history in self.histories() if _compares(seen.facts, history)]
        fed = {history: feeding(seen.facts, history) for history in histories}
        for fact in sorted(facts):
            for history in (history for history in histories if fact in fed[history]):
                self._reach(history, fact, seen)
            self._reach(WAREHOUSE, fact, seen)

    def loaded(self, datasets: Mapping[str, bool], seen: Seen) -> None:
        """Check a load that ran the logic of these datasets as ``seen``; True for those with a history."""
        histories = [history for history in self.histories() if _compares(seen.facts, history)]
        fed = {name: feeding(seen.facts, name) for name in {*histories, *datasets}}
        for dataset, keeps in sorted(datasets.items()):
            if keeps != seen.facts[("history", dataset)]:
                raise Broken(f"the load of {dataset} kept history otherwise than described")
            for fact in sorted({*feeding(seen.facts, dataset, own_run=True), ("history", dataset)}):
                for history in (history for history in histories if fact in fed[history]):
                    self._reach(history, fact, seen)
                self._reach(WAREHOUSE, fact, seen)
        for history in sorted(history for history, keeps in datasets.items() if keeps):
            for fact in sorted(fed[history]):
                ran, _ = self.followed.get((WAREHOUSE, fact), (seen.facts[fact], 0))
                self._reach(history, fact, seen, ran)

    def maintained(self, requesters: Collection[str], approvers: Collection[str]) -> None:
        """Check a run that rewrote a table or a history: requesters, repeaters included, and approvers since."""
        needed = self.policy.maintenance
        if len({*approvers} - {*requesters}) < needed:
            raise Broken(f"{sorted(requesters)} rewrote a table: approved by {sorted(approvers)}, {needed} needed")

    def histories(self) -> set[str]:
        """Return the datasets whose history was loaded at least once."""
        return {reader for reader, _ in self.followed if reader != WAREHOUSE}

    def _reach(self, reader: str, fact: Fact, seen: Seen, ran: Any = None) -> None:
        content = seen.facts.get(fact) if ran is None else ran
        base, since = self.followed.get((reader, fact), (None, 0))
        if base == content:
            return
        level = self._level(reader, fact, base, content, seen)
        needed = self.policy.needed(level) if level else 0
        if needed:
            authors = self.authors(fact, base, content, seen)
            people = {
                approval.person for approval in self.approvals if (approval.fact, approval.content) == (fact, content)
            }
            valid = {
                approval.person
                for approval in self.approvals
                if (approval.fact, approval.content) == (fact, content)
                and approval.at > since
                and approval.person not in authors
            }
            if len(valid) < needed:
                raise Broken(
                    f"{' '.join(fact)} moved from {base!r} to {content!r} ({level}"
                    f"{', compared by ' + reader if reader else ''}): {needed} approvals needed; "
                    f"authors {sorted(authors)}, approved by {sorted(people)}"
                )
        self.clock += 1
        self.moved[fact[0]] += base is not None
        self.followed[reader, fact] = content, self.clock

    def authors(self, fact: Fact, base: Any, content: Any, seen: Seen) -> set[str]:
        """Return the users who edited the fact since its content was what the reader last applied."""
        if fact in seen.undone:
            return {seen.requester}
        edits = [edit for edit in self.edits[: seen.edits] if edit.fact == fact]
        while edits and edits[-1].after != content:
            edits.pop()
        people = set()
        for edit in reversed(edits):
            people.add(edit.person)
            if edit.before == base:
                break
        return people

    def _level(self, reader: str, fact: Fact, base: Any, content: Any, seen: Seen) -> str:
        """Return the level of a change, as the contract defines it; empty if it is free under any policy."""
        kind = fact[0]
        if reader != WAREHOUSE:
            if base is None or content is None or kind == "in use":
                return ""  # additions, and retiring or restoring a column, need no approval
            narrows = kind == "type" and content not in (*_WIDER.get(base, ()), *_REBUILT.get(base, ()))
            return COMPARES if kind != "type" or narrows else ""
        if kind == "type" and base is not None and seen.facts.get(("kind", fact[1])) in (TABLE, None):
            if content is None:
                return DROPS
            wider, rebuilt = content in _WIDER.get(base, ()), content in _REBUILT.get(base, ())
            return SAFE if wider else REVIEW if rebuilt else RETYPES
        if kind == "not null":
            return "" if not content else REVIEW if base is False else SAFE
        if kind == "history" and content and fact[1] in self.histories():
            return REVIEW
        return REVIEW if kind == "kind" and base is not None else SAFE


def _compares(facts: Facts, dataset: str) -> bool:
    return bool(facts.get(("history", dataset)) and facts.get(("in use", dataset)))


def _shown(operations: Iterable[Mapping], facts: Facts) -> set[Fact]:
    """Return the facts that operations of a report concern."""
    return {fact for operation in operations for fact in _shown_by(operation, facts)}


def _shown_by(operation: Mapping, facts: Facts) -> Iterable[Fact]:
    op, dataset, column = operation["op"], operation["dataset_key"], operation["column_key"]
    if ("reference", dataset, column) in facts and op != "rename_column":
        yield ("held back", dataset)
    if operation["side"] == "history" and op in ("create_table", "retire_table", "unretire_table"):
        yield ("history", dataset)
        if op == "unretire_table":  # covers all differences since the last load of the history
            yield from (fact for fact in facts if fact[1] == dataset and fact[0] in _COMPARED)
    elif op == "create_table":
        yield from (fact for fact in facts if fact[1] == dataset and fact[0] != "history")
    elif op == "drop_table":
        yield ("kind", dataset)
    elif op == "rebuild_table":
        yield from (("type", dataset, key) for key, *_ in operation["columns"])
    elif op == "change_logic":
        of_column = ("not null",) if operation["code"] == "NOT_NULL" else (VALUE,)
        kinds = of_column if column else (*ROWS, "policy", "key")
        yield from ((kind, dataset, column) if column else (kind, dataset) for kind in kinds)
    else:
        yield from ((kind, dataset, column) if column else (kind, dataset) for kind in _SHOWN_BY[op])


def _touched(steps: Iterable[Stepped]) -> Iterable[Fact]:
    """Yield the facts of columns that steps changed, derived from tables and not from names of steps."""
    for entry in steps:
        if entry.step.op == CHECK_NOT_NULL and entry.step.column is not None:
            yield ("not null", entry.step.table.dataset_key, entry.step.column.key)
        if entry.before is None or entry.after is None:
            continue
        after = {column.key: column for column in entry.after.columns}
        for column in (column for column in entry.before.columns if column.key):
            if column.key not in after or after[column.key].type != column.type:
                yield ("type", entry.step.table.dataset_key, column.key)
