"""Java's classes as Python reaches them."""

from functools import wraps
from typing import Any

from py4j.java_gateway import JavaClass, JavaPackage, JVMView


def remember_classes() -> None:
    """Have py4j ask Java once for each part of a class's name, instead of each time it is written.

    Java looks through every jar before it says that ``org.apache`` is no class, and PySpark's own code asks so
    as often as ours: it was a sixth of what a small load computed. A package never becomes a class.
    """
    for owner in (JVMView, JavaPackage):
        if not hasattr(owner.__getattr__, "__wrapped__"):
            owner.__getattr__ = _remembering(owner.__getattr__)


def _remembering(look_up: Any) -> Any:
    @wraps(look_up)
    def remembered(parent: Any, name: str) -> Any:
        found = look_up(parent, name)
        if isinstance(found, (JavaPackage, JavaClass)):
            parent.__dict__[name] = found  # __getattr__ is not called for what an object has
        return found

    return remembered
