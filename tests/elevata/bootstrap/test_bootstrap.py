"""Tests of the parts of set-up: stamps, finding programs, messages."""

import os
import re
import subprocess
import sys
import threading
from dataclasses import replace
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from elevata.bootstrap import command, console, frontend, jars, java, programs, stamps, system
from elevata.bootstrap.console import Problem
from elevata.bootstrap.places import ROOT


class TestStamps:
    def run_once(self, folder, inputs, *, results=()):
        return stamps.once("x", inputs, lambda: "made", results=results, folder=folder)

    def test_stamp_is_readable_by_its_owner_only(self, tmp_path):
        usual = os.umask(0o022)
        try:
            self.run_once(tmp_path, "a")
        finally:
            os.umask(usual)
        assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600

    def test_a_step_is_done_once(self, tmp_path):
        assert [self.run_once(tmp_path, "a"), self.run_once(tmp_path, "a")] == ["made", "unchanged"]

    def test_step_is_run_again_for_changed_inputs(self, tmp_path):
        assert [self.run_once(tmp_path, "a"), self.run_once(tmp_path, "b")] == ["made", "made"]

    def test_step_is_run_again_after_its_result_is_deleted(self, tmp_path):
        result = tmp_path / "result"
        result.touch()
        assert [self.run_once(tmp_path, "a", results=[result]) for _ in range(2)] == ["made", "unchanged"]
        result.unlink()
        assert self.run_once(tmp_path, "a", results=[result]) == "made"

    def test_step_is_run_again_after_a_failure(self, tmp_path):
        self.run_once(tmp_path, "a")
        with pytest.raises(Problem):
            stamps.once("x", "b", self.fail, folder=tmp_path)
        assert self.run_once(tmp_path, "a") == "made"

    @staticmethod
    def fail():
        raise Problem("it broke", "mend it")

    def test_the_digest_follows_contents_and_names(self, tmp_path):
        first, second = tmp_path / "one", tmp_path / "two"
        first.write_text("x")
        second.write_text("x")
        before = stamps.digest(first, "value")
        assert before == stamps.digest(first, "value")
        assert before not in {stamps.digest(second, "value"), stamps.digest(first, "other")}
        first.write_text("y")
        assert before != stamps.digest(first, "value")


class TestRun:
    @pytest.fixture(autouse=True)
    def log(self, tmp_path, monkeypatch):
        monkeypatch.setattr(console, "LOG", tmp_path / "setup.log")
        return tmp_path / "setup.log"

    def test_failed_program_reports_the_failure_its_cause_and_the_log(self, log):
        program = "print('working'); print('Error: disk is full'); print('bye'); raise SystemExit(3)"
        with pytest.raises(Problem) as caught:
            console.run([sys.executable, "-c", program], failure="it could not be made")
        assert str(caught.value).startswith("it could not be made: Error: disk is full - all of it is in ")
        assert "working" in log.read_text()

    def test_missing_program_raises_a_problem(self):
        with pytest.raises(Problem, match="no-such-program could not be started"):
            console.run(["no-such-program"], failure="it could not be made")

    def test_program_reads_an_empty_line_from_standard_input(self):
        assert console.run([sys.executable, "-c", "import sys; print(sys.stdin.read())"], failure="x") == "\n"


