"""Ways to carry messages to a peer: streams of the network, gRPC, and gRPC relayed to another loop."""
