"""``manage.py diff_model``: output and exit codes, with a scripted runner."""

import json
from io import StringIO

import pytest
from django.core.management import call_command

from elevata.accounts.cli import CommandExit
from loader.management.commands import diff_model
from metadata.models import TargetDataset
from metadata.services.datasets import targets
from tests.factories import TargetSchemaFactory
from tests.loader.views.queries.test_model_trials import ANSWER, DIFFERENCE

pytestmark = pytest.mark.django_db(transaction=True)

SELECT = "SELECT icao, name FROM rawcore.rc_air_airport"


@pytest.fixture
def board(airports, make_runner, script, monkeypatch) -> TargetDataset:
    """Return a model of airports, and make a runner answer its comparison."""
    script.tell(answers={"try_model": ANSWER | {"difference": DIFFERENCE}})
    monkeypatch.setattr(diff_model.Command, "make_runner", lambda _self, holder: make_runner(holder))
    schema = TargetSchemaFactory(name="bizcore")
    return targets.create_target_dataset(schema=schema, name="board", select=SELECT, business_key=["icao"])


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("diff_model", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def test_a_difference_is_printed_as_text(board):
    lines = run("bizcore.board", "--local").splitlines()
    assert lines[:2] == ["bizcore.board, version 3, compared by icao", "1 added, 1 changed, 1 gone, 1,200 same"]
    assert "~  EDDF  Frankfurt → NULL" in lines


def test_a_difference_is_printed_as_json(board):
    assert json.loads(run("bizcore.board", "--local", "--json")) == DIFFERENCE


def test_another_select_is_read_from_a_file(board, script, tmp_path):
    path = tmp_path / "new.sql"
    path.write_text(f"{SELECT} WHERE icao > 'ED'")
    run("bizcore.board", "--select", str(path), "--local")
    (request,) = script.seen("read")
    assert request["body"]["arguments"]["text"] == path.read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [("SELECT nothing FROM rawcore.rc_air_airport", "line 1, column 8"), (None, "No such file")],
)
def test_a_select_that_cannot_be_compared_ends_the_command_with_4(board, tmp_path, text, message):
    path = tmp_path / "new.sql"
    if text is not None:
        path.write_text(text)
    with pytest.raises(CommandExit, match=message) as end:
        run("bizcore.board", "--select", str(path), "--local")
    assert end.value.returncode == 4


def test_a_dataset_that_is_no_model_ends_the_command_with_4(board):
    with pytest.raises(CommandExit, match="there is no model rawcore.rc_air_airport") as end:
        run("rawcore.rc_air_airport", "--local")
    assert end.value.returncode == 4
