"""Combinations of history-policy choices: small histories whose result follows from the history rules.

Each case names its rules; ``tests/loader/reference/cases`` has the cases of single rules. Times are days of
January 2024, in feeds plain numbers; a batch is dated by its day.
"""

import json
from itertools import permutations

import pytest

from loader.domain.reference import ReferenceEngine, violations
from loader.domain.reference.cases import parse_cases, run_case

SNAPSHOT = {"input": "snapshot"}
DATED = {"input": "snapshot", "time": "t"}
EFFECTIVE = {"input": "effective", "time": "t"}
WHOLE = EFFECTIVE | {"absent_keys": "deleted"}
FEED = {"input": "cdc", "time": "t", "op": "op"}
TRACKED, KEEP = {"track": ["a"]}, {"track": ["a"], "untracked": "keep"}
NULL, SAME = "<null>", "<same>"
FILES = {"input": "batch_files", "time": "_fivetran_start", "null_string": NULL, "unmodified_string": SAME}

AB = {"id": "integer", "a": "string", "b": "string"}
A = {"id": "integer", "a": "string"}
OPEN = "9999-12-31T23:59:59.999Z"


def day(n):
    return n if n is None or isinstance(n, str) else f"2024-01-{n:02d}T00:00:00Z"


def rows(names, *tuples):
    return [dict(zip(names, row, strict=True)) for row in tuples]


def batch(n, rows=(), **more):
    return {"at": day(n), "run_id": f"run-{n}", "rows": list(rows)} | more


def undated(*tuples):
    return rows(("id", "a", "b"), *tuples)


def dated(*tuples):
    return rows(("id", "a", "b", "t"), *((*row[:3], day(row[3])) for row in tuples))


def feed(*tuples):
    return rows(("id", "a", "op", "t"), *tuples)


def versions(*tuples, names=("id", "a", "b"), dates=day):
    period_columns = ("valid_from", "valid_to", "state")
    dated_tuples = ((*row[:-3], dates(row[-3]), dates(row[-2]), row[-1]) for row in tuples)
    return rows((*names, *period_columns), *dated_tuples)


def of_feed(*tuples):
    return versions(*tuples, names=("id", "a"), dates=lambda n: n)


def upsert(*tuples):
    """Return ``id, a, b, start, end`` of batch-file rows, in days; without an end a row is open."""
    return [
        {
            "id": row[0],
            "a": row[1],
            "b": row[2],
            "_fivetran_start": day(row[3]),
            "_fivetran_end": row[4] or OPEN,
            "_fivetran_active": row[4] is None,
        }
        for row in tuples
    ]


def file_versions(*tuples):
    named = rows(("id", "a", "b", "valid_from", "valid_to", "active"), *((*row, row[4] is None) for row in tuples))
    return [row | {"valid_from": day(row["valid_from"]), "valid_to": row["valid_to"] or OPEN} for row in named]


def before(n):
    """Return the millisecond before a day."""
    return f"2024-01-{n - 1:02d}T23:59:59.999Z"


