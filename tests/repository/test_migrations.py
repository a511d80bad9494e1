"""Tests that every model has its migrations."""

from io import StringIO

import pytest
from django.core.management import call_command


@pytest.mark.django_db
def test_models_have_no_change_without_a_migration():
    output = StringIO()
    try:
        call_command("makemigrations", check=True, dry_run=True, verbosity=1, stdout=output)
    except SystemExit:
        pytest.fail(f"python manage.py makemigrations: {output.getvalue()}")
