"""Every page of the address list, in Chromium, light and dark, wide and narrow: nothing that keeps
anybody out. All pages are looked at once; what was found is told by page."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import Error as BrowserError

from architecture.models import Preview
from metadata.models import TargetDataset
from metadata.services.deletion import delete_dataset
from metadata.services.lifecycle import retire_dataset
from metadata.services.targets import create_schema, create_target_dataset
from tests.services.axe import AXE, Complaints, accessible_faults, sideways, unreached_by_tab, unseen_focus
from tests.web.routes import RULES
from tests.web.test_routes import Addresses, controlled  # noqa: F401
from tests.web.walks.conftest import WIDTHS, let_in

# Every page in four ways takes minutes.
pytestmark = [
    pytest.mark.browser,
    pytest.mark.services,
    pytest.mark.nightly,
    pytest.mark.django_db(transaction=True),
]

# A part that a page brings in by itself has no head: it is looked at where it stands.
WHOLE = b"<!doctype html>"
# Pages without an address of their own, by how one comes to them.
BESIDES = ("sign_in_again", "not_found", "deleted", "form_with_errors", "conflict")
NAMES = sorted(name for name, rule in RULES.items() if rule.page and rule.method == "get") + list(BESIDES)


@dataclass
class Found:
    """What is wrong with a page."""

    whole: bool = False
    axe: list[str] = field(default_factory=list)
    sideways: int = 0
    focus: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def looked_at() -> dict[str, Found]:
    """What was found, once somebody looked."""
    return {}


@pytest.fixture
def survey(looked_at: dict[str, Found], request: pytest.FixtureRequest) -> dict[str, Found]:
    """The pages are filled and looked at for the first test that asks."""
    if not looked_at:
        found = {name: Found() for name in NAMES}
        request.getfixturevalue("look")(found)
        looked_at.update(found)
    return looked_at


@pytest.fixture
def look(site: str, browser: Browser, warehouse: TargetDataset, starter: User, request: pytest.FixtureRequest):
    """Looks at all pages as somebody who may do everything."""

    def all_pages(found: dict[str, Found]) -> None:
        def preview() -> Preview:
            return request.getfixturevalue("controlled")

        addresses = Addresses(warehouse, starter, preview)
        client = Client()
        client.force_login(starter)
        context = browser.new_context(viewport=WIDTHS["wide"], reduced_motion="reduce")
        context.set_default_timeout(60_000)
        context.add_init_script(path=AXE)
        complaints = Complaints().watch(context)
        page = context.new_page()
        examine(page, f"{site}/sign-in/", found["sign_in"], complaints)
        examine(page, f"{site}/sign-in/?next=/load-runs/&sent=yes", found["sign_in_again"], complaints)
        let_in(context, site, starter)
        for name in NAMES:
            if name in BESIDES or name == "sign_in":
                continue
            answer = client.get(addresses[name], follow=True)
            if answer.status_code != 200:
                found[name].complaints.append(f"answers {answer.status_code}")
            elif answer.content.lstrip()[:15].lower() == WHOLE:
                examine(page, f"{site}{addresses[name]}", found[name], complaints)
        examine(page, f"{site}/nowhere/", found["not_found"], complaints, refused=True)
        examine(page, f"{site}/datasets/{_deleted()}/", found["deleted"], complaints, refused=True)
        examine(page, lambda page: _wrong_schema(page, site), found["form_with_errors"], complaints, refused=True)
        examine(page, lambda page: _conflict(page, site, warehouse), found["conflict"], complaints, refused=True)
        context.close()

    return all_pages


def _deleted() -> object:
    dataset = create_target_dataset(schema=create_schema(name="old", layer="bizcore"), name="bc_gone")
    gone = retire_dataset(dataset=dataset, expected_version=dataset.version)
    delete_dataset(dataset=gone, expected_version=gone.version, reason="not needed any more")
    return gone.key


def _wrong_schema(page: Page, site: str) -> None:
    page.goto(f"{site}/schemas/new/")
    page.locator("main .form-panel button[type=submit]").click()
    page.locator(".field-error").first.wait_for()


def _conflict(page: Page, site: str, dataset: TargetDataset) -> None:
    page.goto(f"{site}/datasets/{dataset.key}/edit/")
    page.get_by_label("Description").fill("mine")
    TargetDataset.objects.filter(pk=dataset.pk).update(description="theirs", version=dataset.version + 7)
    page.locator("main .form-panel button[type=submit]").click()
    page.locator("#conflict").wait_for()


def examine(
    page: Page, way: str | Callable[[Page], None], found: Found, complaints: Complaints, *, refused: bool = False
) -> None:
    """Go there and look at the page in all four ways. ``refused``: the page's own status is an error."""
    found.whole = True
    try:
        way(page) if callable(way) else page.goto(way)
        expect(page.locator(".graph-wait")).to_have_count(0)
        found.axe += _at("light, wide", accessible_faults(page))
        found.focus = unseen_focus(page)
        found.unreached = unreached_by_tab(page)
        _in_colours(page, "dark")
        found.axe += _at("dark, wide", accessible_faults(page, rules=["color-contrast"]))
        page.set_viewport_size(WIDTHS["narrow"])
        expect(page.locator(".graph-wait")).to_have_count(0)
        found.axe += _at("dark, narrow", accessible_faults(page, rules=["color-contrast"]))
        _in_colours(page, "light")
        found.axe += _at("light, narrow", accessible_faults(page))
        found.sideways = sideways(page)
    except BrowserError as broken:
        found.complaints.append(f"could not be looked at: {broken}")
    page.set_viewport_size(WIDTHS["wide"])
    said = complaints.take()
    found.complaints += [one for one in said if not (refused and "Failed to load resource" in one)]


def _in_colours(page: Page, theme: str) -> None:
    """Colours that are still on their way to others are none that anybody reads."""
    page.evaluate(
        """theme => {
            document.documentElement.dataset.bsTheme = theme;
            document.body.getBoundingClientRect();
            const finite = one => one.effect.getComputedTiming().iterations !== Infinity;
            document.getAnimations().filter(finite).forEach(one => one.finish());
        }""",
        theme,
    )


def _at(way: str, said: list[str]) -> list[str]:
    return [f"{way}: {one}" for one in said]


def wrong(survey: dict[str, Found], aspect: str) -> dict[str, object]:
    """The pages with which something is wrong, and what."""
    return {name: getattr(found, aspect) for name, found in survey.items() if getattr(found, aspect)}


def test_axe_finds_nothing_serious_on_any_page(survey: dict[str, Found]):
    assert wrong(survey, "axe") == {}


def test_nothing_scrolls_sideways_at_390_pixels(survey: dict[str, Found]):
    assert wrong(survey, "sideways") == {}


def test_whatever_has_the_focus_shows_it(survey: dict[str, Found]):
    assert wrong(survey, "focus") == {}


def test_the_tab_key_comes_to_everything(survey: dict[str, Found]):
    assert wrong(survey, "unreached") == {}


def test_the_browser_complains_of_nothing(survey: dict[str, Found]):
    """No error in a script, nothing that the content policy refuses, nothing missing."""
    assert wrong(survey, "complaints") == {}


def test_all_pages_were_looked_at(survey: dict[str, Found]):
    looked = {name for name, found in survey.items() if found.whole}
    assert {"home", "dataset_page", "report_page", "run_page", "execution_page", "schedule_edit", *BESIDES} <= looked
    assert len(looked) > len(survey) * 2 / 3
