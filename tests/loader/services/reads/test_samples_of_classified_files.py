"""Samples and detection of files of sources with sensitive columns, by users with and without permission."""

import json
import time
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.audit.models import ChangeLogEntry
from elevata.core.networks import is_address
from elevata.core.permitted_addresses import NotResolved
from loader.contract.refusals import Refusal
from loader.domain.sources.file_detection.model import Detected
from loader.services.reads import file_detection
from loader.services.reads.classified_places import ClassifiedPlace
from loader.services.reads.file_detection import detect_locations
from loader.services.reads.source_samples import Place, readable_sample
from metadata.domain.sensitivity import MASK
from metadata.models import SourceDataset, System
from tests.architecture.world import person
from tests.factories import SourceColumnFactory, SourceDatasetFactory, SystemFactory

pytestmark = pytest.mark.django_db

PEOPLE = "id;mail;born\n1;ada@x;01.02.1980\n2;bob@x;03.04.1981\n"
DESCRIBED = {"delimiter": ";", "date_format": "%d.%m.%Y"}


@pytest.fixture
def people(shop: System, landing: Path) -> SourceDataset:
    """Return ``shop.people`` of ``people.csv``, whose column ``mail`` is personal."""
    (landing / "people.csv").write_text(PEOPLE)
    source = SourceDatasetFactory(system=shop, name="people", location="people.csv", options=DESCRIBED)
    for ordinal, name in enumerate(("id", "mail", "born"), start=1):
        SourceColumnFactory(dataset=source, name=name, ordinal=ordinal, pii=name == "mail")
    return source


@pytest.fixture
def editor_user(metadata_first: None) -> User:
    return person("mia", Role.EDITOR)


@pytest.fixture
def steward_user(metadata_first: None) -> User:
    return person("stella", Role.EDITOR, Role.STEWARD)


def detect(user: User, system: System, location: str) -> Detected | Refusal:
    with acting_as(user):
        (result,) = detect_locations(user, system, [location])
    return result


def sensitive_at(system: System, location: str) -> list[str]:
    return sorted(str(source) for source, _ in ClassifiedPlace.of(system, location).sources)


# --- sources at a place


@pytest.mark.parametrize(
    ("location", "is_sensitive"),
    [
        ("people.csv", True),
        ("peop*.csv", True),
        ("./people.csv", False),  # refused: no such location
        ("orders.csv", False),
        ("people.csv/x", True),
        ("peo\0ple.csv", False),
    ],
)
def test_place_is_sensitive_if_a_classified_source_may_read_it(people: SourceDataset, location: str, is_sensitive):
    assert sensitive_at(people.system, location) == (["shop.people"] if is_sensitive else [])


@pytest.mark.parametrize("other", ["*.csv", "", "people.csv", "{date:%Y}*.csv", "[m-q]eople.csv"])
def test_place_is_sensitive_by_sources_of_other_systems(people: SourceDataset, landing: Path, other: str):
    people.columns.update(pii=False)
    crm = SystemFactory(short_name="crm", location=str(landing))
    source = SourceDatasetFactory(system=crm, name="all", location=other or str(landing))
    SourceColumnFactory(dataset=source, name="mail", sensitivity="restricted")
    assert sensitive_at(people.system, "people.csv") == ["crm.all"]


def test_place_is_sensitive_by_the_file_that_a_link_leads_to(people: SourceDataset, landing: Path):
    (landing / "link.csv").symlink_to(landing / "people.csv")
    assert sensitive_at(people.system, "link.csv") == ["shop.people"]


def test_place_is_sensitive_if_one_of_several_sources_is(people: SourceDataset):
    SourceColumnFactory(dataset=SourceDatasetFactory(system=people.system, name="a", location="people.csv"))
    assert sensitive_at(people.system, "people.csv") == ["shop.people"]


