"""A peer for headroom: the least that a CPython broker can do, to show what all the rest costs.

Exact topics only, QoS 0 and 1, MQTT 3.1.1, no sessions, no checks, no acknowledgement of what it delivers. It
parses every packet of a read in one loop, slices bytes instead of building objects, appends to a list for
each connection, and joins and writes each touched connection once at the end of the read.

    python bench/tiny_broker.py 1883
"""

import asyncio
import sys

import uvloop

topics = {}  # topic -> tuple of (subscriber's parts, subscriber, its QoS)


class Tiny(asyncio.Protocol):
    def __init__(self):
        self.rest = b""
        self.parts = []
        self.next_id = 0

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, exc):
        for topic, found in list(topics.items()):
            topics[topic] = tuple(one for one in found if one[1] is not self)

    def data_received(self, data):
        if self.rest:
            data = self.rest + data
        at, end, touched, parts = 0, len(data), {}, self.parts
        while end - at >= 2:
            head, length, body, shift = data[at], data[at + 1], at + 2, 7
            while length >= 1 << shift:  # a length of more than one byte
                if body == end:
                    length = end
                    break
                length = (length & (1 << shift) - 1) | data[body] << shift
                body, shift = body + 1, shift + 7
            stop = body + length
            if stop > end:
                break
            kind = head >> 4
            if kind == 3:
                tail = body + 2 + (data[body] << 8 | data[body + 1])
                found = topics.get(data[body + 2 : tail], ())
                if head & 6:
                    parts.append(b"\x40\x02" + data[tail : tail + 2])
                    touched[self] = parts
                    for into, one, qos in found:
                        if qos:
                            one.next_id = one.next_id % 65535 + 1
                            into += data[at:tail], one.next_id.to_bytes(2, "big"), data[tail + 2 : stop]
                        else:
                            into += b"\x30", varint(length - 2), data[body:tail], data[tail + 2 : stop]
                        touched[one] = into
                elif found:
                    packet = data[at:stop]
                    for into, one, _ in found:
                        into.append(packet)
                        touched[one] = into
            elif kind == 8:
                size = data[body + 2] << 8 | data[body + 3]
                topic, qos = data[body + 4 : body + 4 + size], data[stop - 1]
                topics[topic] = (*topics.get(topic, ()), (parts, self, qos))
                parts.append(b"\x90\x03" + data[body : body + 2] + bytes([qos]))
                touched[self] = parts
            elif kind in (1, 12):
                parts.append(b"\x20\x02\x00\x00" if kind == 1 else b"\xd0\x00")
                touched[self] = parts
            elif kind == 14:
                self.transport.close()
            at = stop
        self.rest = data[at:]
        for one, into in touched.items():
            one.transport.write(b"".join(into))
            into.clear()


def varint(value):
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


async def main(port):
    server = await asyncio.get_running_loop().create_server(Tiny, "127.0.0.1", port)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
