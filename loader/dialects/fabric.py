"""Fabric Warehouse: T-SQL with fewer statements. Columns cannot be altered; such changes rebuild the table."""

from loader.dialects.dialect import Dialect
from loader.dialects.mssql import SqlServer
from loader.dialects.refusals import NotRendered
from metadata.domain import types as data_types
from metadata.domain.types import DataType


class Fabric(SqlServer):
    """Rules of Fabric Warehouse, whose collation is binary and UTF-8 (the default of new warehouses)."""

    name, title, parser = "fabric", "Fabric Warehouse", "fabric"
    source = "https://learn.microsoft.com/fabric/data-warehouse/tsql-surface-area"
    types = {**SqlServer.types, data_types.STRING: "VARCHAR(MAX)"}

    def limited_text(self, length: int) -> str:
        return super().limited_text(length).partition(" COLLATE ")[0]

    def move_table(self, old: str, new: str) -> list[str]:
        return Dialect.move_table(self, old, new)

    def rename_column(self, table: str, old: str, new: str) -> list[str]:
        """Raise NotRendered: ``sp_rename`` is documented for objects only; the caller rebuilds the table."""
        raise NotRendered("Fabric Warehouse renames no columns", where=table)

    def drop_column(self, table: str, name: str) -> list[str]:
        """Raise NotRendered: the statement is not documented; the caller rebuilds the table."""
        raise NotRendered("Fabric Warehouse drops no columns", where=table)

    def widens_in_place(self, before: DataType, after: DataType) -> bool:
        return False
