"""llama.cpp's half of bench/http_vs_llamacpp.py, through the PyPI package llama-cpp-python: reads commands on stdin (prefill N,
decode CONTEXT TOKENS, batch SEQUENCES), answers each with tokens per second. It stays loaded, so that rounds can alternate."""
import ctypes
import sys
import time

import llama_cpp as llama

CONTEXT = 8192
CHUNK = 512
MANY_CONTEXT = 128
MANY_STEPS = 16


class Peer:
    def __init__(self, path, threads):
        llama.llama_backend_init()
        self.quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        llama.llama_log_set(self.quiet, ctypes.c_void_p(0))
        self.model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
        options = llama.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = CONTEXT, CHUNK, CHUNK
        options.n_threads = options.n_threads_batch = threads
        options.n_seq_max = 32
        options.kv_unified = True
        self.context = llama.llama_init_from_model(self.model, options)
        self.batch = llama.llama_batch_init(CHUNK, 0, 32)
        self.tokens = [100 + (i * 7919) % 48000 for i in range(CONTEXT)]

    def step(self, rows):
        """rows: (token, position, sequence, wants logits)"""
        self.batch.n_tokens = len(rows)
        for i, (token, position, sequence, logits) in enumerate(rows):
            self.batch.token[i], self.batch.pos[i], self.batch.n_seq_id[i] = token, position, 1
            self.batch.seq_id[i][0], self.batch.logits[i] = sequence, logits
        if llama.llama_decode(self.context, self.batch) != 0:
            raise SystemExit("llama_decode failed")

    def feed(self, count, sequence=0):
        for start in range(0, count, CHUNK):
            self.step([(self.tokens[i], i, sequence, i == count - 1) for i in range(start, min(start + CHUNK, count))])

    def clear(self):
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)

    def prefill(self, count):
        self.clear()
        started = time.perf_counter()
        self.feed(count)
        return count / (time.perf_counter() - started)

    def decode(self, context, count):
        self.clear()
        self.feed(context)
        started = time.perf_counter()
        for i in range(count):
            self.step([(self.tokens[i], context + i, 0, True)])
        return count / (time.perf_counter() - started)

    def many(self, sequences):
        self.clear()
        for sequence in range(sequences):
            self.feed(MANY_CONTEXT, sequence)
        started = time.perf_counter()
        for i in range(MANY_STEPS):
            self.step([(self.tokens[i + s], MANY_CONTEXT + i, s, True) for s in range(sequences)])
        return MANY_STEPS * sequences / (time.perf_counter() - started)


def main():
    peer = Peer(sys.argv[1], int(sys.argv[2]))
    commands = {"prefill": peer.prefill, "decode": peer.decode, "batch": peer.many}
    print("ready", flush=True)
    for line in sys.stdin:
        name, *numbers = line.split()
        print(commands[name](*map(int, numbers)), flush=True)


if __name__ == "__main__":
    main()
