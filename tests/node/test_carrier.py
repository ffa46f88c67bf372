"""What links between nodes run on."""

import pytest

from gossamer.config import Config
from gossamer.distribution import GrpcTransport, StreamTransport
from gossamer.node import Node


@pytest.mark.parametrize(("named", "kind"), [("grpc", GrpcTransport), ("tcp", StreamTransport)])
async def test_links_run_on_what_the_configuration_names(named, kind):
    config = Config.model_validate(
        {"node": {"name": "node1@127.0.0.1"}, "distribution": {"transport": named}}
    )
    node = Node(config, creation=1, cookie="a cookie of a test")
    assert type(node.distribution.transport) is kind
    assert Config().distribution.transport == "grpc"
