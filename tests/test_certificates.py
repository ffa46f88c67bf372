"""What servers of this node offer to callers with TLS, of MQTT and of the API alike."""

import ssl

import pytest
from certs import Authority

from gossamer.certificates import Certificates
from gossamer.config import TlsHostConfig


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1:DeprecationWarning")
def test_nothing_before_tls_1_2_is_spoken(tmp_path, version):
    cert, key = Authority(tmp_path).issue("server", "127.0.0.1")
    offered = Certificates(TlsHostConfig(cert_file=cert, key_file=key)).context
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    # Else it is the client that refuses what is old.
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client, server = context.wrap_bio(back, there), offered.wrap_bio(there, back, server_side=True)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    with pytest.raises(ssl.SSLError) as answered:
        server.do_handshake()
    # Refused, or waiting for the client's next message.
    refused = version < ssl.TLSVersion.TLSv1_2
    assert answered.value.reason == ("UNSUPPORTED_PROTOCOL" if refused else None)
    assert isinstance(answered.value, ssl.SSLWantReadError) is not refused
