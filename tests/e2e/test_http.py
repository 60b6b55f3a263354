"""The HTTP surface through the openai client, aggregated and with prefill and decode apart."""
import concurrent.futures
import subprocess
import sys

import openai
import pytest
import requests

from harness import DEMO, ROOT, Serve, stream_events, sum_of
from prompts import LONG

SHAPES = {"aggregated": (), "1+1": ("--prefill", "1", "--decode", "1")}


@pytest.fixture(scope="module", params=SHAPES)
def service(request, shared_start):
    return shared_start(Serve, DEMO, "--served-model-name", "demo", *SHAPES[request.param])


def chat(service, text="What is the capital of France?", **fields):
    return service.client().chat.completions.create(model="demo", messages=[{"role": "user", "content": text}], temperature=0, **fields)


def test_chat(service):
    answer = chat(service, "The Eiffel Tower is a landmark of Paris, France. In which city does it stand?", max_tokens=32)
    assert "Paris" in answer.choices[0].message.content
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_chat_stream_gives_the_same_text(service):
    whole = chat(service, max_tokens=24).choices[0].message.content
    pieces, usage = [], None
    for chunk in chat(service, max_tokens=24, stream=True, stream_options={"include_usage": True}):
        if chunk.choices and chunk.choices[0].delta.content:
            pieces.append(chunk.choices[0].delta.content)
        usage = chunk.usage or usage
    assert "".join(pieces) == whole and len(pieces) > 1
    assert usage.completion_tokens > 0


def test_completion_from_text_list_and_ids(service):
    client = service.client()
    text = "The quick brown fox"
    one = client.completions.create(model="demo", prompt=text, max_tokens=6, temperature=0).choices[0].text
    many = client.completions.create(model="demo", prompt=[text, "Once upon a time"], max_tokens=6, temperature=0)
    assert many.choices[0].text == one and len(many.choices) == 2
    ids = service.post("/tokenize", {"model": "demo", "prompt": text}).json()["tokens"]
    assert client.completions.create(model="demo", prompt=ids, max_tokens=6, temperature=0).choices[0].text == one
    assert service.post("/detokenize", {"model": "demo", "tokens": ids}).json()["prompt"] == text


def test_logprobs(service):
    answer = chat(service, max_tokens=5, logprobs=True, top_logprobs=3)
    entries = answer.choices[0].logprobs.content
    assert len(entries) == answer.usage.completion_tokens
    for entry in entries:
        assert len(entry.top_logprobs) == 3
        assert entry.logprob <= 0 and entry.token == entry.top_logprobs[0].token  # greedy


def test_n_choices_are_independent_and_repeatable(service):
    def texts():
        answer = service.client().completions.create(model="demo", prompt="My favourite animal is", n=3, max_tokens=12, temperature=1.0, seed=7)
        assert sorted(choice.index for choice in answer.choices) == [0, 1, 2]
        return [choice.text for choice in sorted(answer.choices, key=lambda c: c.index)]

    first = texts()
    assert len(set(first)) > 1
    assert texts() == first


def test_stop_strings_never_leak(service):
    whole = service.complete("Count: one, two, three, four,", 24)["choices"][0]["text"]
    stop = whole[6:10]
    cut = service.complete("Count: one, two, three, four,", 24, stop=[stop])["choices"][0]
    assert cut["text"] == whole[:whole.index(stop)] and cut["finish_reason"] == "stop"
    streamed = "".join(e["choices"][0]["text"] for e in stream_events(service, {
        "model": "demo", "prompt": "Count: one, two, three, four,", "max_tokens": 24, "temperature": 0, "stop": [stop]})
        if e != "[DONE]" and e["choices"])
    assert streamed == cut["text"]


def test_min_tokens_and_ignore_eos(service):
    body = service.complete("Bye.<|im_end|>", 20, ignore_eos=True)
    assert body["usage"]["completion_tokens"] == 20
    assert service.complete("Bye.<|im_end|>", 20, min_tokens=5)["usage"]["completion_tokens"] >= 5


def test_request_id_is_honoured(service):
    reply = service.post("/v1/completions", {"model": "demo", "prompt": "x", "max_tokens": 1}, headers={"x-request-id": "my-id-1"})
    assert reply.headers["x-request-id"] == "my-id-1"
    assert service.post("/v1/completions", {"model": "demo", "prompt": "x", "max_tokens": 1}).headers["x-request-id"]


@pytest.mark.parametrize("change, status, param", [
    ({"model": "other"}, 404, "model"),
    ({"temperature": 9}, 400, "temperature"),
    ({"max_tokens": "many"}, 400, "max_tokens"),
    ({"max_tokens": 0}, 400, "max_tokens"),
    ({"top_p": 2}, 400, "top_p"),
    ({"n": 0}, 400, "n"),
    ({"no_such_field": 1}, 400, "no_such_field"),
    ({"kv_transfer_params": {"do_remote_prefill": True}}, 400, "kv_transfer_params"),
])
def test_errors_are_openai_shaped(service, change, status, param):
    reply = service.post("/v1/completions", {"model": "demo", "prompt": "x", "max_tokens": 1, **change})
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    assert param in error["message"] or error["param"] == param, error


