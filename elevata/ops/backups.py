"""Online backup of the control database, and restore.

A copy is one file and its manifest (``<file>.json``) with its time, its SHA-256, and the head of the audit chain;
``verify_audit --against`` accepts the manifest. SQLite is copied by its online backup, PostgreSQL by ``pg_dump``, whose
version must not be older than the server's.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from elevata.audit.hash_chain import Head, parse_head
from elevata.audit.services import chain, recorded_heads
from elevata.audit.services.change_log import record_change, unit_of_work
from elevata.audit.services.export_files import file_digest
from elevata.core.errors import MetadataError
from elevata.jobs.registry import live_workers

FORMAT = "control-backup/v1"
_EMPTY = Head()
_OUTPUT_LENGTH = 400
_FORMER_SCHEMA = "before_restore"
_SSL = frozenset({"sslmode", "sslrootcert", "sslcert", "sslkey"})


@dataclass(frozen=True)
class Backup:
    """Copy of the control database, with its manifest. The copy has all links of the chain up to ``head``, or more."""

    path: Path
    vendor: str
    made_at: str
    digest: str
    head: Head

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "file": self.path.name,
            "vendor": self.vendor,
            "made_at": self.made_at,
            "sha256": self.digest,
            "chain": self.head.as_json(),
        }


def back_up(path: Path) -> Backup:
    """Copy the control database to a new file. MetadataError: ``exists``, ``unwritable``, ``no_client``, ``failed``."""
    if path.exists() or _manifest_path(path).exists():
        raise MetadataError("exists", "is there already; give another name", place=str(path))
    chain.seal()
    head, made_at = chain.head(), timezone.now().isoformat(timespec="seconds")
    pending = path.with_name(f".{path.name}.pending")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The file is private from the start, because it has hashes of passwords and tokens.
        os.close(os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        _copy_sqlite(pending) if connection.vendor == "sqlite" else _dump_postgresql(pending)
        backup = Backup(path, connection.vendor, made_at, file_digest(pending), head)
        _manifest_path(path).write_text(json.dumps(backup.as_json(), indent=2) + "\n", encoding="utf-8")
        pending.rename(path)
    except OSError as error:
        raise MetadataError("unwritable", f"cannot be written: {error.strerror}", place=str(path)) from None
    finally:
        pending.unlink(missing_ok=True)
    return backup


def restore(path: Path, *, force: bool = False) -> Backup:
    """Replace the control database by a copy, and migrate it.

    All writes since the copy are lost. All processes must be stopped; with ``force`` the restore continues although a
    worker seems to be alive, or the copy's manifest is missing. Tables are migrated to this release, which recreates
    the triggers. The restore is recorded with the recorded heads and in the change log: without that record,
    verification would report missing links.

    Raises MetadataError: ``unreadable``, ``invalid``, ``backup_changed`` for a copy that differs from its manifest,
    ``worker_alive``, ``other_database``, ``newer_release``, ``no_client``, ``failed``.
    """
    backup = _read_manifest(path, force)
    if backup.vendor != connection.vendor:
        message = f"is of {backup.vendor}; the control database is {connection.vendor} (DATABASE_URL)"
        raise MetadataError("other_database", message, place=str(path))
    if not force and _worker_is_alive():
        raise MetadataError("worker_alive", "a worker is alive: stop all processes of the product first")
    before = _current_head()
    _restore_sqlite(path) if connection.vendor == "sqlite" else _restore_postgresql(path)
    connection.close()
    call_command("migrate", interactive=False, verbosity=0)
    reason = f"restored from {path.name}, made at {backup.made_at or 'an unknown time'}"
    record_restore(reason=reason, before=before, source=backup.digest)
    return backup


def record_restore(*, reason: str, before: Head = _EMPTY, source: str = "") -> recorded_heads.Restore:
    """Record that the chain in its current state is the right one, outside the database and in the change log.

    ``before`` is the head of the database that was replaced, ``source`` the SHA-256 of the copy.
    """
    chain.seal(wait=True)
    restore = recorded_heads.state(chain.head(), before=before, reason=reason, source=source)
    with unit_of_work(reason):
        record_change(
            action="restored",
            subject_kind="database",
            subject_key="control",
            subject_name="control database",
            before={"link": restore.before.sequence},
            after={"link": restore.after.sequence, "copy": source},
        )
    return restore


def _current_head() -> Head:
    try:
        return chain.head()
    except DatabaseError:  # the database does not exist yet
        return _EMPTY


def _manifest_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _read_manifest(path: Path, force: bool) -> Backup:
    try:
        digest = file_digest(path)
        try:
            manifest = json.loads(_manifest_path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            if not force:
                message = f"has no manifest ({_manifest_path(path).name}); --force restores it nevertheless"
                raise MetadataError("invalid", message, place=str(path)) from None
            return Backup(path, connection.vendor, "", digest, Head())
    except OSError as error:
        raise MetadataError("unreadable", f"cannot be read: {error.strerror}", place=str(path)) from None
    except ValueError:
        raise MetadataError("invalid", "its manifest is no JSON document", place=str(path)) from None
    if not isinstance(manifest, Mapping) or manifest.get("format") != FORMAT:
        raise MetadataError("invalid", f"its manifest is not {FORMAT}", place=str(path))
    if manifest.get("sha256") != digest:
        raise MetadataError("backup_changed", "is not what was backed up: its SHA-256 differs", place=str(path))
    return Backup(path, str(manifest.get("vendor")), str(manifest.get("made_at")), digest, parse_head(manifest))


def _worker_is_alive() -> bool:
    try:
        return bool(live_workers())
    except DatabaseError:  # the database does not exist yet: the restore creates it
        return False


def _refuse_newer(path: Path, applied: Iterable[tuple[str, str]]) -> None:
    """Refuse a copy with migrations, given by app and name, that this release does not know."""
    unknown = sorted(set(applied) - set(MigrationLoader(None).disk_migrations))
    if unknown:
        message = f"comes from a newer release, which knows {'.'.join(unknown[-1])}: restore it with that one"
        raise MetadataError("newer_release", message, place=str(path))


def _copy_sqlite(path: Path) -> None:
    """Copy the whole database. Writes may continue: SQLite restarts the copy after each."""
    connection.ensure_connection()
    with closing(sqlite3.connect(path)) as copy:
        connection.connection.backup(copy)


def _restore_sqlite(path: Path) -> None:
    """Replace the content of the database's file in one transaction."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as copy:
            if copy.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                raise MetadataError("invalid", "is damaged: PRAGMA integrity_check finds faults", place=str(path))
            _refuse_newer(path, copy.execute("SELECT app, name FROM django_migrations"))
            connection.ensure_connection()
            copy.backup(connection.connection)
    except sqlite3.DatabaseError as error:
        raise MetadataError("invalid", f"is no copy of a control database: {error}", place=str(path)) from None


