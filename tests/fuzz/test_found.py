"""What fuzzing found, so that it stays mended."""

import pytest

from .targets import GREETING, TARGETS

FOUND = [
    # A handshake with bytes behind it that are no frame: it was given up before it was answered.
    ("websocket", b"\x00\xff" + GREETING + b"\x01\xff\x80\x83\x15\xcd\x9b\xe9t\xaf\xf8"),
    # A frame of the tables' whose tag is no UTF-8.
    ("link", bytes.fromhex("94010102 9195a1 80 a1740181a16b0181a178c0")),
]


@pytest.mark.parametrize(("name", "data"), FOUND)
def test_what_broke_once(name, data):
    TARGETS[name](data)
