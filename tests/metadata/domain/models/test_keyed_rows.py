"""Tests of SELECTs whose rows can be computed by the changed keys of one input, and of SELECTs that cannot."""

import pytest

from metadata.domain.models import ReadColumn
from metadata.domain.models.increment import IncrementProblem
from metadata.domain.models.keyed_rows import check_keyed_rows

EMPLOYEES = [
    ReadColumn("id", "bigint", False),
    ReadColumn("name", "string", False),
    ReadColumn("manager_id", "bigint", True),
    ReadColumn("salary", "decimal(10,2)", True),
]
DATASETS = {
    "rawcore.employee": EMPLOYEES,
    "rawcore.office": [ReadColumn("id", "bigint", False), ReadColumn("city", "string", False)],
    "rawcore.employee_hist": EMPLOYEES,
    "versions(rawcore.employee_hist)": EMPLOYEES + [ReadColumn("__valid_from", "timestamp", False)],
}


def check(select: str, input_: str = "rawcore.employee", **columns: str) -> None:
    check_keyed_rows(select, DATASETS, input_, columns or {"id": "id"})


@pytest.mark.parametrize(
    "select",
    [
        "SELECT id, name FROM rawcore.employee WHERE salary > 1",
        "SELECT DISTINCT id FROM rawcore.employee ORDER BY id",
        "SELECT id, count(*) AS n FROM rawcore.employee GROUP BY id, name HAVING count(*) > 1",
        "SELECT id, count(*) AS n FROM rawcore.employee GROUP BY 1",
        "SELECT id, sum(salary) OVER (PARTITION BY name, id) AS s FROM rawcore.employee",
        "SELECT id, sum(salary) OVER w AS s FROM rawcore.employee WINDOW w AS (PARTITION BY id)",
        "SELECT e.id, o.city FROM rawcore.employee e LEFT JOIN rawcore.office o ON o.id = e.id",
        "SELECT e.id, o.city FROM rawcore.office o RIGHT JOIN rawcore.employee e ON o.id = e.id",
        "SELECT id FROM rawcore.employee WHERE id IN (SELECT id FROM rawcore.office ORDER BY city LIMIT 3)",
        "SELECT e.id, o.n FROM rawcore.employee e CROSS JOIN (SELECT count(*) AS n FROM rawcore.office) o",
        "WITH a AS (SELECT * FROM rawcore.employee), b AS (SELECT id, max(name) AS m FROM a GROUP BY id) "
        "SELECT id, m FROM b",
    ],
)
def test_select_whose_rows_depend_on_one_key_is_accepted(select):
    check(select)


def test_the_key_may_have_another_name_in_the_model():
    check("SELECT manager_id AS boss, count(*) AS team FROM rawcore.employee GROUP BY manager_id", manager_id="boss")


def test_history_read_by_a_helper_is_accepted():
    check("SELECT v.id, v.__valid_from FROM versions(rawcore.employee_hist) AS v", "rawcore.employee_hist")


@pytest.mark.parametrize(
    ("select", "message"),
    [
        (
            "SELECT e.id, m.name FROM rawcore.employee e LEFT JOIN rawcore.employee m ON m.id = e.manager_id",
            "more than once",
        ),
        (
            "WITH e AS (SELECT * FROM rawcore.employee) SELECT e.id, m.name FROM e JOIN e AS m ON m.id = e.manager_id",
            "more than once",
        ),
        ("SELECT id FROM rawcore.employee WHERE salary > (SELECT avg(salary) FROM rawcore.employee)", "more than once"),
        ("SELECT id + 1 AS id FROM rawcore.employee", "must be id of rawcore.employee unchanged"),
        ("SELECT id FROM rawcore.employee UNION ALL SELECT id FROM rawcore.office", "unchanged"),
        ("SELECT o.id FROM rawcore.office o JOIN rawcore.employee e ON e.id = o.id", "unchanged"),
        ("SELECT o.id FROM rawcore.office o LEFT ANTI JOIN rawcore.employee e ON e.id = o.id", "unchanged"),
        ("SELECT e.id, o.city FROM rawcore.office o LEFT JOIN rawcore.employee e ON e.id = o.id", "outer join"),
        ("SELECT e.id, o.city FROM rawcore.employee e RIGHT JOIN rawcore.office o ON e.id = o.id", "outer join"),
        ("SELECT e.id, o.city FROM rawcore.employee e FULL JOIN rawcore.office o ON e.id = o.id", "outer join"),
        ("SELECT max(id) AS id, name FROM rawcore.employee GROUP BY name", "unchanged"),
        ("SELECT id, count(*) AS n FROM rawcore.employee GROUP BY ROLLUP (id)", "aggregate rows of all keys"),
        ("SELECT id, rank() OVER (ORDER BY salary) AS r FROM rawcore.employee", "PARTITION BY needs id"),
        ("SELECT id, salary / sum(salary) OVER () AS share FROM rawcore.employee", "PARTITION BY needs id"),
        (
            "SELECT id, rank() OVER w AS r FROM rawcore.employee WINDOW w AS (PARTITION BY name ORDER BY salary)",
            "PARTITION BY needs id",
        ),
        (
            "SELECT id FROM (SELECT id, row_number() OVER (ORDER BY salary) AS n FROM rawcore.employee) e WHERE n < 9",
            "PARTITION BY needs id",
        ),
        ("SELECT id FROM rawcore.employee ORDER BY salary LIMIT 10", "LIMIT"),
        ("SELECT id FROM (SELECT id FROM rawcore.employee ORDER BY salary LIMIT 10) e", "LIMIT"),
    ],
)
def test_select_whose_rows_depend_on_other_keys_is_refused(select, message):
    with pytest.raises(IncrementProblem, match=message):
        check(select)
