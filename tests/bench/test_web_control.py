"""Tests of the generated control database: valid, and of the requested size."""

from collections import Counter

import pytest
from django.core.exceptions import ValidationError
from django.db import models

from architecture.domain.states.dataset_drift import DRIFTED
from architecture.models import ChangeReport
from architecture.services.drift import drift_of
from architecture.services.environments import current_environment
from bench.web.control import Control, fill
from bench.web.size import SMALL
from elevata.audit.services import chain
from elevata.audit.services.verification import verify_chain
from loader.models import LoadRun
from metadata.models import (
    ColumnInput,
    DatasetInput,
    Reference,
    ReferencePair,
    SourceColumn,
    SourceDataset,
    System,
    TargetColumn,
    TargetDataset,
)
from tests.database.row_cache import remembered

pytestmark = pytest.mark.django_db

DESCRIBED = (
    System,
    SourceDataset,
    SourceColumn,
    TargetDataset,
    TargetColumn,
    DatasetInput,
    ColumnInput,
    Reference,
    ReferencePair,
)


@pytest.fixture
def control() -> Control:
    return remembered("small control database", lambda: fill(SMALL))


def problems(row: models.Model) -> dict:
    try:
        row.full_clean()
    except ValidationError as error:
        return error.message_dict
    return {}


@pytest.mark.full
def test_control_database_has_the_wanted_numbers_of_datasets_and_columns(control: Control):
    datasets = TargetDataset.objects.filter(history_of__isnull=True)
    assert datasets.count() == SMALL.datasets
    counts = [dataset.columns.count() for dataset in datasets]
    assert Counter(counts) == {SMALL.columns: SMALL.datasets - SMALL.pending, SMALL.columns + 1: SMALL.pending}


@pytest.mark.full
def test_every_row_of_the_control_database_is_valid(control: Control):
    faults = {str(row): problems(row) for model in DESCRIBED for row in model.objects.all()}
    assert {name: messages for name, messages in faults.items() if messages} == {}


def test_chain_of_the_control_database_is_intact(control: Control):
    chain.seal()
    assert verify_chain().problem is None


def test_open_report_covers_pending_and_drifted_datasets(control: Control):
    rows = control.everything.document["operations"]
    assert control.everything.status == ChangeReport.Status.OPEN
    assert len({row["dataset"].removesuffix("_hist") for row in rows}) == SMALL.pending + SMALL.drifted


def test_datasets_changed_in_the_warehouse_are_drifted(control: Control):
    assert drift_of(current_environment()).count(DRIFTED) == SMALL.drifted


def test_control_database_has_one_running_load(control: Control):
    assert LoadRun.objects.filter(status="running").get() == control.busy
