"""History cases: parser, and run on an engine.

An engine (the reference engine or the Spark engine) has the methods ``apply(batch)``, which raises Refusal, and
``rows()``. The names in a case are those at its end (rule 7); an engine gets the names before the first batch, and
then every batch unchanged.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isinf
from typing import Any, Protocol

from elevata.core import strict_fields as strict
from elevata.core.errors import MetadataError
from elevata.core.strict_fields import Field, Node, Record, Spec
from loader.contract.refusals import Refusal
from loader.domain.historization.history import parse_instant
from loader.domain.reference.batch_files import FILES
from loader.domain.reference.case_comparison import Comparison
from loader.domain.reference.table import Header
from loader.domain.reference.values import DoesNotFit, as_json, typed
from metadata.domain.history.history_policy import (
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


class Engine(Protocol):
    """Interface of an engine that cases run on."""

    def apply(self, batch: Mapping[str, Any]) -> Any: ...

    def rows(self) -> list[dict[str, Any]]: ...


class CaseProblem(ValueError):
    """Error in a file of cases; the message names the case and the place."""


@dataclass(frozen=True)
class Case:
    """Parsed case, under the names that are valid at its end (rule 7).

    ``problem`` is the reason why its policy permits no history; only such a case fails, not the others.
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
        """Return names before the first batch by names at the end. Refused batches and reruns rename nothing."""
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
        """Return the type by which each column is compared: that of the case, else the last one in a batch."""
        types: dict[str, DataType] = {}
        for batch in self.batches:
            if batch.get("error") is None:
                types |= {name: parse(type_) for name, type_ in (batch.get("columns") or {}).items()}
        return {**types, **self.columns}


@dataclass(frozen=True)
class Outcome:
    """Result of a case. ``message`` lists the differences, empty if there are none.

    ``passed`` is None if an engine does not apply the case's policy; ``message`` has the code.
    """

    id: str
    passed: bool | None
    message: str
    actual: tuple[Mapping[str, Any], ...]

    def as_json(self) -> dict[str, Any]:
        rows = [{name: as_json(value) for name, value in row.items()} for row in self.actual]
        return {"id": self.id, "passed": self.passed, "message": self.message, "actual": rows}


def parse_cases(text: str) -> list[Case]:
    """Return the cases of a file. Raise CaseProblem for the first error in the file."""
    try:
        document = json.loads(text, parse_float=_number, parse_constant=str)
    except ValueError as problem:
        raise CaseProblem(f"not JSON: {problem}") from None
    if not isinstance(document, list):
        raise CaseProblem("must be a list of cases")
    cases = [_case(described, number) for number, described in enumerate(document, 1)]
    _check_distinct([case.id for case in cases], "two cases are called")
    return cases


def select(cases: Iterable[Case], only: Iterable[str] | None) -> list[Case]:
    """Return the cases with these ids, or all. Raise CaseProblem for an unknown id."""
    by_id = {case.id: case for case in cases}
    if only is None:
        return list(by_id.values())
    for name in only:
        if name not in by_id:
            raise CaseProblem(f"there is no case {name!r}")
    return [by_id[name] for name in dict.fromkeys(only)]


def run_case(case: Case, make_engine: Callable[[Header], Engine]) -> Outcome:
    """Apply the batches in order and compare the table with the expected rows."""
    if case.problem:
        return Outcome(case.id, False, case.problem, ())
    engine = make_engine(case.header())
    comparison = Comparison(case.types(), case.policy)
    problems = []
    for number, batch in enumerate(case.batches, 1):
        before = engine.rows() if batch.get("error") is not None else None
        refusal = _refusal_of(engine, batch)
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


def _refusal_of(engine: Engine, batch: Mapping[str, Any]) -> Refusal | None:
    """Apply a batch without its field ``error``, which is for the comparison; return its refusal, if any."""
    try:
        engine.apply({name: value for name, value in batch.items() if name != "error"})
    except Refusal as refusal:
        return refusal
    return None


def _number(text: str) -> float | str:
    """Return the number. One too large for a double stays text, so that it is refused and not read as Infinity."""
    number = float(text)
    return text if isinf(number) else number


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be text")
    return value


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
        raise ValueError("must be a list of names")
    _check_distinct(value, "names")
    return tuple(value)


