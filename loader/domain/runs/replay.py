"""History cases: a parser, a run on an engine and a comparison of the result (``manage.py replay``).

An engine is anything with ``apply(batch)``, which raises Refusal, and ``rows()``: the reference
here, the real one behind the same two calls. A case's names are those valid at its end (rule 7);
an engine gets them as they were before the first batch, and then every batch as it is written.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isinf
from typing import Any, Protocol

from elevata.core.errors import MetadataError
from loader.domain.historization.history import parse_instant
from loader.domain.reference.batch_files import FILES
from loader.domain.reference.compare import Comparison
from loader.domain.reference.table import Header
from loader.domain.reference.values import DoesNotFit, as_json, typed
from loader.domain.runs.refusals import Refusal
from metadata.domain.history_policy import (
    BATCH_FILES,
    CDC,
    CLOSE,
    DELTA,
    EFFECTIVE,
    LOAD_TIME,
    SNAPSHOT,
    HistoryPolicy,
    PolicyContradiction,
)
from metadata.domain.types import BIGINT, TIMESTAMP, DataType, parse

_CASE = ("id", "keys", "columns", "policy", "batches", "expected")
_BATCH = ("at", "run_id", "rows", "columns", "rename", "allow_empty", "allow_deletes", "error", *FILES)


class Engine(Protocol):
    """Interface of an engine that cases run on."""

    def apply(self, batch: Mapping[str, Any]) -> Any: ...

    def rows(self) -> list[dict[str, Any]]: ...


class CaseProblem(ValueError):
    """Error in a file of cases; the message names the case and the place."""


@dataclass(frozen=True)
class Case:
    """A parsed case, under the names that are valid at its end (rule 7).

    ``problem`` is the reason why no history can be kept by its policy; such a case fails, by itself.
    """

    id: str
    keys: tuple[str, ...]
    columns: Mapping[str, DataType]
    policy: HistoryPolicy
    batches: tuple[Mapping[str, Any], ...]
    expected: tuple[Mapping[str, Any], ...]
    problem: str = ""

    def header(self) -> Header:
        """Return keys, columns and policy under the names that are valid before the first batch."""
        names = self._first_names()
        columns: dict[str, DataType] = {}
        for name in sorted(self.columns, key=lambda name: name not in names):
            columns.setdefault(names.get(name, name), self.columns[name])
        policy = self.policy.renamed(names)
        return Header(tuple(names.get(name, name) for name in self.keys), columns, policy, self.id)

    def _first_names(self) -> dict[str, str]:
        """Return names before the first batch by names at the end: refused batches and reruns rename nothing."""
        names: dict[str, str] = {}
        seen: set[str] = set()
        for batch in self.batches:
            if batch.get("error") is None and batch["run_id"] not in seen:
                seen.add(batch["run_id"])
                renames: Mapping[str, str] = batch.get("rename") or {}
                first = {new: names.get(old, old) for old, new in renames.items()}
                names = {name: old for name, old in names.items() if name not in renames} | first
        return names

    def types(self) -> dict[str, DataType]:
        """Return the type each column is compared as: the case's own, else the last one a batch gave it."""
        found: dict[str, DataType] = {}
        for batch in self.batches:
            if batch.get("error") is None:
                found |= {name: parse(type_) for name, type_ in (batch.get("columns") or {}).items()}
        return {**found, **self.columns}


@dataclass(frozen=True)
class Outcome:
    """Result of a case. ``message`` lists the differences, empty if there are none."""

    id: str
    passed: bool
    message: str
    actual: tuple[Mapping[str, Any], ...]

    def as_json(self) -> dict[str, Any]:
        rows = [{name: as_json(value) for name, value in row.items()} for row in self.actual]
        return {"id": self.id, "passed": self.passed, "message": self.message, "actual": rows}


def parse_cases(text: str) -> list[Case]:
    """Return the cases of a file. Raise CaseProblem at the first violation of the contract."""
    try:
        found = json.loads(text, parse_float=_number, parse_constant=str)
    except ValueError as problem:
        raise CaseProblem(f"not JSON: {problem}") from None
    if not isinstance(found, list):
        raise CaseProblem("must be a list of cases")
    cases = [_case(described, number) for number, described in enumerate(found, 1)]
    _all_different([case.id for case in cases], "two cases are called")
    return cases


