"""Take the pictures of the README and the docs from the demo's data: ``make pictures``.

They are made by a command so that they never grow old. Needs the demo's folder (``make demo``).
"""

import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from elevata.bootstrap.programs import chromium
from elevata.datafolder import PROJECT_DIR, ROOT
from tests.services.browser import FLAGS

FOLDER = PROJECT_DIR / "docs" / "pictures"
DEMO = ROOT / "demo"
PORT = 8777
ADDRESS = f"http://127.0.0.1:{PORT}"
USER = "ada"
AIRPORT, LAST_RUN = "EDDB", "demo-20260905"
ANSWER_WITHIN = 90_000


def manage(environment: dict[str, str], *arguments: str) -> None:
    subprocess.run([sys.executable, "manage.py", *arguments], cwd=PROJECT_DIR, env=environment, check=True)


def sign_in(page: Page, password: str) -> None:
    page.goto(ADDRESS)
    page.get_by_label("User name").fill(USER)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def take(page: Page, name: str) -> None:
    page.screenshot(path=FOLDER / f"{name}.png", full_page=True)
    print(f"docs/pictures/{name}.png")


def walk(page: Page) -> None:
    """The pages worth showing, in the order a person meets them."""
    take(page, "home")
    page.goto(f"{ADDRESS}/load-runs/{LAST_RUN}/")
    take(page, "load-run")
    page.goto(f"{ADDRESS}/datasets/?q=rc_net_route")
    page.get_by_role("link", name="rawcore.rc_net_route", exact=True).click()
    page.get_by_role("link", name="Lineage", exact=True).click()
    expect(page.locator("[data-graph] svg")).to_be_visible()
    take(page, "lineage")
    page.goto(f"{ADDRESS}/datasets/?q=rc_air_airport")
    page.get_by_role("link", name="rawcore.rc_air_airport", exact=True).click()
    take(page, "columns")
    page.get_by_role("link", name="History", exact=True).first.click()
    page.get_by_label("Business key starts with").fill(AIRPORT)
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name=AIRPORT, exact=True).click(timeout=ANSWER_WITHIN)
    expect(page.get_by_text("Version 1", exact=True)).to_be_visible(timeout=ANSWER_WITHIN)
    take(page, "history")
    page.set_viewport_size({"width": 390, "height": 844})
    take(page, "history-narrow")


def main() -> int:
    if not DEMO.is_dir():
        print("there is no demo to show: run make demo first", file=sys.stderr)
        return 1
    password = secrets.token_urlsafe(12)
    environment = os.environ | {"ELEVATA_DATA_DIR": str(DEMO), "DJANGO_SUPERUSER_PASSWORD": password}
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
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            sign_in(page, password)
            walk(page)
            browser.close()
    finally:
        served.send_signal(signal.SIGINT)
        served.communicate()
        forget = f"from django.contrib.auth.models import User; User.objects.filter(username={USER!r}).delete()"
        manage(environment, "shell", "--verbosity", "0", "--command", forget)
    return 0


if __name__ == "__main__":
    sys.exit(main())
