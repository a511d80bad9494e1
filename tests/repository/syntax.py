"""Syntax trees of modules, without their expressions."""

import ast
from collections.abc import Iterator
from functools import cache

Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the module and its statements in the order of the text; most nodes of a tree are expressions below them."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        pending += [child for child in reversed(list(ast.iter_child_nodes(node))) if not isinstance(child, ast.expr)]


@cache
def definitions(source: str) -> tuple[Definition, ...]:
    """Return the module, classes and functions of a source text, which can have docstrings."""
    return tuple(node for node in statements(ast.parse(source)) if isinstance(node, Definition))
