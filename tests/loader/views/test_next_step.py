"""Bar with the next step, on the pages of datasets, sources, runs, reports and executions, by REST and as a command."""

import json
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ObjectDoesNotExist
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from architecture.models import Environment, Refresh
from architecture.services.previews import make_preview
from elevata.accounts.cli import CommandExit
from elevata.accounts.roles import Role
from elevata.accounts.services.users import grant_role
from loader.domain.next_steps import CREATE_REPORT
from loader.models import DatasetRun, LoadRun
from loader.selectors.next_step_facts import KINDS
from loader.selectors.next_steps import next_step_of
from metadata.models import TargetDataset
from metadata.services.datasets.targets import create_schema
from tests.architecture.services.test_reports import rename
from tests.architecture.world import World, committed, person
from tests.elevata.web.pages import needing, read, signed_in, words
from tests.loader.factories import REFUSAL, DatasetRunFactory, LoadRunFactory, loaded

pytestmark = pytest.mark.django_db


def bar(client: Client, **subject: object) -> str:
    """Return the bar of one subject, as HTML."""
    committed()
    ((kind, key),) = subject.items()
    return read(client, f"/next-step/?{kind}={key}")


def customers() -> TargetDataset:
    return TargetDataset.objects.get(historize=True)


def has_bar(client: Client, address: str, subject: str) -> bool:
    page = read(client, address)
    return f'hx-get="/next-step/?{subject}"' in page and page.count('id="next-step"') == 1


def test_pages_of_datasets_sources_and_runs_have_the_bar(airport: TargetDataset, reader: Client):
    LoadRunFactory(run_id="night")
    assert has_bar(reader, f"/datasets/{airport.key}/", f"dataset={airport.key}")
    source = airport.generated_from.key
    assert has_bar(reader, f"/sources/{source}/", f"source={source}")
    assert has_bar(reader, "/load-runs/night/", "run=night")


def test_key_may_be_written_in_any_form(airport: TargetDataset, reader: Client):
    expected = read(reader, f"/next-step/?dataset={airport.key}")
    for key in (str(airport.key).upper(), airport.key.hex, airport.key.urn):
        assert read(reader, f"/next-step/?dataset={key}") == expected


@pytest.mark.parametrize("subject", ["execution=99999999999999999999999", "execution=x", "dataset=x", "run=a%00b"])
def test_subject_of_no_object_is_not_found(reader: Client, subject: str):
    assert reader.get(f"/next-step/?{subject}").status_code == 404


@pytest.mark.parametrize("kind", KINDS)
def test_subject_with_nul_is_unknown_without_a_query(reader: Client, kind: str, django_assert_num_queries):
    with django_assert_num_queries(0), pytest.raises(ObjectDoesNotExist):
        next_step_of(kind, "a\0b", None)


def test_work_of_another_environment_has_no_step(world: World):
    rename(world, "full_name", "display_name")
    execution, client = world.executed(), signed_in(world.author)
    LoadRunFactory(run_id="night", status="failed")
    report = execution.report.report_id
    subjects = {"run": "night", "execution": execution.pk, "report": report}
    assert all("Next step" in bar(client, **{kind: key}) for kind, key in subjects.items())
    Environment.objects.update(name="elsewhere")
    assert not any("Next step" in bar(client, **{kind: key}) for kind, key in subjects.items())


def test_pages_of_reports_and_executions_have_the_bar(world: World):
    rename(world, "full_name", "display_name")
    execution, client = world.executed(), signed_in(world.author)
    report = execution.report.report_id
    assert has_bar(client, f"/reports/{report}/", f"report={report}")
    assert has_bar(client, f"/executions/{execution.pk}/", f"execution={execution.pk}")


def test_pending_changes_of_a_dataset_and_its_history_ask_for_a_report(world: World):
    needing(world, safe=1)
    rename(world, "full_name", "display_name")
    for dataset in (customers(), customers().history):
        html = bar(signed_in(world.author), dataset=dataset.key)
        assert "1 change is not in the warehouse." in words(html)
        assert "rename_column rawcore.rc_crm_customer full_name → display_name" in words(html)
        assert '<input type="hidden" name="scope" value="dataset">' in html
        assert '<input type="hidden" name="dataset" value="rawcore.rc_crm_customer">' in html