def test_table_is_sensitive_by_sources_of_its_system_only(db):
    system, other = (SystemFactory(short_name=name, kind=System.Kind.JDBC) for name in ("erp", "hr"))
    for each in (system, other):
        source = SourceDatasetFactory(system=each, name="staff", location="public.staff")
        SourceColumnFactory(dataset=source, name="pay", pii=True)
    assert sensitive_at(system, "public.staff") == ["erp.staff"]
    assert sensitive_at(system, "public.other") == []


ERP, SAME_ERP = "postgresql://erp@db:5432/erp", "jdbc:postgresql://reader@DB/erp"
ITEMS = [
    (System.Kind.JDBC, ERP, "public.staff", ERP, "staff"),
    (System.Kind.JDBC, ERP, "staff", SAME_ERP, " public.staff "),
    (System.Kind.JDBC, "mysql://reader@db/hr", "staff", "mysql://reader@db/erp", "hr.staff"),
    (System.Kind.KAFKA, "kafka://one:9092,two:9092", "staff", "kafka://two:9092", "staff "),
    (System.Kind.REST, "https://hr.example/api", "staff", "https://hr.example/api", "/staff/"),
    (System.Kind.REST, "https://hr.example/api", "staff", "https://hr.example", "api/%73taff"),
    (System.Kind.REST, "https://hr.example", "staff/{run_date}", "https://hr.example", "staff/2026-01-01"),
]


@pytest.mark.parametrize(("kind", "address", "location", "other_address", "other_location"), ITEMS)
def test_table_topic_or_endpoint_is_sensitive_in_every_spelling(
    db, kind: str, address: str, location: str, other_address: str, other_location: str
):
    system = SystemFactory(short_name="erp", kind=kind, location=address)
    SourceColumnFactory(dataset=SourceDatasetFactory(system=system, name="staff", location=location), pii=True)
    other = SystemFactory(short_name="hr", kind=kind, location=other_address)
    assert sensitive_at(other, other_location) == ["erp.staff"]
    assert sensitive_at(other, "orders") == []


ADDRESSES = {"db": ["10.0.0.7"], "db.corp.example": ["10.0.0.7"], "other": ["10.0.0.8"], "hr.example": ["10.0.0.7"]}
ADDRESSES |= {"localhost": ["127.0.0.1", "::1"], "host": ["127.0.1.1"]}


def addresses_of(host: str, port: int, *, seconds: float) -> list[str]:
    if host in ADDRESSES:
        return ADDRESSES[host]
    if is_address(host):
        return [host]
    raise NotResolved(host)


@pytest.mark.parametrize(
    ("kind", "address", "other_address", "is_same"),
    [
        (System.Kind.JDBC, "postgresql://db/erp", "postgresql://db./erp", True),
        (System.Kind.JDBC, "postgresql://db/erp", "postgresql://db.corp.example/erp", True),
        (System.Kind.JDBC, "postgresql://db/erp", "postgresql://10.0.0.7/erp", True),
        (System.Kind.JDBC, "postgresql://db/erp", "postgresql://[::ffff:10.0.0.7]/erp", True),
        (System.Kind.JDBC, "postgresql://localhost/erp", "postgresql://127.0.0.1/erp", True),
        (System.Kind.JDBC, "postgresql://localhost/erp", "postgresql://127.1/erp", True),
        (System.Kind.JDBC, "postgresql://localhost/erp", "postgresql://[::1]/erp", True),
        (System.Kind.JDBC, "postgresql://localhost/erp", "postgresql://host/erp", True),
        (System.Kind.JDBC, "postgresql://db/erp", "postgresql://gone/erp", True),  # not known at present
        (System.Kind.JDBC, "postgresql://db/erp", "postgresql://other/erp", False),
        (System.Kind.JDBC, "postgresql://db/erp", "postgresql://db.corp.example/crm", False),
        (System.Kind.JDBC, "postgresql://db/erp", "postgresql://db.corp.example:5433/erp", False),
        (System.Kind.KAFKA, "kafka://db:9092", "kafka://other:9092,10.0.0.7", True),
        (System.Kind.KAFKA, "kafka://db:9092", "kafka://other:9092", False),
        (System.Kind.REST, "https://hr.example", "https://HR.example.:443", True),
        (System.Kind.REST, "https://hr.example", "http://10.0.0.7", True),
        (System.Kind.REST, "https://hr.example", "https://db", True),
        (System.Kind.REST, "https://hr.example", "https://db.corp.example", False),  # another host of one address
    ],
)
def test_server_is_recognised_under_its_other_names(
    db, monkeypatch, kind: str, address: str, other_address: str, is_same: bool
):
    monkeypatch.setattr("loader.services.reads.classified_places.resolved", addresses_of)
    system = SystemFactory(short_name="erp", kind=kind, location=address)
    SourceColumnFactory(dataset=SourceDatasetFactory(system=system, name="staff", location="staff"), pii=True)
    other = SystemFactory(short_name="hr", kind=kind, location=other_address)
    assert sensitive_at(other, "staff") == (["erp.staff"] if is_same else [])