CASES = {
    "1: an untracked column makes rows of a key differ": (
        SNAPSHOT | TRACKED,
        AB,
        [
            batch(1, undated((1, "x", "p"))),
            batch(2, undated((1, "x", "p"), (1, "x", "q")), error="differ"),
            batch(3, undated((1, "x", "q"), (1, "x", "q"))),
        ],
        versions((1, "x", "q", 1, None, "new")),
    ),
    "1: of a delta, too, where untracked ones are kept": (
        {"input": "delta"} | KEEP,
        AB,
        [
            batch(1, undated((1, "x", "p"))),
            batch(2, undated((1, "y", "p"), (1, "y", "q")), error="differ"),
            batch(3, undated((1, "y", "q"))),
        ],
        versions((1, "x", "p", 1, 3, "changed"), (1, "y", "q", 3, None, "changed")),
    ),
    "1, 5: what lies outside the columns makes no difference": (
        SNAPSHOT,
        AB,
        [batch(1, undated((1, "x", "p"), (1, "x", "q")), columns=A)],
        versions((1, "x", None, 1, None, "new")),
    ),
    "2, 3: a rerun is no newer run, whenever it is dated": (
        SNAPSHOT,
        AB,
        [
            batch(1, undated((1, "x", "p"))),
            batch(9, undated((1, "z", "p"))) | {"run_id": "run-1"},
            batch(3, undated((1, "y", "p"))),
        ],
        versions((1, "x", "p", 1, 3, "changed"), (1, "y", "p", 3, None, "changed")),
    ),
    "2, 3: a refused run dates nothing, and its id is free": (
        SNAPSHOT,
        AB,
        [
            batch(1, undated((1, "x", "p"))),
            batch(9, undated((None, "x", "p")), error="no key"),
            batch(5, undated((1, "y", "p"))) | {"run_id": "run-9"},
        ],
        versions((1, "x", "p", 1, 5, "changed"), (1, "y", "p", 5, None, "changed")),
    ),
    "3: an empty delta is a run like any other": (
        {"input": "delta"},
        AB,
        [
            batch(1, undated((1, "x", "p"))),
            batch(5),
            batch(4, undated((1, "y", "p")), error="not later"),
            batch(6, undated((1, "y", "p"))),
        ],
        versions((1, "x", "p", 1, 6, "changed"), (1, "y", "p", 6, None, "changed")),
    ),
    "4, 15: open tombstones are nothing that an empty snapshot closes": (
        SNAPSHOT | {"deletes": "tombstone"},
        AB,
        [
            batch(1, undated((1, "x", "p"))),
            batch(2, error="empty"),
            batch(3, allow_empty=True),
            batch(4),
            batch(5, undated((1, "x", "p"))),
        ],
        versions((1, "x", "p", 1, 3, "live"), (1, "x", "p", 3, 5, "deleted"), (1, "x", "p", 5, None, "live")),
    ),
    "8, 9, 13, 15: gone, back with an old time, then another untracked value": (
        WHOLE | TRACKED | {"deletes": "tombstone"},
        AB | {"t": "timestamp"},
        [
            batch(5, dated((1, "x", "p", 1), (2, "k", "k", 1))),
            batch(8, dated((2, "k", "k", 1))),
            batch(9, dated((1, "x", "q", 3), (2, "k", "k", 1))),
            batch(10, dated((1, "x", "r", 10), (2, "k", "l", 4))),
        ],
        versions(
            (1, "x", "p", 1, 8, "live"),
            (1, "x", "p", 8, 9, "deleted"),
            (1, "x", "r", 9, None, "live"),
            (2, "k", "l", 1, None, "live"),
        ),
    ),
    "9, 10: a key whose late row is ignored is not absent": (
        DATED | {"late": "ignore"},
        AB | {"t": "timestamp"},
        [batch(5, dated((1, "x", "p", 4))), batch(6, dated((1, "y", "p", 2)))],
        versions((1, "x", "p", 4, None, "new")),
    ),
    "10: one late row refuses what came with it": (
        EFFECTIVE | {"late": "refuse"},
        AB | {"t": "timestamp"},
        [
            batch(5, dated((1, "x", "p", 4))),
            batch(6, dated((2, "n", "p", 1), (1, "y", "p", 3)), error="late"),
            batch(7, dated((1, "y", "p", 4)), error="a correction is late"),
            batch(8, dated((1, "x", "p", 5), (2, "n", "p", 1))),
            batch(9, dated((1, "z", "p", 5)), error="what changed nothing is known, too"),
        ],
        versions((1, "x", "p", 4, None, "new"), (2, "n", "p", 1, None, "new")),
    ),
    "10, 11: a delete of a key not seen is the newest that is known of it": (
        FEED | {"late": "refuse"},
        A | {"t": "bigint"},
        [
            batch(1, feed((1, None, "D", 5))),
            batch(2, feed((1, "x", "I", 3)), error="late"),
            batch(3, feed((1, "x", "I", 6))),
        ],
        of_feed((1, "x", 6, None, "new")),
    ),
    "10: a correction that makes three versions one": (
        EFFECTIVE,
        AB | {"t": "timestamp"},
        [
            batch(5, dated((1, "x", "p", 1), (1, "y", "p", 3), (1, "x", "p", 5))),
            batch(6, dated((1, "x", "p", 3))),
        ],
        versions((1, "x", "p", 1, None, "new")),
    ),
    "10, 13: a late tracked row takes a later untracked value along": (
        EFFECTIVE | TRACKED,
        AB | {"t": "timestamp"},
        [batch(7, dated((1, "x", "p", 1))), batch(8, dated((1, "x", "q", 6))), batch(9, dated((1, "y", "z", 4)))],
        versions((1, "x", "p", 1, 4, "changed"), (1, "y", "z", 4, 6, "changed"), (1, "x", "q", 6, None, "changed")),
    ),
    "11, 16: a column retired while late rows come": (
        EFFECTIVE,
        AB | {"t": "timestamp"},
        [
            batch(9, dated((1, "x", "p", 1), (1, "x", "q", 5)), columns=AB | {"t": "timestamp"}),
            batch(10, dated((1, "x", "no", 3), (1, "x", "no", 7)), columns=A | {"t": "timestamp"}),
            batch(11, dated((1, "z", "no", 4))),
        ],
        versions((1, "x", "p", 1, 4, "changed"), (1, "z", None, 4, 5, "changed"), (1, "x", "q", 5, None, "changed")),
    ),
    "13, 15: a tombstone holds what was last written in place": (
        SNAPSHOT | TRACKED | {"deletes": "tombstone"},
        AB,
        [batch(1, undated((1, "x", "p"))), batch(2, undated((1, "x", None))), batch(3, allow_empty=True)],
        versions((1, "x", None, 1, 3, "live"), (1, "x", None, 3, None, "deleted")),
    ),
    "16: of a delta, open versions keep a dropped column until it is back": (
        {"input": "delta"},
        AB,
        [
            batch(1, undated((1, "x", "p"), (2, "x", "p")), columns=AB),
            batch(2, undated((2, "z", "no")), columns=A),
            batch(3, undated((1, "x", "p"), (2, "z", None)), columns=AB),
        ],
        versions((1, "x", "p", 1, None, "new"), (2, "x", "p", 1, 2, "changed"), (2, "z", None, 2, None, "changed")),
    ),
    "17: a refused batch leaves the columns as they were, a widened one too": (
        SNAPSHOT,
        A | {"b": "decimal(12,2)"},
        [
            batch(1, undated((1, "x", 5)), columns=A | {"b": "integer"}),
            batch(2, undated((None, "x", 5.5)), columns=A | {"b": "float"}, error="no key"),
            batch(3, undated((1, "x", "5.00")), columns=A | {"b": "decimal(12,2)"}),
        ],
        versions((1, "x", "5", 1, None, "new")),
    ),
    "17: the time column widens while late rows come": (
        EFFECTIVE,
        AB | {"t": "timestamp"},
        [
            batch(5, dated((1, "x", "p", "2024-01-01"), (1, "y", "p", "2024-01-03")), columns=AB | {"t": "date"}),
            batch(6, dated((1, "z", "p", "2024-01-02T06:00:00Z")), columns=AB | {"t": "timestamp"}),
            batch(7, dated((1, "Y", "p", 3))),
        ],
        versions(
            (1, "x", "p", 1, "2024-01-02T06:00:00Z", "changed"),
            (1, "z", "p", "2024-01-02T06:00:00Z", 3, "changed"),
            (1, "Y", "p", 3, None, "changed"),
        ),
    ),
    "18, 19, 20: the four files of one batch, in their order": (
        FILES,
        AB,
        [
            {"at": day(1), "run_id": "1", "upsert": upsert((1, "x", "p", 1, None), (2, "k", "k", 1, None))},
            {
                "at": day(2),
                "run_id": "2",
                "delete": [{"id": 1, "_fivetran_end": day(7)}, {"id": 2, "_fivetran_end": day(3)}],
                "update": upsert((1, SAME, "q", 5, None)),
                "upsert": upsert((1, "u", "r", 4, before(5))),
                "earliest_start": [{"id": 1, "_fivetran_start": day(4)}],
            },
        ],
        file_versions(
            (1, "x", "p", 1, before(4)), (1, "u", "r", 4, before(5)), (1, "u", "q", 5, day(7)), (2, "k", "k", 1, day(3))
        ),
    ),
    "18, 19: rewound to before everything, the last active version is still known": (
        FILES,
        AB,
        [
            {"at": day(1), "run_id": "1", "upsert": upsert((1, "x", "p", 5, before(7)), (1, "y", NULL, 7, None))},
            {
                "at": day(2),
                "run_id": "2",
                "earliest_start": [{"id": 1, "_fivetran_start": day(3)}],
                "update": upsert((1, "z", SAME, 3, None)),
            },
        ],
        file_versions((1, "z", None, 3, None)),
    ),
    "16, 19: no value of a dropped column is taken over": (
        FILES,
        AB,
        [
            {"at": day(1), "run_id": "1", "upsert": upsert((1, "x", "p", 1, None)), "columns": AB},
            {"at": day(2), "run_id": "2", "update": upsert((1, SAME, "no", 2, None)), "columns": A},
        ],
        file_versions((1, "x", "p", 1, before(2)), (1, "x", None, 2, None)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_combined_policy_choices_give_the_expected_history(name):
    policy, columns, batches, expected = CASES[name]
    if policy["input"] == "batch_files":
        batches = [{key: value for key, value in content.items() if key != "rows"} for content in batches]
    described = {"id": name, "keys": ["id"], "columns": columns, "policy": policy, "batches": batches}
    [case] = parse_cases(json.dumps([described | {"expected": expected}]))
    engines = []
    outcome = run_case(case, lambda header: engines.append(ReferenceEngine(header)) or engines[0])
    assert outcome.message == ""
    assert violations(engines[0].rows(), case.policy, case.keys) == []


EVENTS = feed((1, "x", "I", 2), (1, "x", "U", 4), (1, None, "D", 6), (1, None, "D", 8), (1, "x", "I", 7))
ENDS = {
    "close": of_feed((1, "x", 2, 6, "deleted"), (1, "x", 7, 8, "deleted")),
    "ignore": of_feed((1, "x", 2, None, "new")),
    "tombstone": of_feed(
        (1, "x", 2, 6, "live"), (1, "x", 6, 7, "deleted"), (1, "x", 7, 8, "live"), (1, "x", 8, None, "deleted")
    ),
}


@pytest.mark.parametrize("deletes", ENDS)
def test_feed_events_give_the_same_history_in_every_order_of_arrival(deletes):
    columns = {"id": "integer", "a": "string", "t": "bigint"}
    expected = sorted(map(str, ENDS[deletes]))
    for order in permutations(EVENTS):
        table = ReferenceEngine({"keys": ["id"], "columns": columns, "policy": FEED | {"deletes": deletes}})
        for n, event in enumerate(order, 1):
            table.apply(batch(n, [event]))
        assert sorted(str({name: row[name] for name in ENDS[deletes][0]}) for row in table.rows()) == expected
