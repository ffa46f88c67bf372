"""Tracing wired into a node: what the recorder notes is what the tracer takes."""

from gossamer.config import Config
from gossamer.node import Node


async def test_a_node_that_traces_notes_on_the_buffer_that_its_tracer_takes_from():
    """The buffer is empty then, and false as anything empty is: it was once taken for none."""
    node = Node(Config(tracing={"enable": True}), creation=1, cookie="of a node that never starts")
    assert node.tracing is not None
    assert node.tracing.buffer is node.auditor.buffer
