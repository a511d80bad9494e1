"""Rules for a SELECT whose rows a load computes for some keys of one input (``changed_keys``).

The load filters the input by these keys, and replaces the rows of the model with the same keys. The result is right
only if each row of the model follows from rows of the input with its own key, and from other inputs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from sqlglot import exp

from metadata.domain.models.description import ReadColumn, described_items
from metadata.domain.models.expressions import Expressions
from metadata.domain.models.functions import Value
from metadata.domain.models.increment import IncrementProblem
from metadata.domain.models.statement import Statement, parse_model

Pairs = Set[tuple[str, str]]


def check_keyed_rows(
    text: str, datasets: Mapping[str, Sequence[ReadColumn]], input_: str, columns: Mapping[str, str]
) -> None:
    """Raise IncrementProblem unless rows of some keys can be computed from the rows of these keys in one input.

    Args:
        text: SELECT of the model.
        datasets: columns of all inputs, as ``describe_select`` takes them.
        input_: qualified name of the input that is filtered.
        columns: key columns of the input, and the columns of the model that have their values.
    """
    statement = parse_model(text)
    readers = _readers(statement, input_.lower())
    if any(count > 1 for count in readers.values()):
        message = f"the SELECT reads {input_} more than once; a load would give it rows of changed keys only everywhere"
        raise IncrementProblem("input", message)
    for node in statement.tree.find_all(exp.Limit, exp.Offset, exp.Fetch):
        if any(_name(statement, table) in readers for table in (node.parent or node).find_all(exp.Table)):
            raise IncrementProblem("by", f"LIMIT counts rows of all keys of {input_}")
    items, queries = described_items(statement, datasets)
    results = {item.name: item.value for item in items}
    for name, own in columns.items():
        if not _passed([results[own]]) & {(input_.lower(), name.lower())}:
            raise IncrementProblem("columns", f"{own} must be {name} of {input_} unchanged, and not from a UNION")
    key = {(input_.lower(), name.lower()) for name in columns}
    for select, expressions in queries.selects:
        _check_select(select, expressions, key, f"{', '.join(columns)} of {input_}")


def _readers(statement: Statement, input_: str) -> dict[str, int]:
    """Return the names of the input and of common table expressions over it, with the number of their uses."""
    uses = [_name(statement, table) for table in statement.tree.find_all(exp.Table)]
    readers = {input_: uses.count(input_)}
    common = list(statement.tree.find_all(exp.CTE))
    # Each pass adds the expressions over those of the pass before.
    for _ in common:
        for each in common:
            if any(_name(statement, table) in readers for table in each.find_all(exp.Table)):
                readers[each.alias.lower()] = uses.count(each.alias.lower())
    return readers


def _name(statement: Statement, table: exp.Table) -> str:
    """Return the name of a dataset with its schema, or that of a common table expression, in lower case."""
    is_dataset = table.db or isinstance(table.this, exp.Anonymous)
    return (statement.dataset_of(table) if is_dataset else table.name).lower()


def _check_select(select: exp.Select, expressions: Expressions, key: Pairs, named: str) -> None:
    """Raise IncrementProblem if a SELECT over the keyed rows combines rows of different keys."""
    sources = [each for each in expressions.scope.sources if key <= _passed(item.value for item in each.items)]
    if not sources:
        return
    if any(source.nullable for source in sources):
        message = f"an outer join adds rows without {named}; put the input on its other side"
        raise IncrementProblem("input", message)
    group = select.args.get("group")
    if group is not None and group.find(exp.Rollup, exp.Cube, exp.GroupingSets):
        raise IncrementProblem("by", f"ROLLUP, CUBE and GROUPING SETS aggregate rows of all keys, {named}")
    for window in _windows(select):
        if not key <= _passed(expressions.values(_partition(window, expressions))):
            raise IncrementProblem("columns", f"a window has rows of different keys: PARTITION BY needs {named}")


def _passed(values: Iterable[Value]) -> set[tuple[str, str]]:
    """Return the columns of inputs, in lower case, that are among the values unchanged."""
    return {(dataset.lower(), name.lower()) for value in values if value.described for dataset, name in value.inputs}


def _windows(select: exp.Select) -> Iterator[exp.Window]:
    """Yield the windows of a SELECT, without those of subqueries and without definitions under a name."""
    for node in select.walk(prune=lambda node: isinstance(node, exp.Query) and node is not select):
        if isinstance(node, exp.Window) and not (node.parent is select and node.arg_key == "windows"):
            yield node


def _partition(window: exp.Window, expressions: Expressions) -> list[exp.Expr]:
    """Return the expressions by which a window divides rows; a named window has those of its definition, too."""
    own = list(window.args.get("partition_by") or ())
    named = window.args.get("alias")
    if named is None or not window.args.get("over"):
        return own
    return own + _partition(expressions.windows[named.name.lower()], expressions)
