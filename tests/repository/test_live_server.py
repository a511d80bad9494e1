"""The live server of a test is left when its requests have been answered."""

from threading import Event, Thread

from django.dispatch import Signal

from tests.fixtures.live_server import RequestsOfServer

STARTED, FINISHED = Signal(), Signal()


def answer(when: Event, begun: Event) -> None:
    STARTED.send(sender=answer)
    begun.set()
    when.wait()
    FINISHED.send(sender=answer)


def test_request_that_a_thread_answers_is_waited_for():
    when, begun = Event(), Event()
    with RequestsOfServer(STARTED, FINISHED) as requests:
        thread = Thread(target=answer, args=(when, begun))
        thread.start()
        begun.wait()
        assert not requests.wait(0)
        when.set()
        assert requests.wait()
        thread.join()


def test_request_of_a_test_client_is_not_waited_for():
    with RequestsOfServer(STARTED, FINISHED) as requests:
        STARTED.send(sender=RequestsOfServer)
        assert requests.wait(0)
