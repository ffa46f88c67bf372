"""The API against its own OpenAPI document: whatever is asked, the answer is one that it promises."""

import atexit
import shutil
import tempfile
from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance

from api.fakes import FakeTable, FakeView
from gossamer.api import Principal, Role, Tokens, make_app
from gossamer.clock import SystemClock
from gossamer.config import ApiConfig


def application():
    tokens = Tokens(now=SystemClock().wall)
    tokens.attach(FakeTable())
    # What it orders is written there, and nothing is run.
    directory = Path(tempfile.mkdtemp(prefix="gossamer-contract-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    app = make_app(FakeView(directory=directory), config=ApiConfig(hosts=("testserver",)), tokens=tokens)

    async def as_administrator(scope, receive, send):
        if scope["type"] == "http":
            scope["gossamer.principal"] = Principal(name="loopback", role=Role.ADMIN)
        await app(scope, receive, send)

    return as_administrator


# The stream of pulses has no end, which the client here would wait for; it has tests of its own.
schema = schemathesis.openapi.from_asgi("/openapi.json", application()).exclude(path="/api/v1/live")


@schema.parametrize()
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_route_keeps_its_contract(case):
    answer = case.call()
    if answer.status_code == 413:
        # Too long to be looked at, right or wrong.
        return
    # A topic or a cursor may be a string and still make no sense.
    excluded = [positive_data_acceptance]
    if answer.status_code == 503 and answer.headers["content-type"] == ["application/problem+json"]:
        # Another node of the faked cluster was asked, and there is none.
        excluded.append(not_a_server_error)
    case.validate_response(answer, excluded_checks=excluded)