def select(cases: Iterable[Case], only: Iterable[str] | None) -> list[Case]:
    """Return the cases with these ids, or all. Raise CaseProblem for an unknown id."""
    known = {case.id: case for case in cases}
    if only is None:
        return list(known.values())
    for name in only:
        if name not in known:
            raise CaseProblem(f"there is no case {name!r}")
    return [known[name] for name in dict.fromkeys(only)]


def run_case(case: Case, make_engine: Callable[[Header], Engine]) -> Outcome:
    """Apply the batches in order and compare the table with what is expected."""
    if case.problem:
        return Outcome(case.id, False, case.problem, ())
    engine = make_engine(case.header())
    comparison = Comparison(case.types(), case.policy)
    problems = []
    for number, batch in enumerate(case.batches, 1):
        before = engine.rows() if batch.get("error") is not None else None
        refusal = _applied(engine, batch)
        where = f"batch {number} ({batch['run_id']})"
        if before is None and refusal is not None:
            problems.append(f"{where} was refused: {refusal.code}: {refusal.one_line()}")
        elif before is not None and refusal is None:
            problems.append(f"{where} was applied, and should have been refused: {batch['error']}")
        elif before is not None and not comparison.same(before, engine.rows()):
            problems.append(f"{where} was refused, yet the table changed")
    actual = engine.rows()
    problems += comparison.differences(case.expected, actual)
    return Outcome(case.id, not problems, "; ".join(problems), tuple(comparison.ordered(actual)))


def _applied(engine: Engine, batch: Mapping[str, Any]) -> Refusal | None:
    """Apply a batch and return its refusal, if any. ``error`` is for the comparison, not for the engine."""
    try:
        engine.apply({name: value for name, value in batch.items() if name != "error"})
    except Refusal as refusal:
        return refusal
    return None


def _number(text: str) -> float | str:
    """Return the number; one too large for a double stays text, to be refused instead of becoming Infinity."""
    number = float(text)
    return text if isinf(number) else number


def _case(described: Any, number: int) -> Case:
    where = f"case {number}"
    _fields(described, _CASE, where, needed=_CASE)
    if not isinstance(described["id"], str) or not described["id"]:
        raise CaseProblem(f"{where}: id must be text")
    where = f"case {described['id']!r}"
    try:
        policy = _policy(described["policy"], where)
    except PolicyContradiction as problem:
        return Case(described["id"], (), {}, HistoryPolicy(), (), (), problem.one_line())
    columns = _columns(described["columns"], where)
    keys = tuple(_texts(described["keys"], f"{where}: keys"))
    if not isinstance(described["batches"], list):
        raise CaseProblem(f"{where}: batches must be a list")
    batches = tuple(
        _batch(batch, policy, f"{where}, batch {place}") for place, batch in enumerate(described["batches"], 1)
    )
    expected = described["expected"]
    if not isinstance(expected, list) or not all(isinstance(row, dict) for row in expected):
        raise CaseProblem(f"{where}: expected must be a list of objects")
    known = dict(columns)
    for batch in batches:
        for name, type_ in (batch.get("columns") or {}).items():
            known.setdefault(name, parse(type_))
    if policy.input != BATCH_FILES and policy.time not in (LOAD_TIME, *known):
        columns = {**columns, policy.time: _time_type(batches, policy.time)}
        known[policy.time] = columns[policy.time]
    for name in keys:
        if name not in known:
            raise CaseProblem(f"{where}: the key {name!r} is no column")
    try:
        policy.check_against(known, keys)
        said = ""
    except MetadataError as problem:
        said = problem.one_line()
    return Case(described["id"], keys, columns, policy, batches, tuple(expected), said)


def _time_type(batches: Iterable[Mapping[str, Any]], name: str) -> DataType:
    """Return the type of a time that rows carry without its being a column: numbers are a sequence."""
    found = {type(row.get(name)) for batch in batches for row in batch.get("rows") or [] if row.get(name) is not None}
    return DataType(BIGINT if found == {int} else TIMESTAMP)


