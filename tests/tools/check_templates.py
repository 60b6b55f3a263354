#!/usr/bin/env python3
"""Serves the demo model and renders all recorded chat templates through it. Needs what `fetch_templates.py --all` fetches."""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/e2e"))
import conftest
from harness import CACHE, DEMO, Serve
from template_cases import CLOCK, check_command


def main():
    folder = conftest.private_folder()
    service = Serve(folder, str(DEMO), "--served-model-name", "demo", "--trust-request-chat-template", "--template-clock", str(CLOCK),
                    "--kv-cache-memory-bytes", "100M")
    try:
        done = subprocess.run(check_command(service.url, "demo", ROOT / "tests/goldens/text", CACHE / "templates"), capture_output=True, text=True)
    finally:
        service.end()
        shutil.rmtree(folder, ignore_errors=True)
    print(done.stdout + done.stderr)
    sys.exit(0 if done.returncode == 0 and " 0 failed, 0 skipped" in done.stdout else 1)


if __name__ == "__main__":
    main()
