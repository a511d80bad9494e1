"""Tests of the audit key: from a variable, from a file, or created once in the data folder."""

import stat
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from elevata import settings as product
from elevata.audit.signatures import Keyring, Signature, key_id_of
from elevata.ops.checks import audit_key_is_given

KEY = "a-key-of-more-than-thirty-two-characters"


def test_audit_key_is_created_once_and_readable_by_its_owner_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(product, "DATA_DIR", tmp_path / "data")
    key = product._kept_key("audit_key")
    path = tmp_path / "data" / "audit_key"
    assert (product._kept_key("audit_key"), path.read_text()) == (key, key)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["audit_key"]


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match="at least 32"):
        product._long_enough("short", "ELEVATA_AUDIT_KEY")


def test_audit_key_file_is_read_and_refused_if_missing(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    assert product._file_at(str(tmp_path / "key")) == KEY
    with pytest.raises(ImproperlyConfigured, match="cannot be read"):
        product._file_at(str(tmp_path / "nothing"))


def test_system_check_warns_of_a_generated_audit_key_with_a_database_server(
    settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elevata.ops.checks._with_server", lambda: True)
    settings.AUDIT_KEY_IS_GIVEN = False
    assert [warning.id for warning in audit_key_is_given()] == ["elevata.W005"]
    settings.AUDIT_KEY_IS_GIVEN = True
    assert audit_key_is_given() == []


def test_key_id_does_not_contain_the_audit_key() -> None:
    assert key_id_of(KEY) not in KEY
    assert len(key_id_of(KEY)) == 16


def test_signature_is_valid_for_its_message_purpose_and_key_only() -> None:
    keys = Keyring(KEY)
    signature = keys.sign("note", b"x")
    assert keys.problem(signature, "note", b"x") == ""
    assert keys.problem(signature, "note", b"y") == "signature_wrong"
    assert keys.problem(signature, "link", b"x") == "signature_wrong"
    assert keys.problem(Signature(signature.key_id, "ä"), "note", b"x") == "signature_wrong"
    assert keys.problem(Signature(), "note", b"x") == "signature_wrong"
    assert Keyring(KEY[::-1]).problem(signature, "note", b"x") == "key_unknown"
    assert Keyring(KEY[::-1], [KEY]).problem(Signature.parse(str(signature)), "note", b"x") == ""
