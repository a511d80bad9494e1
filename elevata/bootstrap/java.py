"""Java for Spark: search and installation.

Every process that starts Spark uses ``java_home()``, because the Java that set-up selected may not be on PATH.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from elevata.bootstrap import system
from elevata.bootstrap.console import Problem
from elevata.bootstrap.places import JAVA_HOME_FILE

MINIMUM = 17
PACKAGE = "openjdk-17-jre-headless"
_INSTALLED = Path("/usr/lib/jvm")


def java_home() -> str | None:
    """Return JAVA_HOME for Spark's processes: that of the environment, else the one that set-up selected."""
    if os.environ.get("JAVA_HOME"):
        return os.environ["JAVA_HOME"]
    return JAVA_HOME_FILE.read_text().strip() if JAVA_HOME_FILE.is_file() else None


def ensure_java() -> str:
    """Select a Java of at least the minimum version, or install one, and store its location."""
    java = _find_java()
    note = ""
    if java is None:
        system.install(
            [PACKAGE],
            why=f"no Java {MINIMUM} or newer was found",
            otherwise=f"install a Java {MINIMUM} runtime and set JAVA_HOME",
        )
        java, note = _find_java(), f", installed {PACKAGE}"
    if java is None:
        raise Problem(f"{PACKAGE} was installed but does not run", f"set JAVA_HOME to a Java {MINIMUM}")
    home, version = java
    JAVA_HOME_FILE.write_text(f"{home}\n")
    return f"{version} in {home}{note}"


def _find_java() -> tuple[Path, int] | None:
    for home in _candidates():
        version = _version(home)
        if version is not None and version >= MINIMUM:
            return home, version
    return None


def _candidates() -> Iterator[Path]:
    """Yield the homes to try: the configured one, the one on PATH, then the installed ones from the oldest on.

    The oldest is first, because Spark supports new Java releases late.
    """
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    homes = {home.resolve() for home in _INSTALLED.glob("*") if (home / "bin" / "java").exists()}
    yield from sorted(homes, key=lambda home: [int(number) for number in re.findall(r"\d+", home.name)])


def _version(home: Path) -> int | None:
    """Return the feature release of the Java in this home; None if it does not run."""
    try:
        result = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True)
    except OSError:
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', result.stderr)
    if result.returncode != 0 or not match:
        return None
    first, second = int(match[1]), int(match[2] or 0)
    return second if first == 1 else first  # Java 8 has the version 1.8
