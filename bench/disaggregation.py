"""What it costs and brings to prefill and decode apart, on the machine at hand.

  overhead    TTFT(1+1) - TTFT(aggregated) over interleaved pairs of 512-token prompts, beside the pull's own time and one decode step
  throughput  closed loop of 8 clients, 64 requests of 512 tokens in and 64 out: 1+1 against aggregated
  tail        time between tokens of one long answer while a 2,000-token prompt arrives each second

usage: bench/disaggregation.py [overhead] [throughput] [tail]"""
import contextlib
import threading
import time

import requests

import common

PAIRS = 50
LOOP_CLIENTS, LOOP_REQUESTS, LOOP_IN, LOOP_OUT = 8, 64, 512, 64
THROUGHPUT_ROUNDS = 2
TAIL_STEPS = 2000
TAIL_STEPS_AGGREGATED = 250  # each of them may wait for a whole chunk of a prompt
TAIL_PROMPT = 2000
TAIL_MOST_WAITING = 8
SPLIT = ["--prefill", "1", "--decode", "1"]
COLD = ["--no-enable-prefix-caching"]


def pull_seconds(service):
    """(number, seconds) of the pulls of all workers so far."""
    count = seconds = 0.0
    for worker in service.workers():
        metrics = worker.metrics()
        count += common.harness.sum_of(metrics, "tandem_kv_transfer_seconds_count")
        seconds += common.harness.sum_of(metrics, "tandem_kv_transfer_seconds_sum")
    return count, seconds


def overhead():
    info = {"TANDEM_LOG": "info"}  # the log tells where the workers' own servers are
    apart, together = common.serve(common.DEMO, *SPLIT, *COLD, variables=info), common.serve(common.DEMO, *COLD, variables=info)
    for service in (apart, together):
        common.Timed(service, common.random_ids(512, 1), 8)
    before = pull_seconds(apart)
    differences, steps = [], []
    for number in range(PAIRS):
        prompt = common.random_ids(512, 100 + number)
        one = common.Timed(together, prompt, 8)
        two = common.Timed(apart, prompt, 8)
        differences.append(two.ttft - one.ttft)
        steps.append(1 / one.decode_rate)
    after = pull_seconds(apart)
    pull = (after[1] - before[1]) / max(1, after[0] - before[0])
    allowed = pull + common.median(steps) + 0.002
    common.table(f"Cost of disaggregation, {PAIRS} pairs, 512-token prompts", ["what", "ms"],
                 [["TTFT(1+1) - TTFT(aggregated), median", common.median(differences) * 1e3], ["pull, mean", pull * 1e3],
                  ["decode step, median", common.median(steps) * 1e3], ["allowed: pull + step + 2 ms", allowed * 1e3]])
    apart.end()
    together.end()


def throughput():
    rates = {}
    for name, shape in (("aggregated", []), ("1+1", SPLIT)) * THROUGHPUT_ROUNDS:
        service = common.serve(common.DEMO, *shape, *COLD)
        common.closed_loop(service, 2, [common.random_ids(LOOP_IN, 9)] * 2, 4)
        jobs = [common.random_ids(LOOP_IN, 1000 + i) for i in range(LOOP_REQUESTS)]
        rates.setdefault(name, []).append(common.closed_loop(service, LOOP_CLIENTS, jobs, LOOP_OUT))
        service.end()
    ratio = common.median([b / a for a, b in zip(rates["aggregated"], rates["1+1"])])
    common.table("Closed loop, 8 clients, 64 x (512 in, 64 out)", ["shape", "output tokens/s"],
                 [[name, common.median(values)] for name, values in rates.items()] + [["1+1 / aggregated (aim 0.8)", ratio]])


def tail():
    rows = []
    for name, shape, tokens in (("1+1", SPLIT, TAIL_STEPS), ("aggregated", [], TAIL_STEPS_AGGREGATED)):
        service = common.serve(common.DEMO, *shape, *COLD, "--max-model-len", "8192")
        stop, waiting = threading.Event(), threading.Semaphore(TAIL_MOST_WAITING)

        def one(prompt):
            with contextlib.suppress(requests.RequestException):  # those still waiting at the end
                common.Timed(service, prompt, 1)
            waiting.release()

        def disturb():
            number = 0
            while not stop.wait(1.0):
                number += 1
                # A machine that cannot compute 2,000 tokens a second would only fill its queue.
                if waiting.acquire(blocking=False):
                    threading.Thread(target=one, args=(common.random_ids(TAIL_PROMPT, 5000 + number),), daemon=True).start()

        threading.Thread(target=disturb, daemon=True).start()
        timed = common.Timed(service, common.random_ids(32, 3), tokens)
        stop.set()
        gaps = [b - a for a, b in zip(timed.times, timed.times[1:])]
        p99, middle = common.percentile(gaps, 99), common.median(gaps)
        rows.append([name, tokens, middle * 1e3, p99 * 1e3, max(gaps) * 1e3, p99 / middle])
        time.sleep(2)
        service.end()
    common.table(f"Time between tokens, a {TAIL_PROMPT}-token prompt each second (ms)",
                 ["shape", "tokens", "median", "p99", "max", "p99 / median (aim 5 in 1+1)"], rows)


if __name__ == "__main__":
    common.run_parts(__doc__, {"overhead": overhead, "throughput": throughput, "tail": tail})
