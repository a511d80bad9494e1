"""Cases of the contract with commits by Delta's public interfaces, on tables of every size."""

import pytest

from loader.engine.replay import replay
from loader.engine.tables.commits import PUBLIC
from tests.fixtures.spark import use_path
from tests.loader.engine.historization.test_policies import CONTRACT, OWN
from tests.loader.engine.historization.test_unmarked_rows import BATCHES, EACH_WAY, FILE_BATCHES

pytestmark = pytest.mark.spark


def take_every_table_for_a_large_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BATCHES, -1)
    patch.setattr(FILE_BATCHES, -4)


@pytest.fixture(scope="module")
def outcomes(spark, tmp_path_factory):
    """Run the chosen cases on tables that are treated as large ones, whose changed rows a MERGE replaces."""
    with pytest.MonkeyPatch.context() as patch:
        use_path(patch, PUBLIC)
        take_every_table_for_a_large_one(patch)
        results = replay(
            spark, str(tmp_path_factory.mktemp("public")), [case for case in CONTRACT if case.id in EACH_WAY]
        )
    return {outcome.id: outcome for outcome in results}


@pytest.mark.parametrize("case", sorted(EACH_WAY))
def test_contract_case_gives_the_expected_history_with_public_commits(outcomes, case):
    assert outcomes[case].message == ""


@pytest.mark.nightly
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_every_case_gives_the_expected_history_with_public_commits(spark, tmp_path, monkeypatch, large):
    use_path(monkeypatch, PUBLIC)
    if large:
        take_every_table_for_a_large_one(monkeypatch)
    results = replay(spark, str(tmp_path), [*CONTRACT, *OWN])
    assert {outcome.id: outcome.message for outcome in results if not outcome.passed} == {}
