"""Trials of models: permissions, masking, and refusals before a worker is asked."""

import json

import pytest
from django.contrib.auth.models import User

from architecture.services.environments import current_environment
from architecture.services.states import write_applied
from elevata.accounts.services.users import ensure_user, grant_role
from elevata.audit.models import ChangeLogEntry
from loader.contract.manifest.reads import ReadManifest
from loader.contract.refusals import Refusal
from loader.models import ReadRequest
from loader.services.reads.manifests import read_manifest
from loader.services.reads.read_requests import request_trial
from loader.services.reads.trials import must_still_see_trial, record_trial, trial_answer
from metadata.domain.sensitivity import MASK
from metadata.models import TargetDataset
from metadata.selectors.dataset_states import dataset_states
from metadata.services.datasets import targets
from metadata.services.quality import create_check
from tests.factories import TargetSchemaFactory
from tests.loader.airports import target

pytestmark = pytest.mark.django_db(transaction=True)

NAME = "rawcore.rc_air_airport"
SELECT = f"SELECT a.icao, a.name AS title, upper(a.name) AS loud FROM {NAME} AS a"
# Reads all columns without their names.
RENAMED = f"WITH c (c1, c2, c3) AS (SELECT * FROM {NAME}) SELECT c2 AS k FROM c WHERE c3 IS NOT NULL"
COUNT = f"SELECT count(*) AS airports FROM {NAME}"


@pytest.fixture
def tables(airports) -> None:
    """Store the tables, as if an execution had created them."""
    for state in dataset_states():
        write_applied(environment=current_environment(), state=state, versions={}, execution=None, through=0)


@pytest.fixture
def classified(tables) -> None:
    target(NAME).columns.filter(name="name").update(pii=True)


@pytest.fixture
def board(classified) -> TargetDataset:
    """Return a model of airports."""
    return targets.create_target_dataset(
        schema=TargetSchemaFactory(name="bizcore"), name="board", select=SELECT, business_key=["icao"]
    )


def viewer() -> User:
    return ensure_user(name="vera", roles=("viewer",))


def steward() -> User:
    return ensure_user(name="stan", roles=("steward",))


def request(text: str = SELECT, user: User | None = None, **given: object) -> ReadRequest:
    made = request_trial(text, user=user, wake_worker=False, **given)
    return ReadRequest.objects.get(pk=made.read.pk)


def manifest(text: str = SELECT, user: User | None = None, **given: object) -> ReadManifest:
    return read_manifest(read=request(text, user, **given))


def answer_of(read: ReadRequest) -> dict:
    result = {"columns": ["icao", "title", "loud"], "types": ["string"] * 3, "rows": [["EDDF", None, None]]}
    return trial_answer(read, {**result, "truncated": False})


def refusal(text: str = SELECT, user: User | None = None, **given: object) -> Refusal:
    with pytest.raises(Refusal) as refused:
        request(text, user, **given)
    assert not ReadRequest.objects.exists()
    return refused.value


def test_the_select_is_bound_to_the_tables_that_it_reads(tables):
    made = manifest()
    assert [source.table.qualified_name for source in made.sources] == [NAME]
    assert made.sources[0].view in made.arguments["query"]
    assert made.table is None


def test_trial_over_a_view_reads_its_base_tables(tables):
    made = manifest("SELECT icao FROM stage.stg_air_airport")
    assert [source.table.qualified_name for source in made.sources] == ["raw.raw_air_airport"]


def test_an_error_of_the_select_names_line_and_column(tables):
    error = refusal(f"SELECT icao,\n  nothing\nFROM {NAME}")
    assert "line 2, column 3" in error.message


def test_trial_requires_the_permission_to_read_every_input(tables):
    user = ensure_user(name="vera", roles=())
    grant_role(user=user, role="viewer", schema="raw")
    assert refusal(user=User.objects.get(pk=user.pk)).code == "NOT_PERMITTED"


def test_trial_over_a_view_requires_the_permission_to_read_its_base_tables(tables):
    user = ensure_user(name="vera", roles=())
    grant_role(user=user, role="viewer", schema="stage")
    error = refusal("SELECT icao FROM stage.stg_air_airport", user=User.objects.get(pk=user.pk))
    assert "raw.raw_air_airport" in error.message


