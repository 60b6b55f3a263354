"""Small costs that add up, each against the real program:

  frontend    the frontend's own CPU time per unary request and its memory, with a mock worker
  start       `tandem serve` from start to first token, with and without the packed cache
  cancel      from a client's disconnect to the moment when no worker runs anything for it
  neighbour   decode beside one process that never sleeps

usage: bench/latency.py [frontend] [start] [cancel] [neighbour]"""
import concurrent.futures
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import common

REQUESTS, ROUNDS = 2000, 5
STARTS = 5
CANCELS = 40
NEIGHBOUR_ROUNDS, NEIGHBOUR_TOKENS = 3, 600


class KeptConnection:
    """A client that costs next to nothing: one connection, one request sent again and again."""

    def __init__(self, service, path, body):
        host, port = service.url.removeprefix("http://").rsplit(":", 1)
        text = json.dumps(body).encode()
        self.request = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, times):
        for _ in range(times):
            self.socket.sendall(self.request)
            answer = self.socket.recv(65536)
            while b"\r\n\r\n" not in answer or len(answer) < self.length(answer):
                answer += self.socket.recv(65536)
            if not answer.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"error: {answer[:300].decode()}")

    @staticmethod
    def length(answer):
        head = answer.partition(b"\r\n\r\n")[0].lower()
        return len(head) + 4 + int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])


def pin(pid, cores):
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), cores)


def frontend():
    service = common.serve("--engine", "mock", "--served-model-name", "mock", "--mock-step-us", "10", "--mock-prefill-token-us", "0", "--mock-decode-token-us", "1")
    # The frontend on one core; the worker and the clients on the others.
    children, cores = service.children(), sorted(os.sched_getaffinity(0))
    pid = children["frontend-1"]
    if len(cores) > 1:
        pin(pid, {cores[0]})
        for other in (os.getpid(), *(c for name, c in children.items() if name != "frontend-1")):
            pin(other, set(cores[1:]))
    asked = {"chat": ("/v1/chat/completions", {"model": "mock", "max_tokens": 1, "messages": [
                 {"role": "system", "content": "You are a helpful assistant."},
                 {"role": "user", "content": "What is the capital of France? Answer in one sentence, please."}]}),
             "completion of 64 ids": ("/v1/completions", {"model": "mock", "prompt": [300] * 64, "max_tokens": 1, "ignore_eos": True})}
    rows = []
    for name, (path, body) in asked.items():
        for connections in (1, 4):
            clients = [KeptConnection(service, path, body) for _ in range(connections)]
            clients[0].ask(200)
            used = []
            for _ in range(ROUNDS):
                before, started = common.cpu_seconds(pid), time.perf_counter()
                with concurrent.futures.ThreadPoolExecutor(connections) as pool:
                    list(pool.map(lambda client: client.ask(REQUESTS // connections), clients))
                used.append(((common.cpu_seconds(pid) - before) / REQUESTS * 1e6, REQUESTS / (time.perf_counter() - started)))
            rows.append([name, connections, common.median([u for u, _ in used]), 100, common.median([r for _, r in used])])
    common.table(f"Frontend, unary requests, mock worker, medians of {ROUNDS} x {REQUESTS}",
                 ["request", "connections", "CPU of the frontend, us", "aim", "requests/s"], rows)
    common.table("Frontend, memory after that", ["resident, MiB", "aim"], [[common.resident_mib(pid), 50]])
    service.end()
    os.sched_setaffinity(0, set(cores))


def start():
    def once(cache):
        os.environ["TANDEM_CACHE"] = cache
        started = time.perf_counter()
        service = common.serve(common.DEMO, variables={"TANDEM_CACHE": cache})
        url = time.perf_counter() - started
        common.Timed(service, "Hello", 1)
        first = time.perf_counter() - started
        service.end()
        return url, first

    cache = tempfile.mkdtemp(prefix="tandem-bench-cache-")
    cold = once(cache)
    warm = [once(cache) for _ in range(STARTS)]
    shutil.rmtree(cache, ignore_errors=True)
    common.table("tandem serve, demo model, seconds", ["start", "to the URL", "to the first token", "aim"],
                 [["first, packing the weights", *cold, ""], ["later, median", common.median([w[0] for w in warm]), common.median([w[1] for w in warm]), 1.0]])


def cancel():
    rows = []
    for name, shape in (("aggregated", []), ("1+1", ["--prefill", "1", "--decode", "1"])):
        service = common.serve(common.DEMO, *shape, variables={"TANDEM_LOG": "info"})
        workers = service.workers()
        host, port = service.url.removeprefix("http://").rsplit(":", 1)
        for moment, prompt, wait in (("while decoding", common.random_ids(32, 1), 0.3), ("during prefill", common.random_ids(4000, 2), 0.15)):
            times = []
            for number in range(CANCELS // 4):
                prompt[0] = 200 + number
                body = b'{"model":"%s","prompt":%s,"max_tokens":1000,"ignore_eos":true,"stream":true}' % (service.model.encode(), str(prompt).encode())
                client = socket.create_connection((host, int(port)))
                client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                time.sleep(wait)
                client.close()
                started = time.perf_counter()
                while any(w.state()["running"] + w.state()["waiting"] for w in workers):
                    if time.perf_counter() - started > 10:
                        raise SystemExit("error: still busy 10 s after the client left")
                times.append(time.perf_counter() - started)
            rows.append([name, moment, common.median(times) * 1e3, max(times) * 1e3])
        service.end()
    common.table("From a client's disconnect to idle workers (ms; the asking itself takes some)", ["shape", "moment", "median", "max"], rows)


def neighbour():
    service = common.serve(common.DEMO, "--no-enable-prefix-caching")

    def rate(seed):
        return common.Timed(service, common.random_ids(32, seed), NEIGHBOUR_TOKENS).decode_rate

    rate(0)
    pairs = []
    for number in range(NEIGHBOUR_ROUNDS):
        alone = rate(2 * number + 1)
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        pairs.append((alone, rate(2 * number + 2)))
        busy.kill()
        busy.wait()
    service.end()
    common.table(f"Decode, {NEIGHBOUR_TOKENS} tokens, tokens/s", ["alone", "beside a busy process", "kept", "aim"],
                 [[common.median([a for a, _ in pairs]), common.median([b for _, b in pairs]), common.median([b / a for a, b in pairs]), 0.5]])


if __name__ == "__main__":
    common.run_parts(__doc__, {"frontend": frontend, "start": start, "cancel": cancel, "neighbour": neighbour})
