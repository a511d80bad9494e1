"""Tests that every name in docker-compose.yml and the Dockerfile exists in the project.

No container is started: each name is checked against its definition, so that a renamed command, variable or
port fails here instead of at the first start.
"""

import importlib
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import pyspark
import pytest
import yaml
from django.core.management import get_commands
from django.urls import resolve

from elevata.bootstrap import java
from elevata.bootstrap.places import ROOT
from elevata.jobs.registry import LANES

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if service["image"] == "elevata")
DOCKERFILE = (ROOT / "Dockerfile").read_text()
EXAMPLE = (ROOT / ".env.example").read_text()
SETTINGS = "".join(
    (ROOT / "elevata" / name).read_text()
    for name in ("settings.py", "core/data_folder.py", "accounts/single_sign_on_provider.py")
)

# Variables that the images document.
IMAGE_VARIABLES = {"POSTGRES_DB", "POSTGRES_USER", "POSTGRES_PASSWORD"}
DEFAULT_PORTS = {"postgres": 5432, "redis": 6379}

EXAMPLE_VARIABLES = set(re.findall(r"^#?([A-Z_]+)=", EXAMPLE, re.M))
SETTINGS_VARIABLES = set(re.findall(r"""(?:environ\.get\(|environ\[|_flag\()"([A-Z_]+)\"""", SETTINGS))


def filled_in(value: str) -> str:
    """Return the value with every ``${NAME:-default}`` replaced by its default, and secrets by a word."""
    return re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", re.sub(r"\$\{[A-Z_]+:\?[^}]*\}", "secret", value))


def command(name: str) -> list[str]:
    return [filled_in(word) for word in SERVICES[name].get("command", [])]


def option(words: list[str], name: str) -> str | None:
    return words[words.index(name) + 1] if name in words else None


@cache
def help_text(*words: str) -> str:
    program = Path(sys.executable).with_name(words[0])
    done = subprocess.run([program, *words[1:], "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_worker_has_a_thread_for_each_slot_of_its_lanes():
    threads = str(sum(slots.total for slots in LANES.values()))
    assert option(command("worker"), "--concurrency") == threads
    assert f"worker --pool threads --concurrency {threads}" in (ROOT / "docs/operate/operations.md").read_text()


def test_compose_has_the_services_of_the_design():
    expected = {"db", "redis", "web", "worker", "scheduler", "spark-master", "spark-worker"}
    assert expected <= set(SERVICES)


@pytest.mark.parametrize("name", OURS)
def test_command_of_each_service_exists(name):
    words = command(name)
    check = {"gunicorn": gunicorn, "celery": celery, "python": manage, "spark-class": spark_class}
    check[words[0]](words)


def gunicorn(words: list[str]) -> None:
    assert callable(importlib.import_module(words[1]).application)
    known_options(words, help_text("gunicorn"))


def celery(words: list[str]) -> None:
    app = importlib.import_module(option(words, "-A")).app
    assert app.main == "elevata"
    role = words[3]
    known_options(words[3:], help_text("celery", role))


def manage(words: list[str]) -> None:
    assert words[1] == "manage.py"
    assert (ROOT / "manage.py").is_file()
    assert words[2] in get_commands()


def spark_class(words: list[str]) -> None:
    (core,) = Path(pyspark.__file__).parent.glob("jars/spark-core_*.jar")
    with zipfile.ZipFile(core) as jar:
        assert f"{words[1].replace('.', '/')}.class" in jar.namelist()
        # The options are string constants of the class that reads the command line.
        known = jar.read(f"{words[1].replace('.', '/')}Arguments.class").decode("latin-1")
    known_options(words, known)


def known_options(words: list[str], text: str) -> None:
    assert [word for word in words if word.startswith("--") and word not in text] == []


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_compose_services_set_only_known_variables(name):
    given = SERVICES[name].get("environment", {})
    known = SETTINGS_VARIABLES if name in OURS else IMAGE_VARIABLES
    assert sorted(set(given) - known) == []


def test_variables_of_compose_are_in_the_example():
    variables = set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "docker-compose.yml").read_text()))
    assert sorted(variables - EXAMPLE_VARIABLES) == []


def test_example_lists_exactly_the_variables_of_settings_and_compose():
    compose_only = set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "docker-compose.yml").read_text()))
    assert sorted(SETTINGS_VARIABLES - EXAMPLE_VARIABLES) == []
    assert sorted(EXAMPLE_VARIABLES - SETTINGS_VARIABLES - compose_only) == []


