"""Clients that vanish and workers that die: nothing hangs, nothing leaks, no wrong text, and all is whole again within 2 s."""
import concurrent.futures
import os
import random
import signal
import socket
import threading
import time

import pytest
import requests

from harness import DEMO, Cluster, Serve, assert_quiet, eventually, stream_events
from prompts import LONG

WHOLE_AGAIN = 2.0


def long_stream(service, prompt="Tell me a long story.", tokens=400):
    return stream_events(service, {"model": service.model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True})


def text_of(events):
    return "".join(e["choices"][0]["text"] for e in events if e != "[DONE]" and e.get("choices"))


class Vanishing:
    """A client that closes its socket after a while, whatever has arrived by then."""

    def __init__(self, service, seed):
        draw = random.Random(seed)
        self.wait = draw.choice([0.0, 0.005, 0.02, 0.1, 0.3, 0.8]) * (0.5 + draw.random())
        prompt = draw.choice(["Hello", "A story:", LONG[seed % 8], LONG[(seed + 3) % 8][: 900]])
        body = requests.Request("POST", service.url + "/v1/completions", json={
            "model": service.model, "prompt": f"{seed} {prompt}", "max_tokens": 200, "stream": draw.random() < 0.7, "n": draw.choice([1, 1, 2]),
            "ignore_eos": True, "seed": seed}).prepare()
        host, port = service.url.removeprefix("http://").rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body.body)}\r\n\r\n"
        self.socket.sendall(head.encode() + body.body)

    def run(self):
        time.sleep(self.wait)
        # Half of them with a reset, half with an orderly end.
        if self.wait > 0.05:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()


@pytest.mark.parametrize("shape", [{"agg": 1}, {"prefill": 1, "decode": 1}, {"prefill": 1, "decode": 1, "worker": ["--kv-transports", "tcp"]}])
def test_50_clients_vanish(start, shape):
    service = start(Cluster, DEMO, **shape)
    expected = service.ids("The capital of France is", 8)
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        list(pool.map(lambda seed: Vanishing(service, seed).run(), range(50)))
    assert_quiet(service.workers())
    assert service.ids("The capital of France is", 8) == expected
    assert_quiet(service.workers())
    frontend = service.frontend.pid
    eventually(lambda: len(os.listdir(f"/proc/{frontend}/fd")) < 40)


def broken_stream(service, kill, after=3):
    """Reads a stream, calls kill after some events, and returns all events. The stream must end in time."""
    events = []
    done = threading.Event()

    def read():
        for event in long_stream(service):
            events.append(event)
            if len(events) == after:
                kill()
        done.set()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    assert done.wait(10), f"the stream hangs after {len(events)} events"
    return events


def whole_again(service, expected):
    started = time.monotonic()

    def answers():
        try:
            reply = service.post("/v1/completions", {"model": service.model, "prompt": "The capital of France is", "max_tokens": 8, "temperature": 0, "return_token_ids": True}, timeout=5)
        except requests.RequestException:
            return False
        if reply.status_code != 200:
            assert reply.status_code == 503, reply.text
            return False
        assert reply.json()["choices"][0]["token_ids"] == expected
        return True

    eventually(answers, WHOLE_AGAIN)
    return time.monotonic() - started


@pytest.mark.parametrize("shape, victim", [(("--prefill", "1", "--decode", "1"), "decode-1"), ((), "agg-1")])
def test_kill_a_decoding_worker_under_serve(start, shape, victim):
    service = start(Serve, DEMO, *shape)
    expected = service.ids("The capital of France is", 8)
    prefix = text_of(long_stream(service, tokens=40))
    victim_pid = service.children()[victim]
    events = broken_stream(service, lambda: os.kill(victim_pid, signal.SIGKILL))
    assert any("error" in e for e in events if e != "[DONE]"), events[-3:]
    good = text_of([e for e in events if e == "[DONE]" or "error" not in e])
    assert good.startswith(prefix[: len(good)]) or prefix.startswith(good)
    whole_again(service, expected)
    assert service.children()[victim] != victim_pid
    assert_quiet(service.workers(), 3)


def test_kill_a_prefill_worker_under_serve(start):
    service = start(Serve, DEMO, "--prefill", "1", "--decode", "1")
    expected = service.ids("The capital of France is", 8)
    os.kill(service.children()["prefill-1"], signal.SIGKILL)
    # Decode computes prompts itself meanwhile: not even one request fails.
    assert service.ids("The capital of France is", 8) == expected
    before = len(service.process.lines)
    service.process.wait_line(r"prefill-1: tandem .* serves", 10, before - 5 if before > 5 else 0)
    assert service.ids("The capital of France is", 8) == expected


def test_kill_the_frontend_under_serve(start):
    service = start(Serve, DEMO)
    expected = service.ids("The capital of France is", 8)
    os.kill(service.children()["frontend-1"], signal.SIGKILL)
    whole_again(service, expected)  # at the same URL


