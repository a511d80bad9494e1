"""Tests of the import rules between rooms (packages), and of the contract that checks them."""

import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from grimp import ImportGraph, build_graph

from elevata.bootstrap.places import ROOT
from elevata.core.installation import PACKAGES
from tests.repository.rooms import RoomContract, room_of

OURS = {"root_packages": ["metadata", "loader"]}


def test_every_room_follows_its_import_contract():
    """Check in a separate process, because import-linter disables the loggers of its process."""
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([program, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_modules_have_no_import_cycles():
    imports = build_graph(*PACKAGES)
    TopologicalSorter({name: imports.find_modules_directly_imported_by(name) for name in imports.modules}).prepare()


def test_the_web_process_does_not_load_spark():
    """Check a real process, because imports inside functions and libraries count, too."""
    program = (
        "import elevata.wsgi, sys, django.urls; django.urls.get_resolver().url_patterns;"
        "print(*sorted({'pyspark', 'delta', 'py4j'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def graph(*imports: tuple[str, str]) -> ImportGraph:
    built = ImportGraph()
    for importer, imported in imports:
        built.add_import(importer=importer, imported=imported)
    return built


def breaches(imports, **options) -> list[str]:
    contract = RoomContract(name="x", session_options=OURS, contract_options=options)
    return contract.check(graph(*imports), verbose=False).metadata["breaches"]


@pytest.mark.parametrize(
    ("module", "room"),
    [
        ("loader.domain.historization.history", "loader.domain"),
        ("loader.engine.tables.steps", "loader.engine"),
        ("loader.engines", "loader"),
        ("loader.views.runs.load_runs", "loader"),
        ("elevata.bootstrap.java", "elevata.bootstrap"),
        ("elevata.settings", "elevata"),
    ],
)
def test_a_module_belongs_to_the_innermost_room(module, room):
    assert room_of(module) == room


def test_domain_may_import_the_standard_library_and_listed_packages():
    imports = [("metadata.domain", "json"), ("metadata.domain", "sqlglot"), ("metadata.domain", "django")]
    messages = breaches(imports, room="metadata.domain", may_import=["sqlglot"], only="true")
    assert messages == ["metadata.domain imports django"]


def test_unlisted_room_cannot_be_imported():
    imports = [
        ("loader", "metadata.models"),
        ("loader", "django"),
        ("loader.views", "loader.engine.runner"),
        ("loader.engine.runner", "pyspark"),
    ]
    messages = breaches(imports, room="loader", may_import=["metadata.domain"])
    assert messages == ["loader imports metadata.models", "loader.views imports loader.engine.runner"]


def test_forbidden_external_package_is_reported():
    assert breaches([("loader", "pyspark.sql")], room="loader", never=["pyspark"]) == ["loader imports pyspark.sql"]


def test_contract_of_a_missing_room_is_broken():
    assert breaches([("loader", "json")], room="loader.domain") == ["there is no room loader.domain"]


def test_every_row_of_the_design_has_its_contract():
    table = (ROOT / "docs" / "understand" / "design.md").read_text().split("## Rooms")[1].split("\n## ")[0]
    rooms = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    written = Path(ROOT, "pyproject.toml").read_text()
    assert rooms
    assert [room for room in rooms if f'room = "{room.replace("/", ".")}"' not in written] == []
