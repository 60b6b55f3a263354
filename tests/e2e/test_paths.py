"""The same prompts give the same token ids on every path, and each run proves that it took that path."""
import concurrent.futures
import re
import time

import pytest

from harness import DEMO, Cluster, assert_quiet, eventually, stream_events
from namespaces import TwoHosts
from prompts import LONG, PROMPTS

# Real prompts on a real model: minutes on a machine that does something else, too.
pytestmark = pytest.mark.timeout(900)
TOKENS = 32
COLD = ["--no-enable-prefix-caching"]
BLOCK = 16


def all_ids(service, prompts=PROMPTS, at_once=1):
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda p: service.ids(p, TOKENS, ignore_eos=True), prompts))


def total(workers, name):
    return sum(worker.state()[name] for worker in workers)


@pytest.fixture(scope="module")
def reference(shared_start):
    """Aggregated, one after the other, nothing cached."""
    service = shared_start(Cluster, DEMO, agg=1, worker=COLD)
    lengths = [len(service.post("/tokenize", {"model": service.model, "prompt": p}).json()["tokens"]) for p in PROMPTS]
    assert len(PROMPTS) == 20 and sum(n > 600 for n in lengths) >= 8, lengths
    ids = all_ids(service)
    state = service.workers()[0].state()
    assert state["prefix_hit_tokens"] == 0 and state["max_rows_in_step"] == 1 and state["preemptions"] == 0
    assert all(len(i) == TOKENS for i in ids)
    service.end()
    return ids


def test_batched(start, reference):
    service = start(Cluster, DEMO, agg=1, worker=COLD)
    assert all_ids(service, at_once=20) == reference
    assert service.workers()[0].state()["max_rows_in_step"] >= 8


def test_prefix_cache_cold_and_warm(start, reference):
    service = start(Cluster, DEMO, agg=1)
    assert all_ids(service) == reference
    worker = service.workers()[0]
    before = worker.state()["prefix_hit_tokens"]
    assert all_ids(service) == reference
    assert worker.state()["prefix_hit_tokens"] - before >= sum(len(p) for p in LONG) // 10
    usage = service.complete(LONG[0], 1)["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] > 0


def check_pulls(service, before, requests, transport):
    decode = service.workers("decode")
    after = {name: total(decode, name) for name in before}
    assert after["pulled_bytes"] > before["pulled_bytes"]
    # Everything but the last prompt token came from the prefill worker.
    assert after["prompt_tokens_computed"] - before["prompt_tokens_computed"] == requests
    moved = {}
    for worker in decode:
        for labels, value in worker.metrics().get("tandem_kv_transfer_bytes_total", {}).items():
            name = re.search(r'transport="(\w+)"', labels).group(1)
            moved[name] = moved.get(name, 0) + value
    assert [name for name, value in moved.items() if value > 0] == [transport], moved
    assert_quiet(service.workers())


def decode_counters(service):
    return {name: total(service.workers("decode"), name) for name in ("pulled_bytes", "prompt_tokens_computed")}


@pytest.mark.parametrize("prefill, decode, transport, at_once", [(1, 1, "shm", 1), (1, 1, "tcp", 1), (2, 2, "shm", 4), (1, 1, "shm", 20)])
def test_prefill_and_decode_apart(start, reference, prefill, decode, transport, at_once):
    service = start(Cluster, DEMO, prefill=prefill, decode=decode, worker=[*COLD, "--kv-transports", transport])
    eventually(lambda: service.ids("Warm up.", 1), 30)
    before = decode_counters(service)
    assert all_ids(service, at_once=at_once) == reference
    check_pulls(service, before, len(PROMPTS), transport)
    for worker in service.workers():
        assert worker.state()["steps"] > 0, f"{worker.role} did nothing"


def test_two_hosts(start, reference, request):
    """Workers in network, mount and IPC namespaces of their own: shm is offered and cannot work."""
    hosts = TwoHosts()
    request.addfinalizer(hosts.close)
    service = start(Cluster, DEMO, worker=COLD)
    for role, host in (("prefill", 0), ("decode", 1)):
        service.add_worker(role, *hosts.options(host), "--cpu-share", "0.5", prefix=hosts.prefix(host))
    service.await_model()
    service.ids("Warm up.", 1)
    before = decode_counters(service)
    assert all_ids(service) == reference
    check_pulls(service, before, len(PROMPTS), "tcp")


def test_prefix_hits_on_the_decode_side_shrink_the_pull(start, reference):
    service = start(Cluster, DEMO, prefill=1, decode=1)
    assert service.ids(LONG[0], TOKENS, ignore_eos=True) == reference[12]
    decode = service.workers("decode")[0]
    first = decode.state()["pulled_bytes"]
    assert first > 0
    assert service.ids(LONG[0], TOKENS, ignore_eos=True) == reference[12]
    second = decode.state()["pulled_bytes"] - first
    assert second < first / 10
    assert decode.state()["prefix_hit_tokens"] > 0


@pytest.mark.parametrize("first, last, arena", [(0, 12, 14), (12, 20, 80)], ids=["short", "long"])
def test_after_preemption(start, reference, first, last, arena):
    """Beside an older sequence that fills the arena each prompt is pushed out at least once, and comes back."""
    service = start(Cluster, DEMO, agg=1, worker=[*COLD, "--num-gpu-blocks-override", str(arena)])
    worker = service.workers()[0]
    for number in range(first, last):
        length = len(service.post("/tokenize", {"model": service.model, "prompt": PROMPTS[number]}).json()["tokens"])
        # Together they leave two blocks: less than both will need.
        hog_tokens = (arena - 2 - -(-length // BLOCK)) * BLOCK - BLOCK // 2
        assert hog_tokens > 0
        before = worker.state()["preemptions"]
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            hog = stream_events(service, {"model": service.model, "prompt": [504 + number] * hog_tokens, "max_tokens": 4 * BLOCK,
                                          "temperature": 0, "ignore_eos": True}, timeout=300)
            next(hog)
            answer = pool.submit(service.ids, PROMPTS[number], TOKENS, ignore_eos=True)
            assert len([e for e in hog if e != "[DONE]"]) > 0
            assert answer.result() == reference[number]
        assert worker.state()["preemptions"] > before, f"prompt {number} was not preempted"


def test_64_requests_through_a_decode_arena_of_40_blocks(start):
    service = start(Cluster, DEMO, worker=[])
    service.add_worker("prefill")
    service.add_worker("decode", "--num-gpu-blocks-override", "40")
    service.await_model()
    prompts = [f"Request number {i} wants a short poem about the number {i}:" for i in range(64)]
    started = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(lambda p: service.ids(p, 48, ignore_eos=True), prompts))
    assert all(len(a) == 48 for a in answers)
    print(f"64 requests through 40 blocks: {time.monotonic() - started:.1f} s")
    alone = [service.ids(p, 48, ignore_eos=True) for p in prompts[:4]]
    assert answers[:4] == alone
    assert_quiet(service.workers())
