"""The live server of a test is left when its requests have been answered."""

from threading import Event, Thread

from django.core.signals import request_finished, request_started

from tests.fixtures.live_server import RequestsOfServer


def answer(when: Event, begun: Event) -> None:
    request_started.send(sender=answer, environ={})
    begun.set()
    when.wait()
    request_finished.send(sender=answer)


def test_request_that_a_thread_answers_is_waited_for():
    when, begun = Event(), Event()
    with RequestsOfServer() as requests:
        thread = Thread(target=answer, args=(when, begun))
        thread.start()
        begun.wait()
        assert not requests.wait(0)
        when.set()
        assert requests.wait()
        thread.join()


def test_request_of_a_test_client_is_not_waited_for():
    with RequestsOfServer() as requests:
        request_started.send(sender=RequestsOfServer, environ={})
        assert requests.wait(0)
