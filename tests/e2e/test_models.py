"""Folders in Hugging Face layout through the whole program: weights, tokenizer, template and settings of the folder, and the
options that change them."""
import json
import shutil

import pytest

from fake_hub import COMMIT, FakeHub, Repo
from harness import MODELS, TINY, Process, Serve

FAMILIES = MODELS / "families"
FOLDER = FAMILIES / "llama-f32"
SHARDED = FAMILIES / "llama-f16-sharded"
SMALL = ("--kv-cache-memory-bytes", "20M")
CHAT = [{"role": "user", "content": "the and then"}]


@pytest.fixture(scope="module")
def service(shared_start):
    return shared_start(Serve, FOLDER, "--prefill", "1", "--decode", "1", *SMALL)


def chat_ids(service, **fields):
    reply = service.post("/v1/chat/completions", {"model": service.model, "messages": CHAT, "max_tokens": 12, "temperature": 0, "return_token_ids": True, **fields})
    assert reply.status_code == 200, reply.text
    return reply.json()["choices"][0]["token_ids"]


def copy_of(folder, changes, source=FOLDER):
    """A copy of the model with some members of its JSON files changed."""
    target = folder / "copy"
    shutil.copytree(source, target)
    for name, members in changes.items():
        tree = json.loads((target / name).read_text(encoding="utf-8"))
        tree.update(members)
        (target / name).write_text(json.dumps(tree), encoding="utf-8")
    return target


def test_a_folder_is_served_by_its_name(service, start):
    assert service.model == "llama-f32"
    alone = start(Serve, f"{FOLDER}/", *SMALL)
    assert alone.model == "llama-f32"
    assert chat_ids(alone, ignore_eos=True) == chat_ids(service, ignore_eos=True)
    ids = service.post("/tokenize", {"model": service.model, "messages": CHAT}).json()["tokens"]
    text = service.post("/detokenize", {"model": service.model, "tokens": ids}).json()["prompt"]
    assert text == "<|im_start|>user\nthe and then<|im_end|>\n<|im_start|>assistant\n", "the folder's own template"


def test_generation_config_of_the_folder(service, start, folder):
    ids = chat_ids(service, ignore_eos=True)
    changed = copy_of(folder, {"generation_config.json": {"eos_token_id": [2, ids[3]], "temperature": 0.0, "max_new_tokens": 6}})
    other = start(Serve, changed, "--served-model-name", "m", *SMALL)
    first = ids.index(ids[3])
    assert chat_ids(other) == ids[:first + 1], "ends at the second of its eos tokens"
    assert len(chat_ids(other, ignore_eos=True)) == 6
    assert other.post("/v1/chat/completions", {"model": "m", "messages": CHAT, "max_tokens": 12, "return_token_ids": True,
                                               "ignore_eos": True}).json()["choices"][0]["token_ids"] == ids[:6], "greedy by default"


def test_a_template_for_tools(start, folder):
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "{{ tools | length }} tools"}]
    changed = copy_of(folder, {"tokenizer_config.json": {"chat_template": named}})
    service = start(Serve, changed, "--served-model-name", "m", *SMALL)

    def prompt_of(**fields):
        ids = service.post("/tokenize", {"model": "m", "messages": CHAT, **fields}).json()["tokens"]
        return service.post("/detokenize", {"model": "m", "tokens": ids}).json()["prompt"]

    assert prompt_of() == "plain"
    assert prompt_of(tools=[{"type": "function", "function": {"name": "f"}}]) == "1 tools"


def test_overrides_of_the_config_and_the_context(service, start):
    changed = start(Serve, FOLDER, "--hf-overrides", '{"rope_theta": 100.0, "max_position_embeddings": 4096}', "--max-model-len", "2k", *SMALL)
    reply = changed.post("/tokenize", {"model": changed.model, "messages": CHAT}).json()
    assert reply["max_model_len"] == 2000
    assert chat_ids(changed, ignore_eos=True) != chat_ids(service, ignore_eos=True)
    plain = service.post("/tokenize", {"model": service.model, "messages": CHAT}).json()
    assert plain["max_model_len"] == 512


def test_a_tokenizer_of_another_place(service, start, folder):
    bare = copy_of(folder, {})
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (bare / name).unlink()
    other = start(Serve, bare, "--tokenizer", FOLDER, "--served-model-name", "m", *SMALL)
    assert chat_ids(other, ignore_eos=True) == chat_ids(service, ignore_eos=True)


@pytest.mark.parametrize("arguments, parts", [
    (("--hf-overrides", "{"), ["--hf-overrides"]),
    (("--hf-overrides", "[]"), ["--hf-overrides", "not a JSON object"]),
    (("--max-model-len", "1M"), ["--max-model-len", "512"]),
    (("--tokenizer", "/no/such"), ["--tokenizer '/no/such'"]),
    (("--generation-config", "/no/such"), ["/no/such/generation_config.json", "auto, vllm"]),
])
def test_mistakes_are_explained(folder, arguments, parts):
    process = Process(["worker", "--model", FOLDER, "--discovery-path", folder, *arguments, *SMALL], folder)
    try:
        assert process.child.wait(30) == 1
        process.reader.join(5)
        for part in parts:
            assert part in process.output(), process.output()
    finally:
        process.end()


@pytest.mark.parametrize("missing, part", [
    ("config.json", "config.json is missing"),
    ("tokenizer.json", "tokenizer"),
    ("model-00001-of-00002.safetensors", "model-00001-of-00002.safetensors"),
])
def test_what_is_missing_is_named(folder, missing, part):
    broken = copy_of(folder, {}, SHARDED)
    shards = sorted(p.name for p in broken.glob("*.safetensors"))
    assert len(shards) > 1
    (broken / (shards[0] if missing.endswith(".safetensors") else missing)).unlink()
    process = Process(["worker", "--model", broken, "--discovery-path", folder / "d", *SMALL], folder)
    try:
        assert process.child.wait(30) == 1
        process.reader.join(5)
        assert (shards[0] if missing.endswith(".safetensors") else part) in process.output(), process.output()
    finally:
        process.end()


def test_overrides_need_a_config(folder):
    process = Process(["worker", "--model", TINY, "--discovery-path", folder, "--hf-overrides", '{"rope_theta":1}', *SMALL], folder)
    try:
        assert process.child.wait(30) == 1
        process.reader.join(5)
        assert "--hf-overrides" in process.output()
    finally:
        process.end()


def test_a_folder_from_the_hub(start, folder):
    files = {p.name: p.read_bytes() for p in SHARDED.iterdir()}
    hub = FakeHub()
    try:
        hub.repos["org/sharded"] = Repo({**files, "README.md": b"#", "pytorch_model.bin": b"x", "onnx/model.onnx": b"x", "original/weights.safetensors": b"x"})
        environment = {"HF_ENDPOINT": hub.url, "HF_HOME": str(folder / "hf"), "HF_TOKEN": "", "HF_HUB_CACHE": "", "HF_HUB_OFFLINE": ""}
        service = start(Serve, "org/sharded", "--prefill", "1", "--decode", "1", *SMALL, variables=environment)
        assert service.model == "org/sharded"
        snapshot = folder / "hf/hub/models--org--sharded/snapshots" / COMMIT
        assert {str(p.relative_to(snapshot)) for p in snapshot.rglob("*") if p.is_file()} == set(files)
        local = start(Serve, SHARDED, *SMALL)
        assert chat_ids(service, ignore_eos=True) == chat_ids(local, ignore_eos=True)
    finally:
        hub.close()
    again = start(Serve, "org/sharded", *SMALL, variables=environment)
    assert again.model == "org/sharded"
