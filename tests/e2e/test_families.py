"""Every model family through the whole program: the same token ids alone, batched, with a warm prefix cache and with prefill and decode
apart, and the recorded ones of transformers as far as those are sure."""
import concurrent.futures
import gzip
import json

import pytest

from harness import FAMILY_GOLDENS, MODELS, Cluster, assert_quiet

SMALL = ["--kv-cache-memory-bytes", "20M"]
TOKENS = 8
# The cache holds halves, the recorded runs had float32: closer calls may go either way.
SURE_GAP = 0.02
RECORDED = {model["name"]: model["cases"] for model in json.loads(gzip.decompress(FAMILY_GOLDENS.read_bytes()))["models"]}
FP8 = ["fp8-llama-block", "fp8-llama-channel", "fp8-deepseek-block"]


def answers(service, prompts, at_once=1):
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda p: service.ids(p, TOKENS, ignore_eos=True), prompts))


def check_recorded(name, found):
    for case, ids in zip(RECORDED[name], found):
        sure = next((i for i, gap in enumerate(case["greedy_gaps"]) if gap < SURE_GAP), TOKENS)
        assert ids[:sure] == case["greedy_ids"][:sure], (name, case["ids"])


def prompts_of(name):
    prompts = [case["ids"] for case in RECORDED.get(name, RECORDED["llama-f32"])]
    longest = max(prompts, key=len)
    # More than any window and more than a few blocks.
    return [*prompts, longest * 2, longest[::-1] * 3]


@pytest.mark.parametrize("name", list(RECORDED) + [f"{name}.gguf" for name in ("gemma3-f32", "qwen3moe-f32", "deepseekv3-f32")])
def test_same_ids_on_every_path(start, name):
    model, recorded = MODELS / "families" / name, name.removesuffix(".gguf")
    prompts = prompts_of(recorded)
    alone = start(Cluster, model, agg=1, worker=[*SMALL, "--no-enable-prefix-caching"])
    expected = answers(alone, prompts)
    check_recorded(recorded, expected)
    assert answers(alone, prompts * 3, at_once=12) == expected * 3
    alone.end()
    apart = start(Cluster, model, prefill=1, decode=1, worker=SMALL)
    decode = apart.workers("decode")[0]
    assert answers(apart, prompts) == expected
    state = decode.state()
    assert state["pulled_bytes"] > 0 and state["prompt_tokens_computed"] <= 2 * len(prompts)
    assert answers(apart, prompts, at_once=4) == expected, "with warm caches"
    assert decode.state()["prefix_hit_tokens"] > 0
    assert_quiet(apart.workers())


@pytest.mark.parametrize("name", FP8)
def test_eight_bit_weights_say_the_same_as_float32(start, name):
    """The files hold no tokenizer of their own."""
    tokenizer = ["--tokenizer", str(MODELS / "families" / "llama-f32")]
    prompts = prompts_of(name)[:4]
    found = [answers(start(Cluster, MODELS / "families" / folder, prefill=1, decode=1, worker=[*SMALL, *tokenizer]), prompts)
             for folder in (name, f"{name}-twin")]
    same = sum(a == b for a, b in zip(*found))
    assert same >= len(prompts) - 1, found


def test_gemma(start):
    """A second real model: apart as alone."""
    prompts = ["The sea was calm", "def fibonacci(n):\n    ", "A list of rivers: " + " ".join(f"number {i} flows north," for i in range(1, 130))]
    model = MODELS / "gemma-3-270m-q4_k_m.gguf"
    options = ["--kv-cache-memory-bytes", "200M", "--max-model-len", "2048"]
    alone = start(Cluster, model, agg=1, worker=options)
    expected = [alone.ids(prompt, 16, ignore_eos=True) for prompt in prompts]
    text = alone.complete(prompts[0], 16)["choices"][0]["text"]
    assert "the" in text.split(), text
    alone.end()
    apart = start(Cluster, model, prefill=1, decode=1, worker=options)
    assert [apart.ids(prompt, 16, ignore_eos=True) for prompt in prompts] == expected
    assert apart.workers("decode")[0].state()["pulled_bytes"] > 0
