#!/usr/bin/env python3
"""convert_greedy_goldens.py RECORDED.json.gz OUT.txt

Turns recorded greedy runs of llama.cpp on the demo model into the line format that the C++ tests read: prompt and chosen
ids, the gap between the two best logits of each step, and the best id of a float32 reference forced along the same ids.
Standard library only."""
import gzip
import json
import sys


def words(values):
    return " ".join(str(v) for v in values)


def main(source, target):
    recorded = json.load(gzip.open(source))
    meta = recorded["meta"]
    with open(target, "w") as out:
        out.write(f"# Greedy runs of {meta['made_with']}; made by convert_greedy_goldens.py\n")
        out.write(f"\nbound {meta['bound']}\n")
        for case in recorded["cases"]:
            out.write(f"\nname {case['name']}\nprompt {words(case['prompt_ids'])}\nids {words(case['ids'])}\n")
            out.write(f"gaps {words(step[4] for step in case['steps'])}\n")
            if "f32_steps" in case:
                out.write(f"float32_ids {words(step[0] for step in case['f32_steps'])}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
