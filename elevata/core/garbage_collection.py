"""Tuning of Python's garbage collector: cyclic garbage is collected less often."""

import gc

_NEW, _YOUNG, _OLD = 50_000, 20, 50


def collect_less() -> None:
    """For a process that works on all that is described.

    That is millions of objects without a cycle among them. With Python's own thresholds a third of the
    time of a plan went into looking through them, and a page that did nothing special waited half a
    second for it now and then. What does hold each other goes when 50,000 objects are new.
    """
    gc.set_threshold(_NEW, _YOUNG, _OLD)


def keep_what_is_loaded() -> None:
    """Look no more at what is there: in a process that has begun and will answer, code and what belongs to it."""
    gc.collect()
    gc.freeze()
