"""A server that plays the Hugging Face hub, and its storage on another port, with the faults that tests ask for."""
import hashlib
import http.server
import json
import re
import ssl
import threading
import time
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Repo:
    def __init__(self, files, large=(".gguf", ".safetensors")):
        self.files = files          # {path: bytes}
        self.large = large          # kept in the storage, named by SHA-256
        self.token = None           # needed to read it
        self.listed = list(files)   # what the listing says; hostile names go here
        self.etags = {}             # {path: etag} in place of the right ones


class Faults:
    """What the storage does wrong."""

    def __init__(self):
        self.break_after = []       # for each of the next answers: bytes after which the connection dies
        self.refuse = 0             # so many answers are 403, as of an address that is too old
        self.no_ranges = False
        self.damage = False         # flips a byte of what it sends
        self.pause = 0.0            # seconds after each 64 KiB
        self.fail = []              # statuses of the hub's next answers


class FakeHub:
    def __init__(self, tls=None):
        """`tls`: (certificate file, key file) for the hub and its storage."""
        self.repos, self.faults = {}, Faults()
        self.asked = []             # (who, method, path, headers)
        self.lock = threading.Lock()
        self.storage = self._serve(self._answer_storage, tls)
        self.hub = self._serve(self._answer_hub, tls)
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.hub.server_address[1]}"
        self.storage_url = f"{scheme}://127.0.0.1:{self.storage.server_address[1]}"

    def close(self):
        for server in (self.hub, self.storage):
            server.shutdown()
            server.server_close()

    def paths(self, who):
        with self.lock:
            return [path for asked, _, path, _ in self.asked if asked == who]

    def _serve(self, answer, tls):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                answer(self)

            do_HEAD = do_GET

            def log_message(self, *arguments):
                pass

            def note(self, who):
                with outer.lock:
                    outer.asked.append((who, self.command, self.path, dict(self.headers)))

            def reply(self, status, body=b"", headers=()):
                self.send_response(status)
                names = {name.lower() for name, _ in headers}
                for name, value in headers:
                    self.send_header(name, value)
                if "content-length" not in names:
                    self.send_header("content-length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.handle_error = lambda *arguments: None
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    # The hub: listings and addresses.
    def _answer_hub(self, handler):
        handler.note("hub")
        if self.faults.fail:
            return handler.reply(self.faults.fail.pop(0), b"{}")
        path = urllib.parse.unquote(handler.path.split("?")[0])
        match = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path) or re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        repo = self.repos.get(match.group(1)) if match else None
        if repo is None:
            return handler.reply(401 if match else 404, b"{}", [("x-error-code", "RepoNotFound")])
        if repo.token and handler.headers.get("authorization") != f"Bearer {repo.token}":
            return handler.reply(403 if handler.headers.get("authorization") else 401, b"{}", [("x-error-code", "GatedRepo")])
        if match.group(2) not in (None, "main", "v1", COMMIT):
            return handler.reply(404, b"{}", [("x-error-code", "RevisionNotFound")])
        if path.startswith("/api/"):
            return self._listing(handler, match.group(1), repo)
        self._address(handler, repo, match.group(3))

    def _listing(self, handler, name, repo):
        siblings = []
        for path in repo.listed:
            data = repo.files.get(path, b"")
            siblings.append({"rfilename": path, "size": len(data), "blobId": "0" * 40})
        body = {"_id": "1", "id": name, "modelId": name, "sha": COMMIT, "private": False, "gated": False, "disabled": False, "downloads": 0, "likes": 0,
                "tags": [], "lastModified": "2026-11-01T00:00:00.000Z", "createdAt": "2026-11-01T00:00:00.000Z", "siblings": siblings, "spaces": []}
        handler.reply(200, json.dumps(body).encode(), [("content-type", "application/json")])

    def _address(self, handler, repo, path):
        if path not in repo.files:
            return handler.reply(404, b"", [("x-error-code", "EntryNotFound"), ("x-repo-commit", COMMIT)])
        data = repo.files[path]
        headers = [("x-repo-commit", COMMIT), ("accept-ranges", "bytes")]
        if path.endswith(tuple(repo.large)):
            etag = repo.etags.get(path, sha256(data))
            location = f"{self.storage_url}/{urllib.parse.quote(path)}?signature=abc%2Fdef"
            headers += [("etag", '"0"'), ("x-linked-etag", f'"{etag}"'), ("x-linked-size", str(len(data))), ("location", location)]
            return handler.reply(302, b"", headers)
        etag = repo.etags.get(path, hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest())
        headers.append(("etag", f'W/"{etag}"'))
        self._send(handler, data, headers, Faults())

    # The storage: bytes, by range or whole.
    def _answer_storage(self, handler):
        handler.note("storage")
        path = urllib.parse.unquote(handler.path.split("?")[0]).lstrip("/")
        data = next((repo.files[path] for repo in self.repos.values() if path in repo.files), None)
        if data is None or "signature=" not in handler.path:
            return handler.reply(404)
        with self.lock:
            refused = self.faults.refuse > 0
            self.faults.refuse -= refused
        if refused:
            return handler.reply(403, b"expired")
        self._send(handler, data, [], self.faults)

    def _send(self, handler, data, headers, faults):
        begin, end, status = 0, len(data), 200
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", handler.headers.get("range") or "")
        if asked and not faults.no_ranges:
            begin, end, status = int(asked.group(1)), min(int(asked.group(2) or len(data)) + 1, len(data)), 206
            headers = [*headers, ("content-range", f"bytes {begin}-{end - 1}/{len(data)}")]
        body = data[begin:end]
        if faults.damage:
            body = bytes([body[0] ^ 1]) + body[1:]
        handler.send_response(status)
        for name, value in [*headers, ("content-length", str(len(body)))]:
            handler.send_header(name, value)
        handler.end_headers()
        if handler.command == "HEAD":
            return
        with self.lock:
            limit = faults.break_after.pop(0) if faults.break_after else None
        for at in range(0, len(body), 65536):
            piece = body[at:at + 65536]
            if limit is not None and at + len(piece) > limit:
                handler.wfile.write(piece[:limit - at])
                handler.wfile.flush()
                handler.connection.close()
                handler.close_connection = True
                return
            handler.wfile.write(piece)
            time.sleep(faults.pause)
