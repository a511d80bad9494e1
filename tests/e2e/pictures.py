"""Pictures of the README and the docs, taken from the demo's data by ``make pictures``.

A command takes them, so that they can be updated after every change of pages. It needs the demo's folder
(``make demo``), or another one that a demo filled: ``python -m tests.e2e.pictures [DIR]``.
"""

import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from elevata.bootstrap.programs import chromium
from elevata.core.data_folder import PROJECT_DIR, ROOT
from tests.services.browser import FLAGS

FOLDER = PROJECT_DIR / "docs" / "pictures"
DEMO = ROOT / "demo"
PORT = 8777
ADDRESS = f"http://127.0.0.1:{PORT}"
USER = "ada"
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
# Users and objects of the demo (loader/management/demo_work.py and the command itself).
AIRPORT, LAST_RUN = "EDDB", "demo-20260905"
HISTORIZED, WAITING_TITLE = "rawcore.rc_air_airport", "timetable"
ANSWER_WITHIN = 90_000


def manage(environment: dict[str, str], *arguments: str) -> None:
    subprocess.run([sys.executable, "manage.py", *arguments], cwd=PROJECT_DIR, env=environment, check=True)


def sign_in(page: Page, password: str) -> None:
    page.goto(ADDRESS)
    page.get_by_label("User name").fill(USER)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{ADDRESS}/")


class Camera:
    """Browser page that takes pictures: wide or narrow, light or dark."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def go(self, path: str) -> None:
        self.page.goto(f"{ADDRESS}{path}")

    def dataset(self, name: str, tab: str = "") -> None:
        """Open a dataset's page, or its tab, from the list of datasets."""
        self.go(f"/datasets/?q={name}")
        self.page.get_by_role("link", name=name, exact=True).click()
        if tab:
            tabs = self.page.get_by_role("navigation", name="Parts of this dataset")
            tabs.get_by_role("link", name=tab, exact=True).click()

    def take(self, name: str, *, whole: bool = True) -> None:
        """Save a picture under this name after all requests have ended; ``whole`` includes all of a long page."""
        self.page.wait_for_load_state("networkidle", timeout=ANSWER_WITHIN)
        expect(self.page.locator(".spinner:visible")).to_have_count(0, timeout=ANSWER_WITHIN)
        self.page.mouse.move(0, 0)
        self.page.screenshot(path=FOLDER / f"{name}.png", full_page=whole, animations="disabled")
        print(f"docs/pictures/{name}.png")

    def take_dark(self, name: str, *, whole: bool = True) -> None:
        self.page.emulate_media(color_scheme="dark")
        self.take(f"{name}-dark", whole=whole)
        self.page.emulate_media(color_scheme="light")

    def take_narrow(self, name: str, *, whole: bool = True) -> None:
        """Save a picture at the width of a phone; fail if the page is wider."""
        self.page.set_viewport_size(NARROW)
        wider = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wider <= 0, f"{name} scrolls sideways at {NARROW['width']} pixels"
        self.take(f"{name}-narrow", whole=whole)
        self.page.set_viewport_size(WIDE)


def walk(camera: Camera) -> None:
    """Take all pictures, in the order of a new user's first steps."""
    for part in (newcomer, engineer, reviewer, operator):
        part(camera)


def newcomer(camera: Camera) -> None:
    camera.go("/")
    camera.take("home")
    camera.take_narrow("home")


def engineer(camera: Camera) -> None:
    page = camera.page
    camera.dataset("rawcore.rc_net_route", "Lineage")
    expect(page.locator("[data-graph] svg")).to_be_visible()
    camera.take("lineage")
    camera.dataset(HISTORIZED)
    camera.take("columns")
    camera.dataset(HISTORIZED, "History policy")
    camera.take("history-policy")
    camera.dataset(HISTORIZED, "Data")
    camera.take("data", whole=False)
    page.get_by_role("link", name="Versions of a key", exact=True).click()
    page.get_by_label("Business key contains").fill(AIRPORT)
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name=AIRPORT, exact=True).click(timeout=ANSWER_WITHIN)
    expect(page.get_by_text("Version 1", exact=True)).to_be_visible(timeout=ANSWER_WITHIN)
    camera.take("history")
    camera.take_narrow("history")


def reviewer(camera: Camera) -> None:
    """Take the picture of the demo's inbox, where ada, who has every role, must approve a report."""
    page = camera.page
    camera.go("/inbox/")
    expect(page.get_by_role("link", name=f"Report of {WAITING_TITLE}")).to_be_visible(timeout=ANSWER_WITHIN)
    camera.take("inbox", whole=False)
    page.get_by_role("link", name=f"Report of {WAITING_TITLE}").click()
    expect(page.locator("#downstream svg")).to_be_visible(timeout=ANSWER_WITHIN)
    # The statements further down contain the folder of this warehouse, so they are left out.
    page.evaluate("window.scrollTo(0, 0)")
    camera.take("report", whole=False)
    camera.take_narrow("report", whole=False)


def operator(camera: Camera) -> None:
    page = camera.page
    camera.go(f"/load-runs/{LAST_RUN}/")
    expect(page.locator("[data-graph] svg")).to_be_visible()
    camera.take("load-run")
    camera.take_dark("load-run", whole=False)
    camera.go("/drift/")
    camera.take("drift")


def main(folder: Path = DEMO) -> int:
    if not folder.is_dir():
        print("there is no demo to show: run make demo first", file=sys.stderr)
        return 1
    password = secrets.token_urlsafe(12)
    environment = os.environ | {"ELEVATA_DATA_DIR": str(folder), "DJANGO_SUPERUSER_PASSWORD": password}
    for name in ("DATABASE_URL", "CELERY_BROKER_URL"):
        environment.pop(name, None)
    FOLDER.mkdir(parents=True, exist_ok=True)
    manage(environment, "createsuperuser", "--noinput", "--username", USER, "--email", "ada@example.org")
    served = subprocess.Popen(
        [sys.executable, "manage.py", "serve", "--port", str(PORT)],
        cwd=PROJECT_DIR,
        env=environment | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        next(line for line in served.stdout if line.startswith("elevata is at"))
        flags = FLAGS + (["--no-sandbox"] if os.geteuid() == 0 else [])
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=str(Path(chromium())), args=flags)
            page = browser.new_page(viewport=WIDE, color_scheme="light")
            sign_in(page, password)
            walk(Camera(page))
            browser.close()
    finally:
        served.send_signal(signal.SIGINT)
        served.communicate()
        forget = (
            "from django.contrib.auth.models import User; from loader.models import ReadRequest;"
            f"ReadRequest.objects.filter(requested_by__username={USER!r}).delete();"
            f"User.objects.filter(username={USER!r}).delete()"
        )
        manage(environment, "shell", "--verbosity", "0", "--command", forget)
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:2])))