def _types(value: Any) -> dict[str, DataType]:
    if not isinstance(value, dict) or not all(isinstance(type_, str) for type_ in value.values()):
        raise ValueError("must map names to types")
    try:
        return {name: parse(type_) for name, type_ in value.items()}
    except MetadataError as problem:
        raise ValueError(problem.one_line()) from None


def _renames(value: Any) -> dict[str, str]:
    value = value or {}
    if not isinstance(value, dict) or not all(isinstance(new, str) and new for new in value.values()):
        raise ValueError("must map names to names")
    return value


def _time(value: Any) -> Any:
    try:
        parse_instant(value)
        typed(value, DataType(TIMESTAMP))
    except (TypeError, ValueError, DoesNotFit):
        raise ValueError(f"must be a timestamp, not {value!r}") from None
    return value


_ROWS = strict.list_of(strict.fields)
_CASE: Spec = {
    "id": Field(strict.checked(_name), required=True),
    "keys": Field(strict.checked(_names), required=True),
    "columns": Field(strict.checked(_types), required=True),
    "policy": Field(strict.anything, required=True),
    "batches": Field(lambda node, name: [item.value for item in strict.items(node, name)], required=True),
    "expected": Field(_ROWS, required=True),
}
_BATCH: Spec = {
    "at": Field(strict.checked(_time), required=True),
    "run_id": Field(strict.checked(_name), required=True),
    "columns": Field(strict.checked(lambda value: value and _types(value))),
    "rename": Field(strict.checked(_renames)),
    "allow_empty": Field(strict.flag),
    "allow_deletes": Field(strict.flag),
    "error": Field(strict.anything),
}


def _record(described: Any, spec: Spec, where: str) -> Record:
    try:
        return strict.read_record(Node(described, path=()), spec)
    except strict.BadField as problem:
        raise CaseProblem(f"{where}: {problem.field} {problem.message}") from None


def _case(described: Any, number: int) -> Case:
    case = _record(described, _CASE, f"case {number}")
    where = f"case {case['id']!r}"
    try:
        policy = _policy(case["policy"], where)
    except PolicyContradiction as problem:
        return Case(case["id"], (), {}, HistoryPolicy(), (), (), problem.one_line())
    columns, keys = case["columns"], case["keys"]
    batches = tuple(_batch(batch, policy, f"{where}, batch {place}") for place, batch in enumerate(case["batches"], 1))
    types = dict(columns)
    for batch in batches:
        for name, type_ in (batch.get("columns") or {}).items():
            types.setdefault(name, parse(type_))
    if policy.input != BATCH_FILES and policy.time not in (LOAD_TIME, *types):
        columns = {**columns, policy.time: _time_type(batches, policy.time)}
        types[policy.time] = columns[policy.time]
    for name in keys:
        if name not in types:
            raise CaseProblem(f"{where}: the key {name!r} is no column")
    contradiction = ""
    try:
        policy.check_against(types, keys)
    except MetadataError as error:
        contradiction = error.one_line()
    return Case(case["id"], keys, columns, policy, batches, tuple(case["expected"]), contradiction)


def _time_type(batches: Iterable[Mapping[str, Any]], name: str) -> DataType:
    """Return the type of a time that is in rows but not a column: integer for numbers, else timestamp."""
    types = {type(row.get(name)) for batch in batches for row in batch.get("rows") or [] if row.get(name) is not None}
    return DataType(BIGINT if types == {int} else TIMESTAMP)


def _policy(described: Any, where: str) -> HistoryPolicy:
    """Return the case's policy. In a feed, the operation's column is ``op`` by default.

    Choices without effect are ignored, because programs that write cases state more of them than users who save a
    policy. Raise PolicyContradiction for choices that contradict others.
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
            return HistoryPolicy.from_dict(_without_idle_choices(described))
    except PolicyContradiction:
        raise
    except MetadataError as problem:
        raise CaseProblem(f"{where}: {problem.one_line()}") from None


def _without_idle_choices(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choices of a policy without those that have no effect."""
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
    files = policy.input == BATCH_FILES
    rows = dict.fromkeys(FILES, Field(_ROWS)) if files else {"rows": Field(_ROWS, required=True)}
    _record(described, {**_BATCH, **rows}, where)
    batch: Mapping[str, Any] = described
    return batch


def _check_distinct(names: list[str], message: str) -> None:
    for place, name in enumerate(names):
        if name in names[:place]:
            raise CaseProblem(f"{message} {name!r} twice")
