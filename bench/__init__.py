"""Benchmarks: the product's history step beside a baseline and other libraries, in one run.

Started by ``make bench`` and ``python -m bench``; the product never imports this package. The main process
uses the standard library only. Every engine runs in a warm process of its own (``bench.processes.worker``), those of
other libraries in a separate environment (``bench.processes.environment``), so that neither their packages nor their
licences touch the product.
"""
