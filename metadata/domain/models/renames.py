"""Renames of columns and datasets in the SELECT of a model; the rest of the text is unchanged."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from metadata.domain.models.binding import Change, changed, separators, versions_of
from metadata.domain.models.description import ReadColumn, described_items
from metadata.domain.models.scopes import Item, Reference
from metadata.domain.models.statement import ModelProblem, Statement, parse_model
from metadata.domain.sql import quote_identifier

Datasets = Mapping[str, Sequence[ReadColumn]]


def rename_in_select(text: str, dataset: str, old: str, new: str, datasets: Datasets) -> str:
    """Return the SELECT after the rename of a column of ``dataset``; ``datasets`` have its old name.

    The model's own columns keep their names, except those that ``*`` brings. Raise ModelProblem if the rename is not
    safe.
    """
    statement = parse_model(text)
    items, queries = described_items(statement, datasets)
    target = (dataset.lower(), old.lower())
    changes = []
    for reference in queries.references:
        if target in reference.origins:
            if not reference.renamable:
                message = f"USING ({old}) cannot follow the rename to {new}; write ON first"
                raise statement.problem(reference.name, message)
            changes.append(_renamed(reference, old, new))
    renamed = changed(text, changes)
    expected = [_expected(item, target, new) for item in items]
    try:
        after, now = described_items(parse_model(renamed), renamed_column(datasets, dataset, old, new))
    except ModelProblem as problem:
        raise ModelProblem(f"cannot follow the rename of {old} to {new}: {problem.message}") from None
    same_names = [_place(each, target, new) for each in queries.references] == [_place(each) for each in now.references]
    if not same_names or [(item.name, item.value) for item in after] != expected:
        raise ModelProblem(f"uses {old} in a way that cannot follow its rename to {new}; change the SELECT first")
    return renamed


def _place(reference: Reference, target: tuple[str, str] = ("", ""), new: str = "") -> tuple[str, str, int]:
    """Return what a name stands for, after the rename of the column ``target``."""
    column = new.lower() if target in reference.origins else reference.column
    return reference.owner, column, reference.depth


def _renamed(reference: Reference, old: str, new: str) -> Change:
    """Return the change of one use; in a SELECT list without an alias, the result keeps its name."""
    name, column = reference.name, reference.name.parent
    is_result = (
        isinstance(column, exp.Column) and isinstance(column.parent, exp.Select) and column.arg_key == "expressions"
    )
    alias = f" AS {quote_identifier(name.name)}" if is_result else ""
    return Change(name.meta["start"], name.meta["end"] + 1, quote_identifier(new) + alias)


def _expected(item: Item, target: tuple[str, str], new: str) -> tuple[str, object]:
    dataset, old = target
    inputs = tuple(
        (owner, new if (owner.lower(), column.lower()) == (dataset, old) else column)
        for owner, column in item.value.inputs
    )
    name = new if target in item.origins and item.expression is None else item.name
    return name, item.value._replace(inputs=inputs)


def renamed_column(datasets: Datasets, dataset: str, old: str, new: str) -> Datasets:
    """Return the columns by dataset after the rename of a column; a history's versions have it, too."""
    owner = dataset.lower()
    return {
        name: [replace(column, name=new) if column.name.lower() == old.lower() else column for column in columns]
        if name.lower() in (owner, versions_of(owner))
        else columns
        for name, columns in datasets.items()
    }


def rename_dataset_in_select(text: str, old: str, new: str) -> str:
    """Return the SELECT after the rename of a dataset: both names are qualified with their schema."""
    statement = parse_model(text)
    return changed(text, list(_dataset_changes(statement, old.lower(), new)))


def _dataset_changes(statement: Statement, old: str, new: str) -> Iterator[Change]:
    quoted = ".".join(quote_identifier(part) for part in new.split("."))
    for table in statement.tables:
        if statement.dataset_of(table).lower() == old:
            is_helper = isinstance(table.this, exp.Anonymous)
            parts = (table.this.expressions[0] if is_helper else table).parts
            # Columns may be qualified with the old name, which becomes the alias.
            alias = "" if table.alias or is_helper else f" AS {quote_identifier(table.name)}"
            yield Change(parts[0].meta["start"], parts[-1].meta["end"] + 1, quoted + alias)
            if is_helper and not table.alias:
                end = _end_of_call(statement, table.this)
                yield Change(end, end, f" AS {quote_identifier(parts[-1].name)}")
    for column in statement.columns:
        if column.args.get("db") and f"{column.text('db')}.{column.table}".lower() == old:
            start, end = column.args["db"].meta["start"], column.args["table"].meta["end"] + 1
            yield Change(start, end, quote_identifier(column.table))


def _end_of_call(statement: Statement, call: exp.Anonymous) -> int:
    return separators(statement.tokens, call.meta["start"])[-1].end + 1
