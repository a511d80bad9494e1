"""Installation for tests: data of a shop, users with tokens, a real worker with Spark.

Everything runs through the command line; the worker is one process with one JVM.
"""

import json
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings

from loader.management.children import worker_command
from tests.fixtures.spark import BY_NIGHT
from tests.loader.processes import CommandServer, environment, make_folder, wait_until
from tests.readers.environment import answered, readers_python

ITEM = "rawcore.rc_shop_item"
PASSWORD_FILE = "password"
# A runner of a test makes few loads: compiling them well takes longer than running them.
COMPILED = {"ELEVATA_DRIVER_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
INTERPRETED = Path(__file__).with_name("interpreted.conf")
# At night all runners compile expressions, as in an installation; by day those of ``working(…, compiled=True)``.
QUICK_START = COMPILED if BY_NIGHT else COMPILED | {"ELEVATA_SPARK_CONF": str(INTERPRETED)}
PEOPLE = {"edda": ("editor", "approver"), "aron": ("approver", "operator")}

SHOP = """
format: metadata/v1
system:
  short_name: shop
  name: Shop
  location: '{{ data_dir }}/landing'
  datasets:
    - name: item
      location: item.csv
      columns:
        - {name: id, type: integer, business_key: 1}
        - {name: name, type: string}
        - {name: price, type: integer}
        - {name: colour, type: string}
"""
ROWS = {
    "item.csv": ("id,name,price,colour", "1,Anvil,100,black", "2,Bell,7,", "3,,12,red"),
    "member.csv": ("id,label", "1,gold", "2,silver"),
}

SAMPLE = """
import json
from elevata.jobs.waiting import follow_job
from loader.services.reads.read_requests import request_read
from metadata.models import TargetDataset
schema, _, name = "{name}".partition(".")
dataset = TargetDataset.objects.get(schema__name=schema, name=name)
read = follow_job(request_read(kind="sample", dataset=dataset, arguments={{"limit": 100}}).read)
assert read.status == "succeeded", read.error
print(json.dumps(read.answer))
"""


@dataclass
class Installation:
    """Installation in ``folder``: commands run with the token of a user and the variables ``servers``."""

    folder: Path
    tokens: dict[str, str] = field(default_factory=dict)
    servers: dict[str, str] = field(default_factory=dict)

    @cached_property
    def _commands(self) -> CommandServer:
        server = CommandServer(self.folder, **self.servers)
        weakref.finalize(self, server.stop)
        return server

    @property
    def environment(self) -> dict[str, str]:
        return environment(self.folder) | self.servers

    def run(self, *arguments: str, by: str = "", seconds: float = 300) -> subprocess.CompletedProcess:
        """Run a command to its end: in a shared process, unless it starts Spark or its database may stop."""
        token = self.tokens[by] if by else ""
        if "--local" not in arguments and "DATABASE_URL" not in self.servers:
            return self._commands.run(*arguments, token=token, seconds=seconds)
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=settings.BASE_DIR,
            env=self.environment | ({"ELEVATA_TOKEN": token} if by else {}),
            capture_output=True,
            text=True,
            timeout=seconds,
        )

    def start(self, *arguments: str) -> subprocess.Popen:
        """Start a command without waiting; its output is read by ``communicate``."""
        return subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=settings.BASE_DIR,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def json(self, *arguments: str, by: str = "", code: int = 0) -> Any:
        """Return the command's JSON document; the exit code must be ``code``."""
        done = self.run(*arguments, "--json", by=by)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return json.loads(done.stdout)

    def load(self, run_id: str, *options: str, status: str = "succeeded") -> dict[str, Any]:
        """Load with the token of an operator; return the run's document, which must end in ``status``, if given."""
        done = self.run("load", "--run-id", run_id, *options, "--json", by="aron")
        assert done.stdout, done.stderr
        run = json.loads(done.stdout)
        assert not status or run["status"] == status, done.stdout
        return run

    def shell(self, code: str) -> str:
        """Run code in the installation's shell and return its output, for actions without a command."""
        done = self.run("shell", "--verbosity", "0", "--command", code)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def allow(self, **policies: Any) -> None:
        """Change the environment's change policy as two administrators: one proposes, the other accepts."""
        self.shell(
            "from architecture.services.environments import current_environment as now\n"
            "from architecture.services.change_policy import accept_policy, update_policies\n"
            "from elevata.accounts.services.users import ensure_user\n"
            "first, second = (ensure_user(name=name, roles=['admin']) for name in ('admin', 'rita'))\n"
            f"proposal = update_policies(environment=now(), policies={policies!r},"
            " expected_version=now().policies_version, user=first)\n"
            "proposal is None or accept_policy(proposal=proposal, user=second)\n"
        )

    def deliver(self, **more: tuple[str, ...]) -> None:
        landing = self.folder / "landing"
        landing.mkdir(parents=True, exist_ok=True)
        for name, lines in (ROWS | {f"{name}.csv": lines for name, lines in more.items()}).items():
            (landing / name).write_text("\n".join(lines) + "\n")

    def import_text(self, text: str, by: str) -> None:
        file = self.folder / "change.yaml"
        file.write_text(text)
        done = self.run("import_metadata", str(file), by=by)
        assert done.returncode == 0, done.stderr

    def edit_columns(
        self, dataset: str, by: str, facts: dict[str, Any] | None = None, **changes: dict[str, Any]
    ) -> None:
        """Export the metadata, change ``facts`` and columns (by name) in the dataset's file, and import it."""
        metadata = self.folder / "metadata"
        done = self.run("export_metadata", str(metadata))
        assert done.returncode == 0, done.stderr
        (file,) = metadata.rglob(f"{dataset.partition('.')[2]}.yaml")
        document = yaml.safe_load(file.read_text())
        document["dataset"].update(facts or {})
        columns = {column["name"]: column for column in document["dataset"]["columns"]}
        for name, change in changes.items():
            columns[name].update(change)
        self.import_text(yaml.safe_dump(document, sort_keys=False), by=by)

    def rows(self, dataset: str, *names: str) -> list[tuple]:
        """Return the columns of a table's rows as text, read through the worker."""
        answer = json.loads(self.shell(SAMPLE.format(name=dataset)))
        places = [answer["columns"].index(name) for name in names]
        return sorted(tuple(row[place] for place in places) for row in answer["rows"])

    def read_in_duckdb(self, *queries: str) -> list[list[list]]:
        """Return the rows of each query over the tables of the catalog, read by DuckDB."""
        statements = self.folder / "catalog.sql"
        done = self.run("catalog", "--format", "duckdb")
        assert done.returncode == 0, done.stderr
        statements.write_text(done.stdout)
        return answered(readers_python(), "duckdb_rows.py", statements, *queries)

    def check_invariants(self, *options: str) -> None:
        """Check the invariants of all histories, through the worker or with the command's ``options``."""
        done = self.run("check_history", *options, "--json")
        assert (done.returncode, json.loads(done.stdout)["findings"]) == (0, 0), done.stdout + done.stderr

    def commits(self) -> dict[str, list[dict]]:
        """Return the commit metadata of executions by table folder, in order."""
        signatures: dict[str, list[dict]] = {}
        for log in sorted((self.folder / "warehouse").glob("*/_delta_log/*.json")):
            for line in log.read_text().splitlines():
                user_metadata = json.loads(line).get("commitInfo", {}).get("userMetadata") or "{}"
                signature = json.loads(user_metadata)
                if signature.get("what") == "execution":
                    signatures.setdefault(log.parents[1].name, []).append(signature)
        return signatures


