#!/usr/bin/env python3
"""make_family_models.py FOLDER: writes one tiny model folder in Hugging Face layout per entry of tests/goldens/families/models.json,
the same as FOLDER/NAME.gguf, models with FP8 weights, and FOLDER/logits.txt, the recorded logits of tests/goldens/families/logits.json.gz in the form that the C++ tests read.

The weights are random but the same everywhere: a tensor's numbers come from the model's seed and the CRC-32 of the tensor's name. The
logits were recorded with torch and transformers (named in the file) on exactly these files, whose digests models.json holds."""
import gzip
import hashlib
import json
import pathlib
import struct
import sys
import zlib

import numpy as np

import make_family_ggufs
import make_fp8_models

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "goldens" / "families"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = """t h|h e|i n|e r|a n|o n|th e|Ġ t|Ġ a|Ġt he|an d|Ġ s|in g|o u|Ġ w|l l|Ġ and|e d|o r|r e|Ġ b|Ġ c|Ġ o|Ġo n|a t|i s|Ċ Ċ|Ġ Ġ|Ã ©|ä ¸"""
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def weights(name, shape, seed, offset_norm):
    """Norms near one (or near zero where the model adds one), biases small, matrices scaled to keep the size of their input."""
    normal = np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())])).standard_normal(shape).astype(np.float64)
    if name.endswith("bias") or "sinks" in name:
        values = 0.2 * normal
    elif len(shape) == 1:
        values = (0.0 if offset_norm else 1.0) + 0.2 * normal
    elif "embed_tokens" in name:
        values = normal * (0.1 if offset_norm else 0.7)
    else:
        values = normal * (1.3 / np.sqrt(shape[-1] if len(shape) == 2 else shape[-2]))
    return values.astype("<f4")


def encode(values, dtype):
    if dtype == "F32":
        return values.tobytes()
    if dtype == "F16":
        return values.astype("<f2").tobytes()
    bits = values.view("<u4").astype(np.uint64)  # bfloat16, rounded to nearest even
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()


def write_safetensors(path, tensors, dtype):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, values in tensors:
        encoded = encode(values, dtype)
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(encoded)]}
        data += encoded
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def byte_symbols():
    """How byte-level vocabularies write the 256 bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in printable else chr(next(others)) for b in range(256)]


def write_tokenizer(folder):
    vocabulary = {token: i for i, token in enumerate(SPECIAL)}
    symbols = byte_symbols()
    # Bytes in the order in which the alphabet numbers them: printable ones first.
    for symbol in symbols:
        vocabulary[symbol] = len(vocabulary)
    merges = MERGES.split("|")
    for merge in merges:
        vocabulary.setdefault(merge.replace(" ", ""), len(vocabulary))
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
                         for i, token in enumerate(SPECIAL)],
        "normalizer": None, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocabulary, "merges": merges}}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": SPECIAL[0], "eos_token": SPECIAL[2], "pad_token": SPECIAL[0],
              "model_max_length": 512, "clean_up_tokenization_spaces": False, "add_bos_token": False, "chat_template": TEMPLATE}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0}))


def write_model(folder, model):
    folder.mkdir(parents=True, exist_ok=True)
    tensors = [(name, weights(name, shape, model["seed"], model["offset_norm"])) for name, shape in model["tensors"]]
    if model["shards"] == 1:
        parts = {"model.safetensors": tensors}
    else:
        each = -(-len(tensors) // model["shards"])
        parts = {f"model-{i + 1:05d}-of-{model['shards']:05d}.safetensors": tensors[i * each:(i + 1) * each] for i in range(model["shards"])}
        index = {"metadata": {}, "weight_map": {name: part for part, some in parts.items() for name, _ in some}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for part, some in parts.items():
        if write_safetensors(folder / part, some, model["dtype"]) != model["sha256"][part]:
            sys.exit(f"error: {folder / part} differs from the file that the logits were recorded on\nremedy: install the numpy of scripts/setup")
    (folder / "config.json").write_text(json.dumps(model["config"]))
    write_tokenizer(folder)
    if model["dtype"] == "F32":
        make_family_ggufs.write(folder.parent / (folder.name + ".gguf"), folder, model, tensors)


def write_logits(path, goldens):
    numbers = lambda values: " ".join(f"{value:.7g}" for value in values)
    with open(path, "w") as out:
        out.write(f"# {goldens['made_with']}; {goldens['note']}\n")
        for model in goldens["models"]:
            for case in model["cases"]:
                out.write(f"\nmodel {model['name']}\n")
                for key in ("ids", "argmax", "logits_last", "greedy_ids", "greedy_gaps", "logits_after_greedy", "logits_pos0"):
                    if key in case:
                        out.write(f"{key} {numbers(case[key])}\n")


def main(folder):
    folder = pathlib.Path(folder)
    for model in json.loads((GOLDENS / "models.json").read_text())["models"]:
        write_model(folder / model["name"], model)
    make_fp8_models.main(folder)
    write_logits(folder / "logits.txt", json.loads(gzip.decompress((GOLDENS / "logits.json.gz").read_bytes())))


if __name__ == "__main__":
    main(sys.argv[1])
