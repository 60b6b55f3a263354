"""A Llama forward pass in plain numpy, as a second opinion on the engine's: float32 throughout (`rounded=False`), or with the
roundings that docs/contracts/numerics.md declares (`rounded=True`): activations to int8 in blocks of 32 where they
meet quantised weights (before V in two parts), keys and values to float16."""
import numpy as np

import gguf_codec

FLOATS = ("F32", "F16", "BF16")


def round_activations(x):
    blocks = x.reshape(*x.shape[:-1], -1, 32)
    largest = np.abs(blocks).max(axis=-1, keepdims=True)
    safe = np.where(largest < 1e-30, np.float32(1), largest)
    q = np.where(largest < 1e-30, 0, np.rint(blocks * (np.float32(127) / safe)))
    return (q * (largest / np.float32(127))).astype(np.float32).reshape(x.shape)


class Llama:
    def __init__(self, path, rounded):
        self.file = gguf_codec.File(path)
        self.rounded = rounded
        key = lambda name: self.file.metadata["llama." + name]
        self.layers = key("block_count")
        self.heads, self.kv_heads = key("attention.head_count"), key("attention.head_count_kv")
        self.width = key("embedding_length")
        self.head = self.width // self.heads
        self.epsilon = np.float32(key("attention.layer_norm_rms_epsilon"))
        self.base = float(key("rope.freq_base"))

    def multiply(self, x, name):
        if self.rounded and self.file.tensors[name][0] not in FLOATS:
            first = round_activations(x)
            x = first + round_activations(x - first) if "attn_v" in name else first
        return x @ self.file.floats(name).T

    def norm(self, x, name):
        scale = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.epsilon)
        return x * scale * self.file.floats(name)

    def rotate(self, x):
        """Rotary positions on neighbouring pairs; x is [tokens, heads, head]."""
        frequency = self.base ** (-2 * np.arange(self.head // 2) / self.head)
        angle = np.arange(len(x))[:, None] * frequency
        cos, sin = (f(angle).astype(np.float32)[:, None, :] for f in (np.cos, np.sin))
        even, odd = x[..., 0::2], x[..., 1::2]
        return np.stack([even * cos - odd * sin, odd * cos + even * sin], axis=-1).reshape(x.shape)

    def attend(self, x, blk):
        n = len(x)
        q = self.rotate(self.multiply(x, blk + "attn_q.weight").reshape(n, self.heads, self.head))
        k = self.rotate(self.multiply(x, blk + "attn_k.weight").reshape(n, self.kv_heads, self.head))
        v = self.multiply(x, blk + "attn_v.weight").reshape(n, self.kv_heads, self.head)
        if self.rounded:
            k, v = (a.astype(np.float16).astype(np.float32) for a in (k, v))
        share = self.heads // self.kv_heads
        k, v = (np.repeat(a, share, axis=1) for a in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.float32(np.sqrt(self.head))
        scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", weights, v).reshape(n, -1)
        return self.multiply(mixed, blk + "attn_output.weight")

    def feed(self, x, blk):
        gate = self.multiply(x, blk + "ffn_gate.weight")
        up = self.multiply(x, blk + "ffn_up.weight")
        return self.multiply(gate / (1 + np.exp(-gate)) * up, blk + "ffn_down.weight")

    def logits(self, ids):
        """[tokens, vocabulary]"""
        x = self.file.floats("token_embd.weight")[ids]
        for layer in range(self.layers):
            blk = f"blk.{layer}."
            x = x + self.attend(self.norm(x, blk + "attn_norm.weight"), blk)
            x = x + self.feed(self.norm(x, blk + "ffn_norm.weight"), blk)
        head = "output.weight" if "output.weight" in self.file.tensors else "token_embd.weight"
        return self.multiply(self.norm(x, "output_norm.weight"), head)
