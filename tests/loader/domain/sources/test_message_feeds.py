"""Selection of a topic's messages for a run: each once, according to the raw table's log."""

import pytest

from loader.contract.refusals import Refusal
from loader.domain.sources.feeds import FeedChoice, FeedFile, FeedLog, Topic, choose_messages, with_note

NAME, ID = "orders", "id-1"


def topic(*partitions: tuple[int, int], id: str = ID, name: str = NAME) -> Topic:
    return Topic(name, id, dict(enumerate(partitions)))


def choose_offsets(log: FeedLog, place: Topic, applied: int | None = None, **options) -> FeedChoice:
    return choose_messages("raw.r", log, place, applied=log.newest if applied is None else applied, **options)


def log_after(*runs: tuple[str, Topic], applied: int | None = None) -> FeedLog:
    """Return the log after runs, each of which read all messages that the topic had at that time."""
    transactions: dict[str, int] = {}
    for run_id, place in runs:
        log = FeedLog.of("t", transactions)
        transactions |= log.transactions(run_id, choose_offsets(log, place, applied))
    return FeedLog.of("t", transactions)


def offsets(choice: FeedChoice) -> list[tuple[int, int, int]]:
    return [(read.partition, read.start, read.end) for read in choice.ranges]


def refused(log: FeedLog, place: Topic, applied: int | None = None) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        choose_offsets(log, place, applied)
    return refusal.value


def test_raw_table_without_a_log_reads_from_the_earliest_message():
    assert offsets(choose_offsets(FeedLog("t"), topic((0, 5), (3, 9)))) == [(0, 0, 5), (1, 3, 9)]


def test_run_reads_from_the_offset_where_the_previous_run_ended():
    log = log_after(("r1", topic((0, 5), (0, 2))))
    assert offsets(choose_offsets(log, topic((0, 8), (0, 2)))) == [(0, 5, 8)]
    assert offsets(choose_offsets(log, topic((0, 5), (0, 2)))) == []


def test_the_highest_number_of_a_snapshot_row_is_kept_for_each_topic():
    first = choose_offsets(FeedLog("t"), topic((0, 5)))
    transactions = FeedLog("t").transactions("r1", first, 200)
    log = FeedLog.of("t", transactions)
    more = choose_offsets(log, topic((0, 9)))
    assert log.newest_read(more.ranges) == 200
    assert FeedLog.of("t", transactions | log.transactions("r2", more, 150)).newest_read(more.ranges) == 200
    assert FeedLog.of("t", transactions | log.transactions("r2", more, 300)).newest_read(more.ranges) == 300
    assert log.newest_read(choose_offsets(FeedLog("t"), topic((0, 5), id="id-2")).ranges) is None
    assert FeedLog.of("t", FeedLog("t").transactions("r1", first)).newest_read(first.ranges) is None


def test_a_new_partition_is_read_from_its_earliest_message():
    log = log_after(("r1", topic((0, 5))))
    assert offsets(choose_offsets(log, topic((0, 5), (0, 4)))) == [(1, 0, 4)]


def test_loaded_messages_that_expired_do_not_refuse_the_run():
    log = log_after(("r1", topic((0, 5))))
    assert offsets(choose_offsets(log, topic((5, 7)))) == [(0, 5, 7)]


def test_messages_that_expired_before_they_were_loaded_refuse_the_run():
    refusal = refused(log_after(("r1", topic((0, 5)))), topic((8, 9)))
    assert (refusal.code, refusal.count) == ("OFFSETS_EXPIRED", 3)
    assert "partition 0 of the topic orders was read to offset 5" in refusal.message
    assert "earliest message now has offset 8" in refusal.message


def test_expired_messages_can_be_skipped_and_are_counted():
    choice = choose_offsets(log_after(("r1", topic((0, 5)))), topic((8, 9)), skip_lost=True)
    assert (offsets(choice), choice.skipped, choice.restarted) == ([(0, 8, 9)], 3, False)


@pytest.mark.parametrize(
    "now",
    [topic((0, 9), id="id-2"), topic((0, 3))],
    ids=["another id", "it ends before what was read"],
)
def test_recreated_topic_refuses_the_run_unless_lost_messages_are_skipped(now):
    log = log_after(("r1", topic((0, 5))))
    assert refused(log, now).code == "TOPIC_REPLACED"
    choice = choose_offsets(log, now, skip_lost=True)
    assert (offsets(choice), choice.restarted) == ([(0, 0, now.partitions[0][1])], True)


def test_topic_with_fewer_partitions_is_refused_as_recreated():
    assert refused(log_after(("r1", topic((0, 5), (0, 5)))), topic((0, 5))).code == "TOPIC_REPLACED"


def test_recreated_topic_is_continued_at_its_own_offsets():
    again = topic((0, 9), id="id-2")
    transactions = log_after(("r1", topic((0, 5))))
    log = FeedLog.of("t", transactions.transactions("r2", choose_offsets(transactions, again, skip_lost=True)))
    assert offsets(choose_offsets(log, topic((0, 10), id="id-2"))) == [(0, 9, 10)]


def test_another_topic_at_the_location_starts_at_its_earliest_message():
    log = log_after(("r1", topic((0, 5))))
    assert offsets(choose_offsets(log, topic((2, 4), name="invoices"))) == [(0, 2, 4)]


def test_messages_of_a_run_that_did_not_reach_the_history_are_read_again_and_its_rows_replaced():
    log = log_after(("r1", topic((0, 5))), ("r2", topic((0, 8))))
    choice = choose_offsets(log, topic((0, 9)), applied=1)
    assert (offsets(choice), choice.replaced) == ([(0, 5, 9)], ("r2",))


def test_a_first_run_that_did_not_reach_the_history_is_read_again_from_its_start():
    log = log_after(("r1", topic((3, 5))))
    choice = choose_offsets(log, topic((3, 6)), applied=0)
    assert (offsets(choice), choice.replaced) == ([(0, 3, 6)], ("r1",))
    assert refused(log, topic((4, 6)), applied=0).code == "OFFSETS_EXPIRED"


def test_rows_of_expired_messages_are_kept():
    log = log_after(("r1", topic((3, 5))))
    choice = choose_offsets(log, topic((4, 6)), applied=0, skip_lost=True)
    assert (offsets(choice), choice.replaced, choice.skipped) == ([(0, 4, 6)], (), 1)


def test_history_note_records_the_newest_run_whose_messages_the_history_has():
    log = log_after(("r1", topic((0, 5))), ("r2", topic((0, 8))))
    note = with_note(None, "raw", log, "r1")
    assert log.number_in(note, "raw") == 1
    assert log.number_in(with_note(note, "raw", log, "r2"), "raw") == 2


def test_log_records_files_and_messages_of_one_table_separately():
    """Check that logged files do not count as messages: the location may have been a folder before."""
    log = FeedLog.of("t", FeedLog("t").transactions("r1", FeedChoice((FeedFile("file:/in/a", 1, 1),))))
    assert offsets(choose_offsets(log, topic((0, 5)))) == [(0, 0, 5)]
