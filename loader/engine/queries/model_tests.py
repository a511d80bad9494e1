"""Unit tests of models in one Spark session: given rows are temporary views in place of tables."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from loader.domain.model_tests import ModelTest, ModelTestOutcome, ModelTests, Row, outcome
from loader.engine.java_errors import accident, first_sentence
from loader.engine.session import fit_shuffles
from metadata.domain.sql import quote_identifier

log = logging.getLogger(__name__)
SIDE_BY_SIDE = 4


def run_tests(
    spark: SparkSession, manifest: ModelTests, tell: Callable[[ModelTestOutcome], None]
) -> list[ModelTestOutcome]:
    """Run the tests, several in parallel, each with views of its own; call ``tell`` with each outcome."""

    def run(test: ModelTest) -> ModelTestOutcome:
        result = _run(fit_shuffles(spark.newSession()), test)
        tell(result)
        return result

    with ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="model-test") as pool:
        return list(pool.map(run, manifest.tests))


def _run(session: SparkSession, test: ModelTest) -> ModelTestOutcome:
    try:
        for view, sql in test.given:
            session.sql(sql).createOrReplaceTempView(view)
        return outcome(test, _rows(session.sql(test.expected), test), _rows(session.sql(test.query), test))
    except PySparkException as error:
        return ModelTestOutcome(test.name, test.model, False, first_sentence(error))
    except Exception as failure:  # an error in one test must not end the others
        log.exception("test %s failed", test.name)
        return ModelTestOutcome(test.name, test.model, False, accident(test.name, failure).one_line())


def _rows(frame: DataFrame, test: ModelTest) -> list[Row]:
    """Return the compared columns of the rows as text."""
    texts = frame.selectExpr(*(f"CAST({quote_identifier(name)} AS STRING)" for name in test.columns))
    return [tuple(row) for row in texts.collect()]
