"""The codec: packets of MQTT 3.1.1 and 5.0 to bytes and back, without I/O, clock or connection state.

Three steps, each alone: :class:`Framer` cuts a stream into packets, :func:`decode` reads one,
:func:`encode` writes one. What may be sent *when* is the channel's business, not the codec's.
"""

from __future__ import annotations

from gossamer.mqtt.codec.decoder import decode
from gossamer.mqtt.codec.encoder import encode, publish_parts
from gossamer.mqtt.codec.framing import Framer, frame

__all__ = ["Framer", "decode", "encode", "frame", "publish_parts"]
