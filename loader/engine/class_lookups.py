"""Cache of Java class lookups from Python."""

from functools import wraps
from typing import Any

from py4j.java_gateway import JavaClass, JavaPackage, JVMView


def remember_classes() -> None:
    """Make py4j resolve each part of a class name once instead of at every use.

    Java searches every jar before it reports that ``org.apache`` is no class, as often for PySpark's own code as
    for ours; this took a sixth of a small load's CPU time. A package never becomes a class.
    """
    for owner in (JVMView, JavaPackage):
        if not hasattr(owner.__getattr__, "__wrapped__"):
            owner.__getattr__ = _remembering(owner.__getattr__)


def _remembering(look_up: Any) -> Any:
    @wraps(look_up)
    def remembered(parent: Any, name: str) -> Any:
        member = look_up(parent, name)
        if isinstance(member, (JavaPackage, JavaClass)):
            parent.__dict__[name] = member  # __getattr__ is not called for what an object has
        return member

    return remembered
