"""Rows that are put back leave the database as if they had just been written."""

import pytest
from django.core.management.color import no_style
from django.db import connection

from metadata.models import System
from tests.factories import SystemFactory
from tests.remembering import remembered


@pytest.mark.django_db(transaction=True)
def test_new_rows_have_numbers_of_their_own_after_rows_were_put_back():
    made = remembered("a system of this test", SystemFactory)
    System.objects.all().delete()
    for statement in connection.ops.sql_flush(
        no_style(), [System._meta.db_table], reset_sequences=True, allow_cascade=True
    ):
        connection.cursor().execute(statement)
    assert remembered("a system of this test", SystemFactory).pk == made.pk
    assert SystemFactory().pk != made.pk
