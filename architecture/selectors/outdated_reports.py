"""Check that reports are up to date, for open pages.

Pages request these checks every few seconds. A check computes the report again, which reads all metadata. Therefore the
result is cached for all users, under a signal of the inputs that one query computes.
"""

from collections.abc import Iterable
from time import monotonic
from typing import Any
from uuid import UUID

from django.core.cache import cache
from django.db.models import Count, Func, IntegerField, OuterRef, QuerySet, Subquery

from architecture.domain.refusals import Refused
from architecture.models import AppliedDataset, ChangeReport, Environment, Observation
from architecture.services.change_policy import policy_of
from architecture.services.reports import Gathered, authors_of_report, is_stale
from elevata.audit.models import ChangeLogEntry
from elevata.core.canonical_json import sha256_hex
from elevata.core.errors import MetadataError

# Logged actions that change neither metadata nor applied state.
_NO_CHANGE = ("comment", "execution", "lease", "maintenance", "report", "token", "user")
_CACHE_SECONDS = 3600
_COUNTED_ENTRIES = 10_000
# Time limit of the checks of one request; the next request continues.
CHECK_SECONDS = 1.5


def signal(environment_pk: int) -> str:
    """Return a text that changes whenever an input of the environment's reports changes.

    It combines the newest entries of the change log, the observations, the applied states and the change policy. It
    may change although a report is still up to date, but not the other way round: an entry that is committed after one
    with a higher number changes the count of the newest.
    """
    entries = ChangeLogEntry.objects.exclude(subject_kind__in=_NO_CHANGE).order_by("-pk")
    newest = entries.filter(pk__gt=Subquery(entries.values("pk")[:1]) - _COUNTED_ENTRIES).order_by()
    own = {"environment": OuterRef("pk")}
    row = (
        Environment.objects.filter(pk=environment_pk)
        .annotate(
            entry=Subquery(entries.values("pk")[:1]),
            entries=Subquery(newest.annotate(n=Func("pk", function="COUNT")).values("n"), output_field=IntegerField()),
            seen=_newest(Observation.objects.filter(**own), "observed_at"),
            seen_count=_count(Observation.objects.filter(**own)),
            applied=_newest(AppliedDataset.objects.filter(**own), "updated_at"),
            applied_count=_count(AppliedDataset.objects.filter(**own)),
        )
        .get()
    )
    inputs = (row.entry, row.entries, row.seen, row.seen_count, row.applied, row.applied_count)
    return sha256_hex([policy_of(row).as_json(), [str(value) for value in inputs]])[:24]


def _newest(rows: QuerySet, time: str) -> Subquery:
    return Subquery(rows.order_by(f"-{time}").values(time)[:1])


def _count(rows: QuerySet) -> Subquery:
    return Subquery(rows.order_by().values("environment").annotate(n=Count("pk")).values("n"))


class Inputs:
    """Inputs of an environment's reports for one request: their signal, computed first, and what a check reads, once.

    Pending changes and the check of a report share them, so that the metadata is read once.
    """

    def __init__(self, environment_pk: int):
        self.signal = signal(environment_pk)
        self.gathered = Gathered()


def known_refusal(report_id: UUID, signal: str) -> dict[str, Any] | None:
    """Return the cached result for this signal: a refusal, {} for an up-to-date report, None if it was not checked."""
    return cache.get(_cache_key(report_id, signal))


def refusal_of(report: ChangeReport, signal: str, gathered: Gathered | None = None) -> dict[str, Any]:
    """Return the reason why the report is outdated; {} if it is up to date.

    ``signal`` must be computed before ``gathered``, so that the next check detects a change during this one.
    """
    refusal = known_refusal(report.report_id, signal)
    if refusal is None:
        refusal = _compute_refusal(report, gathered)
        cache.set(_cache_key(report.report_id, signal), refusal, _CACHE_SECONDS)
    return refusal


def refusals_of(
    reports: Iterable[ChangeReport], *, check: bool, seconds: float = CHECK_SECONDS
) -> dict[int, dict[str, Any] | None]:
    """Return for each report that is not executed why it is outdated, by primary key; None if that is not known.

    With ``check``, unknown ones are computed within ``seconds``.
    """
    refusals: dict[int, dict[str, Any] | None] = {}
    signals: dict[int, str] = {}
    gathered, began = Gathered(), None
    for report in reports:
        if report.environment_id not in signals:
            signals[report.environment_id] = signal(report.environment_id)
        known = known_refusal(report.report_id, signals[report.environment_id])
        # The time starts after the first report, which reads the inputs that all reports share.
        if known is None and check and (began is None or monotonic() - began <= seconds):
            known = refusal_of(report, signals[report.environment_id], gathered)
            began = began or monotonic()
        refusals[report.pk] = known
    return refusals


def authors(report: ChangeReport, signal: str) -> frozenset[str]:
    """Return the authors of the report's changes for its page, from a cache. A decision computes them again."""
    key = f"report-authors:{report.report_id}:{signal}"
    names = cache.get(key)
    if names is None:
        names = authors_of_report(report)
        cache.set(key, names, _CACHE_SECONDS)
    return names


def _compute_refusal(report: ChangeReport, gathered: Gathered | None) -> dict[str, Any]:
    try:
        code = is_stale(report, gathered)
    except MetadataError as problem:  # a dataset of its scope was removed
        return {**problem.as_json(), "message": problem.one_line()}
    return dict(Refused(code).as_json()) if code else {}


def _cache_key(report_id: UUID, signal: str) -> str:
    return f"report-holds:{report_id}:{signal}"