def test_source_whose_table_cannot_be_named_does_not_break_samples_of_other_systems(db):
    system = SystemFactory(short_name="ora", kind=System.Kind.JDBC, location="oracle://db/erp")
    SourceColumnFactory(dataset=SourceDatasetFactory(system=system, name="staff", location="staff"), pii=True)
    other = SystemFactory(short_name="erp", kind=System.Kind.JDBC, location="postgresql://db/erp")
    assert sensitive_at(other, "staff") == []
    assert sensitive_at(system, "staff") == ["ora.staff"]


# --- detection


def test_detection_of_a_classified_file_has_no_value_for_an_editor(people: SourceDataset, editor_user: User):
    result = detect(editor_user, people.system, "people.csv")
    assert [column.name for column in result.columns] == ["id", "mail", "born"]
    assert [(question.option, question.reason, question.examples) for question in result.questions] == [
        ("date_format", "the values leave it open", ())
    ]
    assert not ChangeLogEntry.objects.filter(action="read").exists()


def test_detection_of_a_classified_file_is_recorded_for_a_steward(people: SourceDataset, steward_user: User):
    result = detect(steward_user, people.system, "people.csv")
    assert "1980" in str(result.questions[0].examples)
    entry = ChangeLogEntry.objects.get(action="read")
    changes = {name: sides["after"] for name, sides in json.loads(entry.changes).items()}
    assert (entry.subject_name, changes["kind"], changes["columns"]) == ("shop.people", "file detection", ["mail"])


def test_values_detected_as_column_names_are_masked(people: SourceDataset, landing: Path, editor_user, steward_user):
    (landing / "people.csv").write_text("1;ada;x\n2;bob;y\n3;cal;z\nborn;mail;id\n")
    names = [column.name for column in detect(editor_user, people.system, "people.csv").columns]
    column_names = {column.name for column in detect(steward_user, people.system, "people.csv").columns}
    assert not {"ada", "bob"} & set(names)
    assert all(name.startswith("(column") for name in names if name not in column_names)


UNREAD = "id;mail;born\n1;ada@x;12 enero 1980\n2;bob@x;3 marzo 1981\n"


def test_note_of_a_classified_file_names_columns_as_they_are_shown(people: SourceDataset, landing: Path, editor_user):
    sentence = "may have dates or numbers in a format that is not read; they stay texts."
    (landing / "people.csv").write_text(UNREAD)
    assert detect(editor_user, people.system, "people.csv").all_notes == (f"born {sentence}",)
    (landing / "people.csv").write_text(UNREAD.replace("born", "ada"))
    assert detect(editor_user, people.system, "people.csv").all_notes == (f"(column 3) {sentence}",)
    with acting_as(editor_user):
        result, _ = readable_sample(editor_user, people.system, Place("people.csv", "csv", None))
    assert (result.unread_columns, result.questions) == (("(column 3)",), ())


@pytest.mark.parametrize("content", ["", "a\0b;ada@x\n1;2\n"])
def test_refusal_of_a_classified_file_has_no_value(people: SourceDataset, landing: Path, editor_user: User, content):
    (landing / "people.csv").write_text(content)
    result = detect(editor_user, people.system, "people.csv")
    assert isinstance(result, Refusal)
    assert "ada@x" not in str(result.as_json())


