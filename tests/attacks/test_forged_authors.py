"""Attack on the authors in the change log: a change by SQL is found by verifying the log."""

import pytest
from django.db import connection

from architecture.selectors.authors import authors, carried_out
from elevata.audit.models import ChangeLogEntry
from elevata.audit.services.verification import verify_chain
from tests.architecture.conftest import built, world
from tests.architecture.executions import customer, needing_approval
from tests.architecture.world import World, committed
from tests.elevata.audit.append_only import triggers_lifted

__all__ = ["built", "world"]

pytestmark = [pytest.mark.django_db, pytest.mark.embedded]


def test_author_removed_by_sql_is_found_only_by_verification(built: World) -> None:
    report = needing_approval(built)
    assert report.authors == ["ada"]
    committed()
    entry = ChangeLogEntry.objects.latest("pk")
    with triggers_lifted([ChangeLogEntry]), connection.cursor() as cursor:
        cursor.execute("DELETE FROM audit_changelogentry WHERE id = %s", [entry.pk])
    key = str(customer().key)
    assert authors(built.environment, carried_out(built.environment, [key])) == frozenset()
    assert verify_chain(recorded=False).problem.code == "row_missing"
