"""Tests that versions are pinned, and that lock files name no host."""

import json
import re

import pytest

from elevata.bootstrap import frontend, jars
from elevata.bootstrap.places import ROOT
from elevata.core.installation import version
from loader.domain.extras import EXTRAS
from tests.repository import requirements

REGISTRY_HOSTS = re.compile(
    r"registry\.npm|npmjs\.|pypi\.org|pythonhosted|repo1?\.maven|maven\.org|deb\.debian|unpkg|jsdelivr"
)


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_python_packages_are_pinned_exactly(name):
    lines = [line.split("#")[0].strip() for line in (ROOT / name).read_text().splitlines()]
    named = [line for line in lines if line and not line.startswith("-r ")]
    assert named
    assert [line for line in named if not re.fullmatch(r"[\w.\[\]-]+==[\w.]+", line)] == []


def test_requirements_have_the_pins_of_pyproject():
    hint = "python -m tests.repository.requirements"
    assert requirements.RUNTIME.read_text(encoding="utf-8") == requirements.runtime(), hint
    assert requirements.DEVELOPMENT.read_text(encoding="utf-8") == requirements.development(), hint


def test_pyproject_declares_every_extra():
    declared = requirements.project()["project"]["optional-dependencies"]
    assert declared.pop("all") == [f"elevata[{','.join(sorted(EXTRAS))}]"]
    assert set(declared) == set(EXTRAS)


def test_wheel_is_built_by_the_backend_that_tests_use():
    described = requirements.project()
    (backend,) = described["build-system"]["requires"]
    assert backend in described["dependency-groups"]["dev"]


def test_changelog_begins_with_the_version_of_pyproject():
    releases = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert releases[0] == requirements.project()["project"]["version"] == version()


def test_front_end_packages_are_pinned_exactly():
    project = json.loads((ROOT / "package.json").read_text())
    pins = project["dependencies"] | project["devDependencies"]
    locked = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    assert {name: locked[f"node_modules/{name}"]["version"] for name in pins} == pins


def test_lock_file_has_hashes_and_no_hosts():
    text = (ROOT / "package-lock.json").read_text()
    packages = [entry for path, entry in json.loads(text)["packages"].items() if path]
    assert all(entry["integrity"].startswith("sha512-") for entry in packages)
    assert not any("resolved" in entry for entry in packages)
    assert "omit-lockfile-registry-resolved=true" in (ROOT / ".npmrc").read_text()


def test_build_and_dependency_files_name_no_registry():
    names = ["Makefile", "Dockerfile", "docker-compose.yml", ".npmrc", "package.json", "package-lock.json"]
    files = [ROOT / name for name in (*names, "requirements.txt", "requirements-dev.txt", ".ci/run")]
    files += sorted((ROOT / "elevata" / "bootstrap").glob("*.*"))
    assert [path.name for path in files if REGISTRY_HOSTS.search(path.read_text())] == []


def test_the_jars_of_delta_avro_and_kafka_follow_the_pins():
    assert re.fullmatch(r"io\.delta:delta-spark_4\.2_2\.13:4\.4\.0", jars.coordinate())
    assert re.fullmatch(r"org\.apache\.spark:spark-avro_2\.13:4\.2\.0", jars.avro())
    assert jars.kafka() == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"


def test_every_kept_front_end_file_comes_from_a_locked_package():
    locked = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    for source in (*frontend.KEPT, *frontend.KEPT_FOR_TESTS, frontend.SPRITE):
        parts = source.split("/")
        package = "/".join(parts[:2]) if source.startswith("@") else parts[0]
        assert f"node_modules/{package}" in locked


def test_front_end_files_of_tests_are_not_served():
    locked = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    served = {path.split("/dist/")[0] for path in (*frontend.KEPT, frontend.SPRITE)}
    assert not any(locked.get(f"node_modules/{package}", {}).get("dev") for package in served)
    assert not any(target.startswith("axe/") for target in frontend.KEPT.values())
