"""Read-only queries over published names: check, rewriting of names, and columns used.

Pure. ``metadata.domain.select_check`` has the allow-list of statements, sources and functions. The runner gets the text
with blanks instead of comments and with the names of temporary views instead of published names, and checks Spark's
own plan as well (``loader.engine.plan_checks``).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from sqlglot import exp

from loader.contract.refusals import Refusal
from metadata.domain.select_check import Select, SelectProblem, position, read_select
from metadata.domain.sql import quote_identifier

MOST_ROWS = 10_000
# Codes of queries that were not started, or that Spark could not parse.
REFUSED, INVALID, UNKNOWN = "SQL_REFUSED", "SQL_INVALID", "UNKNOWN_NAME"
FAILED = "SQL_FAILED"


_TEMPORARY = "__published_"
# Clauses with which the number of rows depends on the list of a SELECT.
_DEPENDING_ON_LIST = ("distinct", "group", "having", "qualify")


@dataclass(frozen=True)
class CheckedQuery:
    """Query that may run.

    ``query`` is the text for Spark, in which ``views`` (temporary view by published name) replace names;
    ``replaced`` maps its positions to those of ``text``: start and length in ``query``, start and length in ``text``.
    ``columns`` are the names in the query in lower case, None if it uses columns without their names.
    """

    text: str
    query: str
    views: Mapping[str, str]
    replaced: tuple[tuple[int, int, int, int], ...] = ()
    columns: frozenset[str] | None = None

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the published names that the query reads, in the order of their first use."""
        return tuple(self.views)

    def uses(self, column: str) -> bool:
        return self.columns is None or column.lower() in self.columns


def names_read(text: str) -> frozenset[str]:
    """Return the names like ``schema.name``, in lower case, of what a query reads. Raise Refusal as ``check_query``."""
    tables = _select_of(text).tree.find_all(exp.Table)
    return frozenset(f"{table.db}.{table.name}".lower() for table in tables if table.db)


def columns_choosing_rows(text: str) -> frozenset[tuple[frozenset[str], str]] | None:
    """Return names in lower case that the number of rows of a query depends on, with the tables each may come from.

    These are all names in the query but those in the list of its outermost SELECT, where that list decides no rows.
    None if it uses columns without their names. Raise Refusal as ``check_query``.
    """
    tree = _without_results(_select_of(text).tree)
    if _columns(tree) is None:
        return None
    by_alias: dict[str, set[str]] = {}
    for table in tree.find_all(exp.Table):
        by_alias.setdefault(table.alias_or_name.lower(), set()).add(name_of_table(table) if table.db else "")
    for alias in tree.find_all(exp.TableAlias):
        if not isinstance(alias.parent, exp.Table):
            by_alias.setdefault(alias.name.lower(), set()).add("")
    tables = frozenset(name for names in by_alias.values() for name in names if name)
    references = set()
    for name in tree.find_all(exp.Identifier):
        column = name.parent
        if isinstance(column, exp.Table):
            continue
        own = {""}
        if isinstance(column, exp.Column) and column.this is name and not column.args.get("db"):
            own = by_alias.get(column.table.lower(), {""})
        references.add((tables if "" in own else frozenset(own), name.name.lower()))
    return frozenset(references)


def _without_results(tree: exp.Expr) -> exp.Expr:
    """Return a query without the plain columns and stars in its list, if they decide no rows. Functions may add rows.

    Grouped rows depend on the list: by its names, or by its aggregates in HAVING.
    """
    if not isinstance(tree, exp.Select) or any(tree.args.get(part) for part in _DEPENDING_ON_LIST):
        return tree
    query = tree.copy()
    listed = (exp.Star, exp.Column, exp.Literal)
    query.set("expressions", [item for item in query.expressions if not isinstance(item.unalias(), listed)])
    return query


def check_query(text: str, published: Collection[str], others: Collection[str] = ()) -> CheckedQuery:
    """Return the checked query. Raise Refusal SQL_REFUSED, SQL_INVALID or UNKNOWN_NAME with the position.

    ``published`` are names like ``schema.name``; ``others`` are names that a refusal can suggest besides.
    """
    select = _select_of(text)
    views: dict[str, str] = {}
    names = {name.lower(): name for name in published}
    changes = list(_replacements(text, select.tree, names, others, views))
    query, replaced = _replace(select.plain, changes)
    return CheckedQuery(text, query, views, replaced, _columns(select.tree))


