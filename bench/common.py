"""Shared by the benchmarks: servers, streamed requests with their times, medians, tables."""
import concurrent.futures
import json
import pathlib
import random
import statistics
import sys
import tempfile
import time

import requests

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import harness  # noqa: E402

DEMO = harness.DEMO


def serve(*arguments, variables=None):
    return harness.Serve(pathlib.Path(tempfile.mkdtemp(prefix="tandem-bench-", dir="/tmp")), *arguments, variables={"TANDEM_LOG": "warn", **(variables or {})})


def random_ids(count, seed):
    draw = random.Random(seed)
    return [draw.randrange(100, 48000) for _ in range(count)]


class Timed:
    """One streamed completion: when each token came."""

    def __init__(self, service, prompt, tokens, session=None):
        body = {"model": service.model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True,
                "stream_options": {"include_usage": True}}
        self.started = time.perf_counter()
        self.times = []
        self.usage = {}
        self.rest = b""
        with (session or requests).post(service.url + "/v1/completions", json=body, stream=True, timeout=600) as reply:
            if reply.status_code != 200:
                raise SystemExit(f"error: HTTP {reply.status_code}: {reply.text[:300]}")
            for data in reply.raw.stream():
                self.take(data, time.perf_counter())
        self.ended = time.perf_counter()

    def take(self, data, now):
        """Parses no more than it must: the client runs on the cores that it measures."""
        *events, self.rest = (self.rest + data).split(b"\n\n")
        for event in events:
            if b'"choices":[{' in event:
                self.times.append(now)
            elif event.startswith(b'data: {"error"'):
                raise SystemExit(f"error: {event.decode()}")
            elif b'"usage":{' in event:
                self.usage = json.loads(event[6:])["usage"]

    @property
    def ttft(self):
        return self.times[0] - self.started

    @property
    def decode_rate(self):
        """Tokens per second after the first."""
        return (self.usage["completion_tokens"] - 1) / (self.times[-1] - self.times[0])


def closed_loop(service, clients, jobs, tokens):
    """Runs jobs (prompts) with so many clients; returns output tokens per second over all of it."""
    started = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        done = list(pool.map(lambda p: Timed(service, p, tokens), jobs))
    return sum(d.usage["completion_tokens"] for d in done) / (time.perf_counter() - started)


def median(values):
    return statistics.median(values)


def percentile(values, p):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))]


def table(title, columns, rows):
    texts = [[str(c) for c in columns], *[[f"{c:.3g}" if isinstance(c, float) else str(c) for c in row] for row in rows]]
    widths = [max(len(row[i]) for row in texts) for i in range(len(columns))]
    print(f"\n{title}")
    for number, row in enumerate(texts):
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)))
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))
    sys.stdout.flush()


def run_parts(doc, parts):
    """Runs the named parts of a benchmark, or all."""
    for name in sys.argv[1:] or parts:
        if name not in parts:
            raise SystemExit(doc)
        parts[name]()


def cpu_seconds(pid):
    """Of all threads, to the nanosecond: the clock ticks of /proc/PID/stat are too coarse."""
    return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def resident_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0
