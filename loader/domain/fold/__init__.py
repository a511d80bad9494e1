"""The fold in Spark SQL: a key's events become its versions, as one expression over arrays.

The rules are worked out in ``loader.domain.reference``; here the same is said in higher-order
functions, so that it runs inside the JVM, key by key, whatever the number of keys. Pure text: what
it means on Spark is proved by driving both with the same batches.
"""
