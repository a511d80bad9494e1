"""Packages of the operating system."""

import os
import shutil

from elevata.bootstrap.console import Problem, run

_index_is_fresh = False


def install(packages: list[str], *, why: str, otherwise: str) -> None:
    """Install Debian packages. Raise Problem with the command to run for users other than root.

    ``why`` is the reason in the message, and ``otherwise`` the advice for systems without apt.
    """
    global _index_is_fresh
    if not shutil.which("apt-get"):
        raise Problem(why, otherwise)
    command = f"apt-get install {' '.join(packages)}"
    if os.geteuid() != 0:
        raise Problem(why, f"type: sudo {command}")
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    if not _index_is_fresh:
        run(["apt-get", "update"], failure="the list of system packages could not be read", env=environment)
        _index_is_fresh = True
    run(
        ["apt-get", "install", "--yes", "--no-install-recommends", *packages],
        failure=f"{why}, and '{command}' failed",
        env=environment,
    )
