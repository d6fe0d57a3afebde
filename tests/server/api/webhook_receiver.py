"""An HTTP server that takes webhooks and answers as told.

A request that ends early, because its sender was killed in the middle, is no request: it is
dropped without an answer, as any web server does.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str]]


class Receiver:
    """`answers`: of the next requests; the last one stays. `got`: headers and body of each."""

    def __init__(self) -> None:
        self.answers: list[Answer] = [(204, {})]
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.paths: list[str] = []
        self.url = ""

    def take(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        self.paths.append(path)
        self.got.append((headers, body))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def receiving(given: Receiver | None = None) -> Iterator[Receiver]:
    """A new one, or the `given`, which has its address from now on."""
    receiver = given or Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = self.headers.get("content-length", "")
            body = self.rfile.read(int(length)) if length.isdecimal() else b""
            if length != str(len(body)):
                self.close_connection = True
                return
            given = {name.lower(): value for name, value in self.headers.items()}
            status, headers = receiver.take(self.path, given, body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/hook?a=1"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
