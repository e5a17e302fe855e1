"""Requests made up from the OpenAPI document, good and bad ones, and what the answers must obey.

No answer is a 5xx; each has a status, a media type, headers and a form from the document.
LOREWELL_HYPOTHESIS=deep asks for many more of them. To run this file: `-p schemathesis`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from schemathesis import Case, Response

from lorewell.bootstrap import build_services
from lorewell.http.app import create_app
from lorewell.settings import load_settings
from process import Server, running

TOO_LONG = 414
IS_DEEP = os.environ.get("LOREWELL_HYPOTHESIS") == "deep"
EXAMPLES = settings(
    max_examples=300 if IS_DEEP else 12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def make_document() -> dict[str, object]:
    chosen = load_settings()
    return create_app(build_services(chosen), chosen).openapi()


# There are rules that no JSON schema can express: no book named twice, an outlet's name only at an
# outlet, a file that holds a book. What obeys the schema may break those.
CONFIG = schemathesis.Config.from_dict(
    {
        # Values at every bound of every list: bodies of megabytes, which take minutes.
        "phases": {"coverage": {"enabled": IS_DEEP}},
        "checks": {
            "positive_data_acceptance": {
                "expected-statuses": ["2xx", "400", "404", "409", "415", "422"]
            },
            # What breaks the schema by its size alone may be too large to be read at all.
            "negative_data_rejection": {
                "expected-statuses": [
                    *("400", "401", "403", "404", "405", "406", "409", "413", "415", "422"),
                    *("428", "429", "5xx"),
                ]
            },
        },
    }
)
schema = schemathesis.openapi.from_dict(make_document(), config=CONFIG)


@pytest.fixture(scope="module", params=["sqlite", "postgres"] if IS_DEEP else ["sqlite"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("server")
    url = f"sqlite:///{folder / 'lorewell.db'}"
    if request.param == "postgres":
        url = request.getfixturevalue("migrated_database")
    # A busy machine must not answer 503 to a request that is merely large.
    limits = {"turn_seconds": 60, "import_seconds": 60, "queue_seconds": 60}
    with running(folder / "log", database_url=url, log_level="warning", **limits) as server:
        yield server


def call(case: Case, url: str) -> None:
    """Ask, and look at the answer; a target that is too long gets one from the parser alone."""
    answer = case.call(base_url=url)
    if answer.status_code != TOO_LONG:
        case.validate_response(answer)


@schema.parametrize()
@EXAMPLES
def test_answers_are_as_documented(case: Case, server: Server) -> None:
    call(case, server.url)


def test_steps_that_follow_each_other_are_as_documented(server: Server) -> None:
    """Books that are made are read, changed, selected from and deleted, by the document's links."""

    class Steps(schema.as_state_machine()):  # type: ignore[misc]  # made at run time
        def get_call_kwargs(self, case: Case) -> dict[str, object]:
            return {**super().get_call_kwargs(case), "base_url": server.url}

        def validate_response(self, response: Response, case: Case, **given: Any) -> None:
            if response.status_code != TOO_LONG:
                super().validate_response(response, case, **given)

    run_state_machine_as_test(
        Steps,
        settings=settings(EXAMPLES, max_examples=200 if IS_DEEP else 10, stateful_step_count=8),
    )
