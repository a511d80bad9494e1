"""Objects of PostgreSQL that belong to a table, which are created again for the table that takes its place."""

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
    """Grants, comments, constraints, indexes and views of a table.

    ``granted`` are statements with ``{}`` for the quoted name of the table; ``views`` come before those over them.
    """

    granted: tuple[str, ...]
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
        return cls(_granted(connection, table, "TABLE"), tuple(constraints), tuple(indexes), views)

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

    def restore(self, connection: Statements, table: str) -> list[str]:
        """Create the objects again; return a warning for each that does not fit the new table."""
        warnings = []
        name, schema = qualified(table), _parts(table)[0]
        for statement in self.granted:
            if not connection.tried(_of(statement, name)):
                warnings.append(f"of {table} a grant or comment was left out: {_of(statement, name)}")
        for constraint, text in self.constraints:
            if not connection.tried(f"ALTER TABLE {name} ADD CONSTRAINT {constraint} {text}"):
                warnings.append(f"of {table} the constraint {constraint} was left out, which does not fit any more")
        for text, index in self.indexes:
            moved = _on_table(text, name)
            if not connection.tried(moved):
                warnings.append(f"of {table} the index {schema}.{index} was left out, which does not fit any more")
        for view in self.views:
            if not connection.tried(view.create()):
                warnings.append(f"the view {view.name} was dropped, which does not fit {table} any more")
                continue
            for statement in view.granted:
                connection.tried(_of(statement, qualified(view.name)))
            if not view.is_own:
                connection.tried(f"ALTER VIEW {qualified(view.name)} OWNER TO {view.owner}")
        return warnings


def _granted(connection: Statements, table: str, kind: str) -> tuple[str, ...]:
    """Return the statements that grant the privileges on a relation again, and comment it and its columns."""
    statements = []
    for privilege, grantee, grantable in connection.rows(_GRANTS.format(of_class=_CLASS), *_parts(table)):
        statements.append(f"GRANT {privilege} ON {{}} TO {grantee}{_option(grantable)}")
    for privilege, grantee, grantable, column in connection.rows(
        _COLUMN_GRANTS.format(of_class=_CLASS), *_parts(table)
    ):
        statements.append(f"GRANT {privilege} ({column}) ON {{}} TO {grantee}{_option(grantable)}")
    for column, text in connection.rows(_COMMENTS.format(of_class=_CLASS), *_parts(table)):
        about = f"COLUMN {{}}.{column}" if column is not None else f"{kind} {{}}"
        statements.append(f"COMMENT ON {about} IS {quote_standard_text(text)}")
    return tuple(statements)


def _of(statement: str, name: str) -> str:
    return statement.replace("{}", name, 1)


def _option(grantable: str) -> str:
    return " WITH GRANT OPTION" if grantable == "true" else ""


def _on_table(definition: str, name: str) -> str:
    """Return the definition of an index on the table that has this quoted name now."""
    head, _, rest = definition.partition(" ON ")
    _, _, method = rest.partition(" USING ")
    return f"{head} ON {name} USING {method}"


def _parts(table: str) -> tuple[str, str]:
    schema, _, name = table.partition(".")
    return schema, name
