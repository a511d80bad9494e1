"""Tuning of Python's garbage collector."""

import gc

_NEW, _YOUNG, _OLD = 50_000, 20, 50


def collect_less() -> None:
    """Collect cyclic garbage less often, in a process that works on the whole metadata.

    The metadata is millions of objects without cycles. With Python's default thresholds, collections took a third of
    the time of a plan, and some pages waited half a second for one. With these, cycles are collected after 50,000 new
    objects.
    """
    gc.set_threshold(_NEW, _YOUNG, _OLD)


def keep_what_is_loaded() -> None:
    """Exclude the existing objects from collection, when a process has started and before it serves requests."""
    gc.collect()
    gc.freeze()
