"""Servers that are no node of ours, each in a thread of its own."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def serving(answer, *, context=None):
    """Serve GET by ``answer(handler)``, over TLS with a ``context``; the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer(self)

        def log_message(self, *_):
            """To standard error elsewhere."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        # A wrong handshake, or a reader who goes away, is the affair of the caller.
        server.handle_error = lambda *_: None
        if context is not None:
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"{'https' if context else 'http'}://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(10)


def say(handler, status, body=b"", **headers):
    """Answer with ``body``; underscores in the names of ``headers`` are hyphens."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), str(value))
    handler.end_headers()
    handler.wfile.write(body)


def answering(body, *, status=200, context=None):
    """A server of somebody else, which answers with ``body`` whatever it is asked."""
    headers = {"content_type": "application/json", "content_length": len(body)}
    return serving(lambda handler: say(handler, status, body, **headers), context=context)
