"""Values of ELEVATA_CATALOG and ELEVATA_CATALOG_PREFIX."""

import pytest

from loader.domain.catalogs.catalog_setting import is_catalog, is_prefix, metastore_addresses, spark_catalog


@pytest.mark.parametrize("address", ["embedded", "hive", "thrift://m:9083", "thrift://a:1,thrift://b:2", "spark:unity"])
def test_catalog_setting_accepts_embedded_metastore_and_spark_values(address: str):
    assert is_catalog(address)


@pytest.mark.parametrize("address", ["", "Hive", "jdbc:postgresql://x", "spark:", "spark:a.b", "spark:a`b", "spark:1"])
def test_catalog_setting_refuses_other_values(address: str):
    assert not is_catalog(address)


@pytest.mark.parametrize("prefix", ["", "test_", "t2"])
def test_catalog_prefix_accepts_the_beginning_of_an_identifier(prefix: str):
    assert is_prefix(prefix)


@pytest.mark.parametrize("prefix", ["Test_", "2t", "_t", "a-b", "a.b", "a`", "ä", "a" * 31, "a\n"])
def test_catalog_prefix_refuses_other_texts(prefix: str):
    assert not is_prefix(prefix)


def test_catalog_setting_yields_metastore_addresses_or_a_spark_catalog():
    assert (metastore_addresses("thrift://m:9083"), metastore_addresses("hive")) == ("thrift://m:9083", "")
    assert (spark_catalog("spark:unity"), spark_catalog("thrift://m:9083")) == ("unity", "")
