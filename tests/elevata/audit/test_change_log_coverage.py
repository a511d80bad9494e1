"""Tests that no code writes metadata rows without the change log.

``tests/metadata/services/rows/test_change_log.py`` runs the metadata services; this module searches the source code
for other writes.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from django.apps import apps

from elevata.accounts.models import PersonalToken
from elevata.audit.models import Versioned
from elevata.audit.services.row_seals import sealed_models
from elevata.bootstrap.places import ROOT
from elevata.core.installation import PACKAGES

WRITES = {"update", "delete", "create", "bulk_create", "bulk_update", "get_or_create", "update_or_create"}
ROWWISE = {"save", "delete"}
# Logged models: versioned ones, users, their tokens, and policies.
LOGGED = {model.__name__ for model in apps.get_models() if issubclass(model, Versioned)} | {
    "User",
    "Group",
    "Environment",
    PersonalToken.__name__,
}
# Modules that may write logged rows, each with the reason. Any other writer bypasses the log.
MAY = {
    "metadata/services/rows/row_changes.py": "store, store_all, put_aside and remove, which log",
    "elevata/accounts/services/users.py": "logs by record_change; groups are made from the table of roles",
    "elevata/comments/services.py": "deletes comments with a dataset, whose deletion is logged",
    "elevata/accounts/services/tokens.py": "logs by record_change",
    "architecture/services/environments.py": "an environment is made from settings when it is first needed",
    "architecture/services/change_policy.py": "logs by record_change",
    "loader/schedules/runs.py": "moves a schedule's clock on, which nobody edited; edits go by store",
}


# Logged models without a seal, each with the reason.
UNSEALED = {"Comment": "no decision depends on a comment"}


def test_every_logged_model_is_sealed_or_part_of_a_sealed_one() -> None:
    parts = {part.model for rules in sealed_models().values() for part in rules.parts if part.whole}
    logged = {model for model in apps.get_models() if issubclass(model, Versioned)}
    assert {model.__name__ for model in logged - parts - sealed_models().keys()} == set(UNSEALED)


def sources() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts and "bootstrap" not in path.parts:
                yield str(path.relative_to(ROOT)), path.read_text()


def calls(source: str, methods: set[str]) -> Iterator[tuple[ast.Call, ast.Attribute]]:
    """Yield the calls of these methods in a source text."""
    if not any(f".{method}(" in source for method in methods):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
            yield node, node.func


def names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def test_logged_models_are_written_by_listed_modules_only() -> None:
    paths = set()
    for path, source in sources():
        for _, function in calls(source, WRITES):
            if "objects" in ast.unparse(function.value) and names(function.value) & LOGGED:
                paths.add(path)
    assert paths <= set(MAY), sorted(paths - set(MAY))


def test_rows_are_saved_and_deleted_by_services_only() -> None:
    """Check that pages, commands and the API do not call ``row.save()``, which would bypass the services."""
    writes = set()
    for path, source in sources():
        if {"services", "services.py", "models", "models.py"} & set(Path(path).parts):
            continue
        for call, function in calls(source, ROWWISE):
            # A service's ``save`` has other arguments; that of the ORM accepts only these keywords.
            keywords = {word.arg for word in call.keywords}
            bare = not call.args and keywords <= {"update_fields", "using", "force_insert"}
            if bare and isinstance(function.value, ast.Name):
                writes.add(f"{path}:{call.lineno} {ast.unparse(function)}")
    assert writes == set()


def test_handwritten_sql_changes_the_audit_tables_only() -> None:
    words = ("INSERT INTO metadata_", "UPDATE metadata_", "DELETE FROM ")
    paths = {path for path, source in sources() if any(word in source for word in words)}
    # Retention removes exported entries, and docstrings of Spark's SQL name Delta's tables.
    assert {path for path in paths if not path.startswith("loader/")} <= {"elevata/audit/append_only.py"}
