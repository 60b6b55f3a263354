"""Fifty clients that vanish at random moments: before the first byte, during prefill, in mid-stream, with resets and orderly ends."""
import concurrent.futures
import json
import os
import random
import socket
import time

import pytest

from harness import TINY, Cluster, assert_quiet, eventually
from prompts import LONG

CLIENTS = 50


class Vanishing:
    """A client that closes its socket after a while, whatever has arrived by then."""

    def __init__(self, service, seed):
        draw = random.Random(seed)
        self.wait = draw.choice([0.0, 0.002, 0.01, 0.05, 0.2]) * (0.5 + draw.random())
        self.reset = draw.random() < 0.5
        text = draw.choice(["Hello", "A story:", LONG[seed % 8][:3000], LONG[(seed + 3) % 8][:900]])
        body = json.dumps({"model": service.model, "prompt": f"{seed} {text}", "max_tokens": 2500, "stream": draw.random() < 0.7,
                           "n": draw.choice([1, 1, 2]), "ignore_eos": True, "seed": seed}).encode()
        host, port = service.url.removeprefix("http://").rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        # Some leave before their request is complete.
        self.socket.sendall(head + body[: len(body) if draw.random() < 0.9 else len(body) // 2])

    def run(self):
        time.sleep(self.wait)
        if self.reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.parametrize("shape", [{"agg": 1}, {"prefill": 1, "decode": 1}, {"prefill": 1, "decode": 1, "worker": ["--kv-transports", "tcp"]},
                                   {"prefill": 2, "decode": 2}], ids=["aggregated", "1+1", "1+1-tcp", "2+2"])
def test_50_clients_vanish(start, shape):
    service = start(Cluster, TINY, **shape)
    expected = service.ids("The capital of France is", 8, ignore_eos=True)
    assert_quiet(service.workers())
    before = descriptors(service.frontend.pid)
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda seed: Vanishing(service, seed).run(), range(CLIENTS)))
    assert_quiet(service.workers())
    for _ in range(4):
        assert service.ids("The capital of France is", 8, ignore_eos=True) == expected
    assert_quiet(service.workers())
    eventually(lambda: descriptors(service.frontend.pid) <= before + 8)


def half_closed(service, stream, reads=20):
    """Sends a request, ends its own writing, and reads for a while; then leaves."""
    body = json.dumps({"model": service.model, "prompt": "Hello", "max_tokens": 1500, "ignore_eos": True, "stream": stream, "temperature": 0}).encode()
    host, port = service.url.removeprefix("http://").rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as client:
        client.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        client.shutdown(socket.SHUT_WR)
        answer, until = b"", time.monotonic() + reads
        while time.monotonic() < until:
            piece = client.recv(65536)
            if not piece:
                break
            answer += piece
    return answer


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_half_closes_gets_its_answer(start, stream):
    service = start(Cluster, TINY, agg=1)
    whole = half_closed(service, stream).split(b"\r\n\r\n", 1)
    assert whole[0] == b"HTTP/1.1 100 Continue", whole
    answer = whole[1]
    while answer.startswith(b"HTTP/1.1 100 Continue"):
        answer = answer.split(b"\r\n\r\n", 1)[1]
    assert answer.startswith(b"HTTP/1.1 200 OK"), answer[:300]
    if stream:
        assert answer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), answer[-200:]
    else:
        assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["usage"]["completion_tokens"] == 1500
    half_closed(service, stream, reads=0)
    assert_quiet(service.workers())
