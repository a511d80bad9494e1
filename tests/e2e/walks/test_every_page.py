"""Tests of every page of the address list in Chromium: accessibility, browser errors, width.

All pages are visited once for all tests; a failed test lists the faults by page.

By day each page is examined by axe at full width, and for sideways scrolling at the width of a phone. By night axe
examines it in dark mode and at that width, too, and the keyboard passes through it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import Error as BrowserError

from architecture.models import Preview
from elevata.accounts.services.tokens import create_token
from elevata.accounts.single_sign_on_provider import Provider
from metadata.models import TargetDataset
from metadata.services.datasets.targets import create_schema, create_target_dataset
from metadata.services.deletion import delete_dataset
from metadata.services.lifecycle import retire_dataset
from tests.e2e.walks.conftest import WIDTHS, let_in
from tests.elevata.web.routes import RULES
from tests.elevata.web.test_routes import Addresses, controlled  # noqa: F401
from tests.services.axe import AXE, Complaints, accessible_faults, sideways, unreached_by_tab, unseen_focus

pytestmark = [pytest.mark.browser, pytest.mark.services, pytest.mark.django_db(transaction=True)]

# Parts that a page loads by itself are no whole documents; they are examined within that page.
WHOLE = b"<!doctype html>"
# Rules of axe about colours, which differ in dark mode.
IN_THE_DARK = ["color-contrast", "link-in-text-block"]
# Pages without a separate address, by the way to reach them.
SIGNING_IN = ("sign_in", "sign_in_again", "single_sign_on", "wrong_password", "too_many")
OTHER_PAGES = (
    *SIGNING_IN[1:],
    "not_found",
    "deleted",
    "only_forms",
    "not_allowed",
    "unavailable",
    "form_with_errors",
    "webhook_with_errors",
    "person_with_errors",
    "token_made",
    "token_question",
    "nobody_found",
    "conflict",
    "api_operation",
)
# Pages that are drawn by a script after loading, with an element that exists once they are drawn.
DRAWN = {"api_swagger": ".opblock", "api_operation": ".opblock-body .microlight"}
NAMES = sorted(name for name, rule in RULES.items() if rule.page and rule.method == "get") + list(OTHER_PAGES)


@dataclass
class Faults:
    """Faults of a page."""

    whole: bool = False
    axe: list[str] = field(default_factory=list)
    sideways: int = 0
    focus: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def surveys() -> dict[str, dict[str, Faults]]:
    """Return the faults of every page in light and dark mode."""
    return {}


def _survey(way: str, surveys: dict[str, dict[str, Faults]], request: pytest.FixtureRequest) -> dict[str, Faults]:
    if way not in surveys:
        survey = {name: Faults() for name in NAMES}
        request.getfixturevalue("visit_pages")(survey, examine_by_night if way == "night" else examine_by_day)
        surveys[way] = survey
    return surveys[way]


@pytest.fixture
def by_day(surveys: dict[str, dict[str, Faults]], request: pytest.FixtureRequest) -> dict[str, Faults]:
    """Return the faults of the examination by day; the first test that uses it visits the pages."""
    return _survey("day", surveys, request)


@pytest.fixture
def by_night(surveys: dict[str, dict[str, Faults]], request: pytest.FixtureRequest) -> dict[str, Faults]:
    """Return the faults of the examination by night, which takes longer."""
    return _survey("night", surveys, request)


@dataclass
class Visit:
    """Browser page that visits pages, with the function that examines each."""

    page: Page
    site: str
    complaints: Complaints
    faults: dict[str, Faults]
    examined: Callable[[Page, Faults], None]

    def to(self, name: str, way: str | Callable[[Page], None], *, refused: bool = False) -> None:
        """Open and examine a page; ``refused`` expects an error status of the page itself."""
        findings = self.faults[name]
        findings.whole = True
        try:
            way(self.page) if callable(way) else self.page.goto(f"{self.site}{way}")
            if name in DRAWN:
                self.page.locator(DRAWN[name]).first.wait_for()
            expect(self.page.locator(".graph-wait")).to_have_count(0)
            self.examined(self.page, findings)
        except BrowserError as broken:
            findings.complaints.append(f"could not be looked at: {broken}")
        self.page.set_viewport_size(WIDTHS["wide"])
        complaints = self.complaints.take()
        if refused:
            complaints = [complaint for complaint in complaints if "Failed to load resource" not in complaint]
        findings.complaints += complaints


@pytest.fixture
def visit_pages(
    site: str,
    browser: Browser,
    warehouse: TargetDataset,
    starter: User,
    person: User,
    settings,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
):
    """Return a function that visits all pages: signed out, then as a user with all roles, then as a viewer."""

    def all_pages(survey: dict[str, Faults], examined: Callable[[Page, Faults], None]) -> None:
        def preview() -> Preview:
            return request.getfixturevalue("controlled")

        addresses = Addresses(warehouse, starter, preview)
        context = browser.new_context(viewport=WIDTHS["wide"], reduced_motion="reduce")
        context.set_default_timeout(60_000)
        context.add_init_script(path=AXE)
        visit = Visit(context.new_page(), site, Complaints().watch(context), survey, examined)
        _visit_sign_in(visit, person, settings)
        let_in(context, site, starter)
        create_token(user=starter, name="laptop")
        _visit_addresses(visit, addresses, starter)
        _visit_forms(visit, warehouse)
        _visit_refusals(visit, monkeypatch)
        let_in(context, site, person)
        visit.to("not_allowed", "/users/", refused=True)
        context.close()

    return all_pages


def _visit_sign_in(visit: Visit, person: User, settings) -> None:
    visit.to("sign_in", "/sign-in/")
    visit.to("sign_in_again", "/sign-in/?next=/load-runs/&sent=yes")
    visit.to("wrong_password", lambda page: _wrong_password(page, visit.site))
    for _ in range(settings.AXES_FAILURE_LIMIT):
        Client().post("/sign-in/", {"username": person.username, "password": "wrong"})
    visit.to("too_many", lambda page: _wrong_password(page, visit.site), refused=True)
    settings.SINGLE_SIGN_ON = Provider(issuer="https://id.example.org", client_id="elevata", name="Example")
    visit.to("single_sign_on", "/sign-in/?next=/load-runs/")
    settings.SINGLE_SIGN_ON = None


def _wrong_password(page: Page, site: str) -> None:
    page.goto(f"{site}/sign-in/")
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.locator("[role=alert], .plain-id").first.wait_for()


def _visit_addresses(visit: Visit, addresses: Addresses, person: User) -> None:
    client = Client()
    client.force_login(person)
    for name in NAMES:
        if name in OTHER_PAGES or name in SIGNING_IN:
            continue
        data = RULES[name].data or {}
        answer = client.get(addresses[name], data, follow=True)
        if answer.status_code == 200 and answer.content.lstrip()[:15].lower() == WHOLE:
            visit.to(name, f"{addresses[name]}?{urlencode(data)}" if data else addresses[name])
        elif answer.status_code != 200 and RULES[name].operator == 200:
            visit.faults[name].complaints.append(f"answers {answer.status_code}")


def _visit_forms(visit: Visit, dataset: TargetDataset) -> None:
    for name, address in (
        ("form_with_errors", "/schemas/new/"),
        ("webhook_with_errors", "/webhooks/new/"),
        ("person_with_errors", "/new-user/"),
    ):
        visit.to(name, lambda page, address=address: _submit_empty(page, f"{visit.site}{address}"), refused=True)
    visit.to("token_question", lambda page: _open_question(page, visit.site))
    visit.to("token_made", lambda page: _create_token(page, visit.site))
    visit.to("api_operation", lambda page: _open_operation(page, f"{visit.site}/api/v1/docs/"))
    visit.to("nobody_found", "/users/?q=nobody-is-called-so")
    visit.to("conflict", lambda page: _cause_conflict(page, visit.site, dataset), refused=True)


def _open_operation(page: Page, address: str) -> None:
    page.goto(address)
    page.locator(".opblock").first.wait_for()
    # Sections are drawn when they come into sight.
    section = page.locator("#operations-columns-columns_create")
    for _ in range(100):
        if section.count():
            break
        page.mouse.wheel(0, 400)
        page.wait_for_timeout(100)
    section.locator("button.opblock-summary-control").click()


def _visit_refusals(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("the database is away")

    visit.to("not_found", "/nowhere/", refused=True)
    visit.to("deleted", f"/datasets/{_create_deleted()}/", refused=True)
    visit.to("only_forms", "/start-load/", refused=True)
    with monkeypatch.context() as broken:
        broken.setattr("loader.views.runs.load_runs.load_runs", fail)
        visit.to("unavailable", "/load-runs/", refused=True)


def _create_deleted() -> object:
    dataset = create_target_dataset(schema=create_schema(name="old", layer="bizcore"), name="bc_gone")
    retired = retire_dataset(dataset=dataset, expected_version=dataset.version)
    delete_dataset(dataset=retired, expected_version=retired.version, reason="not needed any more")
    return retired.key


def _submit_empty(page: Page, address: str) -> None:
    page.goto(address)
    page.locator("main form.panel button[type=submit]").click()
    page.locator(".field-error").first.wait_for()


def _open_question(page: Page, site: str) -> None:
    page.goto(f"{site}/me/")
    page.locator("details.sure > summary").first.click()
    page.locator("details.sure[open] button").wait_for()


def _create_token(page: Page, site: str) -> None:
    page.goto(f"{site}/me/")
    page.get_by_label("Name", exact=True).fill("nightly")
    page.get_by_role("button", name="Create token").click()
    page.locator("#made-token").wait_for()


def _cause_conflict(page: Page, site: str, dataset: TargetDataset) -> None:
    page.goto(f"{site}/datasets/{dataset.key}/edit/")
    page.get_by_label("Description").fill("mine")
    TargetDataset.objects.filter(pk=dataset.pk).update(description="theirs", version=dataset.version + 7)
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator("#conflict").wait_for()


def examine_by_day(page: Page, findings: Faults) -> None:
    findings.axe += _labelled("light, wide", accessible_faults(page))
    page.set_viewport_size(WIDTHS["narrow"])
    expect(page.locator(".graph-wait")).to_have_count(0)
    findings.sideways = sideways(page)


def examine_by_night(page: Page, findings: Faults) -> None:
    findings.focus = unseen_focus(page)
    findings.unreached = unreached_by_tab(page)
    _use_theme(page, "dark")
    findings.axe += _labelled("dark, wide", accessible_faults(page, rules=IN_THE_DARK))
    _use_theme(page, "light")
    page.set_viewport_size(WIDTHS["narrow"])
    expect(page.locator(".graph-wait")).to_have_count(0)
    findings.axe += _labelled("light, narrow", accessible_faults(page))
    _use_theme(page, "dark")
    findings.axe += _labelled("dark, narrow", accessible_faults(page, rules=IN_THE_DARK))


def _use_theme(page: Page, theme: str) -> None:
    """Switch to a theme, and finish the transitions of its colours."""
    page.evaluate(
        """theme => {
            document.documentElement.dataset.bsTheme = theme;
            document.documentElement.classList.toggle("dark-mode", theme === "dark");
            document.body.getBoundingClientRect();
            const finite = one => one.effect.getComputedTiming().iterations !== Infinity;
            document.getAnimations().filter(finite).forEach(one => one.finish());
        }""",
        theme,
    )


def _labelled(way: str, faults: list[str]) -> list[str]:
    return [f"{way}: {fault}" for fault in faults]


def faults_of(survey: dict[str, Faults], aspect: str) -> dict[str, object]:
    """Return the faults of one aspect by page, without pages that have none."""
    return {name: getattr(findings, aspect) for name, findings in survey.items() if getattr(findings, aspect)}


@pytest.mark.takes(seconds=80)
def test_axe_finds_nothing_serious_on_any_page(by_day: dict[str, Faults]):
    assert faults_of(by_day, "axe") == {}


def test_pages_do_not_scroll_sideways_at_390_pixels(by_day: dict[str, Faults]):
    assert faults_of(by_day, "sideways") == {}


def test_pages_cause_no_browser_errors(by_day: dict[str, Faults]):
    """Check that there are no script errors, violations of the content policy or missing files."""
    assert faults_of(by_day, "complaints") == {}


def test_main_pages_and_most_others_are_visited(by_day: dict[str, Faults]):
    visited = {name for name, findings in by_day.items() if findings.whole}
    assert {"home", "dataset_page", "report_page", "run_page", "execution_page", "schedule_edit"} <= visited
    assert {"me", "user_page", "webhook_page", "delivery_page", "api_swagger", *OTHER_PAGES} <= visited
    assert len(visited) > len(by_day) * 2 / 3


@pytest.mark.nightly
def test_pages_have_no_serious_axe_violations_in_dark_mode_or_at_phone_width(by_night: dict[str, Faults]):
    assert faults_of(by_night, "axe") == {}


@pytest.mark.nightly
def test_focused_elements_show_their_focus(by_night: dict[str, Faults]):
    assert faults_of(by_night, "focus") == {}


@pytest.mark.nightly
def test_tab_key_reaches_every_control(by_night: dict[str, Faults]):
    assert faults_of(by_night, "unreached") == {}
