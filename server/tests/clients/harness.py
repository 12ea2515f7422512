"""What the Python scripts share: where the server is, unique names, and checks on errors."""

import contextlib
import itertools
import os
import time
import unittest

from azure.core.exceptions import HttpResponseError

CONNECTION = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
SETTINGS = dict(part.split("=", 1) for part in CONNECTION.strip(";").split(";"))
ACCOUNT = SETTINGS["AccountName"]
KEY = SETTINGS["AccountKey"]
KEY_CREDENTIAL = {"account_name": ACCOUNT, "account_key": KEY}

# A 500 must fail the test, not be tried again for half a minute.
ONCE = {"retry_total": 0}

_numbers = itertools.count(1)


def unique(prefix):
    """A name no other test uses, legal for tables, queues and containers."""
    return f"{prefix}{os.getpid()}n{next(_numbers)}"


class Caught:
    """The error a `with fails(...)` block ended with."""

    error = None


class Test(unittest.TestCase):
    maxDiff = None

    @contextlib.contextmanager
    def fails(self, status, code, message=None):
        """The block must end with this status and error code, and with this text somewhere in the message."""
        caught = Caught()
        try:
            yield caught
        except HttpResponseError as error:
            caught.error = error
            found = error.error_code if hasattr(error, "error_code") else error.response.headers.get("x-ms-error-code")
            found = getattr(found, "value", found)
            self.assertEqual((error.status_code, found), (status, code), error)
            if message is not None:
                self.assertIn(message, str(error))
        else:
            self.fail(f"expected {status} {code}, but it succeeded")

    def check_service_properties(self, service, CorsRule, Metrics, RetentionPolicy):
        """Service properties that are not named stay as they are."""
        found = service.get_service_properties()
        self.assertEqual((found["cors"], found["hour_metrics"].enabled), ([], False))
        rules = [CorsRule(["http://a.com", "http://b.com"], ["GET", "PUT"], allowed_headers=["x-ms-meta-*"], max_age_in_seconds=500), CorsRule(["*"], ["GET"])]
        service.set_service_properties(cors=rules)
        self.addCleanup(service.set_service_properties, cors=[])
        service.set_service_properties(hour_metrics=Metrics(enabled=False))
        first, second = service.get_service_properties()["cors"]
        # The clients of Blob and Queue give lists as texts, that of Table gives lists.
        words = lambda value: value.split(",") if isinstance(value, str) else value
        self.assertEqual((words(first.allowed_origins), words(first.allowed_methods)), (["http://a.com", "http://b.com"], ["GET", "PUT"]))
        self.assertEqual((words(first.allowed_headers), first.max_age_in_seconds), (["x-ms-meta-*"], 500))
        self.assertEqual((words(second.allowed_origins), second.max_age_in_seconds), (["*"], 0))
        with self.fails(400, "InvalidXmlDocument"):
            service.set_service_properties(cors=[rules[1]] * 6)
        with self.fails(400, "InvalidXmlNodeValue"):
            service.set_service_properties(hour_metrics=Metrics(enabled=False, retention_policy=RetentionPolicy(enabled=True, days=366)))
        service.set_service_properties(hour_metrics=Metrics(enabled=True, include_apis=True))
        found = service.get_service_properties()["hour_metrics"]
        self.assertEqual((found.enabled, found.include_apis), (True, True))
        service.set_service_properties(hour_metrics=Metrics(enabled=False))


class Headers:
    """Keeps status and headers of the last answer: pass as `raw_response_hook=headers`."""

    def __call__(self, response):
        self.status = response.http_response.status_code
        self.request = response.http_request
        self.headers = response.http_response.headers

    def __getitem__(self, name):
        return self.headers[name]


def eventually(what, seconds=60):
    """Asks `what()` until it answers something true: for what only the server's clock can bring about."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = what()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"it did not happen within {seconds} s")


def main():
    unittest.main(verbosity=2)