def test_kill_and_restart_without_serve(start):
    service = start(Cluster, DEMO, prefill=1, decode=2)
    expected = service.ids("The capital of France is", 8)
    victims = service.workers("decode")
    events = broken_stream(service, lambda: [w.process.kill() for w in victims[:1]])
    if not any("error" in e for e in events if e != "[DONE]"):
        events = broken_stream(service, lambda: victims[1].process.kill())  # it ran on the other one
        assert any("error" in e for e in events if e != "[DONE]"), events[-3:]
    service.running = [w for w in service.running if w.process.child.poll() is None]
    if service.workers("decode"):
        whole_again(service, expected)
    for worker in service.workers("decode"):
        worker.process.kill()
    service.running = service.workers("prefill")

    def refused():
        reply = service.post("/v1/completions", {"model": service.model, "prompt": "x", "max_tokens": 1}, timeout=5)
        return reply.status_code in (404, 503) and reply

    assert "error" in eventually(refused, 15).json()
    service.add_worker("decode")
    whole_again(service, expected)
    assert_quiet(service.workers())


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_kill_a_prefill_worker_in_mid_transfer(start, transport):
    """Many long prompts are under way when the owner of their KV dies: decode computes what it could not pull."""
    service = start(Cluster, DEMO, prefill=1, decode=1, worker=["--no-enable-prefix-caching", "--kv-transports", transport])
    expected = [service.ids(p, 4, ignore_eos=True) for p in LONG]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(service.ids, p, 4, ignore_eos=True) for p in LONG]
        time.sleep(1.0)
        service.workers("prefill")[0].process.kill()
        assert [a.result(timeout=60) for a in answers] == expected
    service.running = service.workers("decode")
    assert_quiet(service.workers())
    service.add_worker("prefill")
    assert service.ids(LONG[0], 4, ignore_eos=True) == expected[0]
    assert_quiet(service.workers())


def test_a_request_without_a_token_is_retried_on_another_worker(start):
    service = start(Cluster, DEMO, agg=2, worker=["--no-enable-prefix-caching"])
    expected = [service.ids(p, 4, ignore_eos=True) for p in LONG[:4]]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(service.ids, p, 4, ignore_eos=True) for p in LONG[:4]]
        time.sleep(0.1)
        service.workers()[0].process.kill()
        assert [a.result(timeout=60) for a in answers] == expected


def test_enforce_disagg_refuses_without_prefill(start):
    service = start(Cluster, DEMO, decode=1, frontend=["--enforce-disagg"])
    reply = service.post("/v1/completions", {"model": service.model, "prompt": "x", "max_tokens": 1})
    assert reply.status_code == 503 and "prefill" in reply.json()["error"]["message"]


def test_decode_alone_serves_and_counts_the_fallback(start):
    service = start(Cluster, DEMO, decode=1)
    assert service.ids("The capital of France is", 4)
    text = service.get("/metrics").text
    assert any(float(line.rsplit(" ", 1)[1]) > 0 for line in text.splitlines() if "fallbacks_total{" in line), text


def test_no_worker_is_a_clear_503(start):
    service = start(Cluster, DEMO)
    assert service.get("/v1/models").json()["data"] == []
    reply = service.post("/v1/chat/completions", {"model": "x", "messages": [{"role": "user", "content": "x"}]})
    assert reply.status_code == 503 and "worker" in reply.json()["error"]["message"]


def test_workers_come_and_go(start):
    service = start(Cluster, DEMO)
    worker = service.add_worker("agg")
    service.await_model(WHOLE_AGAIN)
    assert service.ids("x", 1)
    assert worker.process.stop() == 0
    eventually(lambda: service.get("/v1/models").json()["data"] == [])


@pytest.mark.parametrize("shape", [{"agg": 1}, {"prefill": 1, "decode": 1}])
def test_deadlines(start, shape):
    service = start(Cluster, DEMO, **shape)
    body = {"model": service.model, "prompt": "A story:", "max_tokens": 2000, "ignore_eos": True}
    reply = service.post("/v1/completions", body, headers={"x-request-timeout-ms": "300"})
    assert reply.status_code == 504 and "error" in reply.json(), reply.text
    with requests.post(service.url + "/v1/completions", json={**body, "stream": True}, headers={"x-request-timeout-ms": "600"}, stream=True, timeout=20) as reply:
        assert reply.status_code == 200
        text = reply.text
    assert '"error"' in text and "504" in text or "deadline" in text or "timeout" in text, text[-500:]
    assert_quiet(service.workers())


def test_a_slow_reader_blocks_nobody(start):
    service = start(Cluster, DEMO, agg=1)
    host, port = service.url.removeprefix("http://").rsplit(":", 1)
    slow = socket.create_connection((host, int(port)))
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    body = '{"model":"%s","prompt":"A story:","max_tokens":1500,"ignore_eos":true,"stream":true}' % service.model
    slow.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    started = time.monotonic()
    assert service.ids("The capital of France is", 8)
    assert time.monotonic() - started < 10
    slow.close()
    assert_quiet(service.workers())
