"""Set-up, demo and tests on a fresh Debian 13, made by debootstrap from the mirror of this machine."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from elevata.bootstrap import system
from elevata.bootstrap.places import ROOT

pytestmark = [pytest.mark.nightly, pytest.mark.servers, pytest.mark.takes(seconds=4500)]

RELEASE = "trixie"
PACKAGES = "ca-certificates,git,make,python3,python3-venv"
MIRROR = "http://deb.debian.org/debian"
# Settings with which this machine reaches package registries, copied to the new one.
VARIABLES = re.compile(r"(?i)(PIP|NPM_CONFIG|UV)_.*|.*_PROXY|.*(CERT|CA_BUNDLE|CERTS|CAINFO).*")
FILES = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/pip.conf",
    "/etc/npmrc",
    "/etc/ssl/certs/ca-certificates.crt",
    "/usr/local/share/ca-certificates",
    "/etc/apt/apt.conf.d",
    "/root/.config/pip",
    "/root/.npmrc",
    "/root/.m2/settings.xml",
)
# Runs a command in the folder in a mount namespace of its own, so that all mounts end with it.
ENTER = (
    'mount --bind /dev "$1/dev" && mount --bind /dev/pts "$1/dev/pts" && mount -t proc proc "$1/proc" && '
    'mount -t sysfs sysfs "$1/sys" && mount -t tmpfs tmpfs "$1/dev/shm" && '
    'exec chroot "$1" sh -c "cd /root/elevata && $2"'
)


@pytest.fixture(scope="module")
def machine(tmp_path_factory) -> Iterator[Path]:
    """Return the root folder of a new Debian 13 with a clone of this checkout in ``/root/elevata``."""
    if shutil.which("debootstrap") is None:
        system.install(["debootstrap"], why="the test makes a Debian 13", otherwise="install debootstrap")
    root = tmp_path_factory.mktemp("debian-13")
    command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", RELEASE, str(root), mirror()]
    subprocess.run(command, check=True, env=settings())
    for name in FILES:
        copy(Path(name), root)
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(root / "root" / "elevata")], check=True)
    enter(root, "update-ca-certificates")
    yield root
    shutil.rmtree(root, ignore_errors=True)


def mirror() -> str:
    """Return the address of Debian's packages in this machine's own sources."""
    for file in (Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))):
        if file.is_file() and (address := re.search(r"\bhttps?://\S+/debian/?(?=\s)", file.read_text())):
            return address[0]
    return MIRROR


def settings() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if VARIABLES.fullmatch(name)}
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return own | {"PATH": path, "HOME": "/root", "LANG": "C.UTF-8"}


def copy(source: Path, root: Path) -> None:
    target = root / source.relative_to("/")
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    elif source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def enter(root: Path, command: str) -> str:
    """Run a command in the checkout on the machine, and return its output. Fail with the end of it."""
    result = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-c", ENTER, "sh", str(root), command],
        env=settings(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert result.returncode == 0, f"{command} ended with {result.returncode}:\n{result.stdout[-5000:]}"
    return result.stdout


def test_set_up_demo_and_tests_pass_on_a_fresh_debian_13(machine: Path):
    assert re.search(r"java\s+21 in ", enter(machine, "make setup"))
    assert "unchanged" in enter(machine, "make setup")
    enter(machine, "make demo")
    assert re.search(r"\d+ passed", enter(machine, "make test"))
