"""Stored results and profiles of quality checks, and notices of checks that failed."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from architecture.models import Environment
from elevata.accounts.access import holders
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission
from elevata.core.words import counted
from elevata.notifications.kinds import Kind
from elevata.notifications.services import mark_settled, tell
from loader.contract.check_outcomes import Result
from loader.models import CheckResult, LoadRun, ReadRequest, TableProfile
from loader.services.reads.read_permissions import may_read_sensitive
from metadata.models import TargetDataset


def store_results(
    *,
    dataset_key: str,
    dataset: TargetDataset | None,
    name: str,
    environment: Environment,
    results: Sequence[Mapping[str, Any]],
    run: LoadRun | None = None,
) -> list[CheckResult]:
    """Store the results of a dataset's checks; those of the same run replace its former ones.

    Users who may start loads get a notice if a check failed in a load.
    """
    now = timezone.now()
    with transaction.atomic():
        repeated = run is not None and CheckResult.objects.filter(run=run, dataset_key=dataset_key).delete()[0] > 0
        rows = CheckResult.objects.bulk_create(
            CheckResult(
                run=run,
                environment=environment,
                dataset=dataset,
                dataset_key=dataset_key,
                dataset_name=name,
                at=now,
                **fields_of_result(Result.from_json(described)),
            )
            for described in results
        )
        if rows and not any(row.is_problem for row in rows):
            mark_settled(
                subject_kind="dataset",
                subject_key=str(dataset_key),
                kinds=(Kind.QUALITY_FAILED,),
                environment=environment.name,
            )
        elif run is not None and not repeated:
            _tell_failed(run, dataset, name, rows)
    return rows


def fields_of_result(result: Result) -> dict[str, Any]:
    """Return the fields of the stored result of a reported one."""
    same = ("kind", "severity", "outcome", "failed", "total", "value", "low", "high", "message")
    fields = {name: getattr(result, name) for name in same}
    lists = {"samples": list(result.samples), "tells": list(result.tells)}
    return fields | lists | {"check_key": result.key, "check_name": result.name}


def _tell_failed(run: LoadRun, dataset: TargetDataset | None, name: str, rows: Sequence[CheckResult]) -> None:
    failed = [row for row in rows if row.is_problem]
    if not failed:
        return
    environment = run.environment.name
    run_page = reverse("run_page", args=[run.run_id])
    tell(
        event=Kind.QUALITY_FAILED,
        subject_kind="dataset",
        subject_key=str(failed[0].dataset_key),
        subject_name=name,
        title=f"{counted(len(failed), 'check')} of {name} failed in load run {run.run_id} in {environment}",
        link=reverse("dataset_quality", args=[dataset.key]) if dataset is not None else run_page,
        users=[*holders(Permission.START_LOAD, Place(environment=environment)), run.requested_by],
        environment=environment,
        facts={"run": run.run_id, "checks": [row.check_name for row in failed]},
    )


def store_read_results(read: ReadRequest, answer: Mapping[str, Any]) -> None:
    """Store the results of checks that a read ran."""
    store_results(
        dataset_key=str(read.own_dataset.key),
        dataset=read.own_dataset,
        name=str(read.dataset),
        environment=read.environment,
        results=answer["results"],
    )


def stored_profile(dataset: TargetDataset, environment: Environment, *, masked: bool) -> TableProfile | None:
    """Return the newest stored profile of a dataset's table; None if there is none."""
    return TableProfile.objects.filter(dataset=dataset, environment=environment, masked=masked).first()


def store_profile(read: ReadRequest, answer: Mapping[str, Any]) -> None:
    """Store the profile that a read computed; an unchanged table's stored profile stays."""
    if answer.get("unchanged"):
        return
    TableProfile.objects.update_or_create(
        dataset=read.dataset,
        environment=read.environment,
        masked=read.requested_by is not None and not may_read_sensitive(read.requested_by, read.own_dataset),
        defaults={
            "table_version": answer["table_version"],
            "content": {"rows": answer["rows"], "profile": answer["profile"]},
            "at": timezone.now(),
        },
    )
