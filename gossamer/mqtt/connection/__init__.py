"""One client's connection: listeners, TLS, PROXY and WebSocket; the channel, and what it does with packets.

Bytes enter at ``listener``, become publishes in ``publish_reader`` and other packets in ``handlers``;
``admission`` decides a CONNECT.
"""
