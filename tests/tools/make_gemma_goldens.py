#!/usr/bin/env python3
"""make_gemma_goldens.py MODEL.gguf OUT: greedy runs of llama.cpp on Gemma 3 270M, in the form of tests/goldens/greedy: token ids, the gap
between the two best logits of each step, and the best token of the same weights widened to float32, forced along the same ids.

Needs llama-cpp-python, gguf and numpy, and 1.5 GB of disk for the widened copy; the tests only need what it wrote."""
import ctypes
import os
import sys
import tempfile

import gguf
import llama_cpp
import numpy as np

STEPS = 48
# The last two are longer than the window of 512 keys that five layers of six have.
PROMPTS = [
    "The sea was calm",
    "In the beginning of the nineteenth century, most people in Europe lived",
    "def fibonacci(n):\n    ",
    "Die Hauptstadt von Frankreich ist",
    "1, 1, 2, 3, 5, 8,",
    "<start_of_turn>user\nWhat is a glacier?<end_of_turn>\n<start_of_turn>model\n",
    "A list of rivers, from west to east: " + " ".join(f"number {i} flows north for {3 * i + 20} miles," for i in range(1, 50)),
    "Diary. " + " ".join(f"On day {i} we walked {i % 7 + 2} hours and saw {i * 5 % 11} birds near the {('lake', 'hill', 'wood')[i % 3]}." for i in range(1, 48)),
]


def widen(source, target):
    """The same model with every tensor as float32."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, "gemma3")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        value = field.contents()
        if kind == gguf.GGUFValueType.ARRAY:
            writer.add_key_value(field.name, value, kind, sub_type=field.types[-1])
        else:
            writer.add_key_value(field.name, value, kind)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, values.reshape([int(d) for d in reversed(tensor.shape)]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Model:
    def __init__(self, path, float32):
        kv = 0 if float32 else 1  # GGML_TYPE_F32, GGML_TYPE_F16
        self.llm = llama_cpp.Llama(path, n_ctx=2048, n_batch=512, n_threads=2, type_k=kv, type_v=kv, verbose=False)

    def logits(self):
        pointer = llama_cpp.llama_get_logits_ith(self.llm.ctx, -1)
        return np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float)), (self.llm.n_vocab(),))

    def steps(self, prompt, forced=None):
        """Two best ids and logits of each step, following `forced` or its own best."""
        self.llm.reset()
        self.llm.eval(prompt)
        found = []
        for i in range(STEPS):
            logits = self.logits()
            best, second = np.argsort(-logits, kind="stable")[:2]
            found.append((int(best), float(logits[best] - logits[second])))
            self.llm.eval([forced[i] if forced else int(best)])
        return found


def main(path, out):
    model = Model(path, False)
    runs = []
    for text in PROMPTS:
        prompt = model.llm.tokenize(text.encode(), add_bos=True, special=True)
        runs.append((prompt, model.steps(prompt)))
        print(len(prompt), model.llm.detokenize([step[0] for step in runs[-1][1]])[:100])
    del model
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(out))) as aside:
        widened = os.path.join(aside, "float32.gguf")
        widen(path, widened)
        exact = Model(widened, True)
        with open(out, "w") as target:
            target.write(f"# Greedy runs of llama-cpp-python {llama_cpp.__version__} on {os.path.basename(path)}; made by make_gemma_goldens.py\n")
            for prompt, run in runs:
                ids = [step[0] for step in run]
                truth = exact.steps(prompt, ids)
                numbers = lambda values: " ".join(f"{value:.5g}" if isinstance(value, float) else str(value) for value in values)
                target.write(f"\nprompt {numbers(prompt)}\nids {numbers(ids)}\ngaps {numbers([step[1] for step in run])}\n"
                             f"float32_ids {numbers([step[0] for step in truth])}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