def make_installation(folder: Path, described: str = SHOP, servers: dict[str, str] | None = None) -> Installation:
    """Create an installation with two users and a shop described by one of them, not yet loaded."""
    made = Installation(folder, servers=servers or {})
    if "DATABASE_URL" in made.servers:
        done = made.run("migrate", "--verbosity", "0")
        assert done.returncode == 0, done.stderr
    else:
        make_folder(folder)
    made.deliver()
    for name, roles in PEOPLE.items():
        chosen = [part for role in roles for part in ("--role", role)]
        made.tokens[name] = made.json("create_user", name, *chosen, "--token")["token"]
    made.import_text(described, by="edda")
    return made


def make_logged_installation(folder: Path, described: str, *, secret: str, password: str, hosts: str) -> Installation:
    """Create an installation below ``folder`` with an event log of Spark and the password of its source in a file.

    Afterwards, ``files_with`` lists the files that contain the password.
    """
    (folder / "events").mkdir()
    conf, file = folder / "spark.conf", folder / PASSWORD_FILE
    interpreted = "" if BY_NIGHT else INTERPRETED.read_text()
    conf.write_text(f"spark.eventLog.enabled true\nspark.eventLog.dir file://{folder}/events\n{interpreted}")
    file.write_text(password)
    servers = {"ELEVATA_SOURCE_HOSTS": hosts, f"{secret}_FILE": str(file), "ELEVATA_SPARK_CONF": str(conf)}
    return make_installation(folder / "data", described, servers)


def files_with(folder: Path, secret: str) -> list[str]:
    """Return the files below a folder that contain a secret."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(str(path.relative_to(folder)) for path in files if secret.encode() in path.read_bytes())


@contextmanager
def working(installation: Installation, *, compiled: bool = False) -> Iterator[subprocess.Popen]:
    """Run a real worker in its own process group; ``compiled`` has its runner compile expressions, by day, too."""
    log = installation.folder / "worker.log"
    with log.open("a") as output:
        process = subprocess.Popen(
            worker_command(),
            cwd=settings.BASE_DIR,
            env=(COMPILED if compiled else QUICK_START) | installation.environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_until(lambda: installation.run("worker_health").returncode == 0 or process.poll() is not None, 60)
        assert process.poll() is None, log.read_text()
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
