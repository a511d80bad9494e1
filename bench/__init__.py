"""Benchmarks: the product beside baselines and other libraries, in turns.

Started by ``make bench`` and ``python -m bench [MEASURE]``; the product never imports this package. Engines of the
history step each run in a warm process (``bench.processes.worker``), those of other libraries in a separate
environment (``bench.processes.environment``), so that neither their packages nor their licences touch the product.
"""
