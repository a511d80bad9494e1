"""Tests of reading options on the page of a source in Chromium: those of the chosen format, and those that are set."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from tests.e2e.walks.conftest import Walker
from tests.factories import SourceDatasetFactory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_source_form_shows_options_of_the_format_and_those_set(walkers: Callable[..., Walker]) -> None:
    source = SourceDatasetFactory(format="csv", options={"delimiter": ";"})
    page = walkers(ensure_user(name="edda", roles=[Role.EDITOR])).go(f"/sources/{source.key}/edit/")
    delimiter, quote, sheet = (page.get_by_label(name, exact=True) for name in ("Delimiter", "Quote", "Sheet"))
    expect(quote).to_be_visible()
    expect(sheet).to_be_hidden()
    page.get_by_label("Format", exact=True).select_option("xlsx")
    expect(sheet).to_be_visible()
    expect(quote).to_be_hidden()
    # It is set and would be refused, so it is shown until it is cleared.
    expect(delimiter).to_be_visible()
