"""Publication of names in a catalog: compare, settle the differences, compare again.

The runner works through no shared catalog, so that no load, step or dry run depends on it.
"""

import logging
import threading
from contextlib import nullcontext
from typing import Any

from pyspark.sql import SparkSession

from loader.domain.catalogs.catalog_setting import EMBEDDED, spark_catalog
from loader.domain.catalogs.publication import as_answer
from loader.domain.manifest import PublishManifest
from loader.domain.refusals import Refusal
from loader.spark.catalogs.catalog import Catalog, innermost
from loader.spark.catalogs.external import EmbeddedCatalog, Metastore, disconnect
from loader.spark.catalogs.spark_catalog import SparkCatalog
from loader.spark.session import dataset_session
from loader.spark.sources.files import JAVA_ERRORS

log = logging.getLogger(__name__)

_publishing = threading.Lock()


def publish_names(spark: SparkSession, warehouse: str, manifest: PublishManifest) -> dict[str, Any]:
    """Compare the catalog with the names; unless it is a check, settle every difference that can be settled.

    The answer has the differences that a check found, else those that are left when the catalog is read again.
    Raise Refusal CATALOG_DOWN or UNKNOWN_CATALOG.
    """
    kind = _kind(manifest.address)
    # Names in memory replace each other one by one, so a load need not wait until all names of a new runner are in.
    with _publishing if kind.shared else nullcontext():
        try:
            return _published(kind(dataset_session(spark, user_metadata=""), warehouse, manifest), manifest)
        except JAVA_ERRORS as failure:
            disconnect()
            raise Refusal(
                "CATALOG_DOWN",
                f"the catalog {manifest.address} does not answer as expected: {innermost(failure)}",
                hint=f"The tables themselves are as they were written. {kind.remedy}.",
            ) from failure


def _kind(address: str) -> type[Catalog]:
    if address == EMBEDDED:
        return EmbeddedCatalog
    return SparkCatalog if spark_catalog(address) else Metastore


def _published(catalog: Catalog, manifest: PublishManifest) -> dict[str, Any]:
    findings = catalog.findings()
    if not manifest.check and findings:
        kept = {(one.kind, one.name): one for one in map(catalog.settled, findings) if one is not None}
        findings = [kept.get((one.kind, one.name), one) for one in catalog.findings()]
    for finding in findings:
        log.info("the catalog %s: %s", manifest.address, finding.one_line())
    return as_answer(findings, len(manifest.names))
