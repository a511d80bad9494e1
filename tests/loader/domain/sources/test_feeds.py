"""Selection of a feed's files for a run: each once, according to the raw table's log."""

import pytest

from loader.contract.refusals import Refusal
from loader.domain.sources.feeds import FeedChoice, FeedFile, FeedLog, choose, with_note

A, B = FeedFile("file:/in/a.csv", 10, 1), FeedFile("file:/in/b.csv", 20, 2)


def log_after(*runs: tuple[str, tuple[FeedFile, ...]]) -> FeedLog:
    transactions: dict[str, int] = {}
    for run_id, files in runs:
        transactions |= FeedLog.of("t", transactions).transactions(run_id, FeedChoice(files))
    return FeedLog.of("t", transactions)


def choose_files(log: FeedLog, *listed: FeedFile, applied: int | None = None, one_file: bool = False):
    return choose("raw.r", log, listed, applied=log.newest if applied is None else applied, one_file=one_file)


def test_raw_table_without_a_log_reads_every_file():
    assert choose_files(FeedLog("t"), A, B).files == (A, B)


def test_a_file_that_was_loaded_is_not_read_again():
    log = log_after(("r1", (A,)))
    assert choose_files(log, A, B).files == (B,)
    assert choose_files(log_after(("r1", (A,)), ("r2", (B,))), A, B).files == ()


def test_log_keeps_every_character_of_a_file_name():
    odd = FeedFile('s3a://b/ü "x" [1]\n.csv', 1, 2, '"etag"')
    assert choose_files(log_after(("r1", (odd,))), odd).files == ()


@pytest.mark.parametrize("changed", [FeedFile(A.path, 11, 1), FeedFile(A.path, 10, 5)], ids=["longer", "written again"])
def test_changed_file_is_refused_in_a_folder_and_read_again_as_a_single_file(changed):
    log = log_after(("r1", (A,)))
    with pytest.raises(Refusal) as refused:
        choose_files(log, changed)
    assert (refused.value.code, refused.value.file) == ("CHANGED_SINCE_LOADED", "/in/a.csv")
    assert choose_files(log, changed, one_file=True).files == (changed,)


@pytest.mark.parametrize(("choice", "files", "changed"), [("reload", (A.path,), ()), ("keep", (), (A.path,))])
def test_changed_files_option_reloads_or_keeps_a_changed_file(choice, files, changed):
    log = log_after(("r1", (A,)))
    selection = choose("raw.r", log, [FeedFile(A.path, 11, 1)], applied=1, one_file=False, changed_files=choice)
    assert (tuple(file.path for file in selection.files), selection.changed) == (files, changed)


def test_content_tag_takes_precedence_over_the_modification_time():
    log = log_after(("r1", (FeedFile("s3a://b/a", 10, 1, "x"),)))
    assert choose_files(log, FeedFile("s3a://b/a", 10, 9, "x")).files == ()
    with pytest.raises(Refusal):
        choose_files(log, FeedFile("s3a://b/a", 10, 1, "y"))


def test_files_of_a_run_that_did_not_reach_the_history_are_read_again_and_its_rows_replaced():
    log = log_after(("r1", (A,)), ("r2", (B,)))
    choice = choose_files(log, A, B, applied=1)
    assert (choice.files, choice.replaced, choice.gone) == ((B,), ("r2",), ())
    corrected = FeedFile(B.path, 21, 9)
    assert choose_files(log, A, corrected, applied=1).files == (corrected,)


def test_rows_of_a_missing_file_are_kept_and_the_file_is_reported():
    choice = choose_files(log_after(("r1", (A, B))), A, applied=0)
    assert (choice.files, choice.replaced, choice.gone) == ((A,), (), (B.path,))


def test_history_note_records_the_newest_run_that_the_history_has_read():
    log = log_after(("r1", (A,)), ("r2", (B,)))
    note = with_note(None, "raw", log, "r1")
    assert log.number_in(note, "raw") == 1
    assert with_note(note, "raw", log, "no rows") == note
    assert log.number_in(with_note(note, "raw", log, "r2"), "raw") == 2
    assert FeedLog("another table").number_in(note, "raw") == log.number_in(None, "raw") == 0
