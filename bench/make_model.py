#!/usr/bin/env python3
"""make_model.py SHAPE FOLDER: a model with the shapes of a published one and generated BF16 weights, for speed only (build/release/bench/model_bench FOLDER)."""
import json
import pathlib
import struct
import sys

import numpy as np

SHAPES = {
    "0.6B": dict(hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8),
    "1.7B": dict(hidden_size=2048, intermediate_size=6144, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8),
}
VOCAB, HEAD = 151936, 128


def tensors(config):
    width, inner = config["hidden_size"], config["intermediate_size"]
    queries, keys = config["num_attention_heads"] * HEAD, config["num_key_value_heads"] * HEAD
    yield "model.embed_tokens.weight", (VOCAB, width)
    yield "model.norm.weight", (width,)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        yield from [(layer + "input_layernorm.weight", (width,)), (layer + "post_attention_layernorm.weight", (width,)),
                    (layer + "self_attn.q_norm.weight", (HEAD,)), (layer + "self_attn.k_norm.weight", (HEAD,)),
                    (layer + "self_attn.q_proj.weight", (queries, width)), (layer + "self_attn.k_proj.weight", (keys, width)),
                    (layer + "self_attn.v_proj.weight", (keys, width)), (layer + "self_attn.o_proj.weight", (width, queries)),
                    (layer + "mlp.gate_proj.weight", (inner, width)), (layer + "mlp.up_proj.weight", (inner, width)),
                    (layer + "mlp.down_proj.weight", (width, inner))]


def main(shape, folder):
    config = {"model_type": "qwen3", "head_dim": HEAD, "vocab_size": VOCAB, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6,
              "rope_theta": 1e6, "tie_word_embeddings": True, **SHAPES[shape]}
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    header, at = {}, 0
    for name, dims in tensors(config):
        size = 2 * int(np.prod(dims))
        header[name] = {"dtype": "BF16", "shape": list(dims), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    # The same numbers again and again: no kernel looks at them.
    piece = ((0.03 * np.random.default_rng(1).standard_normal(1 << 22)).astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    with open(folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for start in range(0, at, len(piece)):
            out.write(piece[:min(len(piece), at - start)])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
