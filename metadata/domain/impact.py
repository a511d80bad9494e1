"""Impact of dropping, renaming or retyping a column on everything downstream of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from metadata.domain.column_lineage import HISTORY, SOURCE, ColumnLineage, ColumnNode, ExposureNode

DROP, RENAME, RETYPE = "drop", "rename", "retype"
# Effects on a dependent: it is changed, too; it stays unchanged; it loses its input; it prevents the action.
FOLLOWS, STAYS, BREAKS, REFUSES = "follows", "stays", "breaks", "refuses"
CHECK, POLICY, CONTRACT = "check", "history policy", "contract"


@dataclass(frozen=True)
class Use:
    """Check, history policy or contract of a dataset that names a column; ``column`` is the column's id."""

    kind: str
    name: str
    column: str


@dataclass(frozen=True)
class Effect:
    """Effect of a change on ``what`` of a dataset, in words; ``text`` is its expression."""

    effect: str
    dataset_key: str
    what: str
    says: str
    text: str = ""


@dataclass(frozen=True)
class Reader:
    """Dataset that reads the rows of a dataset, over any number of steps; both as stable keys."""

    dataset_key: str
    of: str


def impact(
    change: str,
    lineage: ColumnLineage,
    uses: Iterable[Use],
    models: Iterable[str] = (),
    readers: Iterable[Reader] = (),
) -> list[Effect]:
    """Return the effects of a change of the column at distance 0 on what is downstream of it, nearest first.

    ``lineage`` has the columns downstream; ``models`` are the keys of datasets that are defined by a SELECT, and
    ``readers`` read those of them whose rows a column downstream decides.
    """
    derived = frozenset(models)
    changed = {node.id for node in lineage.nodes if _is_changed(change, node, lineage, derived)}
    effects = [
        effect
        for node in lineage.nodes
        if node.distance > 0 and (effect := _of_column(change, node, lineage, changed, derived)) is not None
    ]
    effects += [effect for use in uses if (effect := _of_use(change, use, lineage, changed)) is not None]
    effects += _of_rows(change, lineage, changed, list(readers))
    return effects + list(_of_exposures(change, lineage, changed))


def _is_changed(change: str, node: ColumnNode, lineage: ColumnLineage, models: frozenset[str]) -> bool:
    """Return True for a column that loses its values, or takes over the new name or type."""
    if node.distance == 0 or change == DROP:
        return True
    is_copy = node.kind == HISTORY and any(each.distance == 0 for each in lineage.reads[node.id])
    return is_copy or (change == RETYPE and node.dataset_key in models)


def _of_column(
    change: str, node: ColumnNode, lineage: ColumnLineage, changed: set[str], models: frozenset[str]
) -> Effect | None:
    what, reads = f"column {node.name}", " and ".join(each.qualified_name for each in lineage.reads[node.id])
    head = (node.dataset_key, what)
    if change == DROP:
        is_copy = node.kind == HISTORY and node.distance == 1
        message = "keeps its values; later versions have none" if is_copy else f"reads {reads}, and gets no values"
        return Effect(STAYS if is_copy else BREAKS, *head, message, node.expression)
    if change == RENAME:
        if node.distance > 1:
            return None
        if node.kind == HISTORY:
            return Effect(FOLLOWS, *head, "is renamed along")
        if node.expression or any(each.kind == SOURCE for each in lineage.reads[node.id]):
            return Effect(FOLLOWS, *head, "reads the new name", node.expression)
        return None
    if node.id in changed:
        message = "its type is derived again" if node.dataset_key in models else "takes the type over"
        return Effect(FOLLOWS, *head, message, node.expression)
    if node.distance == 1 or any(each.id in changed for each in lineage.reads[node.id]):
        return Effect(STAYS, *head, f"stays {node.type}: loads convert the value or refuse it", node.expression)
    return None


_ROWS = {
    DROP: (BREAKS, "are decided by {}, which has no values any more"),
    RENAME: (FOLLOWS, "are decided by {}, under its new name"),
    RETYPE: (STAYS, "are decided by {}: another type may decide otherwise"),
}


def _of_rows(change: str, lineage: ColumnLineage, changed: set[str], readers: Iterable[Reader]) -> list[Effect]:
    """Return the effects on the rows of models that changed columns decide, and of what reads these models."""
    decided: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for each in lineage.row_inputs:
        if each.column in changed:
            decided.setdefault(each.dataset_key, []).append(each.name)
            names[each.dataset_key] = each.dataset
    effect, message = _ROWS[change]
    effects = [Effect(effect, key, "rows", message.format(" and ".join(phrases))) for key, phrases in decided.items()]
    if change == RENAME:
        return effects
    follow: dict[str, Effect] = {}
    for reader in readers:
        if reader.of in decided and reader.dataset_key not in decided:
            own = Effect(effect, reader.dataset_key, "rows", f"follow {names[reader.of]}")
            follow.setdefault(reader.dataset_key, own)
    return [*effects, *follow.values()]


_USES = {
    (DROP, CHECK): (BREAKS, "names {}, which has no values any more"),
    (DROP, POLICY): (BREAKS, "names {}, which has no values any more"),
    (DROP, CONTRACT): (BREAKS, "promises {}"),
    (RENAME, CHECK): (FOLLOWS, "names {}"),
    (RENAME, POLICY): (FOLLOWS, "names {}"),
    (RENAME, CONTRACT): (BREAKS, "promises {} by its present name"),
    (RETYPE, CHECK): (STAYS, "checks {}: its arguments must suit the new type"),
    (RETYPE, POLICY): (STAYS, "names {}: an unsuitable type is refused on saving"),
    (RETYPE, CONTRACT): (BREAKS, "promises the present type of {}, unless the new one is wider"),
}


def _of_use(change: str, use: Use, lineage: ColumnLineage, changed: set[str]) -> Effect | None:
    node = lineage.by_id[use.column]
    if use.column not in changed:
        return None
    effect, message = _USES[change, use.kind]
    return Effect(effect, node.dataset_key, f"{use.kind} {use.name}".strip(), message.format(node.name))


def _of_exposures(change: str, lineage: ColumnLineage, changed: set[str]) -> Iterator[Effect]:
    for exposure in lineage.exposures:
        names = [node.name for node in lineage.reads[exposure.id] if node.id in changed]
        if names:
            yield Effect(BREAKS, exposure.dataset_key, f"exposure {exposure.name}", _lost(change, exposure, names))


def _lost(change: str, exposure: ExposureNode, names: list[str]) -> str:
    columns = " and ".join(names)
    ends = {DROP: "has no values any more", RENAME: "has another name", RETYPE: "may have another type"}
    return f"{exposure.kind} of {exposure.owner}: {columns} {ends[change]}"