class TestSystemPackages:
    PACKAGE = system.Package(apt=("new", "old"), dnf=("new-rpm", "old-rpm"), apk=("new-apk",), brew=("new@2", "old@1"))

    @pytest.fixture
    def machine(self, monkeypatch):
        """Return a function that simulates a machine: its package manager, user and available packages."""
        calls = []

        def describe(program: str | None, *, user: int, known: tuple[str, ...] = (), sudo: bool = True) -> list:
            programs = {program, *(["sudo"] if sudo else [])}
            monkeypatch.setattr(system.shutil, "which", lambda name: f"/usr/bin/{name}" if name in programs else None)
            monkeypatch.setattr(system.os, "geteuid", lambda: user)
            monkeypatch.setattr(system.Manager, "has", lambda _, name: name in known)
            monkeypatch.setattr(system, "_refreshed", set())
            monkeypatch.setattr(system, "run", lambda words, **_: calls.append(" ".join(words)))
            return calls

        return describe

    def install(self, package=PACKAGE):
        return system.install([package], why="it is missing", otherwise="install it")

    @pytest.mark.parametrize(
        ("program", "known", "command"),
        [
            ("apt-get", ("new", "old"), "sudo apt-get install new"),
            ("apt-get", ("old",), "sudo apt-get install old"),
            ("dnf", ("old-rpm",), "sudo dnf install old-rpm"),
            ("apk", ("new-apk",), "sudo apk add new-apk"),
        ],
    )
    def test_install_command_for_users_names_a_package_of_the_release(self, machine, program, known, command):
        machine(program, user=1000, known=known)
        with pytest.raises(Problem, match=f"it is missing - type: {command}$"):
            self.install()

    def test_without_sudo_the_command_is_for_root(self, machine):
        machine("apt-get", user=1000, known=("old",), sudo=False)
        with pytest.raises(Problem, match=r"type: apt-get install old \(as root\)$"):
            self.install()

    def test_problem_names_apt_get_update_if_no_package_is_known(self, machine):
        machine("apt-get", user=1000)
        with pytest.raises(Problem, match=r"none of new, old - type: sudo apt-get update; then again$"):
            self.install()

    def test_problem_without_a_package_manager_has_the_general_advice(self, machine):
        machine(None, user=1000)
        with pytest.raises(Problem, match="it is missing - install it$"):
            self.install()

    def test_problem_names_the_packages_that_the_release_lacks(self, machine):
        machine("apt-get", user=0)
        with pytest.raises(Problem, match=r"this release has none of the packages new, old - install it$"):
            self.install()

    def test_root_installs_packages_after_one_update_of_the_lists(self, machine):
        calls = machine("apt-get", user=0, known=("old",))
        assert [self.install(), self.install("another")] == [["old"], ["another"]]
        options = "--yes --no-install-recommends"
        assert calls == ["apt-get update", f"apt-get install {options} old", f"apt-get install {options} another"]

    def test_homebrew_installs_for_other_users_than_root(self, machine):
        calls = machine("brew", user=501, known=("old@1",))
        assert self.install() == ["old@1"]
        assert calls == ["brew install old@1"]
        machine("brew", user=0, known=("old@1",))
        with pytest.raises(Problem, match="type as another user than root: brew install old@1$"):
            self.install()

    @pytest.mark.parametrize(
        ("output", "status", "expected"), [("Version: 1", 0, True), ("Version: 1", 1, False), ("virtual", 0, False)]
    )
    def test_a_release_has_a_package_if_the_manager_shows_its_version(self, tmp_path, output, status, expected):
        program = tmp_path / "show"
        program.write_text(f"#!/bin/sh\n[ \"$1\" = name ] && echo '{output}'; exit {status}\n")
        program.chmod(0o755)
        assert system.Manager("x", (), (str(program),), marker="Version:").has("name") is expected


class TestJava:
    @pytest.fixture
    def homes(self, tmp_path, monkeypatch):
        """Return a function that installs a fake Java, on a machine without any."""

        def add(name: str, version: str) -> Path:
            program = tmp_path / name / "bin" / "java"
            program.parent.mkdir(parents=True)
            program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
            program.chmod(0o755)
            return tmp_path / name

        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setattr(java, "_INSTALLED", tmp_path)
        monkeypatch.setattr(java, "_ELSEWHERE", ())
        monkeypatch.setattr(java, "JAVA_HOME_FILE", tmp_path / "java-home")
        monkeypatch.setattr(java.shutil, "which", lambda name: None)
        return add

    def test_newest_java_that_spark_supports_is_chosen(self, homes):
        homes("java-8", "1.8.0_392")
        homes("java-11", "11.0.2")
        homes("java-17", "17.0.15")
        expected = homes("java-21", "21.0.1")
        homes("java-25", "25")
        assert java.ensure_java() == f"21 in {expected}"
        assert java.java_home() == str(expected)

    def test_java_home_variable_overrides_installed_javas(self, homes, monkeypatch):
        homes("java-17", "17.0.15")
        asked = homes("mine-21", "21.0.1")
        monkeypatch.setenv("JAVA_HOME", str(asked))
        assert java.ensure_java() == f"21 in {asked}"

    def test_java_is_installed_without_a_supported_version(self, homes, monkeypatch):
        homes("java-11", "11.0.2")
        homes("java-25", "25")

        def install(*_, **__):
            homes("java-21", "21.0.1")
            return ["openjdk-21-jre-headless"]

        monkeypatch.setattr(java.system, "install", install)
        assert "installed openjdk-21-jre-headless" in java.ensure_java()

    def test_java_that_does_not_run_is_ignored(self, homes):
        broken = homes("java-17", "17.0.15")
        (broken / "bin" / "java").write_text("not a program")
        expected = homes("java-21", "21.0.1")
        assert java.ensure_java() == f"21 in {expected}"


