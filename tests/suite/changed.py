"""Selection of the test files that a change affects: by imports, or by folder for conftest files and templates."""

import subprocess
from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath

import grimp

PACKAGES = ("elevata", "metadata", "architecture", "loader", "tests")
_REPOSITORY = "tests/repository"
_PAGES = {
    "elevata": "tests/elevata",
    "metadata": "tests/metadata/views",
    "architecture": "tests/architecture/views",
    "loader": "tests/loader/views",
}


def reached_files(root: Path) -> tuple[str, ...]:
    """Return the test files that the checkout's changes affect.

    Changes are those since the last commit; without any, those of the last commit.
    """
    changed = _git(root, "diff", "--name-only", "HEAD") + _git(root, "ls-files", "--others", "--exclude-standard")
    changed = changed or _git(root, "diff", "--name-only", "HEAD~1")
    tests = _git(root, "ls-files", "--cached", "--others", "--exclude-standard", "tests/*test_*.py")
    existing = [file for file in tests if (root / file).is_file()]
    return tuple(sorted(reached(changed, existing, grimp.build_graph(*PACKAGES, cache_dir=None))))


def reached(changed: Iterable[str], tests: Collection[str], graph: grimp.ImportGraph) -> set[str]:
    """Return those of the test files that import a changed module, directly or through others, or share its folder."""
    affected: set[str] = set()
    for file in changed:
        path = PurePosixPath(file)
        if path.suffix == ".py" and path.parts[0] in PACKAGES and path.name != "conftest.py":
            affected |= {name for name in _importers(file, graph) if name in tests}
        else:
            folder = f"{_folder(path)}/"
            affected |= {name for name in tests if name.startswith(folder)}
    return affected


def _importers(file: str, graph: grimp.ImportGraph) -> set[str]:
    """Return the files of a module and of all that import it; a deleted module has none."""
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    modules = {module, *graph.find_downstream_modules(module)} if module in graph.modules else {module}
    return {f"{name.replace('.', '/')}.py" for name in modules}


def _folder(path: PurePosixPath) -> str:
    """Return the folder of the tests of a file that no module imports."""
    if path.name == "conftest.py":
        return str(path.parent)
    if path.parts[0] == "templates":
        return _PAGES.get(path.parts[1], _PAGES["elevata"])
    return _REPOSITORY


def _git(root: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()
