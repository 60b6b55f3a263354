"""Workers that die and workers that are not there: nothing hangs, no wrong text, and all is whole again within 2 s."""
import concurrent.futures
import os
import random
import signal
import socket
import threading
import time

import pytest
import requests

from harness import TINY, Cluster, Serve, assert_quiet, eventually, stream_events
from prompts import PROMPTS

WHOLE_AGAIN = 2.0
QUESTION = "The capital of France is"
# The mock engine keeps a fingerprint of all tokens so far in the KV blocks, so foreign KV shows as other tokens. Its blocks are as big as wished.
MOCK = ["--engine", "mock", "--served-model-name", "mock", "--mock-step-us", "200", "--mock-prefill-token-us", "5"]


def ids_of(events):
    return [i for e in events if e != "[DONE]" and e.get("choices") for i in e["choices"][0]["token_ids"]]


def failed(events):
    return [e for e in events if e != "[DONE]" and "error" in e]


def broken_stream(service, kill, tokens, after=5, timeout=20):
    """Reads a long stream, calls kill after some events, and returns all events. The stream has to end."""
    events = []
    done = threading.Event()

    def read():
        for event in stream_events(service, {"model": service.model, "prompt": QUESTION, "max_tokens": tokens, "temperature": 0, "ignore_eos": True,
                                             "return_token_ids": True}):
            events.append(event)
            if len(events) == after:
                kill()
        done.set()

    threading.Thread(target=read, daemon=True).start()
    assert done.wait(timeout), f"the stream hangs after {len(events)} events"
    return events


def whole_again(service, expected, timeout=WHOLE_AGAIN):
    """Until a request succeeds; those before it may be refused with 503 and nothing else."""
    def answers():
        try:
            reply = service.post("/v1/completions", {"model": service.model, "prompt": QUESTION, "max_tokens": 8, "temperature": 0,
                                                     "return_token_ids": True, "ignore_eos": True}, timeout=5)
        except requests.ConnectionError:
            return False
        if reply.status_code != 200:
            assert reply.status_code == 503 and reply.json()["error"]["message"], reply.text
            return False
        assert reply.json()["choices"][0]["token_ids"] == expected
        return True

    eventually(answers, timeout)


def ask(service):
    return service.ids(QUESTION, 8, ignore_eos=True)


@pytest.mark.parametrize("shape, victim", [(("--prefill", "1", "--decode", "1"), "decode-1"), ((), "agg-1")])
def test_kill_a_decoding_worker_under_serve(start, shape, victim):
    service = start(Serve, TINY, *shape)
    expected = ask(service)
    whole = service.ids(QUESTION, 3900, ignore_eos=True)
    pid = service.children()[victim]
    events = broken_stream(service, lambda: os.kill(pid, signal.SIGKILL), 3900)
    assert len(failed(events)) == 1, events[-2:]
    got = ids_of([e for e in events if e not in failed(events)])
    assert 0 < len(got) < len(whole) and got == whole[: len(got)]
    whole_again(service, expected)
    assert service.children()[victim] != pid
    assert_quiet(service.workers())


def test_kill_a_prefill_worker_under_serve(start):
    service = start(Serve, TINY, "--prefill", "1", "--decode", "1")
    expected = ask(service)
    seen = len(service.process.lines)
    os.kill(service.children()["prefill-1"], signal.SIGKILL)
    # Decode computes prompts itself meanwhile: not even one request fails.
    for _ in range(20):
        assert ask(service) == expected
    service.process.wait_line(r"prefill-1: tandem .* serves", 5, seen)
    assert ask(service) == expected
    assert_quiet(service.workers())


def test_kill_the_frontend_under_serve(start):
    service = start(Serve, TINY)
    expected = ask(service)
    os.kill(service.children()["frontend-1"], signal.SIGKILL)
    whole_again(service, expected)  # at the same URL


