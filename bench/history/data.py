"""Columns of a benchmark's rows, and the common form in which histories are compared."""

from pyspark.sql import DataFrame

KEY, ROW_HASH = "entity_key", "row_hash"
BUSINESS_KEY = "code"

# Name -> type. The expressions draw a row's values from its number and the load that changed it last.
ATTRIBUTES = {
    "name": "string",
    "city": "string",
    "note": "string",
    "quantity": "integer",
    "points": "bigint",
    "price": "decimal(12,2)",
    "rate": "float",
    "active": "boolean",
    "born_on": "date",
    "modified_at": "timestamp",
}
EXPRESSIONS = {
    BUSINESS_KEY: "concat('C', lpad(cast(id AS string), 10, '0'))",
    "name": "concat('Name ', hex(xxhash64(id, since, 1)))",
    "city": "concat('City ', pmod(xxhash64(id, 2), 500))",
    "note": "CASE WHEN pmod(xxhash64(id, since, 3), 10) < 7 THEN hex(xxhash64(id, since, 4)) END",
    "quantity": "CASE WHEN pmod(xxhash64(id, 5), 20) > 0 THEN cast(pmod(xxhash64(id, since, 6), 10000) AS int) END",
    "points": "pmod(xxhash64(id, since, 7), 1000000000000)",
    "price": "cast(cast(pmod(xxhash64(id, since, 8), 1000000000) AS decimal(12,0)) / 100 AS decimal(12,2))",
    "rate": "pmod(xxhash64(id, since, 9), 1000000) / 1000D",
    "active": "pmod(xxhash64(id, since, 10), 2) = 0",
    "born_on": "date_add(DATE '1950-01-01', cast(pmod(xxhash64(id, 11), 20000) AS int))",
    "modified_at": "timestampadd(DAY, since, TIMESTAMP '2024-01-01 00:00:00')",
}
DELIVERED = (BUSINESS_KEY, *ATTRIBUTES)
COMPARED = (KEY, "valid_from", "valid_to", *DELIVERED)


def digest_of(history: DataFrame) -> dict:
    """Return the numbers of versions and open versions, and a checksum independent of row and column order.

    ``history`` has the columns of ``COMPARED``.
    """
    compared = ", ".join(f"'{name}', {name}" for name in ("valid_from", "valid_to"))
    values = ", ".join((KEY, *DELIVERED))
    nulls = ", ".join(f"{name} IS NULL" for name in DELIVERED)
    row = (
        history.selectExpr(f"xxhash64({compared}, {values}, {nulls}) AS h", "valid_to IS NULL AS open")
        .selectExpr("count(*)", "count_if(open)", "cast(sum(cast(h AS decimal(38,0))) AS string)")
        .first()
    )
    return {"versions": row[0], "open": row[1], "checksum": row[2] or "0"}
