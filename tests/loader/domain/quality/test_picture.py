"""Picture of a check's last results."""

from loader.contract.check_outcomes import Result
from loader.domain.quality.picture import HEIGHT, draw


def result(outcome: str, **values) -> Result:
    return Result("k", "c", "not_null", "warn", outcome, **values)


def test_bars_are_ordered_by_time_and_higher_for_more_failed_rows():
    few, many = result("warned", failed=1, total=100), result("warned", failed=50, total=100)
    picture = draw([few, many])
    assert picture.bars[0].x < picture.bars[1].x
    assert picture.bars[0].height < picture.bars[1].height <= HEIGHT
    assert picture.label == "Last 2 results: 2 warned"


def test_a_value_is_drawn_with_its_limits():
    picture = draw([result("passed", value=100.0, low=50.0, high=200.0)])
    assert picture.band == (0.0, HEIGHT * 0.75)
    assert picture.bars[0].height == HEIGHT / 2


def test_no_results_give_an_empty_picture():
    assert draw([]).bars == ()
    assert draw([]).label == "No results"