def test_kill_and_restart_without_serve(start):
    service = start(Cluster, TINY, prefill=1, decode=1)
    expected = ask(service)
    whole = service.ids(QUESTION, 3900, ignore_eos=True)
    victim = service.workers("decode")[0]
    events = broken_stream(service, victim.process.kill, 3900)
    assert len(failed(events)) == 1, events[-2:]
    got = ids_of([e for e in events if e not in failed(events)])
    assert got == whole[: len(got)]
    service.running.remove(victim)

    def refused():
        reply = service.post("/v1/completions", {"model": service.model, "prompt": "x", "max_tokens": 1}, timeout=5)
        return reply.status_code == 503 and reply.json()["error"]["message"]

    eventually(refused)
    service.add_worker("decode")
    whole_again(service, expected)
    victim = service.workers("prefill")[0]
    victim.process.kill()
    service.running.remove(victim)
    assert ask(service) == expected
    service.add_worker("prefill")
    pulled = service.workers("decode")[0].state()["pulls"]
    eventually(lambda: ask(service) == expected and service.workers("decode")[0].state()["pulls"] > pulled, 5)
    assert_quiet(service.workers())


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_kill_a_prefill_worker_in_mid_transfer(start, transport):
    """Requests whose KV is on its way when its owner dies: decode computes their prompts, and no token is wrong."""
    blocks = [*MOCK, "--no-enable-prefix-caching", "--mock-block-bytes", "2M", "--num-gpu-blocks-override", "200", "--kv-transports", transport]
    service = start(Cluster, None, prefill=1, decode=1, worker=blocks)
    draw = random.Random(1)
    prompts = [[draw.randrange(300, 30000) for _ in range(400)] for _ in range(8)]
    expected = [service.ids(p, 8) for p in prompts]
    decode = service.workers("decode")[0]
    assert decode.state()["pulls"] == len(prompts)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(service.ids, p, 8) for p in prompts]
        eventually(lambda: decode.state()["waiting_for_kv"] > 0, 10, 0.001)
        service.workers("prefill")[0].process.kill()
        assert [a.result(timeout=30) for a in answers] == expected
    service.running = [decode]
    assert_quiet(service.workers())
    service.add_worker("prefill")
    pulls = decode.state()["pulls"]
    eventually(lambda: service.ids(prompts[0], 8) == expected[0] and decode.state()["pulls"] > pulls, 5)
    assert_quiet(service.workers())


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_kill_a_decode_worker_in_mid_transfer(start, transport):
    """The reader dies while it reads: the retry on another worker collects the same KV, and the owner forgets the dead one."""
    blocks = [*MOCK, "--no-enable-prefix-caching", "--mock-block-bytes", "2M", "--num-gpu-blocks-override", "200", "--kv-transports", transport]
    service = start(Cluster, None, prefill=1, decode=2, worker=blocks)
    draw = random.Random(2)
    prompts = [[draw.randrange(300, 30000) for _ in range(400)] for _ in range(8)]
    expected = [service.ids(p, 8) for p in prompts]
    victim, other = service.workers("decode")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(service.complete, p, 8) for p in prompts]
        eventually(lambda: victim.state()["waiting_for_kv"] > 0, 10, 0.001)
        victim.process.kill()
        done = [a.result(timeout=30)["choices"][0]["token_ids"] for a in answers]
    assert done == expected
    service.running.remove(victim)
    assert_quiet(service.workers())


def test_a_request_without_a_token_is_retried_on_another_worker(start):
    service = start(Cluster, None, agg=2, worker=[*MOCK, "--no-enable-prefix-caching", "--mock-prefill-token-us", "2000"])
    prompts = [[300 + i] * 300 for i in range(4)]
    expected = [service.ids(p, 4) for p in prompts]
    victim = service.workers()[0]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(service.ids, p, 4) for p in prompts]
        eventually(lambda: victim.state()["running"] > 0, 5)
        victim.process.kill()
        assert [a.result(timeout=30) for a in answers] == expected
    service.running.remove(victim)
    assert_quiet(service.workers())


def test_enforce_disagg_refuses_without_prefill(start):
    service = start(Cluster, TINY, decode=1, frontend=["--enforce-disagg"])
    reply = service.post("/v1/completions", {"model": service.model, "prompt": "x", "max_tokens": 1})
    assert reply.status_code == 503 and "prefill" in reply.json()["error"]["message"], reply.text


