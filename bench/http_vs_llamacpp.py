"""Decode, prefill and 32 sequences together through HTTP against `tandem serve`, in rounds that alternate with llama.cpp in process. The figure
is the median of the rounds' ratios.

usage: bench/http_vs_llamacpp.py [--rounds 5] [--threads 2]
Needs llama-cpp-python (it compiles for minutes) in an environment of its own: --peer-python ~/.cache/tandem/peer/bin/python, made once by
  python3 -m venv ~/.cache/tandem/peer && ~/.cache/tandem/peer/bin/pip install llama-cpp-python==0.3.36 numpy"""
import argparse
import concurrent.futures
import pathlib
import subprocess

import common

# what, the command to the peer, the aim as a ratio
FIGURES = [("decode, context 32", "decode 32 64", 1.8), ("decode, context 2000", "decode 2000 64", 1.8), ("prefill, 512 tokens", "prefill 512", 4.0),
           ("32 sequences together", "batch 32", 5.0)]


class Peer:
    def __init__(self, python, threads):
        script = str(pathlib.Path(__file__).with_name("peer_llamacpp.py"))
        self.child = subprocess.Popen([python, script, str(common.DEMO), str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.child.stdout.readline().strip() != "ready":
            raise SystemExit("error: the peer did not start")

    def ask(self, command):
        self.child.stdin.write(command + "\n")
        self.child.stdin.flush()
        return float(self.child.stdout.readline())


def ours(service, command, seed):
    name, *numbers = command.split()
    numbers = [int(n) for n in numbers]
    if name == "decode":
        return common.Timed(service, common.random_ids(numbers[0], seed), numbers[1]).decode_rate
    if name == "prefill":
        return numbers[0] / common.Timed(service, common.random_ids(numbers[0], seed), 1).ttft
    prompts = [common.random_ids(128, seed * 100 + i) for i in range(numbers[0])]
    with concurrent.futures.ThreadPoolExecutor(numbers[0]) as pool:
        done = list(pool.map(lambda p: common.Timed(service, p, 96), prompts))
    # While all of them decode: from the last first token to the first last one.
    start, end = max(d.times[0] for d in done), min(d.times[-1] for d in done)
    return sum(sum(start < t <= end for t in d.times) for d in done) / (end - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peer-python", default=str(pathlib.Path.home() / ".cache/tandem/peer/bin/python"))
    options = parser.parse_args()
    service = common.serve(common.DEMO, "--threads", str(options.threads), "--no-enable-prefix-caching")
    peer = Peer(options.peer_python, options.threads)
    rows = []
    for what, command, aim in FIGURES:
        pairs = []
        ours(service, command, 0)
        peer.ask(command)
        for number in range(1, options.rounds + 1):
            pairs.append((ours(service, command, number), peer.ask(command)))
        rows.append([what, common.median([a for a, _ in pairs]), common.median([b for _, b in pairs]), common.median([a / b for a, b in pairs]), aim])
    peer.child.stdin.close()
    service.end()
    common.table("Speed in tokens/s, medians", ["what", "tandem over HTTP", "llama.cpp", "ratio", "aim"], rows)


if __name__ == "__main__":
    main()
