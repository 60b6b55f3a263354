"""Starts the real program for tests: `tandem serve`, or frontend and workers one by one. Every process gets free ports
and a private discovery folder, and is ended by its pid, so that tests can run beside each other and beside users."""
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

import openai
import requests

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TANDEM = pathlib.Path(os.environ.get("TANDEM_BINARY") or ROOT / "build/release/tandem")
CACHE = pathlib.Path(os.environ.get("TANDEM_CACHE") or pathlib.Path.home() / ".cache" / "tandem")
MODELS = CACHE / "models"
FAMILY_GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "goldens/families/logits.json.gz"
TINY = MODELS / "tiny-f32.gguf"
DEMO = MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf"
TRANSFER = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
START_TIMEOUT = 60


class Process:
    """One `tandem` process with its output, line by line."""

    def __init__(self, arguments, folder, variables=None, prefix=()):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("DYN_", "TANDEM_", "VLLM_"))}
        environment.update({"XDG_RUNTIME_DIR": str(folder), "TANDEM_CACHE": str(CACHE), "TANDEM_LOG": "info"})
        environment.update(variables or {})
        self.arguments = [str(a) for a in arguments]
        self.child = subprocess.Popen([*prefix, str(TANDEM), *self.arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, errors="replace", env=environment)
        self.pid = self.child.pid
        self.lines = []
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.child.stdout:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def output(self):
        return "\n".join(self.lines)

    def wait_line(self, pattern, timeout=START_TIMEOUT, start=0):
        """The match of the first line (from number `start` on) that fits."""
        deadline = time.monotonic() + timeout
        seen = start
        with self.changed:
            while True:
                while seen < len(self.lines):
                    match = re.search(pattern, self.lines[seen])
                    seen += 1
                    if match:
                        return match
                left = deadline - time.monotonic()
                if left <= 0 or self.child.poll() is not None and not self.reader.is_alive():
                    raise AssertionError(f"no line '{pattern}' from tandem {' '.join(self.arguments)}:\n{self.output()}")
                self.changed.wait(min(left, 0.5))

    def kill(self, number=signal.SIGKILL):
        os.kill(self.pid, number)

    def stop(self, timeout=15):
        """SIGTERM, then the exit code."""
        if self.child.poll() is None:
            self.child.terminate()
        try:
            code = self.child.wait(timeout)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise AssertionError(f"tandem {' '.join(self.arguments)} did not end within {timeout} s:\n{self.output()}")
        self.reader.join(5)
        return code

    def end(self):
        """Cleans up whatever the test left."""
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        self.reader.join(5)
        for stream in (self.child.stdin, self.child.stdout):
            stream.close()


class Worker:
    """A worker's own server, whoever started the worker."""

    def __init__(self, role, system, pid=None, process=None):
        self.role, self.system, self.pid, self.process = role, system, pid, process

    def state(self):
        reply = requests.get(f"http://{self.system}/debug/state", timeout=5)
        assert reply.status_code == 200, reply.text
        return flatten(reply.json())

    def metrics(self):
        return parse_metrics(requests.get(f"http://{self.system}/metrics", timeout=5).text)


def flatten(tree, out=None):
    """Numbers and texts of nested objects under their last name."""
    out = {} if out is None else out
    for key, value in tree.items():
        if isinstance(value, dict):
            flatten(value, out)
        else:
            out[key] = value
    return out


def parse_metrics(text):
    """{name: {labels as text: value}}"""
    found = {}
    for line in text.splitlines():
        match = re.match(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)", line)
        if match:
            found.setdefault(match.group(1), {})[match.group(2) or ""] = float(match.group(3))
    return found


class Service:
    """What a test talks to: a URL, a model, and the workers behind it."""

    def __init__(self):
        self.url = self.model = None
        self.processes = []

    def client(self, **options):
        return openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=60, **options)

    def post(self, path, body, **options):
        return requests.post(self.url + path, json=body, timeout=options.pop("timeout", 60), **options)

    def get(self, path):
        return requests.get(self.url + path, timeout=30)

    def metrics(self):
        return parse_metrics(self.get("/metrics").text)

    def complete(self, prompt, max_tokens=16, **fields):
        body = {"model": self.model, "prompt": prompt, "temperature": 0, "max_tokens": max_tokens, "return_token_ids": True, **fields}
        reply = self.post("/v1/completions", body, timeout=300)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def ids(self, prompt, max_tokens=16, **fields):
        return self.complete(prompt, max_tokens, **fields)["choices"][0]["token_ids"]

    def end(self):
        for process in self.processes:
            process.end()


