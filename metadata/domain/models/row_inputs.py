"""Columns that decide which rows a model has, beside those whose values it selects.

A change of such a column changes the rows of the model, and so the history of whatever is built from it. Where the text
does not say which column or dataset is meant, all that it may be count.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from sqlglot import exp

from metadata.domain.models.statement import ModelProblem, Statement, parse_model

# A dataset like ``schema.name``, empty where it may be any, and a column, in lower case.
RowInput = tuple[str, str]
ANY = "*"
_DECIDING = (exp.Where, exp.Group, exp.Having, exp.Qualify, exp.Lateral, exp.Exists)


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

    These are the columns in conditions, joins, groupings, orders before a limit and arguments of helpers, those of a
    DISTINCT and of a set operation that drops repeated rows, and all in a subquery that is part of an expression. A
    derived column or a named window stands for the columns that it is computed from, ANY for all columns. A window that
    is only selected decides no rows: its columns are inputs of the selected one.
    """
    statement = parse_model(text)
    datasets = _datasets_by_alias(statement)
    columns = {column for node in _deciding(statement.tree) for column in _columns(node, datasets)}
    derived = _derived(statement.tree, datasets)
    waiting = list(columns)
    while waiting:
        for column in derived.get(waiting.pop()[1], ()):
            if column not in columns:
                columns.add(column)
                waiting.append(column)
    return frozenset(columns)


def _datasets_by_alias(statement: Statement) -> dict[str, str]:
    """Return the dataset that each qualifier of a column means; empty if it means several, or a derived table."""
    datasets: dict[str, str] = {}
    for table in statement.tables:
        alias, dataset = (table.alias or table.name).lower(), statement.dataset_of(table).lower()
        datasets[alias] = dataset if datasets.get(alias, dataset) == dataset else ""
    named = statement.tree.find_all(exp.CTE, exp.Subquery, exp.Lateral)
    return datasets | {node.alias.lower(): "" for node in named if node.alias}


def _deciding(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the parts of a SELECT whose columns decide rows."""
    for node in tree.walk():
        if isinstance(node, _DECIDING) or (isinstance(node, exp.Anonymous) and isinstance(node.parent, exp.Table)):
            yield node
            if isinstance(node, exp.Group):
                yield from _numbered(node)
        elif isinstance(node, exp.Join):
            yield from filter(None, (node.args.get("on"), *(node.args.get("using") or ())))
            if node.args.get("method"):  # NATURAL joins by all columns that both sides have
                yield exp.Star()
        elif isinstance(node, exp.Order):
            if isinstance(node.parent, exp.Query) and node.parent.args.get("limit"):
                yield node
                yield from _numbered(node)
        elif isinstance(node, exp.Select) and node.args.get("distinct"):
            yield from node.expressions
        elif isinstance(node, exp.SetOperation):
            yield from _of_set_operation(node)
        elif isinstance(node, exp.Pivot) or (isinstance(node, exp.TableAlias) and node.args.get("columns")):
            yield exp.Star()  # the names of their columns do not say what they are computed from
        elif isinstance(node, exp.Subquery) and not isinstance(node.parent, exp.From | exp.Join):
            yield node


def _numbered(node: exp.Group | exp.Order) -> Iterator[exp.Expr]:
    """Yield the selected expressions that keys of a grouping or an order name by number; all columns if unclear."""
    selected = node.parent.expressions if isinstance(node.parent, exp.Select) else ()
    for literal in node.find_all(exp.Literal):
        if literal.parent_select is not node.parent_select or not isinstance(
            literal.parent, exp.Group | exp.Ordered | exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple | exp.Paren
        ):
            continue
        place = int(literal.this) - 1 if literal.is_int else -1
        clear = 0 <= place < len(selected) and not any(each.is_star for each in selected)
        yield selected[place] if clear else exp.Star()


def _of_set_operation(operation: exp.SetOperation) -> Iterator[exp.Expr]:
    """Yield the columns that are compared to drop repeated rows; all columns if a ``*`` hides which ones they are."""
    selected = [each for select in operation.find_all(exp.Select) for each in select.expressions]
    if any(each.is_star for each in selected):
        yield exp.Star()
    elif operation.args.get("distinct") is not False:
        yield from selected


def _columns(node: exp.Expr, datasets: Mapping[str, str]) -> Iterator[RowInput]:
    """Yield the columns in a part of a SELECT; a qualifier that is no table is a struct, and so a column itself."""
    if isinstance(node, exp.Identifier):  # of USING
        yield ("", node.name.lower())
    for each in node.walk():
        if isinstance(each, exp.Window) and each.args.get("alias"):
            yield ("", each.alias.lower())
        elif isinstance(each, exp.Star) and not isinstance(each.parent, exp.Count | exp.Anonymous):
            yield ("", ANY)
        elif isinstance(each, exp.Column) and not each.is_star:
            *qualifiers, name = (part.name.lower() for part in each.parts)
            qualifier = qualifiers[-1] if qualifiers else ""
            yield (datasets.get(qualifier, ""), name)
            yield from (("", part) for part in qualifiers if part not in datasets)


def _derived(tree: exp.Expr, datasets: Mapping[str, str]) -> dict[str, set[RowInput]]:
    """Return the columns that each name of a derived column or a window is computed from."""
    derived: dict[str, set[RowInput]] = {}
    for window in tree.find_all(exp.Window):
        if isinstance(window.this, exp.Identifier):  # of the WINDOW clause
            derived.setdefault(window.name.lower(), set()).update(_columns(window, datasets))
    for alias in tree.find_all(exp.Alias):
        derived.setdefault(alias.alias.lower(), set()).update(_columns(alias.this, datasets))
    for operation in tree.find_all(exp.SetOperation):
        # Columns of a set operation have the names of its first SELECT, and come from all of them by position.
        for select in operation.find_all(exp.Select):
            for first, each in zip(operation.selects, select.expressions, strict=False):
                derived.setdefault(first.alias_or_name.lower(), set()).update(_columns(each, datasets))
    return derived
