"""Tests of the pages of quality checks: choice of a kind, creation, change, retirement, deletion."""

import pytest
from django.test import Client

from metadata.models import QualityCheck, TargetDataset
from metadata.services.quality import create_check
from tests.elevata.web.forms import typed, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read

pytestmark = pytest.mark.django_db


@pytest.fixture
def check(airport: TargetDataset) -> QualityCheck:
    return create_check(dataset=airport, name="named", kind="not_null", arguments={"columns": ["name"]})


def test_new_check_page_offers_the_kinds_of_checks(editor: Client, airport: TargetDataset):
    page = read(editor, f"/datasets/{airport.key}/checks/new/")
    assert "?kind=accepted_values" in page
    assert "The column has one of these values, or is NULL." in words(page)


def test_a_check_is_created_with_the_fields_of_its_kind(editor: Client, airport: TargetDataset):
    place = f"/datasets/{airport.key}/checks/new/?kind=accepted_values"
    values = {"name": "kinds", "columns": ["name"], "values": "a\nb", "severity": "quarantine"}
    form = typed(read(editor, place), having="severity", **values)
    assert "minimum" not in form
    answer = editor.post(place, form)
    check = QualityCheck.objects.get()
    assert answer.url == f"/datasets/{airport.key}/quality/#check-{check.key}"
    assert (check.arguments, check.severity) == ({"columns": ["name"], "values": ["a", "b"]}, "quarantine")


def test_invalid_check_limit_is_refused_with_its_reason(editor: Client, airport: TargetDataset):
    place = f"/datasets/{airport.key}/checks/new/?kind=range"
    form = typed(read(editor, place), having="severity", name="r", columns=["elevation"], minimum="low")
    answer = editor.post(place, form)
    assert answer.status_code == 422
    assert "'low' is no float" in words(html_of(answer))


def test_a_check_is_changed(editor: Client, check: QualityCheck):
    place = f"/checks/{check.key}/edit/"
    editor.post(place, typed(read(editor, place), columns=["name", "elevation"], severity="stop", where="name <> 'x'"))
    check.refresh_from_db()
    assert check.arguments == {"columns": ["name", "elevation"], "where": "name <> 'x'"}
    assert (check.severity, check.version) == ("stop", 2)


def test_concurrent_check_change_is_a_conflict_that_shows_the_other_value(editor: Client, check: QualityCheck):
    place = f"/checks/{check.key}/edit/"
    form = typed(read(editor, place), severity="stop")
    editor.post(place, typed(read(editor, place), name="filled"))
    answer = editor.post(place, form)
    assert answer.status_code == 409
    assert "filled" in words(html_of(answer))


@pytest.mark.parametrize("verb", ["retire", "delete"])
def test_a_check_is_retired_or_deleted_with_a_reason(editor: Client, check: QualityCheck, verb: str):
    place = f"/checks/{check.key}/{verb}/"
    page = read(editor, place)
    assert "Loads no longer run it" in words(page)
    answer = editor.post(place, typed(page, reason="not needed"))
    assert answer.url.startswith(f"/datasets/{check.dataset.key}/quality/")
    assert not QualityCheck.objects.filter(active=True).exists()


def test_retired_check_is_restored_by_its_form(editor: Client, check: QualityCheck):
    QualityCheck.objects.update(active=False)
    place = f"/checks/{check.key}/restore/"
    editor.post(place, typed(read(editor, place)))
    assert QualityCheck.objects.get().active


def test_quality_page_without_checks_offers_to_add_one(editor: Client, airport: TargetDataset):
    page = words(read(editor, f"/datasets/{airport.key}/quality/"))
    assert "No checks yet." in page
    assert "Add check" in page