def test_report_is_created_by_editors_approvers_and_operators_of_the_scope(world: World):
    needing(world, safe=1)
    rename(world, "full_name", "display_name")
    committed()
    create_schema(name="mart", layer="serving")
    for name, role, schema in (("ana", Role.APPROVER, "rawcore"), ("oda", Role.OPERATOR, "mart")):
        grant_role(user=person(name), role=role, schema=schema)
    step = next_step_of("dataset", str(customers().key), world.operator)
    assert step.do == CREATE_REPORT
    assert set(step.who) == {"ana", *(user.get_username() for user in (world.author, world.approver, world.operator))}
    assert step.refusal == ""
    elsewhere = next_step_of("dataset", str(customers().key), User.objects.get(username="oda"))
    assert elsewhere.refusal == "It needs the editor, approver or operator role."


def test_button_of_the_bar_creates_the_report(world: World):
    needing(world, safe=1)
    rename(world, "full_name", "display_name")
    committed()
    client = signed_in(world.author)
    client.post("/reports/make/", {"scope": "dataset", "dataset": "rawcore.rc_crm_customer"})
    assert Refresh.objects.get().scope["name"] == "rawcore.rc_crm_customer"


def test_changes_that_the_next_load_applies_ask_for_a_load(world: World):
    rename(world, "full_name", "display_name")
    text = words(bar(signed_in(world.operator), dataset=customers().key))
    assert "1 change is not in the warehouse. The next load applies them. Load" in text


def test_open_report_asks_approvers_and_names_them_to_the_author(world: World):
    needing(world, safe=1)
    rename(world, "full_name", "display_name")
    report = world.report()
    author = bar(signed_in(world.author), report=report.report_id)
    assert "needs 1 approval." in words(author)
    assert "Ask bob." in words(author)
    assert f'action="/comments/report/{report.report_id}/"' in author
    assert 'value="@bob ' in author
    assert "disabled" in author
    approver = bar(signed_in(world.approver), report=report.report_id)
    assert f'href="/reports/{report.report_id}/#approvals"' in approver
    assert "disabled" not in approver
    assert "needs 1 approval." in words(bar(signed_in(world.author), dataset=customers().key))


def test_previewed_report_is_executed_by_its_bar(world: World):
    rename(world, "full_name", "display_name")
    preview = make_preview(report=world.approved(), user=world.operator)
    html = bar(signed_in(world.operator), report=preview.report.report_id)
    assert f'action="/reports/{preview.report.report_id}/execute/"' in html
    assert f'name="preview" value="{preview.fingerprint}"' in html
    other = bar(signed_in(person("eve", Role.EDITOR)), report=preview.report.report_id)
    assert "/execute/" not in other
    assert "Ask olga." in words(other)


def test_executed_report_asks_for_a_load_of_its_datasets(world: World):
    rename(world, "full_name", "display_name")
    execution = world.executed()
    for subject in ({"execution": execution.pk}, {"report": execution.report.report_id}):
        html = bar(signed_in(world.operator), **subject)
        assert "The tables have changed since the last load" in words(html)
        assert '<input type="hidden" name="dataset" value="rawcore.rc_crm_customer">' in html
    loaded(customers(), run_id="good")
    DatasetRun.objects.update(finished_at=timezone.now())
    assert words(bar(signed_in(world.operator), execution=execution.pk)) == ""


def test_blocked_run_asks_for_the_report_that_it_waits_for(world: World):
    needing(world, safe=1)
    rename(world, "full_name", "display_name")
    LoadRunFactory(run_id="night", status="blocked", error={"code": "BLOCKED", "message": "1 pending change"})
    html = bar(signed_in(world.author), run="night")
    assert "1 change must be executed before the load." in words(html)
    assert 'action="/reports/make/"' in html


