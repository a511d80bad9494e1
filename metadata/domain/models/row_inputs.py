"""Columns that decide which rows a model has, beside those whose values it selects.

A change of such a column changes the rows of the model, and so the history of whatever is built from it.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from sqlglot import exp

from metadata.domain.models.statement import ModelProblem, Statement, parse_model

# A dataset like ``schema.name``, empty where it may be any, and a column, in lower case.
RowInput = tuple[str, str]
ANY = "*"
_DECIDING = (exp.Where, exp.Join, exp.Group, exp.Having, exp.Qualify, exp.Order, exp.Window, exp.Lateral)


def decides_rows(text: str, datasets: Iterable[str], names: Iterable[str]) -> bool:
    """Return True if a column with one of these names, of a dataset with one of these names, decides rows of a SELECT.

    Names are in lower case. Every column of a SELECT that a model cannot have decides rows.
    """
    try:
        inputs = row_inputs(text)
    except ModelProblem:
        return True
    return any((dataset, name) in inputs for dataset in ("", *datasets) for name in (ANY, *names))


@lru_cache(maxsize=1024)
def row_inputs(text: str) -> frozenset[RowInput]:
    """Return the columns that decide the rows of a SELECT. Raise ModelProblem if a model cannot have it.

    These are the columns in conditions, joins, groupings, orders, windows and arguments of helpers, those of a DISTINCT
    and of a set operation that drops repeated rows, and all in a subquery that is part of an expression. A derived
    column stands for the columns that it is computed from. ANY stands for all columns.
    """
    statement = parse_model(text)
    datasets = {(table.alias or table.name).lower(): statement.dataset_of(table).lower() for table in statement.tables}
    found = {column for node in _deciding(statement) for column in _columns(node, datasets)}
    derived = _derived(statement, datasets)
    waiting = list(found)
    while waiting:
        for column in derived.get(waiting.pop()[1], ()):
            if column not in found:
                found.add(column)
                waiting.append(column)
    return frozenset(found)


def _deciding(statement: Statement) -> Iterator[exp.Expression]:
    """Yield the parts of a SELECT whose columns decide rows."""
    for node in statement.tree.walk():
        if isinstance(node, exp.Anonymous):
            if isinstance(node.parent, exp.Table):
                yield node
        elif isinstance(node, exp.Join):
            yield from filter(None, (node.args.get("on"), *(node.args.get("using") or ())))
            if node.args.get("method"):  # NATURAL joins by all columns that both sides have
                yield exp.Star()
        elif isinstance(node, exp.Order) and isinstance(node.parent, exp.Select) and not node.parent.args.get("limit"):
            continue
        elif isinstance(node, _DECIDING):
            yield node
        elif isinstance(node, exp.Select) and node.args.get("distinct"):
            yield from node.expressions
        elif isinstance(node, exp.SetOperation) and node.args.get("distinct") is not False:
            yield from (each for select in node.find_all(exp.Select) for each in select.expressions)
        elif isinstance(node, exp.TableAlias) and node.args.get("columns"):
            yield exp.Star()  # its names do not say which columns they are
        elif isinstance(node, exp.Subquery | exp.Exists | exp.In) and not isinstance(node.parent, exp.From | exp.Join):
            yield node


def _columns(node: exp.Expression, datasets: dict[str, str]) -> Iterator[RowInput]:
    if isinstance(node, exp.Identifier):  # of USING
        yield ("", node.name.lower())
    for each in node.walk():
        if isinstance(each, exp.Star) and not isinstance(each.parent, exp.Count | exp.Anonymous):
            yield ("", ANY)
        elif isinstance(each, exp.Column) and not each.is_star:
            yield (datasets.get(each.table.lower(), "") if each.table else "", each.name.lower())


def _derived(statement: Statement, datasets: dict[str, str]) -> dict[str, set[RowInput]]:
    """Return the columns that each name of a derived column is computed from."""
    derived: dict[str, set[RowInput]] = {}
    for alias in statement.tree.find_all(exp.Alias):
        derived.setdefault(alias.alias.lower(), set()).update(_columns(alias.this, datasets))
    return derived
