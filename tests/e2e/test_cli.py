"""The command line by itself: help texts teach, errors name the remedy, exit codes are those of the reference."""
import json
import subprocess

import pytest

from harness import DEMO, TANDEM, TINY, TRANSFER


def tandem(*arguments, timeout=20, **variables):
    return subprocess.run([str(TANDEM), *map(str, arguments)], capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin", "HOME": "/tmp", **variables})


def test_version():
    done = tandem("--version")
    assert done.returncode == 0 and done.stdout.startswith("tandem 0.")


def test_overview_names_every_command():
    done = tandem("--help")
    assert done.returncode == 0
    for word in ("serve", "run", "frontend", "worker", "vllm", "model.gguf"):
        assert word in done.stdout
    assert tandem().returncode == 2


@pytest.mark.parametrize("command", ["serve", "run", "frontend", "worker", "vllm"])
def test_help_has_examples_defaults_and_variables(command):
    done = tandem(command, "--help")
    assert done.returncode == 0
    assert "examples:" in done.stdout and "default" in done.stdout and "usage: tandem" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 140


@pytest.mark.parametrize("arguments, code, parts", [
    (["sevre", "x"], 2, ["'sevre'", "did you mean 'serve'"]),
    (["frontend", "--http-prot", "1"], 2, ["--http-prot", "did you mean --http-port"]),
    (["frontend", "--http-port", "x"], 2, ["--http-port", "'x'"]),
    (["frontend", "--router-mode", "kv"], 2, ["--router-mode", "round-robin or random"]),
    (["worker"], 1, ["ValueError", "--model PATH"]),
    (["worker", "--model", TINY, "--disaggregation-mode", "prefill"], 1, ["ValueError", "--kv-transfer-config", "NixlConnector"]),
    (["worker", "--model", TINY, "--disaggregation-mode", "both"], 2, ["agg, pd, prefill or decode"]),
    (["worker", "--model", TINY, "--kv-transfer-config", "{nope"], 2, ["--kv-transfer-config"]),
    (["worker", "--model", TINY, "--kv-transfer-config", '{"kv_connector":"PigeonConnector"}'], 1, ["ValueError", "PigeonConnector"]),
    (["worker", "--model", "/nonexistent/x.gguf"], 1, ["ValueError", "/nonexistent/x.gguf"]),
    (["worker", "--model", TINY, "--http-port", "1"], 2, ["option of 'tandem serve'"]),
    (["serve"], 2, ["MODEL is missing"]),
    (["serve", "no-such.gguf"], 1, ["no-such.gguf", "no such file or folder"]),
    (["serve", "no such/name"], 1, ["no such file or folder", "org/name:Q4_K_M"]),
    (["serve", TINY, "--revision", "v1"], 1, ["--revision", "is a path"]),
    (["serve", TINY, "--prefill", "1"], 1, ["--decode 1"]),
])
def test_mistakes_are_explained(arguments, code, parts):
    done = tandem(*arguments)
    assert done.returncode == code, done.stderr
    for part in parts:
        assert part in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "terminate" not in done.stderr


def test_a_file_that_is_no_model_is_explained(tmp_path):
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"nonsense")
    done = tandem("worker", "--model", path, "--discovery-path", tmp_path / "d")
    assert done.returncode == 1 and "bad.gguf" in done.stderr, done.stderr
    done = tandem("serve", path, "--http-port", "0", XDG_RUNTIME_DIR=str(tmp_path))
    assert done.returncode == 1 and "bad.gguf" in done.stderr, done.stderr


@pytest.mark.parametrize("engine, part", [("auto", "--engine native"), ("native", "GGUF")])
def test_a_model_larger_than_the_memory(tmp_path, engine, part):
    """auto refuses it with the remedy; native tries, and here finds that it is no model."""
    path = tmp_path / "huge.gguf"
    with open(path, "wb") as file:
        file.truncate(1 << 42)  # takes no space: all of it is a hole
    done = tandem("worker", "--model", path, "--engine", engine, "--discovery-path", tmp_path / "d")
    assert done.returncode == 1 and part in done.stderr, done.stderr
    assert ("70 %" in done.stderr) == (engine == "auto"), done.stderr


def test_mock_needs_no_model(tmp_path):
    done = tandem("worker", "--engine", "mock", "--mock-block-bytes", "8", "--discovery-path", tmp_path / "d")
    assert done.returncode == 1 and "--mock-block-bytes" in done.stderr and "--model" not in done.stderr, done.stderr


def test_variables_are_checked_and_named():
    done = tandem("frontend", DYN_ROUTER_MODE="kv")
    assert done.returncode == 2 and "DYN_ROUTER_MODE" in done.stderr
    done = tandem("worker", "--model", TINY, DYN_VLLM_DISAGGREGATION_MODE="prefill")
    assert done.returncode == 1 and "--kv-transfer-config" in done.stderr


def test_the_transfer_example_is_json():
    assert json.loads(TRANSFER)["kv_connector"] == "NixlConnector"


def test_run_answers_each_line_of_its_input(tmp_path):
    done = subprocess.run([str(TANDEM), "run", str(DEMO), "--temperature", "0", "--max-tokens", "8"], input="What is 2+2?\nAnd 3+3?\n",
                          capture_output=True, text=True, timeout=120, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert len([line for line in done.stdout.splitlines() if line.strip()]) >= 2, done.stdout