def _policy(described: Any, where: str) -> HistoryPolicy:
    """Return the case's policy; in a feed, ``op`` is the operation's column unless it says otherwise.

    Programs that write cases state more than users who save a policy: choices without effect beside the
    others are ignored here. Raise PolicyContradiction for choices that contradict the others.
    """
    if isinstance(described, dict):
        described = {name: value for name, value in described.items() if value is not None}
        if described.get("input") == CDC:
            described = {"op": "op", **described}
        if described.get("track") == []:
            del described["track"]
    try:
        try:
            return HistoryPolicy.from_dict(described)
        except PolicyContradiction:
            return HistoryPolicy.from_dict(_without_idle(described))
    except PolicyContradiction:
        raise
    except MetadataError as problem:
        raise CaseProblem(f"{where}: {problem.one_line()}") from None


def _without_idle(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy's choices without those that have no effect beside the others."""
    input_, by_load = described.get("input", SNAPSHOT), described.get("time", LOAD_TIME) == LOAD_TIME
    nothing_absent = described.get("absent_keys", "nothing") == "nothing"
    idle = set()
    if input_ in (DELTA, EFFECTIVE) and nothing_absent and described.get("deletes") == CLOSE:
        idle.add("deletes")
    if input_ == SNAPSHOT:
        idle.add("absent_keys")
    if by_load or input_ == BATCH_FILES:
        idle |= {"late", "late_horizon"}
    if "track" not in described:
        idle.add("untracked")
    if input_ != BATCH_FILES:
        idle |= {"null_string", "unmodified_string"}
    return {name: value for name, value in described.items() if name not in idle}


def _batch(described: Any, policy: HistoryPolicy, where: str) -> Mapping[str, Any]:
    rows = FILES if policy.input == BATCH_FILES else ("rows",)
    others = {"rows", *FILES} - set(rows)
    _fields(described, tuple(name for name in _BATCH if name not in others), where, needed=("at", "run_id"))
    if policy.input != BATCH_FILES and "rows" not in described:
        raise CaseProblem(f"{where}: rows is missing")
    for name in rows:
        found = described.get(name, [])
        if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
            raise CaseProblem(f"{where}: {name} must be a list of objects")
    if not isinstance(described["run_id"], str) or not described["run_id"]:
        raise CaseProblem(f"{where}: run_id must be text")
    try:
        parse_instant(described["at"])
        typed(described["at"], DataType(TIMESTAMP))
    except (TypeError, ValueError, DoesNotFit):
        raise CaseProblem(f"{where}: at must be a timestamp, not {described['at']!r}") from None
    for decision in ("allow_empty", "allow_deletes"):
        if not isinstance(described.get(decision, False), bool):
            raise CaseProblem(f"{where}: {decision} must be true or false")
    if described.get("columns") is not None:
        _columns(described["columns"], where)
    rename = described.get("rename") or {}
    if not isinstance(rename, dict) or not all(isinstance(new, str) and new for new in rename.values()):
        raise CaseProblem(f"{where}: rename must map names to names")
    return described


def _columns(described: Any, where: str) -> dict[str, DataType]:
    if not isinstance(described, dict) or not all(isinstance(type_, str) for type_ in described.values()):
        raise CaseProblem(f"{where}: columns must map names to types")
    try:
        return {name: parse(type_) for name, type_ in described.items()}
    except MetadataError as problem:
        raise CaseProblem(f"{where}: {problem.one_line()}") from None


def _fields(described: Any, known: Iterable[str], where: str, needed: Iterable[str]) -> None:
    if not isinstance(described, dict):
        raise CaseProblem(f"{where} must be an object")
    for name in described:
        if name not in known:
            raise CaseProblem(f"{where}: {name!r} is not known; known are {', '.join(known)}")
    for name in needed:
        if name not in described:
            raise CaseProblem(f"{where}: {name} is missing")


def _texts(described: Any, where: str) -> list[str]:
    if not isinstance(described, list) or not described or not all(isinstance(name, str) for name in described):
        raise CaseProblem(f"{where} must be a list of names")
    _all_different(described, f"{where} names")
    return described


def _all_different(names: list[str], said: str) -> None:
    for place, name in enumerate(names):
        if name in names[:place]:
            raise CaseProblem(f"{said} {name!r} twice")