def test_sensitive_columns_of_inputs_are_masked_before_the_select_runs(classified):
    keys = {column.name: str(column.key) for column in target(NAME).columns.all()}
    (source,) = manifest(user=viewer()).sources
    assert keys["name"] not in source.masking.shown
    assert manifest(user=steward()).sources[0].masking is None


def test_columns_that_are_computed_from_masked_ones_are_masked(classified):
    answer = answer_of(request(user=viewer()))
    assert answer["masked"] == ["title", "loud"]
    assert answer["rows"] == [["EDDF", MASK, MASK]]
    assert answer["hidden"] == {NAME: ["name"]}


def test_a_column_of_a_masked_view_is_masked(classified):
    TargetDataset.objects.get(name="stg_air_airport").columns.filter(name="name").update(pii=True)
    select = "SELECT a.icao, a.name AS title, a.icao AS loud FROM stage.stg_air_airport AS a"
    assert answer_of(request(select, viewer()))["masked"] == ["title"]


def test_a_read_of_sensitive_values_is_recorded(classified):
    read = request(user=steward())
    record_trial(read, answer_of(read))
    entry = ChangeLogEntry.objects.get(subject_kind="data")
    changes = {name: sides["after"] for name, sides in json.loads(entry.changes).items()}
    assert (entry.subject_name, changes["columns"], changes["kind"]) == (NAME, ["name"], "try_model")


@pytest.mark.parametrize("text", [RENAMED, "SELECT v.k FROM bizcore.renamed AS v"])
def test_trial_logs_a_sensitive_column_selected_by_a_star(classified, text):
    schema = TargetSchemaFactory(name="bizcore")
    targets.create_target_dataset(schema=schema, name="renamed", select=RENAMED, materialization="view")
    read = request(text, steward())
    record_trial(read, answer_of(read))
    entry = ChangeLogEntry.objects.get(subject_kind="data")
    assert json.loads(entry.changes)["columns"]["after"] == ["name"]


def test_a_trial_that_only_counts_rows_is_not_recorded(classified):
    read = request(COUNT, steward())
    record_trial(read, answer_of(read))
    assert not ChangeLogEntry.objects.filter(subject_kind="data").exists()


def test_a_comparison_of_sensitive_values_of_the_table_is_recorded(board):
    read = request(user=steward(), dataset=board, compare=True)
    record_trial(read, answer_of(read) | {"difference": {}})
    entries = ChangeLogEntry.objects.filter(subject_kind="data").order_by("subject_name")
    assert [entry.subject_name for entry in entries] == ["bizcore.board", NAME]


def test_an_answer_is_not_shown_after_its_columns_were_classified(tables):
    user = viewer()
    read = request(user=user)
    read.answer = answer_of(read)
    must_still_see_trial(user, read)
    target(NAME).columns.filter(name="name").update(pii=True)
    with pytest.raises(Refusal, match=f"{NAME}.name"):
        must_still_see_trial(user, read)


def test_comparison_uses_the_table_and_key_of_the_model(board):
    made = manifest(dataset=board, compare=True, user=steward())
    assert (made.table.qualified_name, made.arguments["key"]) == ("bizcore.board", ["icao"])


def test_a_comparison_that_uses_masked_columns_is_refused(board):
    error = refusal(dataset=board, compare=True, user=viewer())
    assert (error.code, f"{NAME}.name" in error.message) == ("MASKED_COLUMN", True)


def test_a_select_without_masked_columns_is_compared_for_every_reader(classified):
    schema = TargetSchemaFactory(name="bizcore")
    counts = targets.create_target_dataset(schema=schema, name="counts", select=COUNT)
    assert manifest(COUNT, dataset=counts, compare=True, user=viewer()).table.qualified_name == "bizcore.counts"


