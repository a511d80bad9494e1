"""Guards of a load: refusals before any write (rules 3 and 4)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from elevata.core.errors import MetadataError
from loader.contract.refusals import Refusal
from loader.domain.historization.history import parse_instant
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.sources.intake import check_takes_changes

# Names of what shows the deleted keys of a delta.
KEY_LIST, READ_WINDOW = "key list", "read window"
EMPTY_SNAPSHOT, TOO_MANY_DELETES = "EMPTY_SNAPSHOT", "TOO_MANY_DELETES"
# Greatest distance of a load timestamp ahead of the clock: time zones and clocks that differ.
MOST_AHEAD = timedelta(days=1)


def check_later(*, name: str, at: str, newest: Iterable[str | None]) -> None:
    """Raise Refusal NOT_LATER for a run that is not dated later than the newest applied one (rule 3)."""
    applied = max((parse_instant(text) for text in newest if text), default=None)
    if applied is not None and parse_instant(at) <= applied:
        raise Refusal(
            "NOT_LATER",
            f"{name}: the run is dated {at}, which is not later than the newest applied run ({applied.isoformat()})",
            hint="Date the run later (As of, --at). If the machine's clock was set back, set it right first.",
        )


def check_not_ahead(at: datetime, *, now: datetime) -> None:
    """Raise Refusal LOAD_TIMESTAMP_AHEAD for a run after which runs dated by the clock would be refused for days."""
    if at > now + MOST_AHEAD:
        raise Refusal(
            "LOAD_TIMESTAMP_AHEAD",
            f"the load timestamp {at.isoformat()} is more than a day in the future; it is {now.isoformat()}",
            hint="Date the run at most a day ahead, or leave the load timestamp out. If the machine's clock is wrong, "
            "set it right first.",
        )


def check_load_type(*, name: str, policy: HistoryPolicy, historized: bool) -> None:
    """Raise Refusal LOAD_TYPE if the policy does not go with keeping a history, or with keeping none."""
    try:
        policy.check_historize(historized)
    except MetadataError as problem:
        field = problem.field.removeprefix("history_policy.")
        raise Refusal(
            "LOAD_TYPE",
            f"{name}: {field} of its history policy {problem.message}",
            hint="Change the history policy, or whether the dataset keeps a history.",
        ) from None


def check_reads_changes(name: str, policy: HistoryPolicy) -> None:
    """Raise Refusal BAD_INTAKE for a reader of changed rows only that would take all other rows for deleted."""
    try:
        check_takes_changes(policy)
    except MetadataError as problem:
        raise Refusal(
            "BAD_INTAKE",
            f"{name}: the {problem.field} of its source {problem.message}",
            hint="Change the history policy, or remove the watermark from the intake of the source.",
        ) from None


def check_holds_applied(*, name: str, applied: int | None, held: int | None, run: int) -> None:
    """Raise Refusal TABLE_BEHIND for a table without the newest applied run: an older state, or another table.

    ``applied`` is the sequence of that run in the control database, ``held`` that of the newest run in the table,
    ``run`` that of this run, which an earlier attempt may have committed.
    """
    if applied is None or (held is not None and (held >= applied or held == run)):
        return
    has = "no run" if held is None else f"the runs up to number {held}"
    raise Refusal(
        "TABLE_BEHIND",
        f"{name}: run number {applied} was applied to it, and its table holds {has}",
        hint="Bring the table back as that run left it (the right mount, a newer backup, RESTORE to the newest "
        "version), then run again. If it is right as it is, accept the table (manage.py accept_table), and load again "
        "what was lost.",
    )


@dataclass(frozen=True)
class DeleteGuard:
    """Limits on the keys that a snapshot, key list or read window may close by their absence without a decision.

    A truncated delivery cannot be distinguished from a source that deleted rows. Up to ``keys`` keys, or up to
    ``share`` of the open ones, are closed without a decision. ``allow_empty`` and ``allow_deletes`` are the run's
    decisions.
    """

    allow_empty: bool = False
    allow_deletes: bool = False
    share: float = 0.2
    keys: int = 1000

    def check(self, *, name: str, rows: int, would_close: int, open_keys: int, what: str = "snapshot") -> None:
        """Raise Refusal EMPTY_SNAPSHOT or TOO_MANY_DELETES for a snapshot that needs a decision.

        ``what`` is complete and has ``rows`` rows: the snapshot, or what takes its place with delete detection.
        """
        if not would_close:
            return
        if rows == 0:
            if self.allow_empty:
                return
            raise Refusal(
                EMPTY_SNAPSHOT,
                f"{name}: the {what} is empty and would close all {would_close} open versions"
                if would_close == open_keys
                else f"{name}: the {what} is empty and would close {would_close} of the {open_keys} open versions",
                count=would_close,
                hint="If the source really is empty, run again and allow empty deliveries (--allow-empty).",
            )
        if self.allow_deletes or would_close <= self.keys or would_close <= self.share * open_keys:
            return
        raise Refusal(
            TOO_MANY_DELETES,
            f"{name}: the {what} has {rows} rows and lacks {would_close} of the {open_keys} open keys "
            f"({would_close / open_keys:.0%}): closing more than {self.share:.0%} needs a decision",
            count=would_close,
            hint="Check that the delivery is whole. If these rows really went, run again and allow many deletes "
            "(--allow-deletes).",
        )
