"""GGUF forms of the tiny family models: the same float32 weights under the names, keys and row orders that converters give them, so that
both ways into the engine can be compared with the same recorded logits. Needs the gguf package."""
import json

import gguf
import numpy as np

NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp", "block_sparse_moe.gate": "ffn_gate_inp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    **{f"mlp.{module}.{part}_proj": f"ffn_{part}_shexp" for module in ("shared_expert", "shared_experts") for part in ("gate", "up", "down")},
}
AROUND = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}
EXPERTS = {"gate_proj": "gate", "up_proj": "up", "down_proj": "down", "w1": "gate", "w3": "up", "w2": "down"}
# model type: architecture, and whether its converter turns the rows of queries and keys
ARCHITECTURES = {
    "llama": ("llama", True), "mistral": ("llama", True), "mixtral": ("llama", True), "granite": ("granite", True), "qwen2": ("qwen2", False),
    "qwen3": ("qwen3", False), "qwen2_moe": ("qwen2moe", False), "qwen3_moe": ("qwen3moe", False), "gemma2": ("gemma2", False),
    "gemma3_text": ("gemma3", False), "phi3": ("phi3", False), "olmo2": ("olmo2", False), "deepseek_v3": ("deepseek2", False)}


def pairs_together(rows, heads):
    """Converters put the two halves of a head's turned dimensions side by side."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def llama3_divisors(config):
    scaling = config["rope_scaling"]
    dim = config["head_dim"]
    frequencies = 1.0 / config["rope_theta"] ** (np.arange(0, dim, 2) / dim)
    turns = scaling["original_max_position_embeddings"] * frequencies / (2 * np.pi)
    kept = np.clip((turns - scaling["low_freq_factor"]) / (scaling["high_freq_factor"] - scaling["low_freq_factor"]), 0, 1)
    return (1 / ((1 - kept) / scaling["factor"] + kept)).astype(np.float32)


def write_keys(writer, config, name):
    get = config.get
    heads = config["num_attention_heads"]
    head_dim = get("head_dim") or config["hidden_size"] // heads
    mla = get("kv_lora_rank")
    writer.add_name(name)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(1 if mla else config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    if mla:
        rope, plain, value = config["qk_rope_head_dim"], config["qk_nope_head_dim"], config["v_head_dim"]
        writer.add_q_lora_rank(config["q_lora_rank"])
        writer.add_kv_lora_rank(mla)
        writer.add_key_length(mla + rope)
        writer.add_value_length(mla)
        writer.add_key_length_mla(plain + rope)
        writer.add_value_length_mla(value)
        writer.add_rope_dimension_count(rope)
        writer.add_leading_dense_block_count(config["first_k_dense_replace"])
        writer.add_expert_shared_count(config["n_shared_experts"])
        writer.add_expert_weights_scale(config["routed_scaling_factor"])
        writer.add_expert_weights_norm(config["norm_topk_prob"])
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_expert_group_count(config["n_group"])
        writer.add_expert_group_used_count(config["topk_group"])
    else:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
        writer.add_rope_dimension_count(head_dim)
    experts = get("num_local_experts") or get("num_experts") or get("n_routed_experts")
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config["num_experts_per_tok"])
        if get("moe_intermediate_size"):
            writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
        if get("shared_expert_intermediate_size"):
            writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    scaling = get("rope_scaling") or {}
    if scaling.get("rope_type") == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(scaling["factor"])
    if scaling.get("rope_type") == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(scaling["factor"])
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
    if get("sliding_window"):
        writer.add_sliding_window(config["sliding_window"])
    if get("attn_logit_softcapping"):
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if get("embedding_multiplier"):
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])


def write_tokenizer(writer, folder):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = sorted(tokenizer["model"]["vocab"].items(), key=lambda item: item[1])
    special = {token["id"] for token in tokenizer["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([token for token, _ in vocabulary])
    writer.add_token_types([gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL for _, i in vocabulary])
    writer.add_token_merges(tokenizer["model"]["merges"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)


def gguf_tensors(model, tensors):
    """(name, values) in GGUF's names; experts of a layer stacked."""
    config = model["config"]
    _, turned = ARCHITECTURES[config["model_type"]]
    around = config["model_type"] in ("gemma2", "gemma3_text", "olmo2")
    whole = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
    stacked = {}
    for name, values in tensors:
        if model["offset_norm"] and name.endswith("norm.weight"):
            values = values + np.float32(1)
        if name in whole:
            yield whole[name], values
            continue
        layer, rest = name.removeprefix("model.layers.").split(".", 1)
        module, kind = rest.rsplit(".", 1)
        if rest == "mlp.gate.e_score_correction_bias":
            yield f"blk.{layer}.exp_probs_b.bias", values
        elif ".experts." in module:
            part = EXPERTS[module.rsplit(".", 1)[1]]
            stacked.setdefault(f"blk.{layer}.ffn_{part}_exps.weight", []).append(values)
        elif module == "self_attn.kv_b_proj":
            both = values.reshape(config["num_attention_heads"], -1, values.shape[1])
            plain = config["qk_nope_head_dim"]
            yield f"blk.{layer}.attn_k_b.weight", both[:, :plain].swapaxes(1, 2)
            yield f"blk.{layer}.attn_v_b.weight", both[:, plain:]
        else:
            if turned and module in ("self_attn.q_proj", "self_attn.k_proj"):
                values = pairs_together(values, config["num_attention_heads" if "q_proj" in module else "num_key_value_heads"])
            known = {**NAMES, **AROUND} if around else NAMES
            yield f"blk.{layer}.{known[module]}.{kind}", values
    for name, experts in stacked.items():
        yield name, np.stack(experts)


def write(path, folder, model, tensors):
    config = model["config"]
    architecture, _ = ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(str(path), architecture)
    write_keys(writer, config, model["name"])
    write_tokenizer(writer, folder)
    for name, values in gguf_tensors(model, tensors):
        writer.add_tensor(name, np.ascontiguousarray(values, dtype=np.float32))
    if (config.get("rope_scaling") or {}).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
