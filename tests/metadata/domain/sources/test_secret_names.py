"""Tests of the names of variables with the passwords of sources."""

import pytest

from elevata.core.errors import MetadataError
from metadata.domain.sources.secret_names import check_secret_name, listed_secrets


@pytest.mark.parametrize("name", ["", "ELEVATA_SOURCE_ERP", "ELEVATA_SOURCE_ERP_PASSWORD_2", "SHOP_PASSWORD", "KEY"])
def test_secret_name_may_be_a_source_variable_or_a_listed_one(name: str):
    check_secret_name(name, listed_secrets("SHOP_PASSWORD, KEY"))


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "ELEVATA_SECRET_KEY", "DATABASE_URL", "ELEVATA_SOURCE_HOSTS", "ELEVATA_SOURCE_", "hunter2"),
        *("ELEVATA_PASSWORD", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "shop_password", "SHOP_PASSWORD\n"),
        *("HADOOP_CREDSTORE_PASSWORD", "GITHUB_TOKEN", "VAULT_TOKEN", "POSTGRES_PASSWORD", "API_KEY"),
        "ELEVATA_SOURCE_SECRETS",
    ],
)
def test_other_secret_name_is_refused(name: str):
    with pytest.raises(MetadataError):
        check_secret_name(name, ("SHOP_PASSWORD",))


@pytest.mark.parametrize("name", ["ELEVATA_SECRET_KEY", "DATABASE_URL", "lower", "A B", "X-Y"])
def test_reserved_or_invalid_variable_cannot_be_listed_as_a_secret(name: str):
    with pytest.raises(MetadataError, match="is not a variable name, or is reserved for elevata; remove it"):
        listed_secrets(f"ERP_PASSWORD, {name}")