def test_decode_alone_serves_and_counts_the_fallback(start):
    service = start(Cluster, TINY, decode=1)
    assert ask(service)
    counted = service.metrics().get("tandem_frontend_fallbacks_total", {})
    assert sum(counted.values()) == 1, counted
    assert "computes the prompt itself" in service.frontend.output()


def test_an_empty_transfer_configuration_is_the_usual_one(start):
    service = start(Cluster, None, prefill=1, decode=1, worker=[*MOCK, "--kv-transfer-config", "{}"])
    assert service.ids([300 + i for i in range(40)], 4)
    assert service.workers("decode")[0].state()["pulled_bytes"] > 0


def test_no_worker_is_a_clear_503(start):
    service = start(Cluster, TINY)
    assert service.get("/v1/models").json()["data"] == []
    reply = service.post("/v1/chat/completions", {"model": "x", "messages": [{"role": "user", "content": "x"}]})
    assert reply.status_code == 503 and "worker" in reply.json()["error"]["message"]


def test_workers_come_and_go(start):
    service = start(Cluster, TINY)
    worker = service.add_worker("agg")
    service.await_model(WHOLE_AGAIN)
    assert ask(service)
    assert worker.process.stop() == 0
    eventually(lambda: service.get("/v1/models").json()["data"] == [])


@pytest.mark.parametrize("shape", [{"agg": 1}, {"prefill": 1, "decode": 1}])
def test_deadlines(start, shape):
    service = start(Cluster, None, **shape, worker=[*MOCK, "--mock-decode-token-us", "20000"])
    body = {"model": service.model, "prompt": [300] * 40, "max_tokens": 1000}
    started = time.monotonic()
    reply = service.post("/v1/completions", body, headers={"x-request-timeout-ms": "300"})
    assert reply.status_code == 504 and reply.json()["error"]["message"], reply.text
    assert time.monotonic() - started < 2
    events = []
    with requests.post(service.url + "/v1/completions", json={**body, "stream": True}, headers={"x-request-timeout-ms": "600"}, stream=True, timeout=20) as reply:
        assert reply.status_code == 200
        events = [line for line in reply.iter_lines() if line.startswith(b"data: ")]
    assert len(events) > 5 and b'"error"' in b"".join(events[-2:]) and b"504" in b"".join(events[-2:]), events[-3:]
    assert_quiet(service.workers())


def test_the_servers_own_request_timeout(start):
    service = start(Cluster, None, agg=1, worker=[*MOCK, "--mock-decode-token-us", "20000"], frontend=["--request-timeout", "0.3"])
    reply = service.post("/v1/completions", {"model": service.model, "prompt": [300] * 40, "max_tokens": 1000})
    assert reply.status_code == 504
    assert_quiet(service.workers())


def test_a_slow_reader_blocks_nobody(start):
    service = start(Cluster, TINY, agg=1)
    host, port = service.url.removeprefix("http://").rsplit(":", 1)
    slow = socket.create_connection((host, int(port)))
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    body = '{"model":"%s","prompt":"A story:","max_tokens":3900,"n":8,"ignore_eos":true,"stream":true}' % service.model
    slow.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    time.sleep(0.5)
    for prompt in PROMPTS[:5]:
        started = time.monotonic()
        assert service.ids(prompt, 8, ignore_eos=True)
        assert time.monotonic() - started < 5
    slow.close()
    assert_quiet(service.workers())


def test_a_full_queue_is_529_with_retry_after(start):
    service = start(Cluster, None, agg=1, frontend=["--max-inflight", "2"], worker=[*MOCK, "--mock-decode-token-us", "20000"])
    body = {"model": service.model, "prompt": [300] * 4, "max_tokens": 40}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: service.post("/v1/completions", body), range(8)))
    codes = sorted(r.status_code for r in replies)
    assert codes.count(200) >= 2 and set(codes) == {200, 529}, codes
    assert all(int(r.headers["retry-after"]) >= 1 for r in replies if r.status_code == 529)
    assert_quiet(service.workers())
