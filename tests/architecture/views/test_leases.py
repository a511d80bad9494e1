"""Leases in the browser: list of holders, and breaking a lease with a reason."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from architecture.models import Lease
from architecture.services.environments import current_environment
from architecture.services.leases import Holder, release_leases, take_leases
from elevata.audit.models import ChangeLogEntry
from loader.models import LoadRun
from metadata.models import TargetDataset
from tests.elevata.web.html import html_of
from tests.loader.factories import EnvironmentFactory, LoadRunFactory

pytestmark = pytest.mark.django_db

BUSY = Holder("load run", "busy", 1)


def text_of(client: Client, address: str) -> str:
    return html_of(client.get(address))


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


@pytest.fixture
def lease(airport: TargetDataset) -> Lease:
    """Return the lease of the airports, taken by the run ``busy``."""
    LoadRunFactory(run_id="busy", status="running", heartbeat_at=timezone.now())
    raw = TargetDataset.objects.get(name="raw_air_airport")
    take_leases(environment=current_environment(), dataset_keys=[airport.key, raw.key], holder=BUSY)
    return Lease.objects.get(dataset_key=airport.key)


def test_lease_page_without_leases_does_not_poll(reader: Client):
    text = text_of(reader, "/leases/")
    assert "No active leases" in text
    assert "hx-trigger" not in text[text.index("<main") : text.index("</main>")]


def test_lease_list_shows_holder_dataset_and_time(reader: Client, lease: Lease):
    text = text_of(reader, "/leases/")
    read = words(text)
    assert f"rawcore.rc_air_airport load run busy {lease.taken_at:%Y-%m-%d %H:%M:%S} UTC ago 1" in read
    assert 'href="/load-runs/busy/"' in text
    assert f'data-since="{lease.heartbeat_at.isoformat()}"' in text
    assert 'hx-trigger="every 2s"' in text


def test_lease_without_heartbeat_is_marked(reader: Client, lease: Lease):
    assert "no heartbeat" not in text_of(reader, "/leases/")
    Lease.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=2))
    assert "no heartbeat" in text_of(reader, "/leases/")


def test_leases_of_other_environments_and_free_ones_are_not_shown(operator: Client, lease: Lease):
    release_leases(environment=lease.environment, holder=BUSY)
    take_leases(environment=EnvironmentFactory(name="elsewhere"), dataset_keys=["b" * 32], holder=BUSY)
    assert "No active leases" in text_of(operator, "/leases/")
    assert operator.get(f"/leases/{Lease.objects.get(dataset_key='b' * 32).pk}/break/").status_code == 404


def test_many_leases_come_in_pages(reader: Client, lease: Lease):
    take_leases(environment=lease.environment, dataset_keys=[f"{n:032x}" for n in range(60)], holder=BUSY)
    assert "1–50 of 62 leases" in text_of(reader, "/leases/")


def test_breaking_a_lease_requires_the_operator_role(reader: Client, lease: Lease):
    assert 'disabled title="Ask for the operator role to break leases' in text_of(reader, "/leases/")
    assert reader.post(f"/leases/{lease.pk}/break/", {"reason": "x", "fence": lease.fence}).status_code == 403


def test_breaking_a_lease_requires_a_confirmation_that_names_the_consequences(operator: Client, lease: Lease):
    read = words(text_of(operator, f"/leases/{lease.pk}/break/"))
    assert "Break the lease of rawcore.rc_air_airport?" in read
    assert "its load run counts as lost, and its other 1 lease is free, too" in read
    assert "consider canceling it instead" in read
    assert LoadRun.objects.get().status == "running"


def test_breaking_a_lease_requires_a_reason(operator: Client, lease: Lease):
    answer = operator.post(f"/leases/{lease.pk}/break/", {"reason": " ", "fence": lease.fence})
    text = html_of(answer)
    assert answer.status_code == 422
    assert "Enter a reason." in text[text.index('id="id_reason_error"') :]
    assert LoadRun.objects.get().status == "running"


def test_breaking_a_lease_ends_its_run_as_lost_and_is_logged(operator: Client, lease: Lease):
    answer = operator.post(
        f"/leases/{lease.pk}/break/", {"reason": "the machine is gone", "fence": lease.fence}, follow=True
    )
    assert "Lease broken: load run busy lost it." in html_of(answer)
    assert LoadRun.objects.get().status == "lost"
    entry = ChangeLogEntry.objects.get(subject_kind="lease")
    assert (entry.actor, entry.reason) == ("eve", "the machine is gone")
    assert "eve broke one of its leases: the machine is gone" in text_of(operator, "/load-runs/busy/")
    assert "the machine is gone" in text_of(operator, "/changes/?kind=lease")


def test_breaking_a_lease_is_refused_if_its_holder_changed(operator: Client, lease: Lease):
    release_leases(environment=lease.environment, holder=BUSY)
    take_leases(environment=lease.environment, dataset_keys=[lease.dataset_key], holder=Holder("load run", "other", 1))
    answer = operator.post(f"/leases/{lease.pk}/break/", {"reason": "slow", "fence": lease.fence})
    text = html_of(answer)
    assert answer.status_code == 409
    assert "load run other has it by now" in text
    assert 'value="slow"' in text
    assert Lease.objects.get(pk=lease.pk).holder_id == "other"


@pytest.mark.parametrize("fence", ["", "x", "-1", "9" * 30])
def test_breaking_a_lease_with_an_invalid_fence_is_refused(operator: Client, lease: Lease, fence: str):
    assert operator.post(f"/leases/{lease.pk}/break/", {"reason": "slow", "fence": fence}).status_code == 409
    assert LoadRun.objects.get().status == "running"


def test_breaking_page_of_a_released_lease_shows_that_it_is_free(operator: Client, lease: Lease):
    release_leases(environment=lease.environment, holder=BUSY)
    assert "The lease is free" in text_of(operator, f"/leases/{lease.pk}/break/")


def test_run_schedule_and_lease_pages_link_to_each_other(reader: Client, lease: Lease):
    for page in ("/load-runs/", "/schedules/", "/leases/"):
        text = text_of(reader, page)
        assert all(f'href="{other}"' in text for other in ("/load-runs/", "/schedules/", "/leases/"))
