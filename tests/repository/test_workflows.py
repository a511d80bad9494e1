"""Tests that names in workflows, hooks and the contributing guide exist."""

import re
import subprocess

import pytest
import yaml

from elevata.bootstrap.places import ROOT
from tests.repository.test_pins import REGISTRY_HOSTS

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
HOOKS = ROOT / ".pre-commit-config.yaml"
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
GUIDES = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", ".github/pull_request_template.md")
MACHINE_PATHS = re.compile(r"(?<![\w.~])/(home|root|work|tmp|Users)/")


def commands(workflow: dict) -> list[str]:
    return [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]


def test_workflows_cover_lint_tests_nights_and_releases():
    assert [path.stem for path in WORKFLOWS] == ["checks", "nightly", "release"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_runs_targets_of_the_makefile(path):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = re.findall(r"\bmake ([a-z-]+)", "\n".join(commands(yaml.safe_load(path.read_text()))))
    assert named
    assert set(named) <= targets


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_declares_its_permissions_and_a_time_limit(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"]
    assert all(job["timeout-minutes"] for job in workflow["jobs"].values())


def test_hooks_are_local_and_set_up_installs_their_programs():
    repositories = yaml.safe_load(HOOKS.read_text())["repos"]
    assert {repository["repo"] for repository in repositories} == {"local"}
    programs = {hook["entry"].split()[0] for repository in repositories for hook in repository["hooks"]}
    assert {program for program in programs if not program.startswith((".venv/bin/", "node_modules/"))} == set()


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_template_of_issues_is_valid_yaml(path):
    template = yaml.safe_load(path.read_text())
    assert template == {"blank_issues_enabled": False} or {"name", "description", "body"} <= set(template)


@pytest.mark.parametrize("name", [*GUIDES, *(str(path.relative_to(ROOT)) for path in (*WORKFLOWS, HOOKS, *TEMPLATES))])
def test_public_file_names_no_registry_and_no_machine(name):
    text = (ROOT / name).read_text()
    assert REGISTRY_HOSTS.search(text) is None
    assert MACHINE_PATHS.search(text) is None


def test_recipes_name_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = re.findall(r"`([\w.]+(?:/[\w.]+)+)`", text)
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_guide_names_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"\bmake ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text())) <= targets


def test_modules_that_the_guide_runs_exist():
    for module in re.findall(r"python -m ([\w.]+)", (ROOT / "CONTRIBUTING.md").read_text()):
        assert (ROOT / (module.replace(".", "/") + ".py")).is_file(), module


def test_git_ignores_what_builds_leave():
    done = subprocess.run(["git", "check-ignore", "dist/x.whl", ".coverage"], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == ["dist/x.whl", ".coverage"]
