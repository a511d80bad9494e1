"""Control database of the active data folder, and static files."""

import os
import re
import shutil

from elevata.bootstrap.console import run
from elevata.bootstrap.environment import RUNTIME
from elevata.bootstrap.places import PYTHON, ROOT, SETTINGS, STATIC_ROOT, STORAGE
from elevata.bootstrap.stamps import digest, once
from elevata.core import data_folder
from elevata.core.installation import CODE_DIR, PACKAGES

SQLITE = "control.sqlite3"


def database() -> str:
    """Migrate the control database.

    The stamp is in the data folder with the database. On a database server, migrations are checked every time, because
    the server may be another one.
    """
    if os.environ.get("DATABASE_URL"):
        return _migrate()
    packages = [CODE_DIR / name for name in PACKAGES]
    migrations = sorted(path for package in packages for path in package.glob("**/migrations/*.py"))
    folder = data_folder.data_dir()
    return once(
        ".migrated",
        digest(*migrations, RUNTIME, SETTINGS),
        _migrate,
        results=[folder / SQLITE],
        folder=folder,
    )


def _migrate() -> str:
    _manage("migrate", "--noinput", failure="the control database could not be brought up to date")
    return "migrated"


def static_files() -> str:
    """Collect the static files for the web server."""
    files = sorted(path for path in (ROOT / "static").rglob("*") if path.is_file())
    files += sorted(path for path in ROOT.glob("*/static/**/*") if path.is_file())
    versions = [(path.relative_to(ROOT), path.stat().st_mtime_ns, path.stat().st_size) for path in files]
    return once("static", digest(*versions, RUNTIME, SETTINGS, STORAGE), _collect, results=[STATIC_ROOT])


def _collect() -> str:
    try:
        output = _manage("collectstatic", "--noinput", "--clear", failure="static files could not be collected")
    except BaseException:
        shutil.rmtree(STATIC_ROOT, ignore_errors=True)
        raise
    count = re.search(r"\d+ static files?", output)
    return f"{count[0] if count else 'static files'} collected"


def _manage(*arguments: str, failure: str) -> str:
    return run([PYTHON, "manage.py", *arguments], failure=failure)
