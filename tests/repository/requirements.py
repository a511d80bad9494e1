"""Lists of pins for pip: ``python -m tests.repository.requirements`` writes them from pyproject.toml."""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "requirements.txt"
DEVELOPMENT = ROOT / "requirements-dev.txt"

_HEAD = "# Written by `python -m tests.repository.requirements` from pyproject.toml, which has the reasons."
_SELF = "elevata["


def project() -> dict[str, Any]:
    """Return pyproject.toml as a document."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def runtime() -> str:
    """Return requirements.txt: the dependencies with those of every extra, which a checkout installs."""
    described = project()["project"]
    lines = [_HEAD, *described["dependencies"]]
    for name, packages in described["optional-dependencies"].items():
        own = [package for package in packages if not package.startswith(_SELF)]
        lines += [f"# Extra {name}", *own] if own else []
    return "\n".join(lines) + "\n"


def development() -> str:
    """Return requirements-dev.txt: requirements.txt with the tools of tests and checks."""
    tools = project()["dependency-groups"]["dev"]
    return "\n".join([_HEAD, f"-r {RUNTIME.name}", *tools]) + "\n"


if __name__ == "__main__":
    RUNTIME.write_text(runtime(), encoding="utf-8")
    DEVELOPMENT.write_text(development(), encoding="utf-8")
