"""Names, types and nullability that are derived for a model are those of Spark's own analysis."""

import pytest
from pyspark.sql import types as T

from metadata.domain.models import ReadColumn, bind_select, describe_select, relations_of
from metadata.domain.models.sql_types import from_metadata
from metadata.domain.types import from_spark, parse, spark_type, stored_type

_T = (
    ("i", "integer", False),
    ("j", "integer", True),
    ("l", "bigint", False),
    ("f", "float", False),
    ("d", "decimal(10,2)", False),
    ("e", "decimal(38,6)", True),
    ("s", "string", False),
    ("v", "string(20)", True),
    ("b", "boolean", False),
    ("dt", "date", False),
    ("ts", "timestamp", False),
    ("x", "binary", True),
    ("u", "uuid", True),
)
_U = (("i", "bigint", False), ("name", "string", False), ("w", "decimal(5,4)", True))
_H = (
    ("i", "bigint", False),
    ("name", "string", True),
    ("__valid_from", "timestamp", True),
    ("__valid_to", "timestamp", True),
)
DATASETS = {
    "rawcore.t": [ReadColumn(*column) for column in _T],
    "rawcore.u": [ReadColumn(*column) for column in _U],
    "rawcore.u_hist": [ReadColumn(*column) for column in _H],
    "versions(rawcore.u_hist)": [ReadColumn(*column) for column in _H],
}
VALUES = {"load_timestamp": "TIMESTAMP '2026-01-01T00:00:00Z'", "load_run_id": "'run'"}

