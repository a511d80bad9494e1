"""Virtual environment and its Python packages."""

import importlib.util
import platform
import shutil
import subprocess
import sys
import threading

from elevata.bootstrap import system
from elevata.bootstrap.console import run
from elevata.bootstrap.places import PYTHON, ROOT, VENV
from elevata.bootstrap.stamps import digest, once

RUNTIME = ROOT / "requirements.txt"
DEVELOPMENT = ROOT / "requirements-dev.txt"


def check_python() -> str:
    """Check that this Python can create virtual environments, which is a separate package on Debian."""
    if importlib.util.find_spec("ensurepip") is None or importlib.util.find_spec("venv") is None:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        system.install(
            [package],
            why="this Python cannot make virtual environments",
            otherwise="install its venv and ensurepip modules",
        )
        return f"{platform.python_version()}, with {package}"
    return platform.python_version()


def virtual_environment() -> str:
    """Create a virtual environment of this Python version; replace an incomplete one."""
    return once("venv", digest(sys.version_info[:2]), _create, results=[PYTHON])


def _create() -> str:
    if _works():
        return "already there"
    shutil.rmtree(VENV, ignore_errors=True)
    try:
        run([sys.executable, "-m", "venv", VENV], failure="the virtual environment could not be made")
    except BaseException:
        shutil.rmtree(VENV, ignore_errors=True)
        raise
    return "created"


def _works() -> bool:
    """Return True if there is an environment of this Python version with a working pip."""
    if not PYTHON.exists():
        return False
    code = "import sys, pip; print(*sys.version_info[:2])"
    try:
        result = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True)
    except OSError:
        return False
    return result.returncode == 0 and result.stdout.split() == [str(n) for n in sys.version_info[:2]]


def packages() -> str:
    """Install the packages of the product."""
    return once("packages", digest(RUNTIME), lambda: _install(RUNTIME))


def test_packages() -> str:
    """Install the packages of the tests."""
    return once("test-packages", digest(RUNTIME, DEVELOPMENT), lambda: _install(DEVELOPMENT))


# Steps run side by side, but two of pip would write the same files.
_PIP = threading.Lock()


def pip_install(*arguments: object, failure: str) -> None:
    """Install packages into the virtual environment, with the pip configuration of this machine."""
    with _PIP:
        run([PYTHON, "-m", "pip", "install", "--quiet", *map(str, arguments)], failure=failure)


def _install(requirements) -> str:
    pip_install("-r", requirements, failure=f"the packages of {requirements.name} could not be installed")
    return f"installed {requirements.name}"
