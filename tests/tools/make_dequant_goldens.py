#!/usr/bin/env python3
"""make_dequant_goldens.py OUT.txt: random blocks of every tensor type and what the PyPI package `gguf` (0.19) makes of
them, as bit patterns. Scales include subnormal halves; no infinities or NaN."""
import sys

import gguf
import numpy as np

# type -> (blocks, byte offsets of halves within a block)
LAYOUT = {"F32": (48, []), "F16": (48, [0]), "BF16": (48, []), "Q8_0": (4, [0]), "Q4_0": (4, [0]), "Q4_1": (4, [0, 2]),
          "Q6_K": (3, [208]), "Q5_0": (4, [0]), "Q5_1": (4, [0, 2]), "Q2_K": (2, [80, 82]), "Q3_K": (2, [108]),
          "Q4_K": (2, [0, 2]), "Q5_K": (2, [0, 2])}


def main(target):
    random = np.random.default_rng(7)
    with open(target, "w") as out:
        out.write("# Blocks of tensor types and their values; made by make_dequant_goldens.py\n")
        for name, (blocks, halves) in LAYOUT.items():
            kind = gguf.GGMLQuantizationType[name]
            size = gguf.GGML_QUANT_SIZES[kind][1]
            raw = random.integers(0, 256, (blocks, size), dtype=np.uint8)
            if name in ("F32", "BF16"):
                values = random.standard_normal(blocks).astype(np.float32).view(np.uint8).reshape(blocks, 4)
                raw = values[:, 4 - size:].copy()
            for at in halves:
                bits = random.integers(0, 0x7C00, blocks).astype(np.uint16) | (random.integers(0, 2, blocks) << 15).astype(np.uint16)
                bits[0] = 0x0123  # subnormal
                raw[:, at:at + 2] = bits.view(np.uint8).reshape(blocks, 2)
            values = gguf.dequantize(raw.reshape(1, -1), kind).astype(np.float32).reshape(-1)
            out.write(f"\ntype {name}\nbytes {raw.tobytes().hex()}\nbits {' '.join(f'{v:08x}' for v in values.view(np.uint32))}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
