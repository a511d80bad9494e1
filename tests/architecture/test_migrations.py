"""An installation from before there were reports is brought on with what it knew of its tables."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import pytest
from django.db import connections
from django.db.migrations.executor import MigrationExecutor

from architecture.domain.states.tables import ObservedColumn
from architecture.models import AppliedDataset, Execution, KeptHistory
from architecture.services.observing import observed_table
from architecture.services.proof import is_proven

OLD, NEW = ("architecture", "0001_initial"), ("architecture", "0002_control")
ALIAS = "before_reports"
TABLE, EMPTY = (uuid5(NAMESPACE_DNS, name) for name in ("rc_a", "rc_b"))
SEEN_AT = datetime(2024, 5, 1, 8, 15, tzinfo=UTC)
STARTED_AT = datetime(2024, 5, 1, 8, 14, tzinfo=UTC)
STRUCTURE = {
    "key": str(TABLE),
    "qualified_name": "rawcore.rc_a",
    "columns": [{"name": "id", "type": "integer", "nullable": True, "key": "k"}],
    "version": 3,
    "partition_by": [],
    "properties": {},
}


@pytest.fixture
def database(tmp_path: Path, django_db_blocker: Any) -> Iterator[Any]:
    """A database of its own, that is empty."""
    connections.databases[ALIAS] = {
        **connections.databases["default"],
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(tmp_path / "before.sqlite3"),
        "OPTIONS": {},
    }
    with django_db_blocker.unblock():
        yield connections[ALIAS]
        connections[ALIAS].close()
    del connections[ALIAS]
    del connections.databases[ALIAS]


def at(database: Any, target: tuple[str, str]) -> Any:
    """The database brought to a migration; returns the models as they were then."""
    return MigrationExecutor(database).migrate([target]).apps


def rows(apps: Any, model: str) -> Any:
    return apps.get_model("architecture", model).objects.using(ALIAS)


@pytest.fixture
def before(database: Any) -> Any:
    """Two tables, one of which was never seen, and the execution that made them."""
    apps = at(database, OLD)
    environment = rows(apps, "Environment").create(name="dev", warehouse="/w")
    execution = rows(apps, "Execution").create(environment=environment, status="succeeded", reason="load run r")
    rows(apps, "Execution").update(started_at=STARTED_AT)
    for key, structure in ((TABLE, STRUCTURE), (EMPTY, {})):
        rows(apps, "AppliedTable").create(
            environment=environment,
            execution=execution,
            table_key=key,
            qualified_name="rawcore.rc_a",
            structure=structure,
            table_version=3,
        )
    rows(apps, "AppliedTable").update(updated_at=SEEN_AT)
    return apps


@pytest.fixture
def after(database: Any, before: Any) -> Any:
    return at(database, NEW)


def test_what_tables_looked_like_is_what_was_last_seen_of_them(after):
    seen = rows(after, "Observation").get(table_key=TABLE)
    assert (seen.document, seen.observed_at, seen.environment.name) == (STRUCTURE, SEEN_AT, "dev")


def test_it_is_read_like_any_observation(after):
    table = observed_table(rows(after, "Observation").get(table_key=TABLE).document)
    assert (table.key, table.qualified_name, table.version) == (str(TABLE), "rawcore.rc_a", 3)
    assert table.columns == (ObservedColumn("id", "integer", key="k"),)
    assert not table.dropped


def test_a_table_without_a_structure_was_seen_not_to_be_there(after):
    assert rows(after, "Observation").get(table_key=EMPTY).document is None


def test_logic_was_not_kept_so_nothing_counts_as_applied(after):
    assert not rows(after, "AppliedDataset").exists()
    with pytest.raises(LookupError):
        after.get_model("architecture", "AppliedTable")


def test_executions_were_asked_for_when_they_began(after):
    execution = rows(after, "Execution").get()
    assert (execution.requested_at, execution.started_at) == (STARTED_AT, STARTED_AT)
    assert (execution.status, execution.reason, execution.report) == ("succeeded", "load run r", None)


def test_an_installation_that_never_loaded_is_brought_on_too(database):
    at(database, OLD)
    apps = at(database, NEW)
    assert not rows(apps, "Observation").exists()


def test_what_was_applied_and_asked_for_before_rows_were_signed_is_signed(database):
    apps = at(database, ("architecture", "0008_inputs_by_name"))
    environment = rows(apps, "Environment").create(name="dev", warehouse="/w")
    asked = {"environment": environment, "status": "succeeded", "planned": {"rows": [], "scope": {"kind": "all"}}}
    execution = rows(apps, "Execution").create(**asked)
    known = {"environment": environment, "state": {"name": "rc_a", "columns": [{"name": "id"}]}}
    named = {"qualified_name": "rawcore.rc_a", "table_versions": {str(TABLE): 3}}
    rows(apps, "AppliedDataset").create(dataset_key=TABLE, execution=execution, through=7, **known, **named)
    rows(apps, "KeptHistory").create(history_key=TABLE, **known)
    apps = at(database, ("architecture", "0009_signed_state_and_executions"))
    for model in (AppliedDataset, KeptHistory, Execution):
        (values,) = rows(apps, model.__name__).values()
        row = model(**values)
        assert is_proven(row)
        assert row.environment_id == environment.pk
