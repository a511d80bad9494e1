"""Objects of PostgreSQL that belong to a table, which are created again for the table that takes its place."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from loader.contract.refusals import Refusal
from loader.domain.copies import qualified
from metadata.domain.sql import quote_standard_text

_CLASS = (
    "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = ? AND c.relname = ?"
)
_GRANTS = (
    "SELECT a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END, "
    "a.is_grantable::text FROM (SELECT c.relacl, c.relowner {of_class}) c, aclexplode(c.relacl) a "
    "WHERE a.grantee <> c.relowner"
)
_COLUMN_GRANTS = (
    "SELECT a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END, "
    "a.is_grantable::text, quote_ident(t.attname) FROM (SELECT c.oid, c.relowner {of_class}) c "
    "JOIN pg_catalog.pg_attribute t ON t.attrelid = c.oid, aclexplode(t.attacl) a WHERE a.grantee <> c.relowner"
)
_ROW_SECURITY = "SELECT c.relrowsecurity::text, c.relforcerowsecurity::text {of_class}"
_POLICIES = (
    "SELECT quote_ident(p.polname), CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END, "
    "CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' "
    "ELSE 'ALL' END, (SELECT string_agg(CASE r WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(r)) END, ', ') "
    "FROM unnest(p.polroles) r), pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid) "
    "FROM (SELECT c.oid {of_class}) c JOIN pg_catalog.pg_policy p ON p.polrelid = c.oid ORDER BY p.oid"
)
_TRIGGERS = (
    "SELECT quote_ident(t.tgname) FROM (SELECT c.oid {of_class}) c "
    "JOIN pg_catalog.pg_trigger t ON t.tgrelid = c.oid WHERE NOT t.tgisinternal ORDER BY t.oid"
)
_COMMENTS = (
    "SELECT quote_ident(t.attname), d.description FROM (SELECT c.oid {of_class}) c "
    "JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.classoid = 'pg_catalog.pg_class'::regclass "
    "LEFT JOIN pg_catalog.pg_attribute t ON t.attrelid = c.oid AND t.attnum = d.objsubid AND d.objsubid > 0"
)
_CONSTRAINTS = (
    "SELECT quote_ident(k.conname), pg_get_constraintdef(k.oid) FROM (SELECT c.oid {of_class}) c "
    "JOIN pg_catalog.pg_constraint k ON k.conrelid = c.oid AND k.contype IN ('p', 'u', 'c') ORDER BY k.contype, k.oid"
)
_INDEXES = (
    "SELECT pg_get_indexdef(i.indexrelid), x.relname FROM (SELECT c.oid {of_class}) c "
    "JOIN pg_catalog.pg_index i ON i.indrelid = c.oid JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid "
    "WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_constraint k WHERE k.conindid = i.indexrelid AND k.conrelid = c.oid)"
    " ORDER BY i.indexrelid"
)
_VIEWS = (
    "WITH RECURSIVE start AS (SELECT c.oid {of_class}), dependent AS ("
    "SELECT r.ev_class AS oid, 1 AS depth FROM start JOIN pg_catalog.pg_depend d ON d.refobjid = start.oid "
    "AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.classid = 'pg_catalog.pg_rewrite'::regclass "
    "JOIN pg_catalog.pg_rewrite r ON r.oid = d.objid WHERE r.ev_class <> start.oid UNION "
    "SELECT r.ev_class, dependent.depth + 1 FROM dependent JOIN pg_catalog.pg_depend d ON d.refobjid = dependent.oid "
    "AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.classid = 'pg_catalog.pg_rewrite'::regclass "
    "JOIN pg_catalog.pg_rewrite r ON r.oid = d.objid WHERE r.ev_class <> dependent.oid AND dependent.depth < 100) "
    "SELECT n.nspname, c.relname, c.relkind, pg_get_viewdef(c.oid), array_to_string(c.reloptions, ', '), "
    "quote_ident(pg_get_userbyid(c.relowner)), (pg_get_userbyid(c.relowner) = user)::text "
    "FROM (SELECT oid, max(depth) AS depth FROM dependent GROUP BY oid) v JOIN pg_catalog.pg_class c ON c.oid = v.oid "
    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace ORDER BY v.depth, c.oid"
)


class Statements(Protocol):
    """Interface of a connection that reads and restores objects."""

    def execute(self, statement: str) -> None: ...
    def rows(self, query: str, *texts: str) -> list[tuple[Any, ...]]: ...
    def tried(self, statement: str) -> bool: ...


@dataclass(frozen=True)
class KeptView:
    """View over a table, with its own grants and comments."""

    name: str
    kind: str
    query: str
    options: str
    owner: str
    is_own: bool
    granted: tuple[str, ...]

    def create(self) -> str:
        options = f" WITH ({self.options})" if self.options else ""
        return f"CREATE VIEW {qualified(self.name)}{options} AS {self.query}"


@dataclass(frozen=True)
class KeptObjects:
    """Row security, grants, comments, constraints, indexes and views of a table; triggers are only named.

    ``secured`` and ``granted`` are statements; ``views`` come before those over them.
    """

    secured: tuple[str, ...]
    granted: tuple[str, ...]
    triggers: tuple[str, ...]
    constraints: tuple[tuple[str, str], ...]
    indexes: tuple[tuple[str, str], ...]
    views: tuple[KeptView, ...]

    @classmethod
    def of(cls, connection: Statements, table: str) -> "KeptObjects":
        # Names in definitions are qualified if no schema is searched.
        connection.execute("SET LOCAL search_path = ''")
        constraints = connection.rows(_CONSTRAINTS.format(of_class=_CLASS), *_parts(table))
        views = tuple(
            KeptView(
                f"{schema}.{name}",
                kind,
                query,
                options or "",
                owner,
                is_own == "true",
                _granted(connection, f"{schema}.{name}", "VIEW"),
            )
            for schema, name, kind, query, options, owner, is_own in connection.rows(
                _VIEWS.format(of_class=_CLASS), *_parts(table)
            )
        )
        indexes = connection.rows(_INDEXES.format(of_class=_CLASS), *_parts(table))
        triggers = tuple(name for (name,) in connection.rows(_TRIGGERS.format(of_class=_CLASS), *_parts(table)))
        return cls(
            _secured(connection, table),
            _granted(connection, table, "TABLE"),
            triggers,
            tuple(constraints),
            tuple(indexes),
            views,
        )

    def drop_views(self, connection: Statements, place: str) -> None:
        """Drop the views. Raise Refusal COPY_BLOCKED for one that is not dropped for a copy."""
        for view in self.views:
            if view.kind != "v":
                raise Refusal(
                    "COPY_BLOCKED",
                    f"the materialized view {view.name} in {place} reads the table that the copy replaces",
                    hint="Drop it, or make it read a view over the table's copy elsewhere.",
                )
        for view in reversed(self.views):
            connection.execute(f"DROP VIEW {qualified(view.name)}")

    def restore(self, connection: Statements, table: str, place: str) -> list[str]:
        """Create the objects again; return a warning for each that does not fit the new table.

        Raise Refusal COPY_BLOCKED for row security that does not fit: without it, users would see all rows.
        """
        name, schema = qualified(table), _parts(table)[0]
        for statement in self.secured:
            if not connection.tried(statement):
                raise Refusal(
                    "COPY_BLOCKED",
                    f"the row security of {table} in {place} does not fit the new columns",
                    hint="Change its policies, or drop them.",
                )
        warnings = [f"of {table} the trigger {trigger} was left out" for trigger in self.triggers]
        warnings += _grant(connection, table, self.granted)
        for constraint, text in self.constraints:
            if not connection.tried(f"ALTER TABLE {name} ADD CONSTRAINT {constraint} {text}"):
                warnings.append(f"of {table} the constraint {constraint} was left out, which does not fit any more")
        for text, index in self.indexes:
            if not connection.tried(text):
                warnings.append(f"of {table} the index {schema}.{index} was left out, which does not fit any more")
        return warnings + self._restore_views(connection, table)

    def _restore_views(self, connection: Statements, table: str) -> list[str]:
        warnings = []
        for view in self.views:
            if not connection.tried(view.create()):
                warnings.append(f"the view {view.name} was dropped, which does not fit {table} any more")
                continue
            revoke_defaults(connection, view.name)
            warnings += _grant(connection, f"the view {view.name}", view.granted)
            # With another owner, the view would read with other privileges.
            if not view.is_own and not connection.tried(f"ALTER VIEW {qualified(view.name)} OWNER TO {view.owner}"):
                connection.execute(f"DROP VIEW {qualified(view.name)}")
                warnings.append(f"the view {view.name} was dropped, which {view.owner} may not own any more")
        return warnings


def revoke_defaults(connection: Statements, table: str) -> None:
    """Take the privileges from a new table or view that the defaults of its schema give to others."""
    granted = connection.rows(_GRANTS.format(of_class=_CLASS), *_parts(table))
    if grantees := sorted({grantee for _, grantee, _ in granted}):
        connection.execute(f"REVOKE ALL ON {qualified(table)} FROM {', '.join(grantees)}")


def _secured(connection: Statements, table: str) -> tuple[str, ...]:
    """Return the statements that create a table's policies and switch its row security on."""
    statements, relation = [], qualified(table)
    for name, kind, command, roles, using, check in connection.rows(_POLICIES.format(of_class=_CLASS), *_parts(table)):
        conditions = (f" USING ({using})" if using else "") + (f" WITH CHECK ({check})" if check else "")
        statements.append(f"CREATE POLICY {name} ON {relation} AS {kind} FOR {command} TO {roles}{conditions}")
    ((is_on, is_forced),) = connection.rows(_ROW_SECURITY.format(of_class=_CLASS), *_parts(table))
    statements += [f"ALTER TABLE {relation} ENABLE ROW LEVEL SECURITY"] if is_on == "true" else []
    statements += [f"ALTER TABLE {relation} FORCE ROW LEVEL SECURITY"] if is_forced == "true" else []
    return tuple(statements)