class TestJars:
    def test_jars_shipped_with_spark_are_omitted(self):
        resolved = [
            Path("io.delta_delta-spark_4.2_2.13-4.4.0.jar"),
            Path("com.github.luben_zstd-jni-1.5.7-3.jar"),
            Path("org.apache.hadoop_hadoop-client-api-3.4.2.jar"),
        ]
        shipped = ["zstd-jni-1.5.7-7.jar", "hadoop-client-api-3.5.0.jar", "spark-core_2.13-4.2.0.jar"]
        assert jars.beyond(resolved, map(Path, shipped)) == resolved[:1]

    def test_packages_come_from_the_variable_and_the_settings_file(self, tmp_path):
        file = tmp_path / "spark.conf"
        file.write_text("spark.jars.packages = org.example:b:2\nspark.jars.repositories https://maven.example.org\n")
        environment = {"ELEVATA_SPARK_PACKAGES": " org.example:a:1 ,", "ELEVATA_SPARK_CONF": str(file)}
        assert jars.packages(environment) == ["org.example:a:1", "org.example:b:2"]
        assert jars.resolver_options(environment) == ["--repositories", "https://maven.example.org"]
        assert jars.packages({}) == jars.resolver_options({}) == []

    @pytest.mark.parametrize("text", ["thing", "org.example:thing", "org.example:thing:1 --conf x:y:z"])
    def test_malformed_package_raises_a_problem(self, text):
        with pytest.raises(Problem, match="is no package"):
            jars.packages({"ELEVATA_SPARK_PACKAGES": text})

    @pytest.mark.parametrize("name", ["ELEVATA_WAREHOUSE", "ELEVATA_SOURCE_ROOTS"])
    def test_s3_client_is_added_if_a_folder_is_on_s3(self, name):
        assert jars.packages({name: "s3a://bucket/in/"}) == [jars.s3_client()]
        assert jars.packages({name: "/srv/warehouse"}) == []
        own = "org.apache.hadoop:hadoop-aws:3.4.9"
        assert jars.packages({name: "s3a://bucket/in/", "ELEVATA_SPARK_PACKAGES": own}) == [own]

    def test_missing_jar_of_a_package_raises_a_problem_and_keeps_the_jars(self, tmp_path, monkeypatch):
        jars_folder = tmp_path / "jars"
        jars_folder.mkdir()
        (jars_folder / "old.jar").touch()
        monkeypatch.setattr(jars, "run", lambda *_, **__: "")
        with pytest.raises(Problem, match="there is no jar of org.example:thing:1"):
            jars.fetch(["org.example:thing:1"], jars_folder)
        assert [path.name for path in jars_folder.iterdir()] == ["old.jar"]

    def test_jars_without_their_dependencies_are_a_problem(self, tmp_path, monkeypatch):
        place = "https://maven.example.org/org/example/thing/1/thing-1.pom"
        broken = f"\tServer access error at url {place} (java.net.SocketException: Connection reset by peer)\n"
        monkeypatch.setattr(jars, "run", lambda *_, **__: broken)
        with pytest.raises(Problem, match="dependencies of thing-1 could not be read: java.net.SocketException"):
            jars.fetch(["org.example:thing:1"], tmp_path / "jars")
        assert not (tmp_path / "jars").exists()


class TestFrontEnd:
    WHOLE = (
        '<svg xmlns="s" id="all"><defs><symbol id="tabler-a"><path d="1"/></symbol>'
        '<symbol id="tabler-b"><path d="2"/></symbol></defs></svg>'
    )

    def test_sprite_contains_only_the_named_icons(self):
        assert frontend.sprite(self.WHOLE, ["b"]) == (
            '<svg xmlns="s" id="all"><defs><symbol id="tabler-b"><path d="2"/></symbol></defs></svg>\n'
        )

    def test_unknown_icon_raises_a_problem(self):
        with pytest.raises(Problem, match="no such icon: c"):
            frontend.sprite(self.WHOLE, ["a", "c"])

    def test_pointers_to_source_maps_are_dropped(self, tmp_path):
        source = tmp_path / "a.css"
        source.write_text("a{}\n/*# sourceMappingURL=a.css.map */")
        frontend._copy(source, tmp_path / "b.css")
        assert (tmp_path / "b.css").read_text() == "a{}\n"

    def test_vendored_front_end_files_exist(self):
        modules = map(frontend.module_target, frontend.MODULES)
        targets = [frontend.VENDOR / target for target in (*frontend.KEPT.values(), *modules, frontend.ICONS_TARGET)]
        assert [path.name for path in targets if not path.is_file()] == []

    def test_imports_of_a_module_name_the_files_beside_it(self):
        text = (
            "import { a,\n b } from '@codemirror/state';\nimport elt from 'crelt';\nexport { c } from \"style-mod\";\n"
        )
        assert frontend.with_relative_imports(text + "// import x from 'y'\n", "m") == (
            "import { a,\n b } from './codemirror-state.js';\nimport elt from './crelt.js';\n"
            "export { c } from \"./style-mod.js\";\n// import x from 'y'\n"
        )

    def test_import_of_a_package_that_is_not_copied_is_refused(self):
        with pytest.raises(console.Problem, match="m imports other"):
            frontend.with_relative_imports("import { a } from 'other';", "m")

    def test_every_icon_a_page_names_is_in_the_sprite(self):
        templates = [*ROOT.glob("templates/**/*.html"), *ROOT.glob("*/templates/**/*.html")]
        pages = "".join(path.read_text() for path in templates)
        named = re.findall(r"#tabler-([a-z0-9-]+)", pages) + re.findall(r"{% icon ['\"]([a-z0-9-]+)", pages)
        assert sorted(set(named) - set(frontend.icon_names())) == []

    def test_the_list_of_icons_is_sorted_and_without_doubles(self):
        assert frontend.icon_names() == sorted(set(frontend.icon_names()))


