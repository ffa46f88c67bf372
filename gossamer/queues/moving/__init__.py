"""Queues that go to another replication group: ``parts`` for the machines, ``carry`` between them."""