def _dump_postgresql(path: Path) -> None:
    _run_client("pg_dump", ["--format=custom", "--no-owner", "--no-privileges", f"--file={path}"])


# A database that was only created does not have the extension.
_MOVE_EXTENSION = """DO $$ BEGIN
IF EXISTS (SELECT FROM pg_extension WHERE extname = 'pg_trgm') THEN
  ALTER EXTENSION pg_trgm SET SCHEMA {};
END IF; END $$"""


def _restore_postgresql(path: Path) -> None:
    """Load the copy into an empty schema, so that no other tables remain; drop the former schema afterwards.

    The extension moves with it: a copy has indexes that name the extension's schema, and a database has it only once.
    """
    script = _run_client("pg_restore", ["--data-only", "--table=django_migrations", "--file=-", str(path)])
    _refuse_newer(path, _migrations_in(script))
    options = ["--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error"]
    _execute(
        f"ALTER SCHEMA public RENAME TO {_FORMER_SCHEMA}", "CREATE SCHEMA public", _MOVE_EXTENSION.format("public")
    )
    try:
        _run_client("pg_restore", [*options, f"--dbname={settings.DATABASES['default']['NAME']}", str(path)])
    except MetadataError:
        _execute(
            _MOVE_EXTENSION.format(_FORMER_SCHEMA),
            "DROP SCHEMA public CASCADE",
            f"ALTER SCHEMA {_FORMER_SCHEMA} RENAME TO public",
        )
        raise
    _execute(f"DROP SCHEMA {_FORMER_SCHEMA} CASCADE")


def _migrations_in(script: str) -> Iterator[tuple[str, str]]:
    """Yield app and name of the migrations in a script of ``pg_restore`` with the data of their table."""
    columns: list[str] = []
    for line in script.split("\n"):
        if line.startswith("COPY ") and line.endswith(") FROM stdin;"):
            columns = line[line.index("(") + 1 : line.rindex(")")].split(", ")
        elif line == "\\.":
            columns = []
        elif columns:
            row = dict(zip(columns, line.split("\t"), strict=True))
            yield row["app"], row["name"]


def _execute(*statements: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    connection.close()


def _run_client(program: str, arguments: list[str]) -> str:
    """Run one of PostgreSQL's programs and return its output.

    The address is passed in variables, because process lists show arguments.
    """
    executable = shutil.which(program)
    if executable is None:
        raise MetadataError("no_client", f"{program} is not installed here: install PostgreSQL's client programs")
    result = subprocess.run(
        [executable, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, **_client_environment()},
    )
    if result.returncode != 0:
        output = " ".join(result.stderr.split())[-_OUTPUT_LENGTH:]
        raise MetadataError("failed", f"{program} ended with {result.returncode}: {output}")
    return result.stdout


def _client_environment() -> dict[str, str]:
    database: dict[str, Any] = settings.DATABASES["default"]
    keys = {"PGDATABASE": "NAME", "PGUSER": "USER", "PGPASSWORD": "PASSWORD", "PGHOST": "HOST", "PGPORT": "PORT"}
    options = {f"PG{name.upper()}": value for name, value in database.get("OPTIONS", {}).items() if name in _SSL}
    connection_values = {name: str(database.get(key) or "") for name, key in keys.items()}
    return {name: value for name, value in (connection_values | options).items() if value}