class TestPrograms:
    def test_chromium_path_variable_chooses_the_browser(self, monkeypatch, tmp_path):
        monkeypatch.setenv("CHROMIUM_PATH", str(tmp_path))
        assert programs.chromium() == tmp_path
        monkeypatch.setenv("CHROMIUM_PATH", str(tmp_path / "gone"))
        assert programs.chromium() is None

    def test_missing_programs_are_listed_by_name(self, monkeypatch):
        for program in ("postgres_bin", "chromium"):
            monkeypatch.setattr(programs, program, lambda: Path("x"))
        for program in ("redis_server", "c_compiler"):
            monkeypatch.setattr(programs, program, lambda: None)
        assert programs.missing() == ["Redis", "C compiler"]

    def test_postgresql_off_the_path_is_found_newest_first(self, monkeypatch, tmp_path):
        for version in ("9", "15", "17"):
            folder = tmp_path / version / "bin"
            folder.mkdir(parents=True)
            (folder / "postgres").touch()
            if version != "17":
                (folder / "initdb").touch()
        monkeypatch.setattr(programs, "_CLUSTERS", tmp_path)
        monkeypatch.setattr(programs.shutil, "which", lambda name: None)
        assert programs.postgres_bin() == tmp_path / "15" / "bin"


class TestCommand:
    @pytest.fixture
    def steps(self, monkeypatch):
        done = []
        monkeypatch.setattr(command, "LOG", Path(os.devnull).with_name("no-such-log"))
        for group in ("STEPS", "TEST_STEPS", "SERVER_STEPS", "OBJECT_STORE_STEPS"):
            steps = getattr(command, group)
            fakes = {
                name: replace(step, action=lambda name=name: done.append(name) or "done")
                for name, step in steps.items()
            }
            monkeypatch.setattr(command, group, fakes)
        return done

    def test_plain_set_up_leaves_out_what_only_tests_need(self, steps, capsys):
        assert command.main(["setup"]) == 0
        assert steps[:2] == ["python", "venv"]
        assert sorted(steps[2:]) == ["database", "front-end", "jars", "java", "packages", "static"]
        assert "ready in" in capsys.readouterr().out

    def test_steps_can_be_added_and_left_out(self, steps):
        chosen = ["setup", "--with-tests", "--with-servers", "--without", "database", "static"]
        assert command.main(chosen) == 0
        assert {"test tools", "page checks", "servers", "classes"} < set(steps)
        assert not {"database", "static"} & set(steps)
        steps.clear()
        assert command.main(["setup", "--with-object-store"]) == 0
        assert {"object store", "MariaDB", "database drivers", "Kafka broker"} < set(steps)

    def test_step_waits_for_earlier_steps_that_run_in_parallel(self):
        barrier = threading.Barrier(2, timeout=10)
        done = []

        def meet() -> str:
            barrier.wait()
            done.append("first")
            return ""

        last = command.Step(lambda: done.append("last") or "", after=("one", "other"))
        command.run_steps({"last": last, "one": command.Step(meet), "other": command.Step(meet)})
        assert done == ["first", "first", "last"]

    def test_steps_depend_on_existing_steps_without_cycles(self):
        every = command.STEPS | command.TEST_STEPS | command.SERVER_STEPS | command.OBJECT_STORE_STEPS
        graph = TopologicalSorter({name: step.after for name, step in every.items()})
        assert set(graph.static_order()) == set(every)

    def test_a_problem_is_one_line_and_exit_code_1(self, steps, monkeypatch, capsys):
        monkeypatch.setitem(command.STEPS, "packages", command.Step(TestStamps.fail, after=("venv",)))
        assert command.main(["setup"]) == 1
        assert capsys.readouterr().err == "setup: it broke - mend it\n"
        assert not {"jars", "database", "static"} & set(steps)


def test_set_up_needs_nothing_but_the_standard_library():
    """Check that set-up runs without site-packages (-S), as on a machine without any installed package."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", "elevata.bootstrap", "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
