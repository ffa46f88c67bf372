"""Messages: identifiers, parts for a client, and the records that go to other nodes and to disc."""