EXPRESSIONS = """
i
1
2147483648
9223372036854775808
1.50
0.05
100.0
1e3
3L
1.10BD
2.5D
'text'
true
CAST(NULL AS DATE)
i + j
i + l
i - 1
i * f
i / 2
i / j
l / d
i % 3
i div 2
l div i
-i
-d
d + 1
d + i
d + l
d * 2
d * d
d / 3
d / d
d % 3
d - 0.005
e + e
e * d
e / d
e * e
d + f
i + s
s + 1.5
i + '1'
(i + j) * d
i = j
i = s
dt = '2020-01-01'
dt < ts
d <=> e
b AND j > 1
NOT b
i BETWEEN 1 AND 3
i IN (1, 2, j)
s LIKE 'a%'
s RLIKE 'a'
v IS NULL
v IS NOT NULL
b IS TRUE
s || v
s || i
CASE WHEN b THEN 1 ELSE 2 END
CASE WHEN b THEN 1 END
CASE WHEN b THEN i ELSE l END
CASE WHEN b THEN d ELSE 0 END
CASE WHEN b THEN d ELSE f END
CASE i WHEN 1 THEN 'a' WHEN 2 THEN v ELSE s END
CASE WHEN b THEN dt ELSE ts END
CASE WHEN b THEN i ELSE d END
IF(b, 1, 2.5)
CAST(i AS STRING)
CAST(s AS INT)
CAST(s AS DECIMAL(12, 3))
CAST(d AS DECIMAL(12, 3))
CAST(ts AS DATE)
CAST(s AS VARCHAR(5))
TRY_CAST(s AS INT)
s::bigint
int(s)
date(ts)
DATE '2020-02-03'
TIMESTAMP '2020-02-03 04:05:06'
dt + 1
dt - 1
dt + INTERVAL 3 DAYS
dt + INTERVAL 2 MONTHS
dt + INTERVAL 2 HOURS
ts + INTERVAL 2 HOURS
ts - INTERVAL 1 YEAR
ts + INTERVAL '3' DAY
datediff(dt, ts)
datediff(DAY, dt, ts)
timestampdiff(HOUR, dt, ts)
dateadd(DAY, 3, dt)
timestampadd(HOUR, 3, ts)
date_add(dt, 3)
date_sub(dt, i)
add_months(dt, 1)
months_between(ts, dt)
last_day(dt)
trunc(dt, 'MONTH')
date_trunc('MONTH', dt)
year(dt)
quarter(ts)
hour(ts)
EXTRACT(YEAR FROM dt)
EXTRACT(SECOND FROM ts)
date_part('MONTH', dt)
date_format(ts, 'yyyy')
to_date(s)
to_date(s, 'yyyy-MM-dd')
to_timestamp(s)
unix_date(dt)
unix_seconds(ts)
make_date(2020, 1, 2)
next_day(dt, 'MON')
upper(s)
lower(v)
length(s)
trim(s)
trim(BOTH 'x' FROM s)
ltrim(s)
substring(s, 1, 2)
substring(s FROM 2 FOR 3)
substr(s, 2)
left(s, 2)
right(v, 2)
concat(s, v)
concat(s, '-', i)
concat_ws('-', v, s)
replace(s, 'a', 'b')
regexp_replace(s, 'a', 'b')
regexp_extract(s, '(a)', 1)
split(s, ',')[0]
split_part(s, ',', 1)
position('a' IN s)
locate('a', s)
instr(s, 'a')
lpad(s, 3, '0')
repeat(s, 2)
reverse(s)
initcap(s)
startswith(s, 'a')
contains(s, v)
md5(s)
sha2(s, 256)
hash(s, i)
xxhash64(s)
coalesce(v, s)
coalesce(j, 0)
coalesce(j, l)
coalesce(e, 0)
coalesce(v, u)
nvl(v, '')
nullif(i, 0)
nvl2(v, 1, 2L)
ifnull(j, 1.5)
greatest(i, l)
least(d, 1)
abs(d)
abs(i)
round(d, 1)
round(d)
round(f, 2)
round(i, -1)
round(d, -2)
ceil(d)
floor(f)
ceil(i)
sqrt(i)
ln(d)
log(10, f)
exp(f)
power(i, 2)
sign(d)
mod(i, 3)
mod(d, 3)
pmod(l, 3)
try_add(i, j)
try_divide(d, 3)
try_multiply(d, d)
bin(i)
hex(s)
format_number(d, 2)
get_json_object(s, '$.a')
size(split(s, ','))
array_join(split(s, ','), '-')
array_contains(split(s, ','), 'a')
element_at(split(s, ','), 1)
surrogate_key(i, v)
{{ load_timestamp }}
{{ load_run_id }}
ts - {{ load_timestamp }} > INTERVAL 1 DAY
row_number() OVER (PARTITION BY s ORDER BY ts DESC)
rank() OVER (ORDER BY i)
lag(d) OVER (ORDER BY ts)
lead(i, 1) OVER (PARTITION BY b ORDER BY ts)
first_value(s) OVER (PARTITION BY b ORDER BY ts)
sum(d) OVER (PARTITION BY b)
sum(i) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
count(*) OVER ()
percent_rank() OVER (ORDER BY i)
ntile(4) OVER (ORDER BY i)
(SELECT max(w) FROM rawcore.u)
EXISTS (SELECT 1 FROM rawcore.u WHERE u.i = t.i)
i IN (SELECT i FROM rawcore.u)
""".strip().splitlines()
AGGREGATES = """
count(*)
count(v)
count(DISTINCT s, v)
count(*) FILTER (WHERE b)
count_if(b)
sum(i)
sum(l)
sum(f)
sum(d)
sum(e)
sum(d * 2)
sum(s)
avg(i)
avg(d)
avg(e)
avg(f)
min(s)
max(ts)
max(d)
max_by(s, ts)
stddev(i)
variance(d)
corr(i, f)
bool_and(b)
approx_count_distinct(s)
median(d)
percentile_cont(0.5) WITHIN GROUP (ORDER BY d)
percentile(i, 0.5)
array_join(sort_array(collect_set(s)), ',')
listagg(s, ',') WITHIN GROUP (ORDER BY s)
sum(i) / count(*)
sum(d) / sum(i)
coalesce(sum(d), 0)
round(avg(d), 2)
max(i) - min(i)
sum(CASE WHEN b THEN d ELSE 0 END)
sum(sum(d)) OVER ()
surrogate_key(max(i))
""".strip().splitlines()
QUERIES = (
    "SELECT * FROM rawcore.t",
    "SELECT t.*, u.name FROM rawcore.t LEFT JOIN rawcore.u ON u.i = t.i",
    "SELECT t.s, u.* EXCEPT (i) FROM rawcore.t RIGHT JOIN rawcore.u ON u.i = t.i",
    "SELECT a.i, b.i AS other FROM rawcore.u a FULL JOIN rawcore.u b ON a.i = b.i",
    "SELECT * FROM rawcore.t JOIN rawcore.u USING (i)",
    "SELECT i, name FROM rawcore.t FULL JOIN rawcore.u USING (i)",
    "SELECT i, s FROM rawcore.t LEFT SEMI JOIN rawcore.u USING (i)",
    "SELECT t.i FROM rawcore.t LEFT ANTI JOIN rawcore.u ON u.i = t.i",
    "SELECT t.i, u.name FROM rawcore.t, rawcore.u WHERE t.i = u.i",
    "SELECT t.i, u.name FROM rawcore.t CROSS JOIN rawcore.u",
    "SELECT s, sum(d) AS total FROM rawcore.t GROUP BY s",
    "SELECT upper(s) AS big, count(*) AS n FROM rawcore.t GROUP BY upper(s) HAVING count(*) > 1 ORDER BY n DESC",
    "SELECT upper(s) AS big, count(*) AS n FROM rawcore.t GROUP BY 1",
    "SELECT upper(s) AS big, count(*) AS n FROM rawcore.t GROUP BY big",
    "SELECT s, b, count(*) AS n FROM rawcore.t GROUP BY ALL",
    "SELECT s, b, count(*) AS n FROM rawcore.t GROUP BY ROLLUP (s, b)",
    "SELECT s, b, grouping(s) AS g, count(*) AS n FROM rawcore.t GROUP BY CUBE (s, b)",
    "SELECT s, b, count(*) AS n FROM rawcore.t GROUP BY s, b GROUPING SETS ((s), (s, b))",
    "SELECT DISTINCT s FROM rawcore.t",
    "SELECT max(i) AS m FROM rawcore.t",
    "SELECT i FROM rawcore.t UNION ALL SELECT i FROM rawcore.u",
    "SELECT d FROM rawcore.t UNION SELECT w FROM rawcore.u",
    "SELECT i, v FROM rawcore.t UNION ALL SELECT 1, 'x' UNION ALL SELECT l, s FROM rawcore.t",
    "SELECT j FROM rawcore.t INTERSECT SELECT i FROM rawcore.u",
    "SELECT i FROM rawcore.u EXCEPT SELECT j FROM rawcore.t",
    "WITH c AS (SELECT i, d * 2 AS twice FROM rawcore.t) SELECT i, sum(twice) AS s FROM c GROUP BY i",
    "WITH c (k, z) AS (SELECT i, s FROM rawcore.t), e AS (SELECT k FROM c) SELECT * FROM e JOIN c USING (k)",
    "SELECT q.k, q.m FROM (SELECT i AS k, max(ts) AS m FROM rawcore.t GROUP BY i) q WHERE q.m > '2020-01-01'",
    "SELECT a, b + 1 AS c FROM VALUES (1, 2.5), (2, 3) AS v(a, b)",
    "SELECT i * 2 AS twice, twice + 1 AS more FROM rawcore.t",
    "SELECT i, word FROM rawcore.t LATERAL VIEW explode(split(s, ' ')) w AS word",
    "SELECT i, p, word FROM rawcore.t LATERAL VIEW OUTER posexplode(split(s, ' ')) w AS p, word",
    "SELECT day FROM (SELECT 1 AS one) LATERAL VIEW explode(sequence(DATE '2020-01-01', DATE '2020-02-01')) d AS day",
    "SELECT i, s FROM rawcore.t ORDER BY ts DESC LIMIT 3",
    "SELECT rawcore.t.i FROM rawcore.t WHERE rawcore.t.b",
    "SELECT x.i, l2.m FROM rawcore.t x JOIN LATERAL (SELECT max(w) AS m FROM rawcore.u WHERE u.i = x.i) l2",
    "SELECT t.i, h.name FROM rawcore.t LEFT JOIN as_of(rawcore.u_hist, t.ts) h ON h.i = t.i OR left(h.name, 1) = t.s",
    "SELECT h.i, h.name FROM as_of(rawcore.u_hist, {{ load_timestamp }}) AS h",
    "SELECT * FROM versions(rawcore.u_hist)",
    "SELECT t.i, u_hist.name FROM rawcore.t JOIN current(rawcore.u_hist) ON u_hist.i = t.i",
    "SELECT i, max(ts) OVER w AS last FROM rawcore.t WINDOW w AS (PARTITION BY s ORDER BY ts)",
    "SELECT s, rank() OVER (ORDER BY sum(d) DESC) AS place FROM rawcore.t GROUP BY s",
    "SELECT t.i FROM (rawcore.t JOIN rawcore.u ON u.i = t.i)",
    "(SELECT i FROM rawcore.t) UNION ALL (SELECT i FROM rawcore.u) ORDER BY i LIMIT 2",
    "FROM rawcore.t SELECT i, s",
)