def test_too_long_is_refused_before_the_stream(service):
    reply = service.post("/v1/completions", {"model": "demo", "prompt": [504] * 100000, "max_tokens": 1, "stream": True})
    assert reply.status_code == 400 and "error" in reply.json(), reply.text


def test_bad_json_and_oversize(service):
    reply = requests.post(service.url + "/v1/completions", data=b"{nope", headers={"content-type": "application/json"}, timeout=30)
    assert reply.status_code == 400 and reply.json()["error"]["message"]
    big = b'{"model":"demo","prompt":"' + b"x" * (46 << 20) + b'"}'
    try:
        reply = requests.post(service.url + "/v1/completions", data=big, headers={"content-type": "application/json"}, timeout=30)
        assert reply.status_code == 413, reply.text
    except requests.exceptions.ConnectionError:
        pass  # refused by its length while the client was still sending
    with pytest.raises(openai.NotFoundError):
        service.client().models.retrieve("nothing")


def test_pages(service):
    assert [m.id for m in service.client().models.list().data] == ["demo"]
    assert service.get("/health").status_code == 200
    assert service.get("/live").status_code == 200
    text = service.get("/metrics").text
    assert "# TYPE" in text and "time_to_first_token" in text


def test_metrics(service):
    def totals():
        metrics = service.metrics()
        return {name: sum_of(metrics, name, model="demo") for name in (
            "dynamo_frontend_requests_total", "dynamo_frontend_input_tokens_total", "dynamo_frontend_output_tokens_total",
            "dynamo_frontend_time_to_first_token_seconds_count", "dynamo_frontend_inter_token_latency_seconds_count",
            "dynamo_frontend_cached_tokens_sum", "dynamo_frontend_queued_requests", "dynamo_frontend_inflight_requests",
            "tandem_frontend_kv_pulled_bytes_total", "tandem_frontend_kv_pull_seconds_count", "tandem_frontend_kv_pull_seconds_sum",
            "tandem_frontend_fallbacks_total")}

    before = totals()
    # The same prompt twice: what the first run pulled or computed is what the second one finds.
    usage = [service.complete(f"{number}. " + LONG[0], 8, ignore_eos=True)["usage"] for number in (1, 1)]
    after = totals()
    grown = {name.split("_frontend_")[1]: after[name] - before[name] for name in before}
    assert grown["requests_total"] == 2
    assert grown["input_tokens_total"] == sum(u["prompt_tokens"] for u in usage)
    assert grown["output_tokens_total"] == 16
    assert grown["time_to_first_token_seconds_count"] == 2 and grown["inter_token_latency_seconds_count"] > 0
    assert grown["cached_tokens_sum"] == sum(u["prompt_tokens_details"]["cached_tokens"] for u in usage) > 0
    assert after["dynamo_frontend_queued_requests"] == after["dynamo_frontend_inflight_requests"] == 0
    assert sum_of(service.metrics(), "dynamo_frontend_model_ready", model="demo") == 1
    decode = [w for w in service.workers() if w.role == "decode"]
    if not decode:
        assert grown["kv_pulled_bytes_total"] == grown["kv_pull_seconds_count"] == 0
        return
    assert grown["kv_pulled_bytes_total"] > 0 and grown["kv_pull_seconds_sum"] > 0 and grown["fallbacks_total"] == 0
    # What the decode worker itself counted, by transport.
    worker = decode[0].metrics()
    for transport in ("shm", "tcp"):
        assert sum_of(service.metrics(), "tandem_frontend_kv_pulled_bytes_total", transport=transport) == sum_of(
            worker, "tandem_kv_transfer_bytes_total", transport=transport)
        assert sum_of(service.metrics(), "tandem_frontend_kv_pull_seconds_count", transport=transport) == sum_of(
            worker, "tandem_kv_transfer_seconds_count", transport=transport)


def test_64_at_once(service):
    prompts = [f"Question {i}: what is {i} plus {i}? Answer:" for i in range(64)]
    alone = [service.ids(p, 8) for p in prompts[:4]]
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        together = list(pool.map(lambda p: service.ids(p, 8), prompts))
    assert together[:4] == alone
    assert all(together)


def test_recorded_runs_of_llama_cpp(service):
    done = subprocess.run([sys.executable, str(ROOT / "tests/goldens/text/check_http.py"), service.url, "demo", "--only", "tokenizer,greedy,chat"],
                          capture_output=True, text=True, timeout=170)
    last = done.stdout.splitlines()[-1]
    assert done.returncode == 0 and " 0 failed, 0 skipped" in last, done.stdout[-3000:] + done.stderr[-1000:]
