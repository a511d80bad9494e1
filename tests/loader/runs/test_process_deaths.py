"""Executions whose runner or worker is killed between any two steps, on the real engine, end correctly."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.conf import settings

from architecture.domain.steps.step import ADD_COLUMN, CREATE_TABLE, REBUILD_TABLE, WITHOUT_TRACE
from tests.loader.installation import ITEM, SHOP, Installation, make_installation, working
from tests.loader.processes import environment

# Embedded stores, even if the session uses servers: each test has a data folder of its own.
pytestmark = pytest.mark.spark

WORKER = Path(__file__).with_name("dying_worker.py")
STEPS = 12
BEFORE = (
    SHOP.replace("{name: colour, type: string}", "{name: since, type: date}\n        - {name: shade, type: string}")
    + """
    - name: badge
      location: badge.csv
      columns:
        - {name: id, type: integer, business_key: 1}
"""
)
AFTER = (
    BEFORE.replace("{name: price, type: integer}", "{name: price, type: bigint}").replace(
        "{name: since, type: date}", "{name: since, type: date}\n        - {name: note, type: string}"
    )
    + """
    - name: member
      location: member.csv
      columns:
        - {name: id, type: integer, business_key: 1}
        - {name: label, type: string}
"""
)
ITEMS = ("id,name,price,since,shade", "1,Anvil,100,2024-01-31,dark", "2,Bell,7,,", "3,,12,1999-12-31,")
ROWS = {
    ("1", "Anvil", "100", "2024-01-31 00:00:00", None),
    ("2", "Bell", "7", None, None),
    ("3", None, "12", "1999-12-31 00:00:00", None),
}
RETIRED = {"retired_at": "2026-01-01T00:00:00Z", "retired_by": "person"}
COLUMNS = ("id", "label", "price", "since", "note")

REQUEST = """
from architecture.selectors.reports import report_named
from architecture.services.executions import request_execution
from elevata.accounts.services.users import user_named
asked = request_execution(report=report_named("{fingerprint}"), user=user_named("aron"), command="a test")
print(asked.execution.pk)
"""


@dataclass(frozen=True)
class Death:
    """Process to kill after a step; ``told`` is true if the worker received the step's event."""

    step: int
    who: str
    told: bool


def deaths_at_every_step(who: str, after: bool) -> list[Death]:
    return [Death(step, who, after) for step in range(STEPS)]


@pytest.mark.nightly
@pytest.mark.takes(seconds=60)
@pytest.mark.parametrize(
    "deaths",
    [
        # At night, runner and worker die after each step. By day, deaths of a runner are tested without a worker
        # (tests/loader/engine/tables/test_steps.py) and without Spark (tests/loader/services/loads/test_load_work.py).
        pytest.param([Death(7, "worker", False)], id="at-a-boundary"),
        *(
            pytest.param(
                deaths_at_every_step(who, after), id=f"{who}-{'after' if after else 'before'}-it-is-told", marks=nightly
            )
            for nightly in [pytest.mark.nightly]
            for who in ("runner", "worker")
            for after in (True, False)
        ),
    ],
)
def test_execution_killed_between_steps_completes_if_repeated(tmp_path: Path, deaths: list[Death]):
    shop = make_installation(tmp_path / "data", BEFORE)
    shop.deliver(item=ITEMS, badge=("id", "1"))
    execution = queued(shop)
    for death in deaths:
        died = attempt(shop, execution, death)
        assert died is (death.who == "worker")
        finished = succeeded_steps(shop, execution)
        before = commits(shop, execution)
        assert set(range(death.step)) <= finished <= set(range(death.step + 1))
        assert {step for step, count in before.items() if count} >= finished
    assert attempt(shop, execution, None) is False

    assert {"retire_column", "retire_table"} <= succeeded_without_statement(shop, execution)
    rows = steps_of(shop, execution)
    assert {status for _, _, status, _ in rows} == {"succeeded"}
    expected = {ordinal: commits_of(op, statement) for ordinal, op, _, statement in rows}
    assert commits(shop, execution) == Counter({ordinal: count for ordinal, count in expected.items() if count})
    check_changed(shop)


