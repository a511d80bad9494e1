"""Control database of a release, for the upgrade test: ``python -m tests.upgrade.release_database`` writes it.

It is written only once, when the version is set: ``<version>.sql`` is the database, with rows of every app, and
``<version>.json`` has the digests of its migrations. Later releases migrate it.
"""

import hashlib
import json
import os
import sqlite3
import sys
import tempfile
from pathlib import Path

from elevata.core.installation import PACKAGES, version

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent
# Key that seals the change log of these databases only.
AUDIT_KEY = "only-for-databases-of-the-upgrade-test"
PASSWORD = "only-for-the-upgrade-test"
USER = "ada"
SECRET = "ELEVATA_WEBHOOK_SECRET_CHAT"


def migrations() -> dict[str, str]:
    """Return the SHA-256 of every migration of the product by path."""
    paths = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("migrations/0*.py"))
    return {str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of a process with its data in ``folder``."""
    outside = ("DATABASE_URL", "CELERY_BROKER_URL")
    inherited = {
        name: value for name, value in os.environ.items() if name not in outside and not name.startswith("ELEVATA_")
    }
    return inherited | {
        "DJANGO_SETTINGS_MODULE": "elevata.settings",
        "ELEVATA_DATA_DIR": str(folder),
        "ELEVATA_AUDIT_KEY": AUDIT_KEY,
        "ELEVATA_WAREHOUSE": "/srv/elevata/warehouse",
    }


def write(name: str) -> None:
    """Write database and digests of this checkout. Raise FileExistsError if the release has them."""
    target = FOLDER / f"{name}.sql"
    if target.exists():
        raise FileExistsError(f"{target} exists: the database of a release never changes")
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= environment(Path(folder))
        for variable in ("DATABASE_URL", "CELERY_BROKER_URL"):
            os.environ.pop(variable, None)
        _fill()
        connection = sqlite3.connect(Path(folder) / "control.sqlite3")
        target.write_text("\n".join(connection.iterdump()) + "\n", encoding="utf-8")
        connection.close()
    (FOLDER / f"{name}.json").write_text(json.dumps(migrations(), indent=1) + "\n", encoding="utf-8")


def _fill() -> None:
    """Migrate an empty database and create rows of every app by the services."""
    import django

    django.setup()
    from django.core.management import call_command

    from architecture.services.environments import current_environment
    from elevata.accounts.actors import acting_as
    from elevata.accounts.roles import Role
    from elevata.accounts.services.tokens import create_token
    from elevata.accounts.services.users import ensure_user
    from elevata.audit.services import chain
    from elevata.comments.services import create_comment
    from elevata.lists.services import save_filter, set_favourite
    from elevata.notifications.services import create_webhook
    from loader.schedules.services import create_schedule
    from loader.services.loads.load_runs import request_load_run
    from metadata.models import TargetColumn
    from metadata.services.exchange.metadata_files import import_metadata
    from metadata.services.lifecycle import rename_column
    from tests.architecture.world import Warehouse, World, customers_built

    call_command("migrate", interactive=False, verbosity=0)
    roles = {USER: Role.ADMIN, "ed": Role.EDITOR, "bob": Role.APPROVER, "olga": Role.OPERATOR}
    users = {
        name: ensure_user(name=name, roles=[role], password=PASSWORD, temporary=False) for name, role in roles.items()
    }
    world = customers_built(World(users["ed"], users["bob"], users["olga"], Warehouse(current_environment())))
    column = TargetColumn.objects.get(name="full_name", dataset__name="rc_crm_customer")
    with acting_as(world.author):
        rename_column(column=column, name="display_name", expected_version=column.version)
    report = world.report()
    admin = users[USER]
    with acting_as(admin):
        import_metadata(ROOT / "examples" / "airports")
        create_token(user=admin, name="laptop")
        create_comment(subject_kind="report", subject_key=report.report_id, text="Is this the amount in euros?")
        save_filter(owner=admin, route="dataset_list", name="raw", query="layer=raw")
        set_favourite(user=admin, subject_kind="report", subject_key=report.report_id)
        create_webhook(name="chat", url="https://8.8.8.8/hook", events=["load.failed"], secret=SECRET)
        create_schedule(name="Every night", cron="30 3 * * *", time_zone="Europe/Berlin", active=False)
        request_load_run(run_id="first-load", user=admin)
    chain.seal()


if __name__ == "__main__":
    write(sys.argv[1] if len(sys.argv) > 1 else version())
