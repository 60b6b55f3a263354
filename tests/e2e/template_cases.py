"""The recorded chat templates, all or some of them, and the checker that runs them against a server."""
import gzip
import json
import os
import shutil
import sys

from harness import ROOT

GOLDEN = ROOT / "tests/goldens/text/template"
CLOCK = 1796042096  # 2026-11-30 12:34:56, when the goldens were recorded
SMALL_PACKAGE = "trl 1.16.0"  # what tests/tools/fetch_templates.py fetches without --all


def thinned(folder, count):
    """Writes FOLDER/template with the demo model's template and `count` of the small package's, spread over them. Returns how
    many there are."""
    (folder / "template").mkdir()
    shutil.copy(GOLDEN / "conversations.json", folder / "template")
    with gzip.open(GOLDEN / "templates.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    own = [row for row in rows if any("smollm2" in s["package"] for s in row["sources"])]
    small = [row for row in rows if any(SMALL_PACKAGE in s["package"] for s in row["sources"])]
    # Those that print the date first: the clock has to be right.
    small.sort(key=lambda row: "function:strftime_now" not in row["features"])
    chosen = own + small[:4] + small[4::max(1, (len(small) - 4) // (count - 4))][:count - 4]
    with gzip.open(folder / "template/templates.jsonl.gz", "wt", encoding="utf-8") as out:
        for row in chosen:
            out.write(json.dumps(row) + "\n")
    return len(chosen)


def check_command(url, model, part, texts):
    return [sys.executable, str(ROOT / "tests/goldens/text/check_http.py"), url, model, "--part", os.fspath(part),
            "--templates", os.fspath(texts), "--clock", "--only", "template"]
