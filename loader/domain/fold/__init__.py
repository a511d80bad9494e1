"""The fold in Spark SQL: a key's events become its versions, as one expression over arrays.

The rules are implemented in ``loader.domain.reference``; here they are written as higher-order
functions, so that they run inside the JVM, key by key, whatever the number of keys. These modules only build
text; tests run both implementations on the same batches.
"""