@pytest.fixture(scope="module")
def analysis(spark):
    """Return the schema that Spark derives for a model, over empty views of the datasets."""
    for name, columns in DATASETS.items():
        fields = [T.StructField(each.name, _as_read(each.type), each.nullable) for each in columns]
        spark.createDataFrame([], T.StructType(fields)).createOrReplaceTempView(_view(name))

    def of(text: str) -> T.StructType:
        relations = {key: f"`{_view(key)}`" for key in relations_of(text)}
        return spark.sql(bind_select(text, relations, VALUES)).schema

    return of


def _as_read(text: str) -> T.DataType:
    """Return the type of a column as Spark reads it from a table: texts with a length are plain texts."""
    stored = stored_type(parse(text))
    return T.StringType() if stored.name == "string" else T._parse_datatype_string(spark_type(stored))


def _view(name: str) -> str:
    return "model_" + "".join(letter if letter.isalnum() else "_" for letter in name)


@pytest.mark.parametrize(
    "text",
    [f"SELECT {expression} AS x FROM rawcore.t" for expression in (*EXPRESSIONS, *AGGREGATES)] + list(QUERIES),
)
def test_described_model_columns_equal_those_derived_by_spark(analysis, text):
    columns = describe_select(text, DATASETS).columns
    fields = analysis(text).fields
    expected = [(field.name.lower(), str(from_spark(field.dataType.simpleString()))) for field in fields]
    # Spark stores string(n) as text unless the column of a table declares the length.
    derived = [(column.name.lower(), from_metadata(column.type)) for column in columns]
    assert derived == [(name, from_metadata(type_)) for name, type_ in expected]
    unsafe = [
        field.name for field, column in zip(fields, columns, strict=True) if field.nullable and not column.nullable
    ]
    assert not unsafe, "said NOT NULL where Spark may give NULL"
