"""Checks whether reports are up to date, requested every few seconds by open pages.

To know it, a report is made again, which reads everything that is described. So it is asked first, in
one query, whether anything moved that a report is made of; only then is it made again, once for
everybody who asks.
"""

from typing import Any
from uuid import UUID

from django.core.cache import cache
from django.db.models import Count, OuterRef, QuerySet, Subquery

from architecture.domain.reports.workflow import Refused
from architecture.models import AppliedDataset, ChangeReport, Environment, Observation
from architecture.services.policies.policies import policy_of
from architecture.services.reports.reports import Gathered, authors_of_report, is_stale
from elevata.core.canonical_json import sha256_hex
from elevata.core.errors import MetadataError
from metadata.models import ChangeLogEntry

# What is logged without being a change of what is described or applied.
_NO_CHANGE = ("execution", "lease", "report", "person", "token")
_KEPT = 3600  # seconds


def signal(environment_pk: int) -> str:
    """A text that is another one whenever something moved that reports of the environment are made of.

    That is the newest entry of the change log, what was seen and what was applied there, and its policy.
    It may move although a report still holds, and never stays where one does not.
    """
    entries = ChangeLogEntry.objects.exclude(subject_kind__in=_NO_CHANGE).order_by("-pk")
    here = {"environment": OuterRef("pk")}
    row = (
        Environment.objects.filter(pk=environment_pk)
        .annotate(
            entry=Subquery(entries.values("pk")[:1]),
            seen=_newest(Observation.objects.filter(**here), "observed_at"),
            seen_count=_count(Observation.objects.filter(**here)),
            applied=_newest(AppliedDataset.objects.filter(**here), "updated_at"),
            applied_count=_count(AppliedDataset.objects.filter(**here)),
        )
        .get()
    )
    moved = (row.entry, row.seen, row.seen_count, row.applied, row.applied_count)
    return sha256_hex([policy_of(row).as_json(), [str(one) for one in moved]])[:24]


def _newest(rows: QuerySet, time: str) -> Subquery:
    return Subquery(rows.order_by(f"-{time}").values(time)[:1])


def _count(rows: QuerySet) -> Subquery:
    return Subquery(rows.order_by().values("environment").annotate(n=Count("pk")).values("n"))


def known_refusal(report_id: UUID, signal: str) -> dict[str, Any] | None:
    """Return the cached result for this signal: a refusal, {} for an up-to-date report, None if it was not checked."""
    return cache.get(_place(report_id, signal))


def refusal_of(report: ChangeReport, signal: str, gathered: Gathered | None = None) -> dict[str, Any]:
    """Return why the report is outdated; {} if it is up to date.

    ``signal`` is taken before, so what moves while the report is made again is seen the next time; before
    anything is ``gathered`` for it, too.
    """
    known = known_refusal(report.report_id, signal)
    if known is None:
        known = _asked(report, gathered)
        cache.set(_place(report.report_id, signal), known, _KEPT)
    return known


def authors(report: ChangeReport, signal: str) -> frozenset[str]:
    """Return the authors of what the report changes, for its page; a decision computes them again."""
    place = f"report-authors:{report.report_id}:{signal}"
    known = cache.get(place)
    if known is None:
        known = authors_of_report(report)
        cache.set(place, known, _KEPT)
    return known


def _asked(report: ChangeReport, gathered: Gathered | None) -> dict[str, Any]:
    try:
        code = is_stale(report, gathered)
    except MetadataError as problem:  # what its scope names is gone
        return {**problem.as_json(), "message": problem.one_line()}
    return dict(Refused(code).as_json()) if code else {}


def _place(report_id: UUID, signal: str) -> str:
    return f"report-holds:{report_id}:{signal}"
