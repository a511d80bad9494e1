"""Packages of the operating system: installed if possible, otherwise the command to run."""

import os
import shutil

from elevata.bootstrap.console import Problem, run

_index_is_fresh = False


def install(packages: list[str], *, why: str, otherwise: str) -> None:
    """Install Debian packages as root; other users get the command to run.

    ``otherwise`` names the packages for a system without apt.
    """
    global _index_is_fresh
    if not shutil.which("apt-get"):
        raise Problem(why, otherwise)
    by_hand = f"apt-get install {' '.join(packages)}"
    if os.geteuid() != 0:
        raise Problem(why, f"type: sudo {by_hand}")
    quietly = {"DEBIAN_FRONTEND": "noninteractive"}
    if not _index_is_fresh:
        run(["apt-get", "update"], failure="the list of system packages could not be read", env=quietly)
        _index_is_fresh = True
    run(
        ["apt-get", "install", "--yes", "--no-install-recommends", *packages],
        failure=f"{why}, and '{by_hand}' failed",
        env=quietly,
    )
