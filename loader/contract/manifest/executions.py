"""Manifests of observations, executions and dry runs of change reports."""

from dataclasses import dataclass

from architecture.domain.steps.step import Step


@dataclass(frozen=True)
class ObserveManifest:
    """Tables to observe, by stable key; the answer contains those that exist.

    Dropped tables, whose files remain, are included with ``dropped``. A table whose log cannot be read fails the
    request, or with ``skip_unreadable`` is in ``unreadable`` of the answer, with its refusal.
    """

    tables: tuple[str, ...]
    dropped: bool = False
    skip_unreadable: bool = False


@dataclass(frozen=True)
class ExecuteManifest:
    """Steps to execute, in order; each is verified by observing the table afterwards.

    ``done`` are the positions of steps that an earlier attempt finished: they are not run again. ``sensitive``
    are stable keys of columns: refusals contain none of their values.
    """

    execution: str
    steps: tuple[Step, ...]
    done: tuple[int, ...] = ()
    sensitive: tuple[str, ...] = ()


@dataclass(frozen=True)
class SizesManifest:
    """Tables to measure, by stable key; their logs are read, not their rows."""

    tables: tuple[str, ...]


@dataclass(frozen=True)
class DownstreamQuery:
    """A query over published tables: a SELECT, or the statement that publishes a view."""

    name: str
    sql: str


@dataclass(frozen=True)
class DryRunManifest:
    """Steps of a dry run on shallow clones, which are dropped in any case.

    ``tables`` are those that ``queries`` read besides the changed ones, by stable key. ``after`` are
    queries that only exist afterwards (views over renamed tables). ``sensitive`` are stable keys of
    columns whose values are masked.
    """

    dry_run: str
    steps: tuple[Step, ...]
    tables: tuple[str, ...] = ()
    queries: tuple[DownstreamQuery, ...] = ()
    after: tuple[DownstreamQuery, ...] = ()
    samples: int = 5
    sensitive: tuple[str, ...] = ()
