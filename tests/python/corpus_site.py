"""A local server with the layout of the SuiteSparse collection's site, which can be made to misbehave."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import io
import os
import re
import tarfile
import threading
import unittest.mock

import scipy.io


def archive(name, matrix, padding=0):
    """The .tar.gz of a matrix, as the site has it; `padding` adds that many bytes that do not compress."""
    text = io.BytesIO()
    scipy.io.mmwrite(text, matrix, precision=17, symmetry="general")
    content = text.getvalue()
    noise = b"".join(hashlib.sha256(str(i).encode()).digest() for i in range(padding // 32))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        for member, data in ((f"{name}/{name}_b.txt", noise), (f"{name}/{name}.mtx", content)):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


class Site:
    """What the server has, how it behaves, and what it was asked."""

    def __init__(self):
        self.files = {}
        self.ranges = True  # whether it continues where a transfer was cut
        self.honours_if_range = True
        self.etags = True
        self.weak = False
        self.modified = None
        self.length = True  # whether it says how long a file is
        self.cuts = []  # bytes after which the connection is cut, one per answer
        self.statuses = []  # answers other than the file, one per request
        self.retry_after = None
        self.redirect = None
        self.gate = None  # a threading.Barrier, to have requests at the same time
        self.requests = []
        self.url = None

    def etag(self, path):
        digest = hashlib.md5(self.files[path]).hexdigest()
        return f'W/"{digest}"' if self.weak else f'"{digest}"'


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        site = self.server.site
        site.requests.append((self.path, dict(self.headers)))
        if site.gate is not None:
            with contextlib.suppress(threading.BrokenBarrierError):
                site.gate.wait(0.5)
        if site.statuses:
            return self._status(site.statuses.pop(0))
        if site.redirect is not None and not self.path.startswith("/moved"):
            return self._status(301, {"Location": f"{site.redirect}/moved{self.path}"})
        path = self.path.removeprefix("/moved")
        if path not in site.files:
            return self._status(404)
        return self._file(site, path)

    def _status(self, status, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        if self.server.site.retry_after is not None:
            self.send_header("Retry-After", self.server.site.retry_after)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _file(self, site, path):
        content = site.files[path]
        start = 0
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        condition = self.headers.get("If-Range")
        valid = not site.honours_if_range or condition in (None, site.etag(path), site.modified)
        if asked and site.ranges and valid:
            start = int(asked[1])
            if start >= len(content):
                return self._status(416, {"Content-Range": f"bytes */{len(content)}"})
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if site.etags:
            self.send_header("ETag", site.etag(path))
        if site.modified:
            self.send_header("Last-Modified", site.modified)
        if site.length:
            self.send_header("Content-Length", str(len(content) - start))
        else:
            self.close_connection = True
            self.send_header("Connection", "close")
        self.end_headers()
        end = start + site.cuts.pop(0) if site.cuts else len(content)
        self.wfile.write(content[start:end])
        if end < len(content):
            self.close_connection = True


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """Say nothing: connections are cut on purpose."""


@contextlib.contextmanager
def serve():
    """Run a server on a free local port, which is reached without a proxy."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.site = Site()
    server.site.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        with unittest.mock.patch.dict(os.environ, {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}):
            yield server.site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