def _select_of(text: str) -> Select:
    try:
        return read_select(text)
    except SelectProblem as problem:
        raise Refusal(INVALID if problem.invalid else REFUSED, problem.message) from None


def _replacements(
    text: str, tree: exp.Expr, published: Mapping[str, str], others: Collection[str], views: dict[str, str]
) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and new text of every published name; fill ``views``."""
    for table in tree.find_all(exp.Table):
        if not table.db and not table.catalog and _is_derived(table):
            continue
        name = published.get(f"{table.db}.{table.name}".lower()) if not table.catalog else None
        if name is None:
            raise _unknown_name(text, table, {name.lower(): name for name in others} | dict(published))
        view = views.setdefault(name, f"{_TEMPORARY}{len(views)}")
        alias = "" if table.alias else f" AS {quote_identifier(table.name)}"
        yield (_first(table), table.this.meta["end"] + 1, quote_identifier(view) + alias)
    for column in tree.find_all(exp.Column):
        if column.args.get("db") and f"{column.db}.{column.table}".lower() in published:
            start, end = column.args["db"].meta["start"], column.args["table"].meta["end"] + 1
            yield (start, end, quote_identifier(column.table))


def _is_derived(table: exp.Table) -> bool:
    """Return True if a table's name is that of a common table expression that can be seen where it stands.

    A WITH belongs to the query that begins with it, and each of its expressions sees those before it.
    """
    name = table.name.lower()
    node: exp.Expr = table
    while (parent := node.parent) is not None:
        if isinstance(parent, exp.With):
            visible = parent.expressions[: next(at for at, cte in enumerate(parent.expressions) if cte is node)]
        else:
            with_ = parent.args.get("with_")
            visible = with_.expressions if with_ is not None and with_ is not node else []
        if any(cte.alias.lower() == name for cte in visible):
            return True
        node = parent
    return False


def _unknown_name(text: str, table: exp.Table, published: Mapping[str, str]) -> Refusal:
    written = ".".join(part.name for part in table.parts)
    known = {lower: name for lower, name in published.items() if lower != written.lower()}
    own = [name for lower, name in known.items() if lower.endswith(f".{table.name.lower()}")]
    close = own or [known[name] for name in get_close_matches(written.lower(), known, 1)]
    hint = f"did you mean {close[0]}?" if close else "see the list of datasets"
    return Refusal(UNKNOWN, f"{position(text, _first(table))}: {written} is no published table or view", hint=hint)


def _replace(plain: str, changes: Sequence[tuple[int, int, str]]) -> tuple[str, tuple[tuple[int, int, int, int], ...]]:
    parts: list[str] = []
    replaced: list[tuple[int, int, int, int]] = []
    done = length = 0
    for start, end, new in sorted(set(changes)):
        parts += [plain[done:start], new]
        length += start - done
        replaced.append((length, len(new), start, end - start))
        length, done = length + len(new), end
    return "".join([*parts, plain[done:]]), tuple(replaced)


def _columns(tree: exp.Expr) -> frozenset[str] | None:
    """Return all names in the query; None if it uses columns without their names."""
    for node in tree.walk():
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            return None
        if isinstance(node, exp.Pivot) or (isinstance(node, exp.Join) and node.args.get("method") == "NATURAL"):
            return None
        if isinstance(node, exp.TableAlias) and node.args.get("columns"):
            return None
    return frozenset(node.name.lower() for node in tree.find_all(exp.Identifier))


def position_in_text(text: str, offset: int, replaced: Sequence[Sequence[int]]) -> str:
    """Return in words the position in the text of an offset in the query for Spark."""
    shift = 0
    for start, length, own_start, own_length in replaced:
        if offset < start:
            break
        if offset < start + length:
            return position(text, own_start)
        shift = (own_start + own_length) - (start + length)
    return position(text, min(len(text), offset + shift))


def _first(table: exp.Table) -> int:
    starts: list[int] = [part.meta["start"] for part in table.parts]
    return min(starts)


def name_of_table(table: exp.Table) -> str:
    return f"{table.db}.{table.name}".lower()
