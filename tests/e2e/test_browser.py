"""Tests of the browser fixture: a real Chromium against Django's own server."""

import pytest

pytestmark = pytest.mark.browser


@pytest.mark.core
def test_browser_shows_a_page_and_clicks_its_button(page):
    page.set_content("<button onclick=\"this.textContent = 'done'\">go</button>")
    page.get_by_role("button", name="go").click()
    assert page.get_by_role("button").inner_text() == "done"


@pytest.mark.core
@pytest.mark.django_db(transaction=True)
def test_the_database_can_be_used_beside_a_browser(page, live_server, django_user_model):
    django_user_model.objects.create_user("ada")
    assert page.goto(f"{live_server.url}/healthz").status == 200
    assert django_user_model.objects.filter(username="ada").exists()
