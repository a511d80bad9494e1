"""Tests that the wheel has every file that an installation without a checkout needs, and starts by itself."""

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from elevata.bootstrap import frontend
from elevata.bootstrap.places import ROOT
from tests.repository.requirements import project

BUNDLE = "elevata/bundle"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """Return the wheel, built by the pinned backend without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def names(wheel) -> set[str]:
    with zipfile.ZipFile(wheel) as packed:
        return set(packed.namelist())


def tracked(*folders: str) -> list[str]:
    """Return the tracked and new files of the folders, without ignored ones."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in listed if (ROOT / name).is_file()]


def test_wheel_has_name_and_version_of_the_project(wheel):
    assert wheel.name == f"elevata-{project()['project']['version']}-py3-none-any.whl"


def test_wheel_has_every_file_of_the_packages(names):
    packages = project()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert [name for name in tracked(*packages) if name not in names] == []


def test_wheel_bundles_templates_static_files_and_examples(names):
    files = tracked("templates", "static", "examples", "docs/operate", "docs/understand", "docs/use")
    files += ["docs/README.md", "docs/openapi.yaml", "manage.py", "gunicorn.conf.py", "requirements.txt"]
    assert [name for name in files if f"{BUNDLE}/{name}" not in names] == []


def test_wheel_bundles_the_front_end_files_of_set_up(names):
    vendored = [*frontend.KEPT.values(), frontend.ICONS_TARGET]
    assert [name for name in vendored if f"{BUNDLE}/static/vendor/{name}" not in names] == []


def test_wheel_has_no_tests_and_no_data(names):
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"elevata", "metadata", "architecture", "loader"}
    assert [name for name in names if "__pycache__" in name or "/.data/" in name] == []


def test_wheel_requires_the_pins_and_offers_the_extras(wheel):
    with zipfile.ZipFile(wheel) as packed:
        (path,) = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        text = packed.read(path).decode()
    required = re.findall(r"^Requires-Dist: ([^;\n]+)$", text, re.M)
    described = project()["project"]
    assert sorted(required) == sorted(described["dependencies"])
    assert set(re.findall(r"^Provides-Extra: (.+)$", text, re.M)) == set(described["optional-dependencies"])


def test_wheel_declares_the_console_command(wheel):
    with zipfile.ZipFile(wheel) as packed:
        (path,) = (name for name in packed.namelist() if name.endswith(".dist-info/entry_points.txt"))
        assert "elevata = elevata.command_line:main" in packed.read(path).decode()


class Installed:
    """Unpacked wheel, run with the packages of this environment and a separate home folder."""

    def __init__(self, wheel: Path, folder: Path):
        self.site, self.home = folder / "site", folder / "home"
        self.home.mkdir(parents=True)
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(self.site)

    def run(self, code: str, **variables: str) -> str:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("ELEVATA_", "XDG_"))}
        environment = {**inherited, "HOME": str(self.home), "PYTHONPATH": str(self.site), **variables}
        environment.pop("DATABASE_URL", None)
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=self.home, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory) -> Installed:
    return Installed(wheel, tmp_path_factory.mktemp("installed"))


def run_command(*words: str) -> str:
    return f"import sys; sys.argv = ['elevata', *{list(words)!r}]; from elevata.command_line import main; main()"


@pytest.mark.full
def test_installed_wheel_passes_the_system_check(installed):
    assert "no issues" in installed.run(run_command("check"), ELEVATA_DATA_DIR=str(installed.home / "data"))


@pytest.mark.full
def test_installed_wheel_keeps_its_data_in_the_home_of_the_user(installed):
    code = "from elevata.core.data_folder import data_dir; print(data_dir())"
    assert installed.run(code) == str(installed.home / ".local" / "share" / "elevata" / "main")
    assert installed.run(code, XDG_DATA_HOME="/srv/share") == "/srv/share/elevata/main"
    assert installed.run(code, ELEVATA_DATA_DIR="/srv/data") == "/srv/data"


@pytest.mark.full
def test_installed_wheel_sets_up_java_jars_and_database_only(installed):
    code = "from elevata.bootstrap.command import STEPS_OF_A_WHEEL, STEPS; print(*STEPS_OF_A_WHEEL)"
    assert installed.run(code) == "java jars database"
    assert "--with-tests" not in installed.run("from elevata.bootstrap.command import _parser; _parser().print_help()")


@pytest.mark.full
def test_installed_wheel_finds_templates_static_files_and_the_protocol(installed):
    code = """
import os; os.environ["DJANGO_SETTINGS_MODULE"] = "elevata.settings"
import django; django.setup()
from django.contrib.staticfiles import finders
from django.template.loader import get_template
from loader.fivetran.protocol import services
from loader.management.commands.demo import EXAMPLE
print(get_template("base.html").origin.name, finders.find("vendor/htmx/htmx.min.js"), EXAMPLE.is_dir())
"""
    template, static, has_example = installed.run(code, ELEVATA_DATA_DIR=str(installed.home / "data")).split()
    assert Path(template).is_relative_to(installed.site / BUNDLE)
    assert Path(static).is_relative_to(installed.site / BUNDLE)
    assert has_example == "True"


@pytest.mark.nightly
@pytest.mark.parametrize("extras", ["", "[all]"])
def test_wheel_runs_the_demo_in_a_fresh_environment(wheel, tmp_path, extras):
    venv.create(tmp_path / "env", with_pip=True)
    program = tmp_path / "env" / "bin"
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("ELEVATA_", "XDG_", "DATABASE_"))
    }
    # HOME is kept, since pip's configuration may be there.
    environment = {**inherited, "XDG_DATA_HOME": str(tmp_path / "share"), "ELEVATA_DATA_DIR": str(tmp_path / "data")}

    def run(*words: str | Path) -> str:
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(program / "python", "-m", "pip", "install", "--quiet", f"{wheel}{extras}")
    assert run(program / "elevata", "--version").strip() == project()["project"]["version"]
    assert "no issues" in run(program / "elevata", "check")
    printed = run(program / "elevata", "demo", "--releases", "20201205", "20210926")
    assert "sign in as one of:" in printed
    assert ("read by DuckDB" in printed) == bool(extras)
    assert (tmp_path / "data" / "demo" / "control.sqlite3").is_file()