class Serve(Service):
    """`tandem serve MODEL ...`"""

    def __init__(self, folder, *arguments, variables=None, wait=True):
        super().__init__()
        self.process = Process(["serve", "--http-port", "0", *arguments], folder, variables)
        self.processes.append(self.process)
        if wait:
            self.wait()

    def wait(self):
        match = self.process.wait_line(r"^serving '(.*)' at (http://\S+)")
        self.model, self.url = match.group(1), match.group(2)

    def children(self):
        """{name: pid} of the children that live, by their command lines."""
        found, count = {}, {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                words = (entry / "cmdline").read_bytes().decode().split("\0")
            except (OSError, IndexError):
                continue
            if parent != self.process.pid or len(words) < 2:
                continue
            role = words[1] if words[1] != "worker" else words[words.index("--disaggregation-mode") + 1]
            count[role] = count.get(role, 0) + 1
            found[f"{role}-{count[role]}"] = int(entry.name)
        return found

    def workers(self):
        """The workers that were announced last, one per log name."""
        found = {}
        for line in self.process.lines:
            match = re.search(r"(\S+): tandem \S+ worker \w+ serves '.*' \((\w+)\) on \S+, system server on (\S+)", line)
            if match:
                found[match.group(1)] = Worker(match.group(2), match.group(3))
        return list(found.values())


class Cluster(Service):
    """A frontend and workers, each a process of its own, without a supervisor."""

    def __init__(self, folder, model, prefill=0, decode=0, agg=0, frontend=(), worker=(), variables=None):
        super().__init__()
        self.folder, self.model_path, self.worker_options, self.variables = folder, model, list(worker), variables or {}
        self.frontend_options = list(frontend)
        self.discovery = str(pathlib.Path(folder) / "discovery")
        self.total = prefill + decode + agg
        self.running = []
        self.frontend = None
        self.start_frontend("0")
        roles = ["prefill"] * prefill + ["decode"] * decode + ["agg"] * agg
        started = [self.launch_worker(role) for role in roles]
        for role, process in zip(roles, started):
            self.running.append(self.await_worker(role, process))
        if roles and (decode or agg):
            self.await_model()
        # The model is listed with the first worker that serves it; requests would find the others missing.
        eventually(lambda: sum(" serves '" in line for line in self.frontend.lines) >= len(roles), START_TIMEOUT)

    def start_frontend(self, port):
        self.frontend = Process(["frontend", "--http-port", port, "--discovery-path", self.discovery, *self.frontend_options], self.folder, self.variables)
        self.processes.append(self.frontend)
        self.url = "http://" + self.frontend.wait_line(r"listens on http://(\S+)").group(1)

    def launch_worker(self, role, *options, prefix=(), variables=None):
        arguments = ["worker", "--discovery-path", self.discovery, "--system-port", "0", "--disaggregation-mode", role,
                     "--workers-on-host", str(max(1, self.total))]
        if self.model_path:
            arguments += ["--model", self.model_path]
        if role != "agg":
            arguments += ["--kv-transfer-config", TRANSFER]
        process = Process([*arguments, *self.worker_options, *options], self.folder, {**self.variables, **(variables or {})}, prefix)
        self.processes.append(process)
        return process

    @staticmethod
    def await_worker(role, process):
        system = process.wait_line(r"worker \w+ serves '.*' \(\w+\) on \S+, system server on (\S+)").group(1)
        return Worker(role, system, process.pid, process)

    def add_worker(self, role, *options, **more):
        worker = self.await_worker(role, self.launch_worker(role, *options, **more))
        self.running.append(worker)
        return worker

    def await_model(self, timeout=START_TIMEOUT):
        def listed():
            data = self.get("/v1/models").json().get("data")
            return data and data[0]["id"]

        self.model = eventually(listed, timeout)

    def workers(self, role=None):
        return [w for w in self.running if role in (None, w.role)]


def eventually(condition, timeout=2.0, step=0.02):
    """The first true value of `condition`; fails after `timeout`."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"not true within {timeout} s: last value {value!r}"
        time.sleep(step)


QUIET = ("running", "waiting", "waiting_for_kv", "leases", "pins", "remote_holds", "rpc_streams")


def assert_quiet(workers, timeout=2.0):
    """Nothing runs, waits, is leased or pinned any more on any worker."""
    last = {}

    def quiet():
        last.clear()
        for worker in workers:
            state = worker.state()
            for name in QUIET:
                if state[name] != 0:
                    last[f"{worker.role}.{name}"] = state[name]
            if state["blocks_free"] != state["blocks_total"]:
                last[f"{worker.role}.blocks"] = (state["blocks_free"], state["blocks_total"])
        return not last

    try:
        eventually(quiet, timeout)
    except AssertionError as error:
        raise AssertionError(f"still busy after {timeout} s: {last}") from error


def stream_events(service, body, path="/v1/completions", timeout=60):
    """The events of a streamed answer: parsed JSON, and '[DONE]' as a text."""
    with requests.post(service.url + path, json={**body, "stream": True}, stream=True, timeout=timeout) as reply:
        assert reply.status_code == 200, reply.text
        for line in reply.iter_lines():
            if line.startswith(b"data: "):
                data = line[6:].decode()
                yield data if data == "[DONE]" else json.loads(data)


def sum_of(metrics, name, **labels):
    """Sum of a metric's series that carry these labels."""
    total = 0.0
    for text, value in metrics.get(name, {}).items():
        if all(f'{key}="{wanted}"' in text for key, wanted in labels.items()):
            total += value
    return total
