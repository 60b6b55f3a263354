"""Models by their name on the hub, through the real program, against a server that plays the hub; and the cache shared with
huggingface_hub, both ways."""
import os
import signal
import subprocess
import sys
import time

import pytest

from fake_hub import COMMIT, FakeHub, Repo, sha256
from harness import DEMO, TINY, Process, Serve, eventually

TINY_BYTES = TINY.read_bytes() if TINY.exists() else b""
SMALL = ("--kv-cache-memory-bytes", "20M")


@pytest.fixture
def hub():
    server = FakeHub()
    server.repos["org/tiny"] = Repo({"README.md": b"# tiny", "tiny-F32.gguf": TINY_BYTES, "sub/tiny-Q8_0.gguf": b"GGUF" + bytes(1000)})
    yield server
    server.close()


def variables(hub, folder, **more):
    return {"HF_ENDPOINT": hub.url, "HF_HOME": str(folder / "hf"), "HF_TOKEN": "", "HF_TOKEN_PATH": "", "HF_HUB_CACHE": "", "HF_HUB_OFFLINE": "", **more}


def repo_folder(folder, name="org/tiny"):
    return folder / "hf/hub" / ("models--" + name.replace("/", "--"))


def refused(folder, arguments, environment, timeout=60):
    """The output of a start that must fail."""
    process = Process(["serve", "--http-port", "0", *arguments], folder, environment)
    try:
        assert process.child.wait(timeout) == 1, process.output()
        process.reader.join(5)
        return process.output()
    finally:
        process.end()


def python_hub(folder, code, **environment):
    """Runs huggingface_hub itself on the same cache."""
    environment = {**os.environ, "HF_HOME": str(folder / "hf"), "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1", **environment}
    environment.pop("HF_HUB_CACHE", None)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_download_then_serve_without_the_hub(start, folder, hub):
    first = start(Serve, "org/tiny:F32", *SMALL, variables=variables(hub, folder))
    assert first.model == "org/tiny:F32"
    text = first.ids([1, 2, 3], 4)
    place = repo_folder(folder)
    link = place / "snapshots" / COMMIT / "tiny-F32.gguf"
    assert link.is_symlink() and os.readlink(link) == f"../../blobs/{sha256(TINY_BYTES)}"
    assert (place / "refs/main").read_text() == COMMIT
    assert {p.name for p in (place / "snapshots" / COMMIT).iterdir()} == {"tiny-F32.gguf"}, "only what is needed"
    assert first.process.stop() == 0
    hub.close()
    again = start(Serve, "org/tiny:F32", *SMALL, "--prefill", "1", "--decode", "1", variables=variables(hub, folder))
    assert again.ids([1, 2, 3], 4) == text
    # huggingface_hub finds it too.
    path = python_hub(folder, "import huggingface_hub as h; print(h.hf_hub_download('org/tiny', 'tiny-F32.gguf')); "
                              "assert not h.scan_cache_dir().warnings", HF_HUB_OFFLINE="1")
    assert path == str(link)


def test_what_huggingface_hub_downloaded_is_used(start, folder, hub):
    python_hub(folder, "import huggingface_hub as h; h.hf_hub_download('org/tiny', 'tiny-F32.gguf', revision='v1')", HF_ENDPOINT=hub.url)
    asked = len(hub.asked)
    service = start(Serve, "org/tiny:tiny-F32.gguf", "--revision", "v1", "--served-model-name", "t", *SMALL, variables=variables(hub, folder))
    assert service.model == "t" and len(hub.asked) == asked


@pytest.fixture(scope="module")
def large():
    assert DEMO.exists()
    return DEMO.read_bytes()


def test_parallel_ranges_that_break_are_resumed(start, folder, hub, large):
    hub.repos["org/demo"] = Repo({"demo.Q4_1.gguf": large})
    hub.faults.break_after = [3_000_000, 100_000, 0, 5_000_000, 1]
    hub.faults.refuse = 2
    service = start(Serve, "org/demo", "--kv-cache-memory-bytes", "50M", variables=variables(hub, folder, HF_TOKEN="secret"))
    assert service.model == "org/demo"
    with (repo_folder(folder, "org/demo") / "snapshots" / COMMIT / "demo.Q4_1.gguf").open("rb") as file:
        assert file.read() == large
    ranges = [headers["range"] for who, _, _, headers in hub.asked if who == "storage"]
    assert len(set(ranges)) >= 6, "in parallel ranges"
    assert any("3000000-" in r for r in ranges), "goes on behind the break"
    assert all(headers.get("authorization") == "Bearer secret" for who, _, _, headers in hub.asked if who == "hub")
    assert not any("authorization" in {k.lower() for k in headers} for who, _, _, headers in hub.asked if who == "storage"), "no token elsewhere"
    assert "downloading demo.Q4_1.gguf (98.4 MB in all)" in service.process.output()


