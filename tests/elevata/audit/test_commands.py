"""Tests of verify_audit, create_user, create_token and revoke_tokens, and of the actor of a command."""

import io
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from elevata.accounts.actors import SYSTEM, Actor, current_actor
from elevata.accounts.cli import CommandExit, ProductCommand
from elevata.accounts.management.commands import create_token, create_user, revoke_tokens
from elevata.accounts.models import PersonalToken
from elevata.accounts.permissions import roles_of
from elevata.accounts.services.tokens import create_token as new_token
from elevata.accounts.services.users import ensure_user
from elevata.audit.management.commands import prune_audit, verify_audit, verify_export
from elevata.audit.models import ChangeLogEntry
from elevata.audit.services import chain
from elevata.audit.services.change_log import record_change
from metadata.management.commands import export_audit, import_metadata
from tests.elevata.audit.append_only import triggers_lifted

AIRPORTS = Path(__file__).resolve().parents[3] / "examples" / "airports"


@pytest.fixture(autouse=True)
def connections_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the closing of connections at the end of a command, because the test still needs its own."""
    monkeypatch.setattr("elevata.accounts.cli.connections.close_all", lambda: None)


def run(module: Any, *arguments: str) -> int:
    """Run a command and return its exit code."""
    name = module.__name__.rpartition(".")[2]
    # Commands that need only a file have no system checks.
    quick = ["--skip-checks"] if module.Command.requires_system_checks else []
    try:
        module.Command().run_from_argv(["manage.py", name, *quick, *arguments])
    except SystemExit as end:
        return end.code
    return 0


# --- verify_audit --------------------------------------------------------------------------------


@pytest.fixture
def log(transactional_db) -> list[int]:
    for name in ("first", "second"):
        record_change(action="changed", subject_kind="policy", subject_key=name, subject_name=name, after={"a": 1})
    return list(ChangeLogEntry.objects.order_by("id").values_list("id", flat=True))


def break_entry(pk: int) -> None:
    with triggers_lifted(), connection.cursor() as cursor:
        cursor.execute("UPDATE audit_changelogentry SET actor = 'mallory' WHERE id = %s", [pk])


def test_verify_audit_exits_with_0_for_an_intact_chain(log: list[int], capsys: pytest.CaptureFixture) -> None:
    assert run(verify_audit) == 0
    assert capsys.readouterr().out == f"intact: 2 links, head {chain.head().hash}\n"


def test_an_empty_chain_is_intact(transactional_db) -> None:
    assert run(verify_audit) == 0


def test_verify_audit_exits_with_1_and_names_the_first_changed_row(
    log: list[int], capsys: pytest.CaptureFixture
) -> None:
    break_entry(log[1])
    assert run(verify_audit) == 1
    message = capsys.readouterr().err
    assert message == f"broken after 1 links: change {log[1]} was changed after it was sealed\n"


def test_verify_audit_prints_one_json_document_for_a_broken_chain(
    log: list[int], capsys: pytest.CaptureFixture
) -> None:
    break_entry(log[0])
    assert run(verify_audit, "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["intact"] is False
    assert document["problem"] == {
        "code": "row_changed",
        "message": f"change {log[0]} was changed after it was sealed",
        "sequence": 1,
        "kind": "change",
        "subject": log[0],
    }


def test_verify_audit_reports_rows_not_sealed_yet(log: list[int], capsys: pytest.CaptureFixture, monkeypatch) -> None:
    with monkeypatch.context() as dying:
        dying.setattr(chain, "_seal_batch", lambda wait: 0)
        record_change(action="changed", subject_kind="policy", subject_key="x", subject_name="x", after={"a": 1})
    assert run(verify_audit) == 0
    assert capsys.readouterr().out.endswith(", 1 rows not sealed yet\n")


def test_an_artifact_of_this_chain_is_accepted(log: list[int], tmp_path: Path) -> None:
    artifact = tmp_path / "record.json"
    artifact.write_text(json.dumps({"record": {}, "chain": chain.head().as_json()}))
    assert run(verify_audit, "--against", str(artifact)) == 0


def test_verify_audit_exits_with_1_for_an_artifact_of_another_chain(log: list[int], tmp_path: Path) -> None:
    artifact = tmp_path / "record.json"
    artifact.write_text(json.dumps({"chain": {"sequence": 1, "hash": "a" * 64}}))
    assert run(verify_audit, "--against", str(artifact)) == 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"chain": 1}', '{"chain": {"sequence": 1, "hash": "x"}}', "\xff"])
def test_verify_audit_exits_with_4_for_an_unreadable_artifact(
    log: list[int], tmp_path: Path, content: str, capsys: pytest.CaptureFixture
) -> None:
    artifact = tmp_path / "record.json"
    artifact.write_bytes(content.encode("latin-1"))
    assert run(verify_audit, "--against", str(artifact)) == 4
    assert capsys.readouterr().err.startswith(str(artifact))


def test_verify_audit_exits_with_4_for_a_missing_artifact(log: list[int], tmp_path: Path) -> None:
    assert run(verify_audit, "--against", str(tmp_path / "nothing.json")) == 4


def test_verify_audit_accepts_its_own_json_output_as_an_artifact(
    log: list[int], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    run(verify_audit, "--json")
    (tmp_path / "proof.json").write_text(capsys.readouterr().out)
    assert run(verify_audit, "--against", str(tmp_path / "proof.json")) == 0


def test_verify_audit_since_a_checkpoint_ignores_earlier_links(log: list[int], tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint.json"
    checkpoint.write_text(json.dumps({"chain": chain.head().as_json()}))
    break_entry(log[0])
    assert run(verify_audit) == 1
    assert run(verify_audit, "--since", str(checkpoint)) == 0


# --- exporting and removing ------------------------------------------------------------------------


def test_filtered_export_passes_verify_export_and_verify_audit(
    log: list[int], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = str(tmp_path / "log.jsonl")
    assert run(export_audit, path, "--q", "second", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == {"change": 1}
    assert run(verify_export, path) == 0
    assert run(verify_audit, "--against", path) == 0


def test_verify_export_exits_with_1_for_an_altered_export(
    log: list[int], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "log.jsonl"
    run(export_audit, str(path))
    path.write_text(path.read_text().replace("second", "secund"))
    assert run(verify_export, str(path)) == 1
    assert "is not what was sealed" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [("--since", "soon"), ("--segment", "--actor", "ada"), ("--before", "2026-01-01")]
)
def test_export_audit_exits_with_4_for_invalid_options(
    log: list[int], tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    assert run(export_audit, str(tmp_path / "log.jsonl"), *arguments) == 4
    assert list(tmp_path.iterdir()) == []


def test_a_segment_is_removed_by_an_admins_token(
    log: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    path = str(tmp_path / "1.jsonl")
    _, text = new_token(user=ensure_user(name="root", roles=["admin"]))
    assert run(export_audit, path, "--segment") == 0
    assert run(prune_audit, path, "--reason", "old") == 2
    assert capsys.readouterr().err.startswith("not_permitted: ")
    monkeypatch.setenv("ELEVATA_TOKEN", text)
    assert run(prune_audit, path, "--reason", "old") == 0
    assert not ChangeLogEntry.objects.filter(pk__in=log).exists()
    assert run(verify_audit, "--exports", str(tmp_path)) == 0
    assert capsys.readouterr().out.endswith(", 1 removed segments\n")
    (tmp_path / "1.jsonl").unlink()
    assert run(verify_audit, "--exports", str(tmp_path)) == 1


# --- users ---------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_create_user_stores_roles_and_password() -> None:
    assert run(create_user, "ada", "--role", "editor", "--role", "viewer", "--password", "analytical engine") == 0
    user = User.objects.get(username="ada")
    assert user.check_password("analytical engine")
    assert roles_of(user) == {"editor", "viewer"}


@pytest.mark.django_db
def test_a_password_comes_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("analytical engine\n"))
    assert run(create_user, "ada", "--role", "editor", "--ask-password") == 0
    assert User.objects.get(username="ada").check_password("analytical engine")


@pytest.mark.django_db
def test_create_user_prints_a_token_that_works(capsys: pytest.CaptureFixture) -> None:
    run(create_user, "ada", "--role", "editor", "--token", "--days", "3", "--json")
    text = json.loads(capsys.readouterr().out)["token"]
    assert call_command_as(text).name == "ada"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "arguments",
    [
        ("ada", "--role", "editor"),
        ("ada", "--token"),
        ("ada", "--role", "king", "--token"),
        ("ada", "--role", "editor", "--password", "x", "--ask-password"),
        ("ada", "--role", "editor", "--password", "1"),
        ("ada", "--role", "editor", "--token", "--days", "0"),
        ("ada", "--role", "editor", "--password", "analytical engine", "--days", "1"),
    ],
)
def test_create_user_with_invalid_options_exits_with_4_and_creates_no_user(arguments: tuple[str, ...]) -> None:
    assert run(create_user, *arguments) == 4
    assert not User.objects.exists()


@pytest.mark.django_db
def test_create_token_prints_a_token_for_an_existing_user(capsys: pytest.CaptureFixture) -> None:
    ensure_user(name="ada", roles=["editor"])
    assert run(create_token, "ada", "--label", "laptop", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["label"] == PersonalToken.objects.get().name == "laptop"
    assert call_command_as(document["token"]).name == "ada"


@pytest.mark.django_db
@pytest.mark.parametrize("module", [create_token, revoke_tokens])
def test_token_commands_exit_with_4_for_an_unknown_user(module: Any) -> None:
    assert run(module, "eve") == 4


@pytest.mark.django_db
def test_tokens_are_revoked(capsys: pytest.CaptureFixture) -> None:
    new_token(user=ensure_user(name="ada", roles=["editor"]))
    assert run(revoke_tokens, "ada", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"name": "ada", "revoked": 1}


# --- actor of a command --------------------------------------------------------------------------


class RecordingCommand(ProductCommand):
    actor: Actor

    def run(self, **options: Any) -> None:
        type(self).actor = current_actor()


class CommandWithoutUser(RecordingCommand):
    takes_user = False


def call_command_as(token: str | None, command: type[RecordingCommand] = RecordingCommand) -> Actor:
    with pytest.MonkeyPatch.context() as patch:
        if token is None:
            patch.delenv("ELEVATA_TOKEN", raising=False)
        else:
            patch.setenv("ELEVATA_TOKEN", token)
        call_command(command())
    return command.actor


@pytest.mark.django_db
def test_command_without_a_token_acts_as_the_system(django_assert_num_queries) -> None:
    with django_assert_num_queries(0):
        actor = call_command_as(None)
    assert (actor.name, actor.kind) == ("system", "system")


@pytest.mark.django_db
def test_command_with_a_token_acts_as_the_user_of_the_token() -> None:
    user = ensure_user(name="ada", roles=["editor"])
    actor = call_command_as(new_token(user=user)[1])
    assert (actor.name, actor.kind, actor.user) == ("ada", "token", user)


@pytest.mark.django_db
def test_actor_after_a_command_with_a_token_is_the_system_again() -> None:
    call_command_as(new_token(user=ensure_user(name="ada", roles=["editor"]))[1])
    assert current_actor() == SYSTEM


@pytest.mark.django_db
def test_command_refuses_a_wrong_token() -> None:
    with pytest.raises(CommandExit) as ended:
        call_command_as("elv_wrong")
    assert ended.value.code == "token_invalid"


@pytest.mark.django_db
def test_command_refuses_an_expired_token() -> None:
    token, text = new_token(user=ensure_user(name="ada", roles=["editor"]))
    PersonalToken.objects.filter(pk=token.pk).update(expiry=timezone.now() - timedelta(days=1))
    with pytest.raises(CommandExit) as ended:
        call_command_as(text)
    assert ended.value.code == "token_expired"


@pytest.mark.django_db
def test_command_that_takes_no_user_ignores_a_wrong_token() -> None:
    assert call_command_as("elv_wrong", CommandWithoutUser).kind == "system"


@pytest.mark.django_db
def test_changes_by_a_command_are_logged_with_the_user_of_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    user = ensure_user(name="ada", roles=["editor"])
    monkeypatch.setenv("ELEVATA_TOKEN", new_token(user=user)[1])
    count_before = ChangeLogEntry.objects.count()
    run(import_metadata, str(AIRPORTS))
    fresh = ChangeLogEntry.objects.order_by("id")[count_before:]
    assert {(entry.actor, entry.actor_kind, entry.user_id) for entry in fresh} == {("ada", "token", user.pk)}
    assert all(entry.request_id.startswith("command-") for entry in fresh)
