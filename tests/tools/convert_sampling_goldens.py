#!/usr/bin/env python3
"""convert_sampling_goldens.py RECORDED.json.gz OUT.txt

Turns recorded sampling steps of vLLM (one request each: parameters, tokens so far, and what was left of a small
logit vector) into the line format that the C++ tests read. Standard library only."""
import gzip
import json
import sys

FORMULAS = {
    "mix17": (17, lambda i: (i * i * 31 + i * 17) % 401 - 200),
    "mix64": (64, lambda i: (i * i * 53 + i * 29 + 7) % 509 - 254),
    "ties40": (40, lambda i: (i * 5) % 7 * 32 - 64),
    "flat20": (20, lambda i: 48),
    "peak50": (50, lambda i: 640 if i == 13 else (i * 37) % 101 - 50),
    "neg30": (30, lambda i: -320 - (i * i * 7) % 97),
    "mix1000": (1000, lambda i: (i * i * 77 + i * 401) % 1999 // 6 - 166),
}
LIST_PARAMS = ("stop_token_ids", "allowed_token_ids")


def words(values):
    return " ".join(str(v) for v in values)


def params_lines(params):
    lines = []
    for name, value in params.items():
        if name == "logit_bias":
            lines.append("logit_bias " + words(x for pair in value.items() for x in pair))
        elif name == "bad_words":
            # Sequences are separated by -1.
            lines.append("bad_words " + words(x for word in value for x in [*word, -1]))
        elif name in LIST_PARAMS:
            lines.append(f"{name} {words(value)}")
        else:
            lines.append(f"{name} {int(value) if isinstance(value, bool) else value}")
    return lines


def case_lines(case, eos):
    expect = case["expect"]
    size, formula = FORMULAS[case["logits"]]
    kept = range(size) if expect["kept"] == "all" else expect["kept"]
    listed = expect.get("listed", kept)
    lines = [f"id {case['id']}", f"logits {case['logits']}", f"eos {eos}"]
    lines += [f"prompt {words(case['prompt'])}", f"output {words(case['output'])}"]
    lines += params_lines(case["params"])
    lines += [f"expect_greedy {int(expect['greedy'])}", f"expect_argmax {expect['argmax']}"]
    lines += [f"expect_argmax_logprob {expect['raw_logprob_of_argmax']}"]
    lines += [f"expect_ties {int(expect.get('cut_through_ties', False))}", f"expect_n_kept {expect['n_kept']}"]
    lines += [f"expect_kept {words(kept)}", f"expect_listed {words(listed)}", f"expect_probs {words(expect['probs'])}"]
    return lines


def main(source, target):
    recorded = json.load(gzip.open(source))
    vectors = {case["logits"] for case in recorded["cases"]}
    with open(target, "w") as out:
        out.write(f"# Sampling steps of {recorded['made_with']}; made by convert_sampling_goldens.py\n")
        for name in sorted(vectors):
            size, formula = FORMULAS[name]
            out.write(f"\nvector {name}\nvalues {words(formula(i) / 32 for i in range(size))}\n")
        for case in recorded["cases"]:
            out.write("\n" + "\n".join(case_lines(case, recorded["eos"])) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