def test_blocked_run_is_repeated_once_nothing_is_pending(world: World):
    LoadRunFactory(run_id="night", status="blocked", error={"code": "BLOCKED", "message": "1 pending change"})
    assert 'action="/load-runs/night/again/"' in bar(signed_in(world.operator), run="night")


def test_failed_run_with_rows_that_do_not_fit_offers_the_rest(airport: TargetDataset, reader: Client):
    run = LoadRunFactory(run_id="night", status="failed")
    error = REFUSAL | {"faults": [{"code": "BAD_VALUE", "count": 3}]}
    DatasetRunFactory(run=run, dataset=airport, status="failed", error=error)
    html = bar(signed_in(person("eve", Role.EDITOR)), run="night")
    assert f'action="/sources/{airport.generated_from.key}/load-rest/"' in html
    assert "script" not in html


def test_rest_of_a_refused_delivery_is_loaded_with_one_button(airport: TargetDataset):
    source = airport.generated_from
    eve = signed_in(person("eve", Role.EDITOR, Role.OPERATOR))
    answer = eve.post(f"/sources/{source.key}/load-rest/")
    source.refresh_from_db()
    assert source.options["faulty_rows"] == "quarantine"
    run = LoadRun.objects.get()
    assert answer.url == f"/load-runs/{run.run_id}/"
    assert run.scope["name"] == str(airport)


def test_editor_without_the_operator_role_leaves_the_load_of_the_rest_to_others(airport: TargetDataset):
    source = airport.generated_from
    answer = signed_in(person("eve", Role.EDITOR)).post(f"/sources/{source.key}/load-rest/")
    assert answer.url == f"/sources/{source.key}/"
    assert not LoadRun.objects.exists()


def test_new_source_asks_for_its_first_load(airport: TargetDataset, operator: Client):
    needed = words(bar(operator, source=airport.generated_from.key))
    assert "Load" in needed


@pytest.mark.parametrize("query", ["", "?run=nowhere", "?dataset=x", "?run=a&execution=1", "?execution=0x1"])
def test_unknown_subject_is_not_found(reader: Client, query: str):
    assert reader.get(f"/next-step/{query}").status_code == 404


def test_rest_answers_the_same_step(world: World, client: Client):
    needing(world, safe=1)
    rename(world, "full_name", "display_name")
    report = world.report()
    client.force_login(world.author)
    answer = client.get(f"/api/v1/next-step/?report={report.report_id}").json()
    assert (answer["do"], answer["who"], answer["allowed"]) == ("approve", ["bob"], False)
    assert answer["page"] == f"/reports/{report.report_id}/#approvals"
    assert client.get("/api/v1/next-step/").status_code == 400
    assert client.get("/api/v1/next-step/?run=nowhere").status_code == 404


def test_command_prints_the_same_step(world: World):
    needing(world, safe=1)
    rename(world, "full_name", "display_name")
    committed()
    out = StringIO()
    call_command("next_step", dataset="rawcore.rc_crm_customer", json=True, stdout=out, stderr=StringIO())
    assert json.loads(out.getvalue())["do"] == "create_report"
    with pytest.raises(CommandExit, match=r"did you mean rawcore\.rc_crm_customer"):
        call_command("next_step", dataset="rawcore.rc_crm_custmer", stdout=StringIO())


def test_load_form_names_changes_that_block_the_load(world: World):
    needing(world, safe=1)
    rename(world, "full_name", "display_name")
    committed()
    client = signed_in(world.operator)
    html = read(client, "/start-load/blocks/?scope=dataset&dataset=rawcore.rc_crm_customer")
    assert "This load will be blocked: 1 change needs a report first." in words(html)
    assert 'name="dataset" value="rawcore.rc_crm_customer"' in html
    assert "blocked" not in words(read(client, "/start-load/blocks/?scope=dataset&dataset="))


def test_load_form_has_no_warning_if_the_load_applies_the_changes(world: World):
    rename(world, "full_name", "display_name")
    committed()
    assert "blocked" not in words(read(signed_in(world.operator), "/start-load/blocks/?scope=all"))
