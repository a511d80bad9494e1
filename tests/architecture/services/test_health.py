"""Health findings: storage with edits, safe fixes, and the command that checks all metadata."""

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client

from architecture.models import HealthFinding
from architecture.selectors.health import concerns, link_of
from architecture.services.health import fix_finding, refresh_findings
from elevata.accounts.cli import CommandExit
from elevata.core.errors import MetadataError
from loader.schedules.overlaps import overlapping_schedules
from loader.schedules.services import create_schedule
from metadata.models import SourceColumn, SourceDataset, System, TargetDataset
from metadata.services.datasets.targets import create_target_dataset, update_target_column
from metadata.services.lifecycle import retire_dataset, unretire_dataset
from tests.factories import DatasetInputFactory, SourceDatasetFactory, TargetDatasetFactory, TargetSchemaFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def stage(airport: TargetDataset) -> TargetDataset:
    refresh_findings()
    return TargetDataset.objects.get(name="stg_air_airport")


def codes(dataset: TargetDataset) -> list[str]:
    return sorted(dataset.findings.values_list("code", flat=True))


def test_generated_metadata_is_healthy(stage: TargetDataset):
    assert HealthFinding.objects.count() == 0


def test_an_edit_stores_findings_of_the_datasets_that_read_the_edited_one(
    stage: TargetDataset, airport: TargetDataset, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        retire_dataset(dataset=stage, expected_version=stage.version)
    assert "retired_input" in codes(airport)


def test_finding_is_deleted_with_its_cause(
    stage: TargetDataset, airport: TargetDataset, django_capture_on_commit_callbacks
):
    column = airport.columns.get(name="name")
    for pii, expected in ((True, ["no_owner"]), (False, [])):
        column.refresh_from_db()
        with django_capture_on_commit_callbacks(execute=True):
            update_target_column(column=column, expected_version=column.version, pii=pii)
        assert codes(airport) == expected


def test_a_dataset_takes_the_owner_of_its_inputs(stage: TargetDataset, airport: TargetDataset):
    airport.columns.filter(name="name").update(pii=True)
    TargetDataset.objects.filter(pk=stage.pk).update(owner="mia")
    refresh_findings([airport.pk])
    assert fix_finding(finding=airport.findings.get()).owner == "mia"


def test_a_finding_without_a_safe_change_is_refused(airport: TargetDataset):
    finding = HealthFinding.objects.create(dataset=airport, code="no_key", severity="error")
    with pytest.raises(MetadataError, match="no safe change"):
        fix_finding(finding=finding)


def test_fix_of_an_orphan_is_refused_once_the_dataset_is_read_again(stage: TargetDataset, airport: TargetDataset):
    retire_dataset(dataset=airport, expected_version=airport.version)
    refresh_findings([stage.pk])
    retired = TargetDataset.objects.get(pk=airport.pk)
    unretire_dataset(dataset=retired, expected_version=retired.version)
    with pytest.raises(MetadataError, match="no safe change"):
        fix_finding(finding=stage.findings.get(code="orphan"))


def test_health_page_offers_fixes_only_to_users_with_permission(
    reader: Client, operator: Client, stage: TargetDataset, airport: TargetDataset
):
    retire_dataset(dataset=airport, expected_version=airport.version)
    refresh_findings()
    finding = stage.findings.get(code="orphan")
    fix = f"/health/{finding.pk}/fix/"
    assert fix in operator.get("/health/").content.decode()
    assert fix not in reader.get("/health/").content.decode()
    assert reader.post(fix).status_code == 403
    operator.post(fix)
    stage.refresh_from_db()
    assert not stage.active


def test_check_metadata_fails_on_errors_and_prints_them(stage: TargetDataset, airport: TargetDataset):
    call_command("check_metadata", stdout=StringIO())
    TargetDataset.objects.filter(pk=airport.pk).update(history_policy={"input": "nothing"})
    out = StringIO()
    with pytest.raises(CommandExit) as end:
        call_command("check_metadata", "--format", "json", stdout=out)
    assert end.value.returncode == 1
    (finding,) = json.loads(out.getvalue())["findings"]
    assert (finding["code"], finding["subject"]) == ("policy", "rawcore.rc_air_airport")


def test_cycle_of_six_datasets_is_found_and_cleared_for_all_of_them():
    datasets = [TargetDatasetFactory(name=f"rc_{number}") for number in range(6)]
    for reader, read in zip(datasets, datasets[1:], strict=False):
        DatasetInputFactory(dataset=reader, upstream=read)
    closing = DatasetInputFactory(dataset=datasets[-1], upstream=datasets[0])
    refresh_findings([datasets[-1].pk])
    assert HealthFinding.objects.filter(code="cycle").count() == 6
    closing.delete()
    refresh_findings([datasets[-1].pk])
    assert not HealthFinding.objects.filter(code="cycle").exists()


@pytest.mark.full
@pytest.mark.parametrize(
    ("field", "of_column"),
    [
        ("owner", False),
        ("inputs", False),
        ("name", False),
        ("columns", False),
        ("history_policy", False),
        ("history_policy.time", False),
        ("history_policy.state_labels.new", False),
        ("data_type", True),
        ("inputs", True),
        ("name", True),
    ],
)
def test_a_finding_links_to_the_field_where_it_is_corrected(
    operator: Client, airport: TargetDataset, field: str, of_column: bool
):
    column = airport.columns.get(name="name") if of_column else None
    link = link_of(HealthFinding(dataset=airport, column=column, field=field))
    path, _, place = link.partition("#")
    assert f'id="{place}"' in operator.get(path).content.decode()


def test_a_finding_about_a_model_links_to_its_select(operator: Client, airport: TargetDataset):
    model = create_target_dataset(
        schema=TargetSchemaFactory(name="mart", layer="serving"), name="icao", select=f"SELECT icao FROM {airport}"
    )
    path, _, place = link_of(HealthFinding(dataset=model, field="inputs")).partition("#")
    assert f'id="{place}"' in operator.get(path).content.decode()


def test_the_api_and_the_command_have_the_link(reader: Client, stage: TargetDataset, airport: TargetDataset):
    TargetDataset.objects.filter(pk=airport.pk).update(history_policy={"input": "nothing"})
    out, link = StringIO(), f"/datasets/{airport.key}/policy/#id_input"
    with pytest.raises(CommandExit):
        call_command("check_metadata", "--json", stdout=out)
    assert json.loads(out.getvalue())["findings"][0]["link"] == link
    assert reader.get("/api/v1/health-findings/").json()["results"][0]["link"] == link


def test_source_without_owner_or_readers_is_a_finding(reader: Client, airport: TargetDataset):
    read, unread = SourceDataset.objects.get(), SourceDatasetFactory(system__short_name="crm", name="lead")
    SourceColumn.objects.filter(dataset=read, name="name").update(pii=True)
    assert [(each.code, each.subject) for each in concerns()] == [
        ("no_owner", f"Source {read}"),
        ("orphan", f"Source {unread}"),
    ]
    page = reader.get("/health/").content.decode()
    assert f"/sources/{read.key}/edit/#id_owner" in page
    System.objects.filter(pk=read.system_id).update(owner="mia")
    assert [each.code for each in concerns()] == ["orphan"]


def test_schedules_of_the_same_tables_at_the_same_time_overlap(airport: TargetDataset):
    create_schedule(name="all", cron="0 6 * * *")
    create_schedule(name="airports", cron="0 6 * * 1", scope={"kind": "dataset", "name": str(airport)})
    create_schedule(name="later", cron="30 6 * * *")
    (concern,) = overlapping_schedules()
    assert concern.subject == "Schedule all"
    assert "airports" in concern.text


def test_health_page_checks_all_metadata_for_an_editor(reader: Client, operator: Client, airport: TargetDataset):
    TargetDataset.objects.filter(pk=airport.pk).update(history_policy={"input": "nothing"})
    assert "Check all metadata" not in reader.get("/health/").content.decode()
    assert reader.post("/health/check/").status_code == 403
    assert "Check all metadata" in operator.get("/health/").content.decode()
    page = operator.post("/health/check/", follow=True).content.decode()
    assert "All metadata is checked: 1 finding." in page
