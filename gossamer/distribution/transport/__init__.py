"""Transports of messages to a peer: plain streams, gRPC, and gRPC through a relay."""
