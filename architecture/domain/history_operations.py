"""View of the last operation of each key in a history, for snapshots and deltas that loads date.

I and U: the newest delivery opened the version. D: the key ended. N: the newest delivery has the key as it was. X: the
newest delivery has no row of an open key. A history has no trace of N and X, so the view reads the raw tables, too.
"""

from collections.abc import Mapping, Sequence

from architecture.domain.history_views import live_versions
from architecture.domain.tables import current_table, history_table
from architecture.domain.views import RAW, Branch, Query, lines, published_as, qualified, united, view_branches
from elevata.core.errors import MetadataError
from metadata.domain import naming
from metadata.domain.history.history_columns import EFFECTIVE_FROM, OPERATION, VALID_FROM, VALID_TO
from metadata.domain.history.history_policy import OPERATIONS, HistoryPolicy
from metadata.domain.sql import quote_identifier as quoted
from metadata.domain.state import DatasetState


def operations_view(dataset: DatasetState, by_key: Mapping[str, DatasetState]) -> tuple[str, Query] | None:
    """Return name and query of the view; None if the policy does not list it, or the dataset reads other than raw."""
    if not dataset.active or not dataset.historize or dataset.history_key is None or dataset.select:
        return None
    if OPERATIONS not in HistoryPolicy.from_dict(dataset.history_policy).views:
        return None
    try:
        branches = view_branches(dataset, by_key)
    except MetadataError:  # loads of the dataset are refused with this error
        return None
    if not branches or not dataset.business_key or any(current_table(each.table).kind != RAW for each in branches):
        return None
    return f"{dataset.schema}.{naming.view_name(dataset.name, OPERATIONS)}", _query(dataset, branches)


def _query(dataset: DatasetState, branches: Sequence[Branch]) -> Query:
    history = history_table(dataset)
    key, opened, closed = (quoted(history.column(name).name) for name in ("entity_key", "run_id", "closed_by"))
    start, end = quoted(VALID_FROM), quoted(VALID_TO)
    described = [quoted(c.name) for c in history.of_purpose("entity_key", "business_key", "attribute", "foreign_key")]
    delivered = united(branches, dataset.business_key)
    names = [quoted(column.name) for column in dataset.business_key]
    over = f"OVER (PARTITION BY {key} ORDER BY {start})"
    follows = f"lag({start}) {over} IS NOT NULL AND coalesce(lag({end}) {over} >= {start}, true)"
    is_newest = f"(v.{opened} = n.run OR v.{start} > n.loaded)"
    conditions = [f"WHEN v.{end} IS NOT NULL THEN", f"WHEN {is_newest} THEN", "WHEN d.delivered THEN", "ELSE"]
    operations = ("'D'", "v.change", "'N'", "'X'")
    dates = (f"v.{end}", f"v.{start}", f"v.{start}", f"coalesce(n.at, v.{start})")
    shown = [
        *(f"v.{name}" for name in described),
        *(
            f"CASE {' '.join(f'{when} {value}' for when, value in zip(conditions, values, strict=True))} END AS {name}"
            for values, name in ((operations, quoted(OPERATION)), (dates, quoted(EFFECTIVE_FROM)))
        ),
    ]
    loaded = "\nUNION ALL\n".join(_loaded(branch) for branch in branches)
    sql = (
        "SELECT * FROM (\n"
        f"WITH versions AS (\n{live_versions(dataset, published_as(history), opened, closed)}\n),\n"
        "placed AS (\n"
        f"SELECT *, CASE WHEN {follows} THEN 'U' ELSE 'I' END AS change, "
        f"row_number() OVER (PARTITION BY {key} ORDER BY {start} DESC) AS place\nFROM versions\n),\n"
        f"delivery AS (\nSELECT max_by(run, loaded) AS run, max(loaded) AS loaded FROM (\n{loaded}\n)\n),\n"
        # The time of the load is that of the versions that it opened or closed.
        "newest AS (\n"
        "SELECT y.run, y.loaded, "
        f"coalesce(max(CASE WHEN w.{opened} = y.run THEN w.{start} ELSE w.{end} END), y.loaded) AS at\n"
        f"FROM delivery y LEFT JOIN versions w ON w.{opened} = y.run OR w.{closed} = y.run\n"
        "GROUP BY y.run, y.loaded\n),\n"
        f"delivered AS (\nSELECT DISTINCT {', '.join(names)}, true AS delivered FROM (\n{delivered.sql}\n)\n)\n"
        f"SELECT\n  {lines(shown)}\nFROM placed v\nCROSS JOIN newest n\n"
        f"LEFT JOIN delivered d ON {' AND '.join(f'd.{name} = v.{name}' for name in names)}\n"
        "WHERE v.place = 1\n)"
    )
    return Query(sql, (history, *delivered.tables))


def _loaded(branch: Branch) -> str:
    """Return the query of the runs in a raw table, with the times at which they wrote."""
    table = current_table(branch.table)
    run_id, loaded_at = (quoted(table.column(purpose).name) for purpose in ("run_id", "loaded_at"))
    return f"SELECT {run_id} AS run, {loaded_at} AS loaded FROM {qualified(table.qualified_name)}"
