#!/usr/bin/env python3
"""make_tiny_goldens.py OUT.txt: logits of the tiny models by the numpy reference in float32 at a few positions, and how far
the declared roundings move them: root mean square and largest difference over those positions."""
import hashlib
import os
import sys
import tempfile

import numpy as np

import gguf_codec
import make_tiny_gguf
from reference_llama import Llama

TOKENS = 300  # more than one span of keys
POSITIONS = (0, 37, 255, 256, 299)


def main(target):
    ids = [(i * i * 31 + i * 17 + 5) % 389 for i in range(TOKENS)]
    with tempfile.TemporaryDirectory() as folder, open(target, "w") as out:
        make_tiny_gguf.main(folder)
        out.write("# Logits of the tiny models in float32; made by make_tiny_goldens.py\n")
        for kind in gguf_codec.TYPES:
            path = os.path.join(folder, f"tiny-{kind.lower()}.gguf")
            exact = Llama(path, rounded=False).logits(ids)
            rounded = Llama(path, rounded=True).logits(ids)
            error = (rounded - exact)[list(POSITIONS)]
            print(f"{kind}: logits of spread {exact.std():.3f}, rounding moves them by {np.sqrt((error**2).mean()):.5f}")
            out.write(f"\nmodel tiny-{kind.lower()}.gguf\n")
            out.write(f"sha256 {hashlib.sha256(open(path, 'rb').read()).hexdigest()}\n")
            out.write(f"ids {' '.join(map(str, ids))}\npositions {' '.join(map(str, POSITIONS))}\n")
            out.write(f"rounding_rms {np.sqrt((error**2).mean()):.6g}\nrounding_max {np.abs(error).max():.6g}\n")
            for position in POSITIONS:
                row = " ".join(f"{v:.6g}" for v in exact[position])
                out.write(f"logits_{position} {row}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
