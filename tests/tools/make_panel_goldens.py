#!/usr/bin/env python3
"""make_panel_goldens.py OUT.txt: products of one row of activations with a few rows of weights of every tensor type, every
operation rounded as docs/contracts/numerics.md says, as bit patterns. Written from the contract, in numpy."""
import sys

import numpy as np

import gguf_codec

INPUTS, OUTPUTS = 512, 3
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
OFFSET = {"Q4_0": 8, "Q5_0": 16}
f32 = np.float32


def fma(a, b, c):
    """One rounding: the product is exact in the 64 bits of a long double, and the sum nearly so."""
    return f32(np.longdouble(a) * np.longdouble(b) + np.longdouble(c))


def quantize_activations(x):
    """(d, q) of blocks of 32."""
    blocks = x.reshape(-1, 32)
    largest = np.abs(blocks).max(axis=1)
    q = np.rint(blocks * (f32(127) / largest)[:, None]).astype(np.int64)
    return largest / f32(127), q


def weights(random, name):
    size = gguf_codec.TYPES[name][2]
    block = gguf_codec.TYPES[name][1]
    if name not in HALVES:
        return gguf_codec.quantize(name, random.standard_normal((OUTPUTS, INPUTS)).astype(f32))
    raw = random.integers(0, 256, (OUTPUTS * INPUTS // block, size), dtype=np.uint8)
    for at in HALVES[name]:
        raw[:, at:at + 2] = random.uniform(-0.05, 0.05, len(raw)).astype("<f2").view(np.uint8).reshape(-1, 2)
    return raw.reshape(OUTPUTS, -1)


def product(name, row, x):
    acc = f32(0)
    if name not in HALVES:
        for value, weight in zip(x, gguf_codec.dequantize(name, row[None])[0]):
            acc = fma(value, weight, acc)
        return acc
    d, q = quantize_activations(x)
    block = gguf_codec.TYPES[name][1]
    b = row.reshape(-1, gguf_codec.TYPES[name][2])
    half = lambda i, at: b[i, at:at + 2].copy().view("<f2").astype(f32)[0]
    for i in range(INPUTS // 32):
        if block == 32:
            if name == "Q8_0":
                w = b[i, 2:].view(np.int8).astype(np.int64)
            else:
                at = 4 if name.endswith("1") else 2
                w = gguf_codec._read_nibbles(b[i:i + 1], at, name)[0].astype(np.int64) - OFFSET.get(name, 0)
            acc = fma(f32((q[i] * w).sum()), half(i, 0) * d[i], acc)
            if name.endswith("1"):
                acc = fma(half(i, 2), d[i] * f32(q[i].sum()), acc)
            continue
        scale, minimum, c, m, w = (None if v is None else v[0] for v in gguf_codec.integers(name, b[i // 8:i // 8 + 1]))
        part, w = i % 8, w.astype(np.int64)[i % 8 * 32:i % 8 * 32 + 32]
        if name in ("Q4_K", "Q5_K"):
            acc = fma(f32((q[i] * w).sum()), (scale[0] * f32(c[part])) * d[i], acc)
            acc = fma(-minimum[0] * f32(m[part]), d[i] * f32(q[i].sum()), acc)
        else:
            pair = lambda factors: [int(f) for f in factors[2 * part:2 * part + 2]]
            halves = (q[i] * w).reshape(2, 16).sum(axis=1)
            acc = fma(f32(int(np.dot(pair(c), halves))), scale[0] * d[i], acc)
            if m is not None:
                acc = fma(f32(int(np.dot(pair(m), q[i].reshape(2, 16).sum(axis=1)))), -minimum[0] * d[i], acc)
    return acc


def fp8_values(raw):
    """E4M3 bytes as floats."""
    exponent, mantissa = (raw >> 3 & 15).astype(np.int32), (raw & 7).astype(f32)
    value = np.where(exponent == 0, np.ldexp(mantissa / f32(8), -6), np.ldexp(1 + mantissa / f32(8), exponent - 7))
    return np.where(raw & 0x80, -value, value).astype(f32)


def fp8_product(row, scales, x):
    total = f32(0)
    for block, scale in enumerate(scales):
        part = f32(0)
        for k in range(128 * block, 128 * block + 128):
            part = fma(x[k], fp8_values(row[k:k + 1])[0], part)
        total = fma(part, scale, total)
    return total


def hexed(values):
    return " ".join(f"{v:08x}" for v in np.asarray(values, f32).view(np.uint32))


def main(target):
    random = np.random.default_rng(11)
    x = random.uniform(-3, 3, INPUTS).astype(f32)
    with open(target, "w") as out:
        out.write("# Products rounded as the numerics contract says; made by make_panel_goldens.py\n\n")
        out.write(f"x {hexed(x)}\n")
        for name in gguf_codec.TYPES:
            raw = weights(random, name)
            bits = hexed([product(name, row, x) for row in raw])
            out.write(f"\ntype {name}\nbytes {raw.tobytes().hex()}\nbits {bits}\n")
        raw = random.integers(0, 127, (OUTPUTS, INPUTS)).astype(np.uint8) | (random.integers(0, 2, (OUTPUTS, INPUTS)) << 7).astype(np.uint8)
        scales = random.uniform(0, 0.01, (OUTPUTS, INPUTS // 128)).astype(f32)
        bits = hexed([fp8_product(row, s, x) for row, s in zip(raw, scales)])
        out.write(f"\ntype F8\nscales {hexed(scales.reshape(-1))}\nbytes {raw.tobytes().hex()}\nbits {bits}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
