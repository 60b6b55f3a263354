#!/usr/bin/env python3
"""Makes the files that the C++ and end-to-end tests read from the test cache, where they are not there yet:

  CACHE/models/tiny-TYPE.gguf                      random models of every tensor type
  CACHE/models/families/NAME/                      a random model of every family, and logits recorded on them
  CACHE/models/SmolLM2-135M-Instruct.Q4_1.gguf     the demo model (downloaded)
  CACHE/models/gemma-3-270m-q4_k_m.gguf            a second real model (downloaded)
  CACHE/text/...                                   its tokenizer and recorded token ids
  CACHE/templates/*.jinja                          real chat templates (downloaded)

CACHE is $TANDEM_TEST_CACHE, else ~/.cache/tandem. Needs numpy and gguf: run it with the Python environment that
scripts/setup makes. A second run takes a fraction of a second."""
import hashlib
import os
import subprocess
import sys

TOOLS = os.path.dirname(os.path.abspath(__file__))
FAMILY_SOURCES = ("make_family_models.py", "make_family_ggufs.py", "make_fp8_models.py", "../goldens/families/models.json", "../goldens/families/logits.json.gz")
TINY_SOURCES = ("gguf_codec.py", "make_tiny_gguf.py")


def environment_of_setup(cache):
    """Continues in the environment of scripts/setup if this one lacks the packages."""
    try:
        import gguf  # noqa: F401
        import numpy  # noqa: F401
    except ImportError:
        python = os.path.join(cache, "venv", "bin", "python")
        if not os.path.exists(python) or os.path.realpath(sys.prefix) == os.path.realpath(os.path.join(cache, "venv")):
            sys.exit("error: the Python packages numpy and gguf are missing\nremedy: run scripts/setup")
        os.execv(python, [python, os.path.abspath(__file__)])


def make_once(stamp, sources, make):
    """The stamp names the sources, so a changed generator makes new files."""
    digest = hashlib.sha256(b"".join(open(os.path.join(TOOLS, name), "rb").read() for name in sources)).hexdigest()
    if os.path.exists(stamp) and open(stamp).read() == digest:
        return
    make()
    with open(stamp, "w") as out:
        out.write(digest)
    print(f"wrote the models of {stamp}")


def make_models(cache):
    sys.path.insert(0, TOOLS)
    import make_family_models
    import make_tiny_gguf
    models = os.path.join(cache, "models")
    families = os.path.join(models, "families")
    os.makedirs(families, exist_ok=True)
    make_once(os.path.join(models, "tiny.stamp"), TINY_SOURCES, lambda: make_tiny_gguf.main(models))
    make_once(os.path.join(families, "stamp"), FAMILY_SOURCES, lambda: make_family_models.main(families))


def main():
    cache = os.environ.get("TANDEM_TEST_CACHE") or os.path.expanduser("~/.cache/tandem")
    environment_of_setup(cache)
    make_models(cache)
    import fetch_gemma
    fetch_gemma.main(os.path.join(cache, "models"))
    # Also fetches the demo model if it is not there.
    subprocess.run([sys.executable, os.path.join(TOOLS, "prepare_tokenizers.py")], check=True)
    subprocess.run([sys.executable, os.path.join(TOOLS, "fetch_templates.py")], check=True)


if __name__ == "__main__":
    main()
