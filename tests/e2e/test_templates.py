"""Chat templates through the server: 20 real ones and the demo model's against what Hugging Face renders, the options around
them, and contents as texts and as parts."""
import json
import subprocess
import sys

import pytest

from harness import CACHE, DEMO, ROOT, Process, Serve
from template_cases import CLOCK, GOLDEN, check_command, thinned

SMALL = ("--kv-cache-memory-bytes", "100M")


@pytest.fixture(scope="module")
def service(shared_start):
    return shared_start(Serve, DEMO, "--served-model-name", "demo", "--trust-request-chat-template", "--template-clock", str(CLOCK), *SMALL)


def test_real_templates_render_as_hugging_face_does(service, tmp_path):
    count = thinned(tmp_path, 20)
    assert count == 21, "the demo model's template comes on top"
    done = subprocess.run(check_command(service.url, "demo", tmp_path, CACHE / "templates"), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and " 0 failed, 0 skipped" in done.stdout, done.stdout + done.stderr


def prompt_of(service, messages, **fields):
    reply = service.post("/tokenize", {"model": "demo", "messages": messages, **fields})
    assert reply.status_code == 200, reply.text
    return service.post("/detokenize", {"model": "demo", "tokens": reply.json()["tokens"]}).json()["prompt"]


USER = [{"role": "user", "content": "hi"}]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]


def test_parts_and_texts(service):
    assert "a\nb<|im_end|>" in prompt_of(service, PARTS), "the model's own template wants texts"
    wants_parts = "{% for m in messages %}{% for part in m.content %}<{{ part.type }} {{ part.text }}>{% endfor %}{% endfor %}"
    assert prompt_of(service, PARTS, chat_template=wants_parts) == "<text a><text b>"
    assert prompt_of(service, PARTS, chat_template="{{ messages[0].content }}") == "a\nb"


def test_variables_tools_documents_and_the_final_message(service):
    show = "{{ messages[0].content }} {{ flag }} {{ tools | length }} {{ documents[0].title }} {{ add_generation_prompt }}"
    assert prompt_of(service, USER, chat_template=show, chat_template_kwargs={"flag": "on"}, tools=[{"type": "function"}],
                     documents=[{"title": "T"}]) == "hi on 1 T True"
    assert prompt_of(service, USER, chat_template="{{ add_generation_prompt }}", chat_template_kwargs={"add_generation_prompt": False}) == "False"
    more = [*USER, {"role": "assistant", "content": "Well, "}]
    text = prompt_of(service, more, add_generation_prompt=False, continue_final_message=True)
    assert text.endswith("<|im_start|>assistant\nWell, ")
    both = service.post("/tokenize", {"model": "demo", "messages": more, "continue_final_message": True})
    assert both.status_code == 400 and both.json()["error"]["param"] == "continue_final_message"
    for name in ("chat_template", "messages"):
        refused = service.post("/tokenize", {"model": "demo", "messages": USER, "chat_template_kwargs": {name: "x"}})
        assert refused.status_code == 400 and name in refused.json()["error"]["message"]


def test_templates_of_the_command_line(start, folder):
    (folder / "own.jinja").write_text("FILE {{ messages[0].content }} {{ messages[0].content is string }}", encoding="utf-8")
    service = start(Serve, DEMO, "--served-model-name", "demo", "--chat-template", str(folder / "own.jinja"), "--chat-template-content-format", "openai",
                    "--prefill", "1", "--decode", "1", *SMALL)
    assert prompt_of(service, USER) == "FILE [{'type': 'text', 'text': 'hi'}] False"
    for path in ("/tokenize", "/v1/chat/completions"):
        refused = service.post(path, {"model": "demo", "messages": USER, "chat_template": "x"})
        assert refused.status_code == 400 and "--trust-request-chat-template" in refused.json()["error"]["message"]
        assert refused.json()["error"]["param"] == "chat_template"


def test_texts_for_a_template_that_knows_parts_only(start):
    parts = "{% for m in messages %}[{% for part in m.content %}{{ part.text }}{% endfor %}]{% endfor %}"
    service = start(Serve, DEMO, "--served-model-name", "demo", "--chat-template", parts, *SMALL)
    assert prompt_of(service, USER) == "[hi]"
    assert prompt_of(service, PARTS) == "[ab]"


def test_generation_settings_are_defaults_of_requests(start, folder):
    """What requests leave out comes from the model's settings; --generation-config vllm leaves them out."""
    (folder / "generation_config.json").write_text('{"temperature": 0.0, "max_new_tokens": 3, "top_k": 1}', encoding="utf-8")
    service = start(Serve, DEMO, "--served-model-name", "demo", "--generation-config", str(folder), "--override-generation-config", '{"max_new_tokens": 5}',
                    *SMALL)
    body = {"model": "demo", "prompt": "Once upon a time", "max_tokens": 30, "ignore_eos": True}
    texts = set()
    for seed in range(3):
        reply = service.post("/v1/completions", {**body, "seed": seed}).json()
        assert reply["usage"]["completion_tokens"] == 5
        texts.add(reply["choices"][0]["text"])
    assert len(texts) == 1, "greedy by the model's settings"
    hot = {service.post("/v1/completions", {**body, "temperature": 2, "top_k": -1, "seed": seed}).json()["choices"][0]["text"] for seed in range(3)}
    assert len(hot) > 1, "a request's own settings win"


def test_a_template_that_cannot_be_used_stops_the_start(folder):
    for text, says in (("{% for %}", "chat template cannot be used"), ("absent.jinja", "there is no such file")):
        process = Process(["worker", "--model", str(DEMO), "--discovery-path", str(folder), "--chat-template", text, *SMALL], folder)
        try:
            assert process.child.wait(30) == 1
            assert says in process.output()
        finally:
            process.end()


def test_the_recorded_conversations_are_all_there():
    assert len(json.loads((GOLDEN / "conversations.json").read_text(encoding="utf-8"))["conversations"]) == 32
