"""Typed values are kept when a request fails: the session ended, or the permission or the object is gone."""

from collections.abc import Callable

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import expect

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from metadata.models import TargetDataset
from metadata.services.datasets.targets import update_target_dataset
from metadata.services.deletion import delete_dataset
from metadata.services.lifecycle import retire_dataset
from tests.architecture.world import customers, person
from tests.e2e.walks.conftest import Walker, let_in
from tests.loader.processes import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.services]

PASSWORD = "a long enough password"
TYPED = "Who buys from us,\nand who did once"


@pytest.fixture
def dataset(site: str) -> TargetDataset:
    return customers(person("ada", Role.EDITOR))


@pytest.fixture
def mia(dataset: TargetDataset, walkers: Callable[..., Walker]) -> Walker:
    """Return a walker of an editor who has typed into the form of a dataset."""
    mia = walkers(ensure_user(name="mia", roles=[Role.EDITOR], password=PASSWORD, temporary=False))
    mia.go(f"/datasets/{dataset.key}/edit/")
    mia.fill("Description", TYPED)
    mia.fill("Owner", "Sales")
    return mia


def sign_in(walker: Walker, name: str) -> None:
    walker.page.get_by_label("User name").fill(name)
    walker.page.get_by_label("Password").fill(PASSWORD)
    walker.use("button", "Sign in")


def end_session() -> None:
    Session.objects.all().delete()


def is_back(mia: Walker) -> None:
    expect(mia.page.get_by_text("What you typed is back.")).to_be_visible()
    expect(mia.page.get_by_label("Description", exact=True)).to_have_value(TYPED)
    expect(mia.page.get_by_label("Owner", exact=True)).to_have_value("Sales")


@pytest.mark.core
def test_form_input_is_restored_and_saved_after_signing_in_again(mia: Walker, dataset: TargetDataset):
    end_session()
    mia.use("button", "Save")
    expect(mia.page.get_by_text("Your session has ended; your changes were not saved.")).to_be_visible()
    expect(mia.page.get_by_text("Your input is kept in this tab")).to_be_visible()
    mia.picture("session-ended")
    sign_in(mia, "mia")
    is_back(mia)
    mia.picture("session-back")
    mia.use("button", "Save")
    expect(mia.page.get_by_role("heading", name=dataset.name, exact=True)).to_be_visible()
    dataset.refresh_from_db()
    assert (dataset.description, dataset.owner) == (TYPED, "Sales")


def test_form_input_is_restored_after_a_wrong_password(mia: Walker):
    end_session()
    mia.use("button", "Save")
    mia.page.get_by_label("User name").fill("mia")
    mia.page.get_by_label("Password").fill("wrong")
    mia.use("button", "Sign in")
    expect(mia.page.get_by_role("alert")).to_be_visible()
    sign_in(mia, "mia")
    is_back(mia)


def test_form_input_is_deleted_if_another_user_signs_in(mia: Walker, dataset: TargetDataset):
    ensure_user(name="ben", roles=[Role.EDITOR], password=PASSWORD, temporary=False)
    end_session()
    mia.use("button", "Save")
    sign_in(mia, "ben")
    expect(mia.page.get_by_label("Description", exact=True)).to_have_value("")
    # A script deletes it after the page is shown.
    wait_until(lambda: mia.page.evaluate("sessionStorage.getItem('elevata-kept')") is None)


def test_restored_form_input_conflicts_with_a_later_edit_of_another_user(mia: Walker, dataset: TargetDataset):
    end_session()
    mia.use("button", "Save")
    with acting_as(person("ada", Role.EDITOR)):
        update_target_dataset(dataset=dataset, expected_version=dataset.version, description="Ada's words")
    sign_in(mia, "mia")
    is_back(mia)
    mia.use("button", "Save")
    expect(mia.page.locator("#conflict")).to_contain_text("Ada's words")
    expect(mia.page.locator("#conflict")).to_contain_text("Who buys from us")
    mia.complaints.take()


def test_form_input_is_restored_after_signing_in_again_in_another_tab(mia: Walker):
    other = mia.context.new_page()
    other.goto(f"{mia.site}/")
    other.get_by_role("button", name="Sign out").click()
    other.get_by_label("User name").fill("mia")
    other.get_by_label("Password").fill(PASSWORD)
    other.get_by_role("button", name="Sign in").click()
    mia.use("button", "Save")
    expect(mia.page.get_by_text("The form was not accepted")).to_be_visible()
    expect(mia.page.get_by_text("Who buys from us")).to_be_visible()
    mia.use("link", "Back to the form")
    is_back(mia)
    mia.complaints.take()


def test_form_input_is_shown_if_the_permission_is_revoked(mia: Walker):
    ensure_user(name="mia", roles=[Role.VIEWER])
    mia.use("button", "Save")
    expect(mia.page.get_by_role("heading", name="Not allowed")).to_be_visible()
    expect(mia.page.get_by_text("Who buys from us")).to_be_visible()
    mia.picture("not-allowed")
    mia.complaints.take()


def test_form_input_is_shown_if_the_dataset_was_deleted(mia: Walker, dataset: TargetDataset):
    with acting_as(person("ada", Role.EDITOR)):
        retired = retire_dataset(dataset=dataset, expected_version=dataset.version)
        delete_dataset(dataset=retired, expected_version=retired.version, reason="bought elsewhere")
    mia.use("button", "Save")
    expect(mia.page.get_by_role("heading", name="rawcore.rc_crm_customer was deleted")).to_be_visible()
    expect(mia.page.get_by_text("bought elsewhere")).to_be_visible()
    expect(mia.page.get_by_text("Who buys from us")).to_be_visible()
    mia.picture("deleted")
    mia.use("link", "Show deleted values")
    expect(mia.page.get_by_role("heading", name="Change log")).to_be_visible()
    mia.complaints.take()


def test_form_input_is_deleted_after_saving(mia: Walker, dataset: TargetDataset):
    mia.use("button", "Save")
    expect(mia.page.get_by_role("heading", name=dataset.name, exact=True)).to_be_visible()
    # A script deletes it after the page is shown.
    wait_until(lambda: mia.page.evaluate("sessionStorage.getItem('elevata-kept')") is None)
    let_in(mia.context, mia.site, person("mia", Role.EDITOR))


def test_refused_form_marks_its_fields_and_keeps_the_input(mia: Walker, dataset: TargetDataset):
    mia.go("/schemas/new/")
    mia.fill("Name", "Not A Name!")
    mia.fill("Description", "words")
    mia.use("button", "Create schema")
    field = mia.page.get_by_label("Name", exact=True)
    expect(field).to_have_value("Not A Name!")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(mia.page.locator(f"#{field.get_attribute('aria-describedby').split()[-1]}")).to_be_visible()
    expect(mia.page.get_by_label("Description", exact=True)).to_have_value("words")
    mia.complaints.take()
