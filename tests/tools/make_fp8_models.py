"""Tiny models with FP8 weights as they are published, each beside a twin whose weights are the same numbers in float32."""
import json
import struct

import numpy as np

BLOCK = 128


def code_values():
    """What the 256 codes of E4M3 mean; NaN codes get infinity, so that nothing is rounded to them."""
    values = []
    for code in range(256):
        exponent, mantissa = code >> 3 & 15, code & 7
        size = mantissa / 8 * 2.0 ** -6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
        values.append(np.inf if code & 127 == 127 else -size if code & 128 else size)
    return np.array(values)


CODES = code_values()
POSITIVE = CODES[:127]


def quantize(values, style):
    """Codes, scales as published, and the float32 numbers that both mean."""
    rows, columns = values.shape
    if style == "block":
        scales = np.zeros((-(-rows // BLOCK), -(-columns // BLOCK)), np.float32)
        for i in range(scales.shape[0]):
            for j in range(scales.shape[1]):
                part = values[i * BLOCK:(i + 1) * BLOCK, j * BLOCK:(j + 1) * BLOCK]
                scales[i, j] = np.abs(part).max() / 448
        wide = np.repeat(np.repeat(scales, BLOCK, 0), BLOCK, 1)[:rows, :columns]
    else:
        scales = (np.abs(values).max(axis=1, keepdims=True) / 448).astype("<f4")
        scales = (scales.view("<u4") & 0xFFFF0000).view("<f4")  # fits bfloat16
        wide = np.repeat(scales, columns, 1)
    size = np.abs(values / wide)
    index = np.searchsorted((POSITIVE[:-1] + POSITIVE[1:]) / 2, size).astype(np.uint8)
    codes = np.where(values < 0, index | 128, index).astype(np.uint8)
    return codes, scales, (CODES[codes].astype(np.float32) * wide).astype(np.float32)


def save(path, tensors):
    header, data = {}, b""
    for name, (dtype, values) in tensors.items():
        raw = values.tobytes()
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def llama():
    """Two blocks of 128 in every direction, the second one cut."""
    config = {"model_type": "llama", "hidden_size": 192, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4,
              "num_key_value_heads": 2, "head_dim": 48, "vocab_size": 289, "max_position_embeddings": 512, "rms_norm_eps": 1e-5}
    attention = {"self_attn.q_proj": (192, 192), "self_attn.k_proj": (96, 192), "self_attn.v_proj": (96, 192), "self_attn.o_proj": (192, 192)}
    mlp = {"mlp.gate_proj": (160, 192), "mlp.up_proj": (160, 192), "mlp.down_proj": (192, 160)}
    layer = {**attention, **mlp, "input_layernorm": (192,), "post_attention_layernorm": (192,)}
    return config, [layer] * 2


def deepseek():
    config = {"model_type": "deepseek_v3", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
              "num_key_value_heads": 4, "vocab_size": 289, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "kv_lora_rank": 32,
              "q_lora_rank": 64, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16, "n_routed_experts": 8, "n_shared_experts": 1,
              "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "moe_intermediate_size": 32, "first_k_dense_replace": 1,
              "routed_scaling_factor": 2.5, "norm_topk_prob": True}
    attention = {"self_attn.q_a_proj": (64, 64), "self_attn.q_a_layernorm": (64,), "self_attn.q_b_proj": (96, 64), "self_attn.kv_a_proj_with_mqa": (40, 64),
                 "self_attn.kv_a_layernorm": (32,), "self_attn.kv_b_proj": (128, 32), "self_attn.o_proj": (64, 64), "input_layernorm": (64,),
                 "post_attention_layernorm": (64,)}
    gated = lambda prefix, inner: {f"{prefix}.gate_proj": (inner, 64), f"{prefix}.up_proj": (inner, 64), f"{prefix}.down_proj": (64, inner)}
    experts = {"mlp.gate": (8, 64), **gated("mlp.shared_experts", 32)}
    for expert in range(8):
        experts.update(gated(f"mlp.experts.{expert}", 32))
    return config, [{**attention, **gated("mlp", 96)}, {**attention, **experts}]


def write(folder, name, config, layers, style):
    random = np.random.default_rng(len(name))
    stored, plain = {}, {}

    def add(tensor, values):
        stored[tensor] = plain[tensor] = ("F32", values.astype(np.float32))

    width = config["hidden_size"]
    add("model.embed_tokens.weight", 0.7 * random.standard_normal((289, width)))
    add("lm_head.weight", 1.3 / width ** 0.5 * random.standard_normal((289, width)))
    add("model.norm.weight", 1 + 0.2 * random.standard_normal(width))
    for i, layer in enumerate(layers):
        for module, shape in layer.items():
            tensor = f"model.layers.{i}.{module}.weight"
            if len(shape) == 1 or module == "mlp.gate":
                add(tensor, (1 if len(shape) == 1 else 0) + 0.2 * random.standard_normal(shape))
                continue
            codes, scales, values = quantize(1.3 / shape[1] ** 0.5 * random.standard_normal(shape), style)
            stored[tensor] = ("F8_E4M3", codes)
            plain[tensor] = ("F32", values)
            if style == "block":
                stored[tensor + "_scale_inv"] = ("F32", scales)
            else:
                stored[tensor + "_scale"] = ("BF16", (scales.view("<u4") >> 16).astype("<u2"))
        if "mlp.gate" in layer:
            add(f"model.layers.{i}.mlp.gate.e_score_correction_bias", 0.2 * random.standard_normal(8))
    for form, tensors in (("", stored), ("-twin", plain)):
        (folder / (name + form)).mkdir(parents=True, exist_ok=True)
        save(folder / (name + form) / "model.safetensors", tensors)
        described = dict(config)
        if not form:
            described["quantization_config"] = (
                {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [BLOCK, BLOCK]} if style == "block" else
                {"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"]})
        (folder / (name + form) / "config.json").write_text(json.dumps(described))


def main(folder):
    write(folder, "fp8-llama-block", *llama(), "block")
    write(folder, "fp8-llama-channel", *llama(), "channel")
    write(folder, "fp8-deepseek-block", *deepseek(), "block")