def test_refusal_of_another_format_has_no_value(people: SourceDataset, landing: Path, editor_user: User):
    SourceDataset.objects.update(location="people.json", format="json")
    (landing / "people.json").write_text('[{"id": 1, "mail": ada@x}]')
    result = detect(editor_user, people.system, "people.json")
    assert isinstance(result, Refusal)
    assert "ada@x" not in str(result.as_json())


@pytest.mark.parametrize("location", ["../crm/a.csv", "{folder}/crm/a.csv", "{folder}/shop/link.csv", "l*.csv"])
def test_file_of_another_system_is_refused(location: str, landing: Path, editor_user: User):
    for name in ("shop", "crm"):
        (landing / name).mkdir()
    (landing / "crm" / "a.csv").write_text("id,name\n1,secret\n")
    (landing / "shop" / "link.csv").symlink_to(landing / "crm" / "a.csv")
    system = SystemFactory(short_name="shop", location=str(landing / "shop"))
    result = detect(editor_user, system, location.format(folder=landing))
    assert isinstance(result, Refusal)
    assert result.code in ("OUTSIDE_ROOTS", "BAD_LOCATION")
    assert "secret" not in str(result.as_json())


@pytest.mark.parametrize(("location", "code"), [("gone.csv", "MISSING_FILE"), ("g*.csv", "MISSING_FILE")])
def test_refusals_name_the_location_as_it_was_given(shop: System, landing: Path, editor_user, location: str, code: str):
    result = detect(editor_user, shop, location)
    assert (result.code, result.file) == (code, location)
    assert str(landing) not in str(result.as_json())


def test_all_files_of_a_request_share_one_time_limit(shop: System, landing: Path, editor_user: User, monkeypatch):
    monkeypatch.setattr(file_detection, "SECONDS", 0.5)
    monkeypatch.setattr(file_detection, "detect_file", lambda *_, **__: time.sleep(2))
    start = time.monotonic()
    with acting_as(editor_user):
        results = detect_locations(editor_user, shop, ["orders.csv"] * 5)
    assert time.monotonic() - start < 1.5
    assert {result.code for result in results} == {"TOO_SLOW"}
    assert all(str(landing) not in result.message and "orders.csv" in result.message for result in results)


def test_user_without_permission_to_read_data_is_refused(shop: System, db):
    with pytest.raises(PermissionDenied, match="Detection in"):
        detect_locations(User.objects.create_user("nora"), shop, ["orders.csv"])


# --- samples


def test_sample_of_a_classified_file_masks_values_evidence_and_questions(people: SourceDataset, editor_user: User):
    with acting_as(editor_user):
        result, masked = readable_sample(editor_user, people.system, Place("people.csv", "csv", None))
    assert masked == {"mail"}
    assert [column.sample for column in result.columns if column.name == "mail"] == [(MASK,)]
    assert [question.examples for question in result.questions] == [()]
    assert "01.02.1980" not in str((result.notes, result.questions))


def test_sample_read_otherwise_than_described_masks_names_of_columns(people: SourceDataset, editor_user: User):
    options = {"delimiter": ";", "skip_lines": 1}
    with acting_as(editor_user):
        result, masked = readable_sample(editor_user, people.system, Place("people.csv", "csv", options))
    assert [column.name for column in result.columns] == ["(column 1)", "(column 2)", "(column 3)"]
    assert masked == {"(column 1)", "(column 2)", "(column 3)"}


def test_refusal_of_a_sample_read_otherwise_names_no_value(people: SourceDataset, landing: Path, editor_user: User):
    (landing / "people.csv").write_text("id;mail;born\nada@x;ada@x;1\n")
    options = {"delimiter": ";", "skip_lines": 1}
    with acting_as(editor_user), pytest.raises(Refusal) as refused:
        readable_sample(editor_user, people.system, Place("people.csv", "csv", options))
    assert refused.value.code == "DUPLICATE_COLUMN"
    assert "ada@x" not in str(refused.value.as_json())