def test_masked_columns_of_the_table_are_left_out_of_a_comparison(board):
    target(NAME).columns.filter(name="name").update(pii=False)
    board.columns.filter(name="title").update(pii=True)
    made = manifest(dataset=board, compare=True, user=viewer())
    assert made.arguments["left_out"] == ["title"]
    assert made.masking is not None


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"compare": True}, "NO_TABLE"),
        ({"sample": {"share": 0}}, "BAD_SAMPLE"),
        ({"sample": {"share": 1.5}}, "BAD_SAMPLE"),
        ({"sample": {"rows": 0}}, "BAD_SAMPLE"),
    ],
)
def test_invalid_trial_is_refused_without_a_read(tables, given, code):
    assert refusal(**given).code == code


def test_comparison_of_a_sample_is_refused(board):
    assert refusal(dataset=board, compare=True, sample={"rows": 10}).code == "SAMPLE_COMPARED"


def checks_of(user: User | None = None, **given: object) -> tuple[dict[str, dict], dict[str, str]]:
    """Return the checks of a trial by name, and the reasons for which others are left out."""
    arguments = manifest(user=user, check=True, **given).arguments
    return {spec["name"]: spec for spec in arguments["checks"]}, arguments["left_out_checks"]


def check(model: TargetDataset, name: str, kind: str, **arguments: object) -> None:
    create_check(dataset=model, name=name, kind=kind, arguments=arguments)


def test_trial_checks_the_declared_key_and_the_active_checks_of_the_model(board):
    check(board, "short", "length", columns=["icao"], maximum="4")
    specs, left_out = checks_of(dataset=board)
    assert set(specs) == {"key is unique", "key has no NULL", "short"}
    assert (specs["key is unique"]["arguments"], left_out) == ({"columns": ["icao"]}, {})
    assert "checks" not in manifest(dataset=board).arguments


def test_trial_checks_the_key_that_the_form_has(board):
    specs, _ = checks_of(dataset=board, key=["ICAO", "title"])
    assert specs["key is unique"]["arguments"] == {"columns": ["icao", "title"]}
    assert checks_of(dataset=board, key=[]) == ({}, {})
    assert set(checks_of(key=["icao"])[0]) == {"key is unique", "key has no NULL"}


def test_checks_that_compare_masked_columns_are_left_out_with_the_reason(board):
    check(board, "titled", "not_null", columns=["title"])
    check(board, "short", "length", columns=["icao"], maximum="4")
    check(board, "none", "query", sql="SELECT icao FROM bizcore.board WHERE icao IS NULL")
    check(board, "known", "relationship", columns=["icao"], dataset=NAME, other_columns=["icao"])
    check(board, "named", "relationship", columns=["icao"], dataset=NAME, other_columns=["name"])
    specs, left_out = checks_of(viewer(), dataset=board)
    assert set(specs) == {"key is unique", "key has no NULL", "short", "known"}
    assert left_out == {
        "titled": "title is masked for you",
        "none": "loud, title is masked for you",
        "named": f"{NAME} has columns that are masked for you",
    }
    assert checks_of(viewer(), dataset=board, key=["title"])[1]["key is unique"] == "title is masked for you"
    assert checks_of(steward(), dataset=board)[1] == {}


def test_check_of_a_table_that_the_user_may_not_read_is_left_out(board):
    check(board, "known", "relationship", columns=["icao"], dataset="raw.raw_air_airport", other_columns=["icao"])
    user = ensure_user(name="vera", roles=())
    for schema in ("rawcore", "bizcore"):
        grant_role(user=user, role="viewer", schema=schema)
    _, left_out = checks_of(User.objects.get(pk=user.pk), dataset=board)
    assert left_out == {"known": "you may not read raw.raw_air_airport"}


def test_masked_columns_of_failing_rows_are_masked(board):
    read = request(user=viewer(), dataset=board, check=True)
    columns = {"columns": ["icao", "title", "loud"], "types": ["string"] * 3, "truncated": False}
    failing = columns | {"result": {"key": "k"}, "rows": [["EDDF", "hash", None]]}
    answer = trial_answer(read, columns | {"rows": [], "checked": [failing]})
    assert answer["checked"][0]["rows"] == [["EDDF", MASK, MASK]]
