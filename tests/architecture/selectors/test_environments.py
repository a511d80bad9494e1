"""Current environment of an installation and its desired tables."""

import pytest

from architecture.models import Environment
from architecture.selectors.dataset_states import desired_tables
from architecture.services.environments import current_environment
from metadata.domain.state import ColumnState, DatasetState
from tests.architecture.domain.steps.test_resume import key

pytestmark = pytest.mark.django_db


def test_current_environment_is_created_once_and_follows_the_settings(db, settings):
    first = current_environment()
    settings.WAREHOUSE = "/elsewhere"
    assert current_environment() == first
    assert Environment.objects.get().warehouse == "/elsewhere"


def test_current_environment_runs_one_query_once_it_exists(db, django_assert_num_queries):
    current_environment()
    with django_assert_num_queries(1):
        current_environment()


def test_desired_tables_omit_views_and_retired_datasets():
    states = [
        DatasetState(key("r"), "raw", "raw", "r", (ColumnState(key("r.x"), "x", "string"),)),
        DatasetState(key("s"), "stage", "stage", "s", (), materialization="view"),
        DatasetState(key("c"), "core", "rawcore", "c", (), historize=True, history_key=key("h")),
        DatasetState(key("o"), "core", "rawcore", "o", (), active=False),
    ]
    assert [table.qualified_name for table in desired_tables(states)] == ["raw.r", "core.c", "core.c_hist"]