def test_first_layer_of_the_image_has_every_module_of_set_up(tmp_path):
    """Check the modules of set-up, which runs in a separate layer before the code is copied."""
    layer = DOCKERFILE.split("RUN python3 -m elevata.bootstrap", 1)[0]
    for line in re.findall(r"^COPY (?:--\S+ )*(.+)$", layer, re.M):
        *sources, target = line.split()
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, tmp_path / target, dirs_exist_ok=True)
            else:
                (tmp_path / target).mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, tmp_path / target)
    command = [sys.executable, "-S", "-m", "elevata.bootstrap", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_secret_has_a_default():
    text = (ROOT / "docker-compose.yml").read_text()
    for name in ("ELEVATA_SECRET_KEY", "ELEVATA_AUDIT_KEY", "POSTGRES_PASSWORD"):
        uses = re.findall(rf"\$\{{{name}(\W[^}}]*)?\}}", text)
        assert uses
        assert all(use.startswith(":?") for use in uses)
        assert re.search(rf"^{name}=$", EXAMPLE, re.M)
    assert "ELEVATA_AUDIT_KEY" not in "".join(re.findall(r"^ENV(?:.*\\\n)*.*", DOCKERFILE, re.M))
    assert "ELEVATA_SECRET_KEY" not in "".join(re.findall(r"^ENV(?:.*\\\n)*.*", DOCKERFILE, re.M))


def test_web_and_worker_read_secrets_from_an_optional_file():
    having = {name for name, service in SERVICES.items() if "env_file" in service}
    assert having == {"web", "worker"}
    assert all(SERVICES[name]["env_file"] == [{"path": "secrets.env", "required": False}] for name in having)


def test_the_file_of_secrets_is_explained_and_never_committed():
    assert EXAMPLE.count("in secrets.env beside this file") == 2
    assert {".env", "secrets.env"} <= set((ROOT / ".gitignore").read_text().split())


def test_compose_sets_no_variable_of_a_source_or_webhook_secret():
    prefixes = ("ELEVATA_SOURCE_", "ELEVATA_WEBHOOK_SECRET_")
    named = {variable for name in ("web", "worker") for variable in SERVICES[name]["environment"]}
    settings = {f"ELEVATA_SOURCE_{name}" for name in ("ROOTS", "HOSTS", "SECRETS")}
    assert {variable for variable in named if variable.startswith(prefixes)} == settings


@pytest.mark.parametrize("name", sorted(name for name in SERVICES if "ports" in SERVICES[name]))
def test_published_ports_are_bound_by_the_command(name):
    words = command(name)
    bound = {word.rsplit(":", 1)[1] for word in words if word.startswith("0.0.0.0:")}
    bound |= {option(words, flag) for flag in ("--port", "--webui-port")}
    assert {filled_in(port).rsplit(":", 1)[1] for port in SERVICES[name]["ports"]} <= bound


@pytest.mark.parametrize("name", ["web", "worker", "scheduler", "migrate", "spark-worker"])
def test_addresses_inside_lead_to_services_and_their_ports(name):
    values = [*command(name), *map(filled_in, SERVICES[name].get("environment", {}).values())]
    addresses = re.findall(r"(\w+)://(?:[^@/ ]*@)?([\w-]+):(\d+)", " ".join(values))
    assert {"spark"} <= {scheme for scheme, _, _ in addresses}
    for scheme, host, port in addresses:
        if scheme == "spark":
            assert option(command(host), "--port") == port
            assert option(command(host), "--host") == host == SERVICES[host]["hostname"]
        else:
            assert SERVICES[host]["image"].split(":")[0] == scheme
            assert DEFAULT_PORTS[scheme] == int(port)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_dependencies_of_a_service_end_or_have_a_health_check(name):
    for other, how in SERVICES[name].get("depends_on", {}).items():
        if how["condition"] == "service_completed_successfully":
            assert SERVICES[other]["restart"] == "no"
        else:
            assert how["condition"] == "service_healthy"
            assert "healthcheck" in SERVICES[other]


def test_long_running_services_have_a_health_check():
    running = [name for name in SERVICES if SERVICES[name]["restart"] != "no"]
    assert [name for name in running if "healthcheck" not in SERVICES[name]] == []


@pytest.mark.parametrize("name", OURS)
def test_health_checks_use_existing_commands_ports_and_paths(name):
    if "healthcheck" not in SERVICES[name]:
        return
    test = SERVICES[name]["healthcheck"]["test"]
    if test[1:3] == ["python", "manage.py"]:
        assert test[3] in get_commands()
    elif test[1:3] == ["python", "-c"]:
        compile(test[3], name, "exec")
        for port, path in re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", test[3]):
            assert option(command(name), "--bind").endswith(f":{port}")
            resolve(path)
        for port in re.findall(r'create_connection\(\("[\w.-]+", (\d+)\)', test[3]):
            assert port in command(name)
    else:
        assert test[0] == "CMD-SHELL"
        schedule = Path(option(command(name), "--schedule"))
        assert f"find {schedule.parent} -name '{schedule.name}*'" in test[1]


def test_the_health_check_of_the_web_reaches_an_allowed_host():
    hosts = filled_in(SERVICES["web"]["environment"]["ELEVATA_ALLOWED_HOSTS"]).split(",")
    assert "127.0.0.1" in hosts


def test_volumes_are_declared_and_used():
    used = {mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", [])}
    assert used == set(COMPOSE["volumes"])


def test_driver_and_executors_see_the_warehouse_at_the_same_place():
    place = SERVICES["worker"]["environment"]["ELEVATA_WAREHOUSE"]
    for name in ("worker", "spark-master", "spark-worker"):
        assert f"warehouse:{place}" in SERVICES[name]["volumes"]
    assert re.search(rf"mkdir -p .*{place}\b", DOCKERFILE)


class TestDockerfile:
    def test_dockerfile_copies_existing_files(self):
        for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.M):
            *sources, _ = [word for word in shlex.split(line) if not word.startswith("--")]
            assert [source for source in sources if not (ROOT / source).exists()] == []

    def test_image_has_the_java_of_the_setup(self):
        assert any(name in DOCKERFILE for name in java.PACKAGE.apt)

    def test_image_does_not_run_as_root(self):
        assert re.findall(r"^USER (\w+)$", DOCKERFILE, re.M) == ["elevata"]

    def test_image_starts_the_web_server_like_compose(self):
        written = re.search(r"^CMD (\[.*\])$", DOCKERFILE, re.M)[1]
        assert yaml.safe_load(written) == command("web")

    def test_secrets_and_data_stay_out_of_the_image(self):
        ignored = (ROOT / ".dockerignore").read_text().split()
        assert {".env", "secrets.env", ".data", ".git", ".venv"} <= set(ignored)
