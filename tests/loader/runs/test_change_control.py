"""Change control on the real engine, used by two users on the command line."""

import json
from pathlib import Path

import pytest

from tests.loader.installation import ITEM, SHOP, Installation, make_installation, working

# Embedded stores, even if the session uses servers: each test has a data folder of its own.
pytestmark = pytest.mark.spark

CHANGED = (
    SHOP.replace("{name: price, type: integer}", "{name: price, type: bigint}").replace(
        "{name: colour, type: string}", "{name: colour, type: string, active: false}"
    )
    + """
    - name: member
      location: member.csv
      columns:
        - {name: id, type: integer, business_key: 1}
        - {name: label, type: string}
"""
)
ONE_APPROVAL = {"approvals": {"safe": {"count": 1, "role": "approver"}}}
DROPS_ALLOWED = {"severities": {"DROP_COLUMN": "needs_approval"}}


@pytest.fixture
def shop(tmp_path: Path):
    """Yield a loaded shop with a worker, where another user must approve every change."""
    installation = make_installation(tmp_path / "data")
    with working(installation):
        installation.json("load", "--at", "2024-01-01", by="aron")
        installation.allow(**ONE_APPROVAL)
        yield installation


def refused(shop: Installation, *arguments: str, by: str = "") -> str:
    """Return the code with which a command is refused."""
    return shop.json(*arguments, by=by, code=2)["error"]["code"]


def plan_report(shop: Installation) -> dict:
    return shop.json("plan", by="edda")


def operations(report: dict) -> set[tuple]:
    """Return each operation with its dataset (without schema) and subject."""
    return {
        (
            change["op"],
            change["dataset"].partition(".")[2],
            f"{change['from']} → {change['to']}" if change["op"] == "rename_column" else change.get("column", ""),
        )
        for change in report["operations"]
    }


def approve_and_execute(shop: Installation, report: dict) -> dict:
    """Approve the report as another user, preview and execute it; return the execution."""
    fingerprint = report["fingerprint"]
    assert shop.json("approve", fingerprint, "--note", "agreed", by="aron")["status"] == "approved"
    preview = shop.json("preview", fingerprint, by="aron")
    done = shop.json("execute", fingerprint, "--preview", preview["fingerprint"], by="aron")
    assert (done["status"], done["requested_by"]) == ("succeeded", "aron")
    made, steps = [change["statement"] for change in done["operations"] if change["statement"]], len(preview["steps"])
    assert made[:steps] == [step["statement"] for step in preview["steps"]]
    # The runner's catalog showed each view with the SELECT of the preview.
    selects = {view["statement"].partition(" AS\n")[2] for view in preview["views"]}
    assert {statement.partition("\nAS ")[2] for statement in made[steps:]} == selects
    return done


def verified_record(shop: Installation, execution: dict) -> dict:
    """Return an execution's record, verified from its exported file and against the chain."""
    file = shop.folder / "record.json"
    shop.json("records", execution["record"], "--artifact", str(file))
    assert shop.json("verify_artifact", str(file))["verified"]
    shop.json("verify_audit", "--against", str(file))
    return json.loads(file.read_text())["document"]


# By day, a browser test covers this up to the record (tests/e2e/test_installation.py).
@pytest.mark.nightly
@pytest.mark.takes(seconds=50)
def test_approved_change_is_executed_and_recorded_and_a_drop_requires_the_policy(shop: Installation):
    shop.import_text(CHANGED, by="edda")
    shop.edit_columns("stage.stg_shop_item", by="edda", price={"type": "bigint"})
    shop.edit_columns(ITEM, by="edda", price={"type": "bigint"}, name={"name": "label"})

    report = plan_report(shop)
    assert (report["status"], report["destructive"]) == ("open", False)
    assert not any(change["op"] == "create_table" and "item" in change["dataset"] for change in report["operations"])
    assert operations(report) >= {
        ("rename_column", "rc_shop_item", "name → label"),
        ("rename_column", "rc_shop_item_hist", "name → label"),
        ("widen_column", "rc_shop_item", "price"),
        ("widen_column", "rc_shop_item_hist", "price"),
        ("retire_column", "rc_shop_item", "colour"),
        ("create_table", "rc_shop_member", ""),
        ("create_table", "rc_shop_member_hist", ""),
    }
    fingerprint = report["fingerprint"]
    assert shop.json("load", "--at", "2024-01-02", by="aron", code=2)["status"] == "blocked"
    assert refused(shop, "execute", fingerprint, by="aron") == "NOT_APPROVED"
    assert refused(shop, "approve", fingerprint, by="edda") == "OWN_CHANGE"
    assert refused(shop, "approve", fingerprint) == "NO_PERSON"

    execution = approve_and_execute(shop, report)
    record = verified_record(shop, execution)
    assert [(approval["person"], approval["decision"]) for approval in record["approvals"]] == [("aron", "approve")]
    assert record["report"]["fingerprint"] == fingerprint
    assert plan_report(shop)["status"] == "no_changes"
    assert refused(shop, "execute", fingerprint, by="aron") == "ALREADY_EXECUTED"

    versions = {("1", "Anvil", "100"), ("2", "Bell", "7"), ("3", None, "12")}
    assert set(shop.rows(ITEM, "id", "label", "price")) == versions
    assert set(shop.rows(f"{ITEM}_hist", "id", "label", "price")) == versions
    shop.deliver(item=("id,name,price,colour", "1,Anvil,3000000000,black", "2,Bell,7,", "3,,12,red"))
    counts = load_counts(shop, "2024-01-03")
    assert [counts[name] for name in ("new", "changed", "deleted", "versions", "open")] == [0, 1, 0, 4, 3]
    assert shop.rows("rawcore.rc_shop_member", "id", "label") == [("1", "gold"), ("2", "silver")]

    a_drop_waits_for_the_policy(shop)


def a_drop_waits_for_the_policy(shop: Installation) -> None:
    assert shop.json("delete_metadata", f"{ITEM}.colour", by="edda") == {"deleted": f"{ITEM}.colour"}
    report = plan_report(shop)
    assert (report["status"], report["destructive"]) == ("blocked", True)
    assert ("drop_column", "rc_shop_item", "colour") in operations(report)
    for command in ("approve", "preview", "execute"):
        assert refused(shop, command, report["fingerprint"], by="aron") == "REPORT_BLOCKED"

    shop.allow(**ONE_APPROVAL, **DROPS_ALLOWED)
    report = plan_report(shop)
    assert (report["status"], report["destructive"]) == ("open", True)
    execution = approve_and_execute(shop, report)
    assert verified_record(shop, execution)["outcome"] == "succeeded"
    assert plan_report(shop)["status"] == "no_changes"
    counts = load_counts(shop, "2024-01-04")
    assert [counts[name] for name in ("new", "changed", "deleted", "versions", "open")] == [0, 0, 0, 4, 3]
    assert set(shop.rows(ITEM, "id", "label", "price")) == {
        ("1", "Anvil", "3000000000"),
        ("2", "Bell", "7"),
        ("3", None, "12"),
    }


def load_counts(shop: Installation, at: str) -> dict:
    done = shop.json("load", "--at", at, by="aron")
    return next(entry["counts"] for entry in done["datasets"] if entry["dataset"] == ITEM)
