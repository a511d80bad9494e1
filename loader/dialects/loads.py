"""Statements of a load: checks, history and rawcore, in the order in which they run.

They are ordinary UPDATE, DELETE and INSERT statements in one transaction. Databricks, where statements have no common
transaction, gets one MERGE for the history and one for rawcore (``merges``). A table of applied runs
(``elevata.loads``) makes a repeated run a no-op and keeps runs in order (rules 2 and 3).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from loader.contract.manifest.loads import RawcoreLoad
from loader.dialects import guards, histories, merges, runs
from loader.dialects.dialect import Dialect
from loader.dialects.refusals import NotRendered
from loader.dialects.stage import Stage
from loader.domain.historization.hash_coverage import hashed_set
from metadata.domain.history.history_policy import APPEND, DELTA, LOAD_TIME, NONE, SNAPSHOT, HistoryPolicy

NOT_EXECUTED = "-- not executed in tests"
_RENDERED = (SNAPSHOT, DELTA, APPEND)


@dataclass(frozen=True)
class RenderedLoad:
    """Statements of one load, without the final semicolon; ``reads`` and ``writes`` are names of tables."""

    statements: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    atomic: str


def render_load(
    dialect: Dialect, load: RawcoreLoad, *, allow_empty: bool = False, allow_deletes: bool = False
) -> RenderedLoad:
    """Return the statements of a load. Raise NotRendered for a load that they would not do right."""
    refuse_unsupported(load)
    stage = Stage(dialect, load)
    applied = runs.AppliedRuns(dialect, load.leading.key, _hashed(stage))
    statements = list(guards.checks(stage, applied, allow_empty=allow_empty, allow_deletes=allow_deletes))
    writer = merges if dialect.atomic == "statement" else histories
    statements += _written(stage, applied, writer)
    statements.append(applied.record())
    tables = [load.history, load.table] if load.history else [load.table]
    if not dialect.executed:
        statements = [f"{NOT_EXECUTED}\n{statement}" for statement in statements]
    return RenderedLoad(
        tuple(statements),
        tuple(dict.fromkeys(stage_input.table.qualified_name for stage_input in load.inputs)),
        (*(table.qualified_name for table in tables), runs.TABLE),
        dialect.atomic,
    )


def _written(stage: Stage, applied: runs.AppliedRuns, writer) -> Iterator[str]:
    if stage.policy.input == APPEND:
        yield histories.append(stage, applied)
        return
    if stage.load.history is not None:
        yield from writer.history(stage, applied)
    yield from writer.rawcore(stage, applied)


def refuse_unsupported(load: RawcoreLoad) -> None:
    """Raise NotRendered for a policy or a part of a load that has no statements."""
    policy = HistoryPolicy.from_dict(load.policy)
    problems = {
        f"input {policy.input} is not written by plain statements": policy.input not in _RENDERED,
        f"rows are dated by {policy.time}, not by the load": policy.time != LOAD_TIME,
        "a delete flag is not written by plain statements": policy.delete_flag is not None,
        "delete detection reads more than the delivery": policy.delete_detection != NONE,
        "ranked sources are not written by plain statements": policy.rank is not None,
        "a model is computed by its own SELECT": load.query is not None,
        "history batches are files": load.files is not None,
        "the dataset has rows for unknown parents of others": bool(load.children),
        "its checks can stop or quarantine rows": any(check.severity != "warn" for check in load.quality),
        "it has no input": not load.inputs,
    }
    for message, applies in problems.items():
        if applies:
            raise NotRendered(message, where=load.name)


def _hashed(stage: Stage) -> str:
    """Return a digest of the columns that row hashes cover; with another one, stored hashes are computed anew."""
    types = {column.name: column.type for column in stage.load.leading.columns}
    pairs = [(part.key, types[part.column].partition("(")[0]) for part in stage.load.row_hash]
    return sha256(hashed_set(pairs).encode()).hexdigest()
