"""Checks of Spark's plans: one SELECT over temporary views, without commands, scripts or values of the server."""

import logging
from collections.abc import Iterator
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from loader.contract.refusals import Refusal
from loader.domain.queries.select_statements import REFUSED
from loader.engine.pyspark_types import jvm_of

# PySpark logs the text of every failed query, with the values in it. The user gets the error in the answer instead.
logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL + 1)

_PLAN = "org.apache.spark.sql.catalyst.plans.logical.LogicalPlan"
_NOT_ALLOWED = ("ScriptTransformation", "InsertIntoStatement", "InsertIntoDir")
# Expressions with values of the server: its account, catalog and database.
_OF_SERVER = ("CurrentUser", "SessionUser", "CurrentCatalog", "CurrentDatabase")
# Root of a temporary view's plan; the parts below it were not written by the user.
_VIEW = "View"


def checked_frame(session: SparkSession, query: str) -> DataFrame:
    """Return the query as a frame. Raise Refusal SQL_REFUSED for anything but one SELECT over temporary views.

    ``session.sql`` would run a command at once, so the parsed statement is checked first.
    """
    parsed = session._jsparkSession.sessionState().sqlParser().parsePlan(query)
    commands = jvm_of(session).org.apache.spark.sql.catalyst.trees.TreePattern.COMMAND()
    if parsed.containsPattern(commands):
        raise Refusal(REFUSED, "line 1, column 1: only one SELECT can be run")
    for node in _nodes(parsed):
        _check_name(node.getClass().getSimpleName())
    frame = session.sql(query)
    for node in _nodes(frame._jdf.queryExecution().analyzed(), beneath_views=False):
        name = node.getClass().getSimpleName()
        _check_name(name)
        _check_words(session, node)
        if name == _VIEW and not node.isTempView():
            raise Refusal(REFUSED, "only published tables and views can be read")
        if name.endswith("Relation") and name not in ("LocalRelation", "OneRowRelation", "CTERelationRef"):
            raise Refusal(REFUSED, "only published tables and views can be read")
    return frame


def _check_name(name: str) -> None:
    if name in _NOT_ALLOWED or name.endswith("Command"):
        raise Refusal(REFUSED, f"only one SELECT can be run, and this is a {name}")


def _check_words(session: SparkSession, node: Any) -> None:
    """Refuse words like ``user``, which name the account of the server where no column is called so."""
    if not node.containsPattern(jvm_of(session).org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()):
        return
    waiting = [node.expressions()]
    while waiting:
        expressions = waiting.pop()
        for index in range(expressions.size()):
            expression = expressions.apply(index)
            if expression.getClass().getSimpleName() in _OF_SERVER:
                raise Refusal(REFUSED, f"{expression.prettyName()} is not allowed: it names the server's account")
            waiting.append(expression.children())


def _nodes(plan: Any, *, beneath_views: bool = True) -> Iterator[Any]:
    """Yield the nodes of a logical plan, including subqueries and common table expressions.

    With ``beneath_views`` False, the nodes below a view are left out.
    """
    yield plan
    if not beneath_views and plan.getClass().getSimpleName() == _VIEW:
        return
    for part in (plan.children(), plan.innerChildren(), plan.subqueries()):
        for index in range(part.size()):
            child = part.apply(index)
            if is_instance_of(SparkContext._gateway, child, _PLAN):
                yield from _nodes(child, beneath_views=beneath_views)
