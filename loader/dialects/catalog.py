"""All dialects, by name."""

from loader.dialects.bigquery import BigQuery
from loader.dialects.databricks import Databricks
from loader.dialects.dialect import Dialect
from loader.dialects.duckdb import DuckDb
from loader.dialects.fabric import Fabric
from loader.dialects.mssql import SqlServer
from loader.dialects.postgres import Postgres
from loader.dialects.snowflake import Snowflake

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (BigQuery(), Databricks(), DuckDb(), Fabric(), SqlServer(), Postgres(), Snowflake())
}
