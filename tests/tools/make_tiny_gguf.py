#!/usr/bin/env python3
"""make_tiny_gguf.py FOLDER: writes tiny-TYPE.gguf for every tensor type: random llama models of 2 layers with grouped
query attention, a byte-level BPE vocabulary that can encode any text, and a chat template. The same bytes on every
machine: the random numbers come from an integer hash, not from a library."""
import os
import sys

import numpy as np

import gguf_codec

SAMPLE = ("The quick brown fox jumps over the lazy dog. The worker that prefills hands the keys and values to the worker "
          "that decodes, and then the other one streams the answer to the client. What is the capital of France? "
          "The capital of France is Paris. Once upon a time there was a little model that could not say anything "
          "sensible, but it always said the same thing, and that was all that anyone had asked of it.")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = 130
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
            "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def byte_alphabet():
    """The printable character that stands for each byte in GPT-2's vocabularies."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    chars, extra = {b: chr(b) for b in plain}, 0
    for b in range(256):
        if b not in chars:
            chars[b] = chr(256 + extra)
            extra += 1
    return [chars[b] for b in range(256)]


def learn_merges(alphabet):
    """The most frequent neighbours of SAMPLE's words, one merge after the other; ties go to the first in order."""
    text = SAMPLE.replace(" ", "\n ").split("\n")
    words = [[alphabet[b] for b in word.encode()] for word in text if word]
    merges = []
    while len(merges) < MERGES:
        pairs = {}
        for word in words:
            for pair in zip(word, word[1:]):
                pairs[pair] = pairs.get(pair, 0) + 1
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        for word in words:
            i = 0
            while i + 1 < len(word):
                if (word[i], word[i + 1]) == best:
                    word[i:i + 2] = [best[0] + best[1]]
                i += 1
    return merges


def random_matrix(seed, shape, spread):
    """Uniform numbers with the standard deviation `spread`, from SplitMix64 of their index."""
    with np.errstate(over="ignore"):
        z = np.arange(1, np.prod(shape) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z += np.uint64(seed) * np.uint64(0xD1342543DE82EF95)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    uniform = (z >> np.uint64(40)).astype(np.float32) * np.float32(2**-23) - np.float32(1)
    return (uniform * np.float32(spread * 1.7320508)).reshape(shape)


def tensors_of(kind, width, inner, heads, kv_heads, vocab, tied):
    head = width // heads
    made = {}

    def add(name, rows, columns, gain):
        made[name] = (kind, random_matrix(len(made) + 1, (rows, columns), gain / np.sqrt(columns)))

    def add_norm(name):
        made[name] = ("F32", 1 + random_matrix(len(made) + 1, (width,), 0.2))

    add("token_embd.weight", vocab, width, np.sqrt(width) * (0.4 if tied else 1.0))
    add_norm("output_norm.weight")
    if not tied:
        add("output.weight", vocab, width, 3.0)
    for layer in range(2):
        blk = f"blk.{layer}."
        add_norm(blk + "attn_norm.weight")
        add(blk + "attn_q.weight", heads * head, width, 1.6)
        add(blk + "attn_k.weight", kv_heads * head, width, 1.6)
        add(blk + "attn_v.weight", kv_heads * head, width, 1.2)
        add(blk + "attn_output.weight", width, heads * head, 1.0)
        add_norm(blk + "ffn_norm.weight")
        add(blk + "ffn_gate.weight", inner, width, 1.4)
        add(blk + "ffn_up.weight", inner, width, 1.0)
        add(blk + "ffn_down.weight", width, inner, 1.4)
    return made


def metadata_of(kind, width, inner, heads, kv_heads):
    alphabet = byte_alphabet()
    merges = learn_merges(alphabet)
    tokens = alphabet + [left + right for left, right in merges] + SPECIAL
    first_special = len(tokens) - len(SPECIAL)
    return {
        "general.architecture": "llama",
        "general.name": f"tiny {kind}",
        "general.alignment": gguf_codec.ALIGNMENT,
        "llama.block_count": 2,
        "llama.context_length": 4096,
        "llama.embedding_length": width,
        "llama.feed_forward_length": inner,
        "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": kv_heads,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": width // heads,
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * first_special + [3] * len(SPECIAL),
        "tokenizer.ggml.merges": [f"{left} {right}" for left, right in merges],
        "tokenizer.ggml.bos_token_id": first_special,
        "tokenizer.ggml.eos_token_id": first_special + 2,
        "tokenizer.ggml.padding_token_id": first_special,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }


def write_model(path, kind):
    width, inner = (256, 512) if kind.endswith("_K") else (64, 160 if kind in ("F32", "F16", "BF16") else 128)
    metadata = metadata_of(kind, width, inner, 4, 2)
    vocab = len(metadata["tokenizer.ggml.tokens"])
    # Both ways of making logits occur: a matrix of its own, and the embedding table.
    tied = kind in ("F16", "Q8_0", "Q6_K")
    aside = f"{path}.{os.getpid()}"
    gguf_codec.write(aside, metadata, tensors_of(kind, width, inner, 4, 2, vocab, tied))
    os.replace(aside, path)


def main(folder):
    os.makedirs(folder, exist_ok=True)
    for kind in gguf_codec.TYPES:
        write_model(os.path.join(folder, f"tiny-{kind.lower()}.gguf"), kind)


if __name__ == "__main__":
    main(*sys.argv[1:])
