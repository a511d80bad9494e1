"""Conditions of checks, computed for each row; a row for which one cannot be computed has its failure as a value.

Spark ends a query at the first row whose expression fails, for example by a division by zero. ``TryEval``, the
expression behind Spark's ``try_`` functions, catches that for any expression.
"""

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from loader.domain.quality.checks import CompiledCheck
from loader.engine.pyspark_types import jvm_of

# Spark would compute an expression that occurs twice before both places, and so outside of ``TryEval``.
_SHARED_EXPRESSIONS = "spark.sql.subexpressionElimination.enabled"
_VALUE = "value"


def fails(session: SparkSession, check: CompiledCheck) -> Column:
    """Return the condition of the rows that fail a check by themselves."""
    incomputable = is_incomputable(session, check)
    return incomputable | is_true(session, check) if check.fails else incomputable


def is_true(session: SparkSession, check: CompiledCheck) -> Column:
    """Return the condition of a check, which is not true of rows for which it cannot be computed."""
    return F.coalesce(_computed(session, check)[_VALUE] if check.error else F.expr(check.condition), F.lit(False))


def is_incomputable(session: SparkSession, check: CompiledCheck) -> Column:
    """Return the condition of the rows for which the condition of a check cannot be computed."""
    return _computed(session, check).isNull() if check.error else F.lit(False)


def _computed(session: SparkSession, check: CompiledCheck) -> Column:
    """Return a struct with the value of the condition; it is NULL if the condition cannot be computed."""
    session.conf.set(_SHARED_EXPRESSIONS, "false")
    jvm = jvm_of(session)
    text = f"named_struct('{_VALUE}', ({check.condition}))"
    expression = session._jsparkSession.sessionState().sqlParser().parseExpression(text)
    guarded = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(expression)
    return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(guarded))
