"""Node-to-node links: authenticated, reliable, ordered streams of frames, and services on top of them."""

from gossamer.distribution.distribution import Distribution
from gossamer.distribution.errors import (
    FrameTooLargeError,
    HandshakeError,
    LinkLostError,
    PeerGoneError,
    TermError,
    TlsError,
    WireError,
)
from gossamer.distribution.events import Counts, Event, Frame, NodeDown, NodeUp, Receiver, StreamCounts
from gossamer.distribution.links.channels import identify
from gossamer.distribution.links.manager import Evidence
from gossamer.distribution.remote import pg, rpc
from gossamer.distribution.remote.gathered import Gathered
from gossamer.distribution.remote.names import (
    register_name,
    registered_names,
    unregister_name,
    whereis_name,
)
from gossamer.distribution.remote.remote import RemoteProcesses, RouterCounts
from gossamer.distribution.remote.resolvers import NameConflict, register_resolver
from gossamer.distribution.remote.rpc import pid_of
from gossamer.distribution.remote.services import connect_node, node, nodes, remote_services
from gossamer.distribution.remote.terms import register_message
from gossamer.distribution.remote.unique import holder_of
from gossamer.distribution.transport.certificates import LinkCertificates
from gossamer.distribution.transport.grpc import GrpcTransport
from gossamer.distribution.transport.stream import StreamTransport
from gossamer.distribution.transport.transport import LinkTransport
from gossamer.distribution.wire import PURPOSES, Purpose

__all__ = [
    "PURPOSES",
    "Counts",
    "Distribution",
    "Event",
    "Evidence",
    "Frame",
    "FrameTooLargeError",
    "Gathered",
    "GrpcTransport",
    "HandshakeError",
    "LinkCertificates",
    "LinkLostError",
    "LinkTransport",
    "NameConflict",
    "NodeDown",
    "NodeUp",
    "PeerGoneError",
    "Purpose",
    "Receiver",
    "RemoteProcesses",
    "RouterCounts",
    "StreamCounts",
    "StreamTransport",
    "TermError",
    "TlsError",
    "WireError",
    "connect_node",
    "holder_of",
    "identify",
    "node",
    "nodes",
    "pg",
    "pid_of",
    "register_message",
    "register_name",
    "register_resolver",
    "registered_names",
    "remote_services",
    "rpc",
    "unregister_name",
    "whereis_name",
]
