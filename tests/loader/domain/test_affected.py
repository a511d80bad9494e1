"""Datasets, queries and schedules affected by a change, and the messages to their owners, without a database."""

from loader.domain.affected import Affected, by_owner, matched, message_for, tables_of_query, tables_of_scope
from metadata.domain.scope import Scope

NAMES = ("mart.delay", "raw.r_flight", "rawcore.rc_flight")


def test_query_is_affected_by_the_tables_that_it_reads():
    assert tables_of_query("SELECT * FROM mart.Delay d JOIN `rawcore`.`rc_flight` f ON true", NAMES) == (
        "mart.delay",
        "rawcore.rc_flight",
    )
    assert tables_of_query("SELECT 'mart.delay' AS delay FROM x.y", NAMES) == ()


def test_unparsable_query_is_affected_by_no_table():
    assert tables_of_query("SELECT delay FROM (", NAMES) == ()


def test_schedule_is_affected_by_the_datasets_of_its_scope():
    assert tables_of_scope(Scope(), NAMES) == NAMES
    assert tables_of_scope(Scope("schema", "mart"), NAMES) == ("mart.delay",)
    assert tables_of_scope(Scope("dataset", "mart.delays"), NAMES) == ()
    assert tables_of_scope(Scope("selection", "tag:x"), NAMES, {"mart.delay", "a.b"}) == ("mart.delay",)


BOARD = Affected("exposure", "Board", "Operations", ("mart.delay",))
QUERY = Affected("saved query", "Late", "ada", ("mart.delay",))
OWNED = Affected("owner", "ada", "ada", ("mart.delay", "raw.r_flight"))


def test_each_owner_gets_a_message_about_their_affected_objects():
    groups = by_owner([BOARD, QUERY, OWNED, Affected("contract", "mart.delay", "", ("mart.delay",))])
    assert groups == {"Operations": (BOARD,), "ada": (QUERY, OWNED)}
    message = message_for("mart.delay", groups["ada"], "from Monday on")
    assert message == "mart.delay affects saved query Late, mart.delay, raw.r_flight: from Monday on"


def test_long_list_of_affected_objects_is_cut():
    many = [Affected("exposure", f"b{number}", "ada", ("a.b",)) for number in range(8)]
    assert message_for("a.b", many).endswith("exposure b4 and 3 more")


def test_owner_is_matched_by_user_name_full_name_or_address():
    accounts = {"ada": "ada", "ada lovelace": "ada", "ada@example.org": "ada"}
    assert matched([" Ada Lovelace", "ADA@example.org", "Operations"], accounts) == {
        " Ada Lovelace": "ada",
        "ADA@example.org": "ada",
    }