def check_changed(shop: Installation) -> None:
    """Check that the change is executed as a whole, with its rows and its record."""
    with working(shop):
        assert shop.json("plan", by="edda")["status"] == "no_changes"
        assert set(shop.rows(ITEM, *COLUMNS)) == set(shop.rows(f"{ITEM}_hist", *COLUMNS)) == ROWS
    (record,) = [entry for entry in shop.json("records")["records"] if entry["requested_by"] == "aron"]
    assert (record["outcome"], record["findings"]) == ("succeeded", [])


def queued(shop: Installation) -> int:
    """Create a load and an approved, previewed and requested change of many steps; return the execution's id."""
    return int(shop.shell(REQUEST.format(fingerprint=previewed(shop))))


def previewed(shop: Installation) -> str:
    """Create a load and an approved, previewed change of many steps; return the report's fingerprint."""
    with working(shop):
        shop.json("load", "--at", "2024-01-01")
        shop.import_text(AFTER, by="edda")
        shop.edit_columns("stage.stg_shop_item", by="edda", price={"type": "bigint"}, since={"type": "timestamp"})
        shop.edit_columns(
            ITEM,
            by="edda",
            price={"type": "bigint"},
            since={"type": "timestamp"},
            name={"name": "label"},
            shade=RETIRED,
        )
        shop.edit_columns("rawcore.rc_shop_badge", by="edda", facts=RETIRED)
        fingerprint = shop.json("plan", by="edda")["fingerprint"]
        shop.json("approve", fingerprint, by="aron")
        assert len(shop.json("preview", fingerprint, by="aron")["steps"]) == STEPS
    return fingerprint


def attempt(shop: Installation, execution: int, death: Death | None) -> bool:
    """Run one worker's attempt to its end or to a kill; return True if the worker died."""
    death_file = shop.folder / "death.json"
    if death is not None:
        due = {"event": "step_finished", "fields": {"ordinal": death.step}, "who": death.who, "told": death.told}
        death_file.write_text(json.dumps(due))
    done = subprocess.run(
        [sys.executable, str(WORKER), str(execution)],
        cwd=settings.BASE_DIR,
        env=environment(shop.folder) | {"ELEVATA_TEST_DEATH": str(death_file)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert not death_file.exists(), done.stderr
    if done.returncode >= 0:
        status = done.stdout.strip()
        assert status == ("failed" if death else "succeeded"), done.stderr
    return done.returncode < 0


def steps_of(shop: Installation, execution: int) -> list[tuple[int, str, str, str]]:
    """Return ordinal, kind, status and statement of every row with a statement."""
    rows = shop.shell(
        "import json; from architecture.models import ExecutionOperation as Row\n"
        f"rows = Row.objects.filter(execution={execution}).exclude(statement='').order_by('ordinal')\n"
        "print(json.dumps(list(rows.values_list('ordinal', 'op', 'status', 'statement'))))"
    )
    return [tuple(row) for row in json.loads(rows)]


def succeeded_without_statement(shop: Installation, execution: int) -> set[str]:
    """Return the kinds of executed operations that change no table."""
    rows = shop.shell(
        "import json; from architecture.models import ExecutionOperation as Row\n"
        f"rows = Row.objects.filter(execution={execution}, statement='', status='succeeded')\n"
        "print(json.dumps(list(rows.values_list('op', flat=True))))"
    )
    return set(json.loads(rows))


def succeeded_steps(shop: Installation, execution: int) -> set[int]:
    return {ordinal for ordinal, _, status, _ in steps_of(shop, execution) if status == "succeeded"}


def commits(shop: Installation, execution: int) -> Counter:
    """Return the number of Delta commits of each step of the execution, over all tables."""
    all_signatures = (signature for signatures in shop.commits().values() for signature in signatures)
    return Counter(signature["step"] for signature in all_signatures if signature["execution"] == str(execution))


def commits_of(op: str, statement: str) -> int:
    """Return the number of commits of an undisturbed step.

    They are its own, one for the keys of new columns, and one that switches on a table feature which it needs first.
    A view has no log.
    """
    if op in WITHOUT_TRACE or statement.startswith("CREATE OR REPLACE VIEW"):
        return 0
    switches_on = op != CREATE_TABLE and any(feature in statement for feature in ("columnMapping", "TypeWidening"))
    return 1 + (op in (CREATE_TABLE, ADD_COLUMN, REBUILD_TABLE)) + switches_on