def test_an_interrupted_download_goes_on(start, folder, hub, large):
    hub.repos["org/demo"] = Repo({"demo.Q4_1.gguf": large})
    hub.faults.pause = 0.02
    first = Process(["serve", "org/demo:Q4_1", "--http-port", "0"], folder, variables(hub, folder))
    partial = repo_folder(folder, "org/demo") / "blobs" / (sha256(large) + ".incomplete")
    try:
        eventually(lambda: partial.exists() and partial.stat().st_size > 0, 30)
        # Not SIGINT: what runs in the background of a script has that ignored.
        first.kill(signal.SIGTERM)
        assert first.child.wait(10) == -signal.SIGTERM
    finally:
        first.end()
    had = partial.stat().st_size
    assert partial.read_bytes() == large[:had], "always the file's beginning"
    hub.faults.pause = 0
    asked = len(hub.asked)
    start(Serve, "org/demo:Q4_1", "--kv-cache-memory-bytes", "50M", variables=variables(hub, folder))
    begins = sorted(int(headers["range"].split("=")[1].split("-")[0]) for who, _, _, headers in hub.asked[asked:] if who == "storage")
    assert begins[0] == had and not partial.exists()


def test_a_server_without_ranges(start, folder, hub):
    hub.faults.no_ranges = True
    hub.faults.break_after = [100_000]
    hub.faults.fail = [503, 500]
    start(Serve, "org/tiny:F32", *SMALL, variables=variables(hub, folder))
    assert (repo_folder(folder) / "snapshots" / COMMIT / "tiny-F32.gguf").read_bytes() == TINY_BYTES


def test_damage_is_noticed_and_thrown_away(start, folder, hub):
    hub.faults.damage = True
    output = refused(folder, ["org/tiny:F32"], variables(hub, folder))
    assert "the download is damaged" in output and sha256(TINY_BYTES) in output
    assert not list((repo_folder(folder) / "blobs").iterdir())
    hub.faults.damage = False
    start(Serve, "org/tiny:F32", *SMALL, variables=variables(hub, folder))


def test_access(start, folder, hub):
    output = refused(folder, ["org/absent"], variables(hub, folder))
    assert "no such repository" in output and "HF_TOKEN" in output
    assert "has no such revision" in refused(folder, ["org/tiny@v9:F32"], variables(hub, folder))
    assert "tiny-F32.gguf" in refused(folder, ["org/tiny:Q5_K_M"], variables(hub, folder)), "says what there is"
    hub.repos["org/tiny"].token = "right"
    assert "accept its terms" in refused(folder, ["org/tiny:F32"], variables(hub, folder))
    assert "may not read it" in refused(folder, ["org/tiny:F32"], variables(hub, folder, HF_TOKEN="wrong"))
    (folder / "hf").mkdir(exist_ok=True)
    (folder / "hf/token").write_text("right\n", encoding="utf-8")
    start(Serve, "org/tiny:F32", *SMALL, variables=variables(hub, folder))


def test_without_network(folder, hub):
    environment = variables(hub, folder)
    hub.close()
    began = time.monotonic()
    output = refused(folder, ["org/tiny:F32"], environment)
    for part in ("is not in the cache", "no connection to 127.0.0.1", "hf download org/tiny", str(repo_folder(folder))):
        assert part in output, output
    assert time.monotonic() - began < 15
    assert "HF_HUB_OFFLINE forbids" in refused(folder, ["org/tiny:F32"], {**environment, "HF_HUB_OFFLINE": "1"})


def test_names_of_a_hostile_server_lead_nowhere(folder, hub):
    evil = Repo({"model.safetensors.index.json": b'{"weight_map":{"a":"../../../../evil"}}', "../evil": b"x", "/tmp/tandem-evil": b"x", "config.json": b"{}"})
    hub.repos["org/evil"] = evil
    assert "is no plain name" in refused(folder, ["org/evil"], variables(hub, folder))
    evil.etags["config.json"] = "../../evil"
    evil.files["model.safetensors.index.json"] = b'{"weight_map":{"a":"model.safetensors"}}'
    evil.files["model.safetensors"] = b"x"
    evil.listed = list(evil.files)
    output = refused(folder, ["org/evil"], variables(hub, folder))
    assert "does not say etag and size of 'config.json'" in output
    assert not [p for p in folder.rglob("*evil*") if p.name != "models--org--evil"]
    assert not os.path.exists("/tmp/tandem-evil")


def test_two_at_once_download_once(folder, hub, start):
    hub.faults.pause = 0.01
    services = [Serve(folder, "org/tiny:F32", *SMALL, variables=variables(hub, folder), wait=False) for _ in range(2)]
    try:
        for service in services:
            service.wait()
    finally:
        for service in services:
            service.end()
    assert len(hub.paths("storage")) == 1


def test_tls(start, folder):
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(certificate), "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    hub = FakeHub((str(certificate), str(key)))
    try:
        hub.repos["org/tiny"] = Repo({"tiny-F32.gguf": TINY_BYTES})
        assert "is not trusted" in refused(folder, ["org/tiny:F32"], variables(hub, folder))
        start(Serve, "org/tiny:F32", *SMALL, variables=variables(hub, folder, SSL_CERT_FILE=str(certificate)))
        other = variables(hub, folder, SSL_CERT_FILE=str(certificate), HF_ENDPOINT=hub.url.replace("127.0.0.1", "localhost"), HF_HOME=str(folder / "hf2"))
        assert "is not trusted" in refused(folder, ["org/tiny:F32"], other), "valid for the address, not for the name"
    finally:
        hub.close()
