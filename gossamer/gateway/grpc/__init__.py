"""Programs in any language: publish, subscribe, queues and the state of the cluster, by gRPC.

``gossamer.proto`` is what they are written against; ``callers`` finds out who calls, ``messages`` and
``queues`` serve, and ``server`` is a process of the node that listens. The modules ``…_pb2`` are made of
the ``.proto`` files by ``script/protos``.
"""
