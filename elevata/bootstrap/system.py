"""Packages of the operating system, under the names that its package manager has for them."""

import os
import shutil
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from elevata.bootstrap.console import Problem, run


@dataclass(frozen=True)
class Package:
    """Package by its names in each package manager, the preferred one first; a release may lack some of them."""

    apt: tuple[str, ...]
    dnf: tuple[str, ...]
    apk: tuple[str, ...]
    brew: tuple[str, ...]


@dataclass(frozen=True)
class Manager:
    """Package manager: ``program install name …``, as root or not.

    ``refresh`` reads the lists of packages, ``query`` prints something (with ``marker``, that text) for a name that
    the release has.
    """

    program: str
    install: tuple[str, ...]
    query: tuple[str, ...]
    refresh: tuple[str, ...] = ()
    marker: str = ""
    as_root: bool = True
    unattended: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Return True if the release has a package of this name, as far as the lists that were read say."""
        result = subprocess.run(
            [*self.query, name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
        )
        return result.returncode == 0 and self.marker in result.stdout and bool(result.stdout.strip())


# ``apt-cache show`` prints no version of a name that is only virtual.
MANAGERS = (
    Manager(
        "apt-get",
        ("apt-get", "install"),
        ("apt-cache", "show", "--no-all-versions"),
        refresh=("apt-get", "update"),
        marker="Version:",
        unattended=("--yes", "--no-install-recommends"),
    ),
    Manager("dnf", ("dnf", "install"), ("dnf", "--quiet", "info"), marker="Version", unattended=("--assumeyes",)),
    Manager("apk", ("apk", "add"), ("apk", "search", "--exact"), refresh=("apk", "update")),
    Manager("brew", ("brew", "install"), ("brew", "info"), as_root=False),
)

_refreshed: set[str] = set()
# Steps run side by side; a package manager runs once at a time.
_INSTALLING = threading.Lock()


def install(packages: Sequence[str | Package], *, why: str, otherwise: str) -> list[str]:
    """Install packages and return their names. Raise Problem with the one command to run if that needs another user.

    ``why`` is the reason in the message, and ``otherwise`` the advice for systems without a known package manager. A
    package that is a text has this name everywhere.
    """
    manager = next((manager for manager in MANAGERS if shutil.which(manager.program)), None)
    if manager is None:
        raise Problem(why, otherwise)
    with _INSTALLING:
        return _install_by(manager, packages, why=why, otherwise=otherwise)


def _install_by(manager: Manager, packages: Sequence[str | Package], *, why: str, otherwise: str) -> list[str]:
    is_root = os.geteuid() == 0
    if is_root and manager.as_root and manager.refresh and manager.program not in _refreshed:
        run([*manager.refresh], failure="the list of system packages could not be read", env=_UNATTENDED)
        _refreshed.add(manager.program)
    names = [_name(manager, package, why=why, otherwise=otherwise) for package in packages]
    command = " ".join([*manager.install, *names])
    if manager.as_root and not is_root:
        raise Problem(why, f"type: {'sudo ' if shutil.which('sudo') else ''}{command}{_as_root()}")
    if is_root and not manager.as_root:
        raise Problem(why, f"type as another user than root: {command}")
    run([*manager.install, *manager.unattended, *names], failure=f"{why}, and '{command}' failed", env=_UNATTENDED)
    return names


_UNATTENDED = {"DEBIAN_FRONTEND": "noninteractive", "HOMEBREW_NO_AUTO_UPDATE": "1"}


def _as_root() -> str:
    return "" if shutil.which("sudo") else " (as root)"


def _name(manager: Manager, package: str | Package, *, why: str, otherwise: str) -> str:
    """Return the first name of the package that this release has."""
    if isinstance(package, str):
        return package
    names = {"apt-get": package.apt, "dnf": package.dnf, "apk": package.apk, "brew": package.brew}[manager.program]
    name = next(filter(manager.has, names), None)
    if name is not None:
        return name
    if manager.refresh and manager.program not in _refreshed:
        todo = f"{'sudo ' if shutil.which('sudo') else ''}{' '.join(manager.refresh)}{_as_root()}"
        raise Problem(f"{why}, and the lists of packages have none of {', '.join(names)}", f"type: {todo}; then again")
    raise Problem(f"{why}, and this release has none of the packages {', '.join(names)}", otherwise)
