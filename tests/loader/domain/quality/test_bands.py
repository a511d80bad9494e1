"""Band of the row counts of the last runs, by properties."""

from hypothesis import given
from hypothesis import strategies as st

from loader.domain.quality.bands import LEAST_RUNS, bands_before, learned_band

COUNTS = st.lists(st.integers(0, 10**9), min_size=LEAST_RUNS, max_size=60)
DEVIATIONS = st.floats(1, 20)


@given(st.lists(st.integers(0, 10**9), max_size=LEAST_RUNS - 1), DEVIATIONS)
def test_no_band_is_learned_from_few_runs(counts, deviations):
    assert learned_band(counts, deviations) is None


@given(COUNTS, DEVIATIONS)
def test_a_band_has_the_median_and_no_negative_count(counts, deviations):
    band = learned_band(counts, deviations)
    assert band.holds(sorted(counts)[len(counts) // 2])
    assert 0 <= band.low <= band.high


@given(COUNTS, DEVIATIONS, st.randoms())
def test_the_order_of_runs_does_not_change_the_band(counts, deviations, random):
    shuffled = random.sample(counts, len(counts))
    assert learned_band(counts, deviations) == learned_band(shuffled, deviations)


@given(COUNTS, st.floats(1, 10), st.floats(0, 10))
def test_more_deviations_make_a_wider_band(counts, deviations, more):
    narrow, wide = learned_band(counts, deviations), learned_band(counts, deviations + more)
    assert wide.low <= narrow.low
    assert wide.high >= narrow.high


@given(st.integers(100, 10**6), st.integers(LEAST_RUNS, 30), st.integers(0, 10**9))
def test_single_outlier_does_not_move_the_band_of_equal_counts(count, runs, outlier):
    assert learned_band([count] * runs + [outlier], 5) == learned_band([count] * runs, 5)


def test_equal_counts_permit_a_change_of_some_per_cent():
    band = learned_band([1000] * 10, 5)
    assert (band.low, band.high) == (950.0, 1050.0)


def test_each_value_is_compared_with_the_earlier_runs_that_have_a_count():
    bands = bands_before([1000, None, 1000, 1000, 1000, 1000, 5000, 1000])
    assert bands[:6] == (None,) * 6
    assert not bands[6].holds(5000)
    assert bands[7].holds(1000)
