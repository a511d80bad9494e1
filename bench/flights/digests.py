"""Digest of a built model, the same for both engines."""

from pyspark.sql import DataFrame
from pyspark.sql.types import NumericType


def digest_of_model(frame: DataFrame) -> dict[str, str]:
    """Return the number of rows, the sum of each numeric column, and a checksum of all values in any order."""
    columns = sorted(frame.columns)
    numeric = [field.name for field in frame.schema.fields if isinstance(field.dataType, NumericType)]
    hashed = ", ".join([f"`{name}`" for name in columns] + [f"`{name}` IS NULL" for name in columns])
    sums = [f"CAST(sum(CAST(`{name}` AS DECIMAL(28,4))) AS STRING) AS `{name}`" for name in numeric]
    checksum = f"CAST(sum(CAST(xxhash64({hashed}) AS DECIMAL(38,0))) AS STRING) AS checksum"
    return frame.selectExpr("CAST(count(*) AS STRING) AS rows", checksum, *sums).first().asDict()
