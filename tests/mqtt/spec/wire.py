"""Packets as bytes, made without the broker's codec, so that what is wrong with one is what the test says."""


def varint(value):
    out = bytearray()
    while True:
        value, low = divmod(value, 128)
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def packet(first, body=b""):
    return bytes((first,)) + varint(len(body)) + body


def u16(value):
    return value.to_bytes(2, "big")


def s(data):
    """A string, or binary data, which need not be well-formed."""
    data = data.encode() if isinstance(data, str) else data
    return u16(len(data)) + data


def props(version, data=b""):
    return b"" if version == 4 else varint(len(data)) + data


def connect(
    version, *, flags=2, keep=60, properties=b"", payload=None, client_id="x", name=b"MQTT", level=None
):
    """``payload`` replaces all of it."""
    head = (
        s(name) + bytes((version if level is None else level, flags)) + u16(keep) + props(version, properties)
    )
    return packet(0x10, head + (s(client_id) if payload is None else payload))


def publish(version, topic, payload=b"", *, flags=0, packet_id=None, properties=b""):
    body = s(topic) + (b"" if packet_id is None else u16(packet_id)) + props(version, properties) + payload
    return packet(0x30 | flags, body)


def subscribe(version, *items, packet_id=1, properties=b""):
    body = u16(packet_id) + props(version, properties)
    return packet(0x82, body + b"".join(s(topic) + bytes((options,)) for topic, options in items))


def unsubscribe(version, *topics, packet_id=1, properties=b""):
    return packet(0xA2, u16(packet_id) + props(version, properties) + b"".join(map(s, topics)))


def pair(key, value):
    return b"\x26" + s(key) + s(value)