def _granted(connection: Statements, table: str, kind: str) -> tuple[str, ...]:
    """Return the statements that grant the privileges on a relation again, and comment it and its columns."""
    statements, relation = [], qualified(table)
    for privilege, grantee, grantable in connection.rows(_GRANTS.format(of_class=_CLASS), *_parts(table)):
        statements.append(f"GRANT {privilege} ON {relation} TO {grantee}{_option(grantable)}")
    for privilege, grantee, grantable, column in connection.rows(
        _COLUMN_GRANTS.format(of_class=_CLASS), *_parts(table)
    ):
        statements.append(f"GRANT {privilege} ({column}) ON {relation} TO {grantee}{_option(grantable)}")
    for column, text in connection.rows(_COMMENTS.format(of_class=_CLASS), *_parts(table)):
        about = f"COLUMN {relation}.{column}" if column is not None else f"{kind} {relation}"
        statements.append(f"COMMENT ON {about} IS {quote_standard_text(text)}")
    return tuple(statements)


def _grant(connection: Statements, relation: str, granted: Iterable[str]) -> list[str]:
    """Execute the statements of ``_granted``; return a warning for each that does not fit."""
    left_out = [statement for statement in granted if not connection.tried(statement)]
    return [f"of {relation} a grant or comment was left out: {statement}" for statement in left_out]


def _option(grantable: str) -> str:
    return " WITH GRANT OPTION" if grantable == "true" else ""


def _parts(table: str) -> tuple[str, str]:
    schema, _, name = table.partition(".")
    return schema, name
