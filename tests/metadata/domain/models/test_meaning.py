"""Tests of columns added, retired or renamed upstream: names in a SELECT keep their meaning, or it is refused."""

import pytest

from metadata.domain.models import ModelProblem, ReadColumn, check_meaning, rename_in_select

EMP = ("id", "salary", "bonus", "dept_id")
DATASETS = {
    "s.emp": [ReadColumn(name, "integer", True) for name in EMP] + [ReadColumn("load_run_id", "string", False, True)],
    "s.dept": [ReadColumn(name, "integer", True) for name in ("did", "size")],
}


def with_column(dataset: str, name: str):
    return DATASETS | {dataset: [*DATASETS[dataset], ReadColumn(name, "integer", True)]}


def without_column(dataset: str, name: str):
    return DATASETS | {dataset: [column for column in DATASETS[dataset] if column.name != name]}


@pytest.mark.parametrize(
    ("text", "dataset", "name", "message"),
    [
        (
            "SELECT id, salary AS base, base + bonus AS total FROM s.emp",
            "s.emp",
            "base",
            "line 1, column 28: base is the result base and would become emp.base",
        ),
        ("SELECT salary AS base, sum(id) AS n FROM s.emp GROUP BY base", "s.emp", "base", "salary is neither grouped"),
        ("SELECT sum(bonus) AS n FROM s.emp GROUP BY id HAVING n > 1", "s.emp", "n", "n "),
        (
            "SELECT e.id FROM s.emp e WHERE EXISTS (SELECT 1 FROM s.dept d WHERE did = dept_id)",
            "s.dept",
            "dept_id",
            "dept_id is e.dept_id outside of the subquery and would become d.dept_id",
        ),
        ("SELECT id FROM s.emp WHERE id IN (SELECT did FROM s.dept WHERE salary > 1)", "s.dept", "salary", "salary is"),
        ("SELECT id, size FROM s.emp JOIN s.dept ON did = dept_id", "s.dept", "id", "id is ambiguous"),
        ("WITH c AS (SELECT * FROM s.dept) SELECT id FROM s.emp JOIN c ON did = id", "s.dept", "id", "id is ambiguous"),
        ("SELECT id, size FROM s.emp JOIN s.dept d ON d.did = dept_id", "s.dept", "bonus", ""),
        ("SELECT DISTINCT * FROM s.emp", "s.emp", "new", "would change the rows (new)"),
        ("SELECT DISTINCT e.* FROM s.emp e", "s.emp", "new", "would change the rows"),
        ("SELECT count(*) AS n FROM (SELECT DISTINCT * FROM s.emp)", "s.emp", "new", "would change the rows"),
        ("SELECT * FROM s.dept UNION SELECT id, bonus FROM s.emp", "s.dept", "new", "this has 2 columns"),
        (
            "SELECT * EXCEPT (new) FROM (SELECT *, 1 AS new FROM s.dept) EXCEPT SELECT id, bonus FROM s.emp",
            "s.dept",
            "new",
            "two columns are named new",
        ),
        ("SELECT *, salary AS s FROM s.emp ORDER BY 5", "s.emp", "new", "its places would stand for other columns"),
        ("SELECT id FROM s.emp e WHERE EXISTS (SELECT 1 FROM s.dept WHERE did = e.id)", "s.dept", "e", "e is a column"),
        ("SELECT id, count(*) AS n FROM s.emp GROUP BY ALL", "s.emp", "all", "would group by all of emp"),
    ],
)
def test_added_column_that_changes_the_meaning_of_a_select_is_refused(text, dataset, name, message) -> None:
    check_meaning(text, DATASETS, DATASETS)
    if message:
        with pytest.raises(ModelProblem) as refused:
            check_meaning(text, DATASETS, with_column(dataset, name))
        assert message in refused.value.message
    else:
        check_meaning(text, DATASETS, with_column(dataset, name))


@pytest.mark.parametrize(
    ("text", "dataset", "name"),
    [
        ("SELECT * FROM s.emp", "s.emp", "new"),
        ("SELECT salary AS base, salary + bonus AS total FROM s.emp", "s.emp", "base"),
        ("SELECT salary AS base FROM s.emp ORDER BY base LIMIT 1", "s.emp", "base"),
        ("SELECT salary AS base FROM s.emp ORDER BY base + 1 LIMIT 1", "s.emp", "base"),
        ("SELECT e.id FROM s.emp e WHERE EXISTS (SELECT 1 FROM s.dept d WHERE did = e.dept_id)", "s.dept", "dept_id"),
        ("SELECT count(*) AS n FROM s.emp", "s.emp", "n"),
        ("SELECT DISTINCT id FROM (SELECT * FROM s.emp)", "s.emp", "new"),
        ("SELECT id FROM s.emp WHERE EXISTS (SELECT * FROM s.dept WHERE did = id)", "s.dept", "new"),
        ("SELECT id FROM s.emp UNION SELECT did FROM s.dept", "s.emp", "did"),
    ],
)
def test_added_column_that_changes_no_result_is_accepted(text, dataset, name) -> None:
    check_meaning(text, DATASETS, with_column(dataset, name))


def test_columns_added_on_both_sides_of_a_union_are_refused_if_paired_otherwise() -> None:
    text = "SELECT * FROM s.emp UNION ALL SELECT *, 1 AS a, 2 AS b FROM s.dept"
    extended = with_column("s.emp", "new") | {"s.dept": with_column("s.dept", "more")["s.dept"]}
    with pytest.raises(ModelProblem, match="united in another way"):
        check_meaning(text, DATASETS, extended)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT bonus + 1 AS salary, salary * 2 AS twice FROM s.emp",
        "SELECT id FROM s.emp WHERE id IN (SELECT did FROM s.dept WHERE size > salary)",
    ],
)
def test_retired_column_whose_name_would_mean_another_is_refused(text) -> None:
    before = DATASETS | {"s.dept": [*DATASETS["s.dept"], ReadColumn("salary", "integer", True)]}
    after = before | {"s.dept": DATASETS["s.dept"]}
    if "dept" in text:
        with pytest.raises(ModelProblem, match=r"salary is dept\.salary and would become emp\.salary outside"):
            check_meaning(text, before, after)
    else:
        with pytest.raises(ModelProblem, match=r"salary is emp\.salary and would become the result salary"):
            check_meaning(text, DATASETS, without_column("s.emp", "salary"))


def test_rename_that_changes_the_meaning_of_a_condition_is_refused() -> None:
    text = "SELECT e.id FROM s.emp e WHERE EXISTS (SELECT 1 FROM s.dept d WHERE did = dept_id)"
    with pytest.raises(ModelProblem, match="cannot follow its rename to dept_id"):
        rename_in_select(text, "s.dept", "size", "dept_id", DATASETS)


def test_rename_follows_into_order_by_of_a_star_select() -> None:
    text = "SELECT * FROM s.emp ORDER BY bonus LIMIT 1"
    assert rename_in_select(text, "s.emp", "bonus", "extra", DATASETS) == text.replace("bonus", "`extra`")
