"""Publication of names in a catalog: compare, resolve the differences, compare again.

The runner's other work uses no shared catalog, so that no load, step or dry run depends on it.
"""

import logging
import threading
from contextlib import nullcontext
from typing import Any

from pyspark.sql import SparkSession

from loader.contract.manifest.publication import PublishManifest
from loader.contract.refusals import Refusal
from loader.domain.catalogs.catalog_setting import EMBEDDED, spark_catalog
from loader.domain.catalogs.publication import as_answer, incomplete_answer
from loader.engine.catalogs.catalog import Catalog, innermost
from loader.engine.catalogs.external import EmbeddedCatalog, Metastore, disconnect
from loader.engine.catalogs.spark_catalog import SparkCatalog
from loader.engine.java_errors import JAVA_ERRORS
from loader.engine.session import dataset_session

log = logging.getLogger(__name__)

_publishing = threading.Lock()
# Shared catalogs, with their warehouses, in which this process has published all names and that have answered since.
# An earlier process may have ended between two names.
_complete: set[tuple[str, str]] = set()


def publish_names(spark: SparkSession, warehouse: str, manifest: PublishManifest) -> dict[str, Any]:
    """Compare the catalog with the names, and resolve the differences unless this is a check.

    The answer has the differences that a check found, else those that remain when the catalog is read again. Some
    names of a shared catalog are published only once all were; before, the answer is ``incomplete``.
    Raise Refusal CATALOG_DOWN or UNKNOWN_CATALOG.
    """
    kind, place = _kind(manifest.address), (manifest.address, warehouse)
    # Names in memory are replaced one by one, without a lock, so a load need not wait for all names of a new runner.
    with _publishing if kind.shared else nullcontext():
        if kind.shared and not manifest.whole and place not in _complete:
            return incomplete_answer()
        try:
            answer = _publish(kind(dataset_session(spark, user_metadata=""), warehouse, manifest), manifest)
        except JAVA_ERRORS as failure:
            _complete.discard(place)
            disconnect()
            raise Refusal(
                "CATALOG_DOWN",
                f"the catalog {manifest.address} does not answer as expected: {innermost(failure)}",
                hint=f"The tables themselves are as they were written. {kind.remedy}.",
            ) from failure
        if manifest.whole and not manifest.check:
            _complete.add(place)
        return answer


def _kind(address: str) -> type[Catalog]:
    if address == EMBEDDED:
        return EmbeddedCatalog
    return SparkCatalog if spark_catalog(address) else Metastore


def _publish(catalog: Catalog, manifest: PublishManifest) -> dict[str, Any]:
    findings = catalog.findings()
    if not manifest.check and findings:
        remaining = filter(None, map(catalog.settled, findings))
        unresolved = {(finding.kind, finding.name): finding for finding in remaining}
        findings = [unresolved.get((finding.kind, finding.name), finding) for finding in catalog.findings()]
    for finding in findings:
        log.info("the catalog %s: %s", manifest.address, finding.one_line())
    return as_answer(findings, len(manifest.names))
