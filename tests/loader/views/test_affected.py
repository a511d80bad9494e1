"""Effects of a dataset, column, report or load run by name: part, page, CSV, message to the owners, REST."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ObjectDoesNotExist
from django.test import Client
from django.utils import timezone

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.audit.models import ChangeLogEntry
from elevata.audit.selectors import fields_of
from elevata.notifications.models import Notice
from loader.models import SavedQuery, Schedule
from loader.selectors.affected import KINDS, subject_of
from loader.services.affected import MESSAGE
from metadata.models import TargetDataset
from metadata.services.datasets.targets import (
    create_schema,
    create_target_column,
    create_target_dataset,
    update_target_dataset,
)
from metadata.services.exposures import create_exposure
from tests.attacks.requests import send
from tests.elevata.web.pages import read, signed_in, words
from tests.fixtures.users import someone
from tests.loader.factories import DatasetRunFactory, EnvironmentFactory, LoadRunFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def owned(airport: TargetDataset) -> TargetDataset:
    """Return airports, owned by ada, with a mart, a dashboard of Operations, a query and a schedule downstream."""
    bea = someone("bea", Role.EDITOR)
    with acting_as(bea):
        update_target_dataset(dataset=airport, expected_version=airport.version, owner="Ada")
        schema = create_schema(name="mart", layer="serving")
        mart = create_target_dataset(schema=schema, name="tall", inputs=[airport], owner="Marts", contract=True)
        column = airport.columns.get(name="name")
        create_target_column(dataset=mart, name="name", type=column.type, inputs=[column])
        create_exposure(dataset=mart, name="Board", kind="dashboard", owner="Operations", link="https://b.example")
    SavedQuery.objects.create(owner=bea, name="Tall", text="SELECT * FROM rawcore.rc_air_airport")
    everything = {"kind": "all", "name": "", "target_only": False}
    due = {"cron": "0 4 * * *", "next_at": timezone.now()}
    Schedule.objects.create(name="nightly", environment=EnvironmentFactory(), scope=everything, **due)
    return airport


def raw() -> TargetDataset:
    return TargetDataset.objects.get(name="raw_air_airport")


def test_downstream_objects_are_listed_by_name(owned: TargetDataset, reader: Client):
    text = words(read(reader, f"/affected/?dataset={raw().key}"))
    assert "exposure Board Operations mart.tall" in text
    assert "contract mart.tall" in text
    assert "owner Ada Ada rawcore.rc_air_airport" in text
    assert "schedule nightly" in text
    assert "saved query private query bea rawcore.rc_air_airport" in text
    assert "Tall" not in text


def test_own_and_shared_queries_are_named(owned: TargetDataset, reader: Client):
    assert "Tall" in read(signed_in(User.objects.get(username="bea")), f"/affected/?dataset={owned.key}")
    SavedQuery.objects.update(shared=True)
    assert "Tall" in read(reader, f"/affected/?dataset={owned.key}")


def test_columns_sources_and_failed_runs_list_affected_objects(owned: TargetDataset, reader: Client):
    column, source = owned.columns.get(name="name"), owned.generated_from
    run = LoadRunFactory(run_id="night", status="failed")
    DatasetRunFactory(run=run, dataset=raw(), status="failed")
    subjects = (
        f"column={column.key}",
        f"source_column={source.columns.get(name='name').key}",
        f"source={source.key}",
        "run=night",
    )
    for subject in subjects:
        assert "Board" in read(reader, f"/affected/?{subject}"), subject
    LoadRunFactory(run_id="good")
    assert "No exposure" in read(reader, "/affected/?run=good")


def test_file_has_a_line_for_each_dataset(owned: TargetDataset, reader: Client):
    answer = reader.get(f"/affected/affected.csv?dataset={owned.key}")
    text = b"".join(answer).decode("utf-8-sig")
    assert '"exposure","Board","Operations","mart.tall"' in text


def test_each_owner_gets_one_notice_about_their_objects(owned: TargetDataset, reader: Client):
    client = signed_in(User.objects.get(username="bea"))
    answer = client.post(f"/affected/notify/?dataset={raw().key}", {"note": "from Monday on"}, follow=True)
    notice = Notice.objects.get()
    assert notice.user.username == "ada"
    assert notice.event.title == "bea: raw.raw_air_airport affects rawcore.rc_air_airport: from Monday on"
    text = words(answer.content.decode())
    assert "Notified: ada." in text
    assert "2 owners without an account here: Marts, Operations." in text


def test_a_message_to_owners_is_in_the_change_log(owned: TargetDataset, reader: Client):
    client = signed_in(User.objects.get(username="bea"))
    client.post(f"/affected/notify/?dataset={raw().key}", {"note": "from Monday on"})
    entry = ChangeLogEntry.objects.get(subject_kind=MESSAGE)
    assert (entry.action, entry.actor, entry.subject_name) == ("sent", "bea", "raw.raw_air_airport")
    assert {change.name: change.after for change in fields_of(entry)} == {
        "users": "ada",
        "without account": "Marts, Operations",
    }
    assert entry.reason == "from Monday on"
    # An entry about the dataset would make bea an author of its changes.
    assert entry.dataset_key is None


def test_messages_to_owners_are_limited_per_user_and_hour(
    owned: TargetDataset, reader: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("loader.services.affected.MOST_MESSAGES", 2)
    client = signed_in(User.objects.get(username="bea"))
    answers = [client.post(f"/affected/notify/?dataset={owned.key}") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [302, 302, 429]
    assert "You sent 2 messages to owners within the last hour" in words(answers[2].content.decode())
    refused = send(client, "post", f"affected/notify/?dataset={owned.key}", {})
    assert (refused.status_code, refused.json()["code"], Notice.objects.count()) == (429, "TOO_MANY_MESSAGES", 2)
    other = signed_in(someone("cleo", Role.EDITOR))
    assert other.post(f"/affected/notify/?dataset={owned.key}").status_code == 302
    monkeypatch.setattr("loader.services.affected.WITHIN", timedelta(0))
    assert client.post(f"/affected/notify/?dataset={owned.key}").status_code == 302


def test_notification_requires_a_role_in_changes(owned: TargetDataset, viewer: Client):
    page = read(viewer, f"/affected/?dataset={owned.key}")
    assert "Notify owners" not in page
    assert viewer.post(f"/affected/notify/?dataset={owned.key}").status_code == 403
    assert not Notice.objects.exists()


@pytest.mark.parametrize("note", ["x" * 301, "a\0b"])
def test_note_that_cannot_be_stored_is_refused(owned: TargetDataset, note: str):
    client = signed_in(User.objects.get(username="bea"))
    answer = client.post(f"/affected/notify/?dataset={owned.key}", {"note": note})
    assert (answer.status_code, Notice.objects.count()) == (422, 0)
    assert 'aria-invalid="true"' in answer.content.decode()


@pytest.mark.parametrize("kind", KINDS)
def test_subject_with_nul_is_unknown_without_a_query(db, kind: str, django_assert_num_queries):
    with django_assert_num_queries(0), pytest.raises(ObjectDoesNotExist):
        subject_of(kind, "a\0b")


def test_message_without_owners_is_refused(airport: TargetDataset):
    client = signed_in(someone("bea", Role.EDITOR))
    answer = client.post(f"/affected/notify/?dataset={airport.key}")
    assert answer.status_code == 422
    assert "NO_OWNERS" in answer.content.decode()


def test_number_of_queries_does_not_depend_on_the_affected_objects(
    owned: TargetDataset, reader: Client, django_assert_max_num_queries
):
    for number in range(20):
        SavedQuery.objects.create(
            owner=User.objects.get(username="bea"), name=f"q{number}", text="SELECT 1 FROM rawcore.rc_air_airport"
        )
    with django_assert_max_num_queries(30):
        read(reader, f"/affected/?dataset={owned.key}")


def test_rest_lists_and_notifies(owned: TargetDataset, client: Client):
    client.force_login(User.objects.get(username="bea"))
    rows = client.get(f"/api/v1/affected/?dataset={owned.key}").json()
    assert {row["kind"] for row in rows} == {"exposure", "contract", "owner", "saved query", "schedule"}
    answer = client.post(f"/api/v1/affected/notify/?dataset={owned.key}", {}, content_type="application/json")
    assert answer.status_code in (200, 201)
    assert client.get("/api/v1/affected/?run=nowhere").status_code == 404


def test_exposures_are_in_the_pictures_of_datasets_and_reports(owned: TargetDataset, reader: Client):
    page = read(reader, f"/datasets/{raw().key}/lineage/")
    assert "dashboard of Operations" in page
    assert f'hx-get="/affected/?dataset={raw().key}"' in page
