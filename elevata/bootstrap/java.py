"""Java for Spark: search and installation.

Every process that starts Spark uses ``java_home()``, because the Java that set-up selected may not be on PATH.
"""

import os
import re
import shutil
import subprocess
from glob import glob
from pathlib import Path

from elevata.bootstrap import system
from elevata.bootstrap.console import Problem
from elevata.bootstrap.places import JAVA_HOME_FILE
from elevata.bootstrap.system import Package

MINIMUM = 17
# Releases that Spark supports, the newest first.
SUPPORTED = (21, 17)
PACKAGE = Package(
    apt=tuple(f"openjdk-{release}-jre-headless" for release in SUPPORTED),
    dnf=tuple(f"java-{release}-openjdk-headless" for release in SUPPORTED),
    apk=tuple(f"openjdk{release}-jre-headless" for release in SUPPORTED),
    brew=tuple(f"openjdk@{release}" for release in SUPPORTED),
)
_INSTALLED = Path("/usr/lib/jvm")
# Homes of Homebrew's formulas and of macOS, none of which is on PATH.
_ELSEWHERE = (
    "/opt/homebrew/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
    "/home/linuxbrew/.linuxbrew/opt/openjdk@*/libexec",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)


def java_home() -> str | None:
    """Return JAVA_HOME for Spark's processes: that of the environment, else the one that set-up selected."""
    if os.environ.get("JAVA_HOME"):
        return os.environ["JAVA_HOME"]
    return JAVA_HOME_FILE.read_text().strip() if JAVA_HOME_FILE.is_file() else None


def ensure_java() -> str:
    """Select a Java that Spark supports, or install one, and store its location."""
    java, note = _find_java(), ""
    if java is None:
        wanted = " or ".join(str(release) for release in sorted(SUPPORTED))
        (package,) = system.install(
            [PACKAGE],
            why=f"no Java {wanted} was found",
            otherwise=f"install a Java {wanted} runtime and set JAVA_HOME",
        )
        java, note = _find_java(), f", installed {package}"
        if java is None:
            raise Problem(f"{package} was installed but does not run", f"set JAVA_HOME to a Java {wanted}")
    home, version = java
    JAVA_HOME_FILE.write_text(f"{home}\n")
    return f"{version} in {home}{note}"


def _find_java() -> tuple[Path, int] | None:
    """Return the Java of JAVA_HOME if it is new enough, else the one on PATH or the newest one that Spark supports."""
    configured = os.environ.get("JAVA_HOME")
    version = _version(Path(configured)) if configured else None
    if configured and version is not None and version >= MINIMUM:
        return Path(configured), version
    on_path = shutil.which("java")
    homes = [Path(on_path).resolve().parent.parent] if on_path else []
    running = [(home, version) for home in homes if (version := _version(home)) in SUPPORTED]
    if running:
        return running[0]
    installed = [(home, version) for home in _installed() if (version := _version(home)) in SUPPORTED]
    return max(installed, key=lambda java: java[1], default=None)


def _installed() -> list[Path]:
    elsewhere = (Path(home) for pattern in _ELSEWHERE for home in glob(pattern))
    homes = {home.resolve() for home in (*_INSTALLED.glob("*"), *elsewhere) if (home / "bin" / "java").exists()}
    return sorted(homes)


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
