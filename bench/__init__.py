"""Benchmarks: the product's history step beside a yardstick and its peers, in one run.

This package is started by ``make bench`` and ``python -m bench``; nothing of the product imports it.
The process a person starts uses the standard library only. Every engine works in a warm process of
its own (``bench.worker``), the peers' in an environment of their own (``bench.environment``), so no
peer's packages or licence touch the product.
"""
