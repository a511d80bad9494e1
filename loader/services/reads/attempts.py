"""Reads and refreshes performed on the runner."""

import logging
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from architecture.models import Refresh
from architecture.permissions import must_build
from architecture.services.drift import settle_if_in_sync
from architecture.services.observations import store_and_report_drift
from architecture.services.previews import build_previewed_report, make_preview
from elevata.audit.services.transactions import writing
from elevata.core.database import retried
from elevata.core.words import counted
from elevata.jobs import states
from elevata.jobs.services import Fenced
from loader.contract.manifest.executions import ObserveManifest, SizesManifest
from loader.contract.manifest.publication import PublishManifest
from loader.contract.manifest.reads import CheckManifest, ReadManifest
from loader.contract.refusals import READS_ENDED, Refusal
from loader.models import ReadRequest
from loader.runner.conversation import TimeLimit, answer_of
from loader.runner.work import Work, perform_job
from loader.services.publication import PUBLISH
from loader.services.quality_results import store_profile, store_read_results
from loader.services.reads.manifests import read_manifest
from loader.services.reads.queries import SQL, query_answer, record_query
from loader.services.reads.read_permissions import record_read
from loader.services.reads.read_requests import CHECK, OF_TEXTS, PROFILE, QUALITY, is_of_user
from loader.services.reads.trials import TRY_MODEL, record_trial, trial_answer
from metadata.domain.scope import Scope

log = logging.getLogger(__name__)

_REQUESTS = {CheckManifest: CHECK, PublishManifest: PUBLISH}
# Tables are observed one after another, and there may be thousands.
_OBSERVE_TIMEOUT_SECONDS = 600.0
# Kinds whose answers and entries in the change log follow from a text with permissions of its own.
_ANSWERS = {SQL: query_answer, TRY_MODEL: trial_answer}
_RECORDS = {SQL: record_query, TRY_MODEL: record_trial}


@dataclass
class ReadWork(Work[ReadRequest]):
    """Work of one attempt at a read; ``answer`` is stored with its end."""

    answer: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def jobs(cls) -> QuerySet[ReadRequest]:
        related = ("dataset__schema", "dataset__history_of__schema", "environment", "requested_by")
        return ReadRequest.objects.select_related(*related)

    def perform(self) -> None:
        answer = self._ask(retried(partial(read_manifest, read=self.job)))
        if self.job.kind in _ANSWERS:
            answer = retried(partial(_ANSWERS[self.job.kind], self.job, answer))
        self.answer = answer

    @transaction.atomic
    def end(self, wanted: str, error: dict[str, Any] | None) -> None:
        """End the read with its answer or an error, unless it was withdrawn meanwhile."""
        read, answer = self.job, self.answer
        if self.attempt.end(wanted=wanted, error=error) != states.SUCCEEDED:
            return
        ReadRequest.objects.filter(pk=read.pk).update(answer=answer)
        if read.kind == PROFILE:
            store_profile(read, answer)
        if read.kind == QUALITY:
            store_read_results(read, answer)
        if answer:
            _RECORDS.get(read.kind, record_read)(read, answer)

    def _ask(self, manifest: ReadManifest | CheckManifest | PublishManifest) -> dict[str, Any]:
        """Return the runner's answer; ask again once if the runner of reads ended while it answered.

        A text of a user is not asked again, since it may be the reason of the end.
        """
        kind = _REQUESTS.get(type(manifest), "read")
        seconds = getattr(manifest, "timeout_seconds", _OBSERVE_TIMEOUT_SECONDS)
        ask = partial(self.talk.ask, kind, manifest, limit=TimeLimit(seconds, may_kill=is_of_user(self.job)))
        try:
            return _answer_of_read(ask())
        except Refusal as refusal:
            if refusal.code != READS_ENDED or self.job.kind in OF_TEXTS:
                raise
        log.info("read %s is asked again: the runner of reads ended", self.job.pk)
        return _answer_of_read(ask())


def _answer_of_read(finished: dict) -> dict[str, Any]:
    """Return the runner's answer. Raise its error, or Refusal READ_FAILED if it cancelled the read."""
    answer = answer_of(finished)
    if finished["status"] != states.SUCCEEDED:
        raise Refusal("READ_FAILED", "the read was cancelled")
    return answer


@dataclass
class RefreshWork(Work[Refresh]):
    """Work of one attempt at a refresh; ``result`` are the fields that are stored with its end."""

    result: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def jobs(cls) -> QuerySet[Refresh]:
        return Refresh.objects.select_related("environment", "report__environment", "requested_by")

    def perform(self) -> None:
        """Observe the tables of the refresh and serve its purpose."""
        refresh, limit = self.job, TimeLimit(_OBSERVE_TIMEOUT_SECONDS)
        keys, sizes = refresh.tables, None
        observe = ObserveManifest(tuple(keys), dropped=True, skip_unreadable=True)
        finished = self.talk.ask("observe", observe, limit=limit)
        tables, unreadable = _answer_of_read(finished), finished.get("unreadable") or {}
        keys = [key for key in keys if key not in unreadable]
        if refresh.sizes and tables:
            sizes = _answer_of_read(self.talk.ask("sizes", SizesManifest(tuple(sorted(tables))), limit=limit))
        retried(partial(store_and_report_drift, environment=refresh.environment, keys=keys, tables=tables, sizes=sizes))
        retried(partial(settle_if_in_sync, refresh.environment))
        if unreadable:
            raise _not_observed([Refusal.from_json(unreadable[key]) for key in sorted(unreadable)])
        with self.attempt.beating():
            links = retried(partial(_serve_purpose, refresh))
        self.result = {"found": len(tables), **links}

    @transaction.atomic
    def end(self, wanted: str, error: dict[str, Any] | None) -> None:
        """End the refresh. Raise Fenced if it was withdrawn or given up."""
        status = self.attempt.end(wanted=wanted, error=error)
        if status is None:
            raise Fenced
        if status == states.SUCCEEDED:
            Refresh.objects.filter(pk=self.job.pk).update(**self.result)


def _not_observed(refusals: list[Refusal]) -> Refusal:
    """Return the refusal of a refresh, from those of the tables that cannot be read; the others were observed."""
    first, others = refusals[0], len(refusals) - 1
    more = f"; {counted(others, 'other table')} cannot be read either" if others else ""
    return replace(first, message=f"{first.message}{more}", count=len(refusals))


def _serve_purpose(refresh: Refresh) -> dict[str, Any]:
    """Create the report or preview of the refresh on behalf of its user; return the fields that link it."""
    if refresh.purpose not in (Refresh.Purpose.REPORT, Refresh.Purpose.PREVIEW):
        return {}
    user = refresh.requested_by
    with writing(refresh.reason):
        if refresh.purpose == Refresh.Purpose.PREVIEW:
            assert refresh.report is not None
            return {"preview": make_preview(report=refresh.report, user=user)}
        assert refresh.scope is not None
        scope = Scope.from_json(refresh.scope)
        must_build(user, scope, refresh.environment.name)
        return {"report": build_previewed_report(environment=refresh.environment, scope=scope, user=user)}


perform_read = partial(perform_job, ReadWork)
perform_refresh = partial(perform_job, RefreshWork)
