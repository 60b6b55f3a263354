"""The stages of scripts/test: each writes its log to build/logs/NAME.log and counts what passed and failed.

A stage that fails does not stop the others; a build that fails stops the stages that need it. A test that hangs is
killed and counts as failed.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "logs"
CACHE = pathlib.Path(os.environ.get("TANDEM_CACHE") or pathlib.Path.home() / ".cache" / "tandem")
PYTHON = str(CACHE / "venv" / "bin" / "python")
BINARY_TIMEOUT = 900
E2E_TIMEOUT = 1500
# Every test binary runs under ASan and UBSan, those with threads or loops of their own under TSan. Left out: what takes minutes there and touches
# no memory that other tests do not.
TSAN_MODULES = ["rt", "net", "hub", "xfer", "engine", "cluster", "router"]
SLOW_UNDER_SANITIZERS = {
    "model_test": "-GreedyGolden.*:Families.SameBitsOnEveryPath:ForwardTest.SameBitsForAnyBatchAndOrder:ForwardTest.SameBitsForEveryTypeLevelThreadCountAndChunk:AttentionTest.SameBitsForEveryChunkThreadCountLevelAndBlockSize:KvDtypes.*",
}
SANITIZER_VARIABLES = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


class Tally:
    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.faults = []

    def add(self, passed, failed, fault=""):
        self.passed += passed
        self.failed += failed
        if fault:
            self.faults.append(fault)


def say(text):
    print(f"==> {text}", flush=True)


def run(log, command, timeout, variables=None):
    """Runs a command in a process group of its own with its output in `log`. Returns (exit code, output); a command
    that ran out of time is killed with its children and returns 124."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w", encoding="utf-8") as out:
        child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                 env={**os.environ, **(variables or {})}, start_new_session=True)
        try:
            code = child.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            child.wait()
            code = 124
    return code, log.read_text(encoding="utf-8", errors="replace")


def show_end(output, lines=25):
    print("\n".join("    " + line for line in output.splitlines()[-lines:]), flush=True)


def single(tally, name, command, timeout=120):
    """A check that is one test."""
    code, output = run(LOGS / f"{name}.log", command, timeout)
    if code != 0:
        show_end(output)
    tally.add(code == 0, code != 0, "" if code == 0 else f"{name}: build/logs/{name}.log")


def build(tally, preset, targets):
    code, output = run(LOGS / f"build-{preset}.log", [str(ROOT / "scripts/build"), preset, *targets], 5400)
    if code != 0:
        show_end(output, 60)
        tally.add(0, 1, f"build of {preset}: build/logs/build-{preset}.log")
    return code == 0


def gtest_binaries(preset, modules=None):
    found = sorted(p for p in (ROOT / "build" / preset).rglob("*_test") if p.is_file() and os.access(p, os.X_OK))
    return [p for p in found if modules is None or p.name.removesuffix("_test") in modules]


def run_gtests(tally, preset, binaries):
    for binary in binaries:
        left_out = SLOW_UNDER_SANITIZERS.get(binary.name, "") if preset != "release" else ""
        log = LOGS / f"{preset}-{binary.name}.log"
        started = time.monotonic()
        code, output = run(log, [str(binary), "--gtest_brief=1", "--gtest_color=no", f"--gtest_filter={left_out or '*'}"], BINARY_TIMEOUT, SANITIZER_VARIABLES)
        passed = sum(int(n) for n in re.findall(r"\[  PASSED  \] (\d+) tests?\.", output))
        failed = sum(int(n) for n in re.findall(r"\[  FAILED  \] (\d+) tests?, listed below", output))
        if code != 0 and failed == 0:
            failed = 1  # it crashed, hung or a sanitizer spoke up
        if code == 0 and passed == 0:
            failed = 1  # a binary that runs no test proves nothing
        print(f"    {binary.name}: {passed} passed, {failed} failed ({time.monotonic() - started:.1f} s)", flush=True)
        if failed:
            show_end(output)
        why = " (ran out of time)" if code == 124 else ""
        tally.add(passed, failed, f"{preset} {binary.name}{why}: {log.relative_to(ROOT)}" if failed else "")


def stage_data(tally, _):
    script = ROOT / "tests/tools/prepare_test_data.py"
    code, output = run(LOGS / "data.log", [PYTHON, str(script)], 600)
    if code != 0:
        show_end(output)
        tally.add(0, 1, "test data: build/logs/data.log")


def stage_format(tally, _):
    single(tally, "format", [str(ROOT / "scripts/check-format")])


def stage_layers(tally, _):
    single(tally, "layers", [str(ROOT / "scripts/check-layers")])


def stage_unit(tally, _):
    if build(tally, "release", ["all"]):
        run_gtests(tally, "release", gtest_binaries("release"))


def stage_e2e(tally, _):
    if not build(tally, "release", ["tandem"]):
        return
    log = LOGS / "e2e.log"
    code, output = run(log, [PYTHON, "-m", "pytest", "-q", "-rfE", "--tb=short", "--color=no", "tests/e2e"], E2E_TIMEOUT)
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error|errors|skipped)\b", output.splitlines()[-1] if output else "")}
    failed = counts.get("failed", 0) + counts.get("error", 0) + counts.get("errors", 0) + counts.get("skipped", 0)
    passed = counts.get("passed", 0)
    if code != 0 and failed == 0 or passed == 0:
        failed += 1
    if failed:
        show_end(output, 60)
    print(f"    e2e: {passed} passed, {failed} failed", flush=True)
    tally.add(passed, failed, f"e2e: {log.relative_to(ROOT)}" if failed else "")


def stage_asan(tally, _):
    if build(tally, "asan-ubsan", ["tests"]):
        run_gtests(tally, "asan-ubsan", gtest_binaries("asan-ubsan"))


def stage_tsan(tally, _):
    if build(tally, "tsan", [f"{module}_test" for module in TSAN_MODULES]):
        run_gtests(tally, "tsan", gtest_binaries("tsan", TSAN_MODULES))


def stage_fuzz(tally, options):
    if not build(tally, "asan-ubsan", ["fuzzers"]):
        return
    drivers = sorted(p for p in (ROOT / "build/asan-ubsan/fuzz").glob("*_fuzz") if os.access(p, os.X_OK))
    if not drivers:
        tally.add(0, 1, "no fuzzer was built")
    running = []
    width = os.cpu_count() or 1
    while drivers or running:
        while drivers and len(running) < width:
            running.append(start_fuzzer(drivers.pop(0), options.fuzz_seconds))
        name, child, log = running.pop(0)
        try:
            code = child.wait(options.fuzz_seconds + 120)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            code = 124
        output = log.read_text(encoding="utf-8", errors="replace")
        runs = re.findall(r"Done (\d+) runs", output)
        good = code == 0 and bool(runs)
        print(f"    {name}: {runs[-1] if runs else '?'} inputs, {'no fault' if good else 'FAULT'}", flush=True)
        if not good:
            show_end(output)
        tally.add(good, not good, "" if good else f"{name}: {log.relative_to(ROOT)}")


def start_fuzzer(driver, seconds):
    corpus = ROOT / "build" / "corpus" / driver.name
    corpus.mkdir(parents=True, exist_ok=True)
    folders = [str(corpus)]
    seeds = ROOT / "fuzz" / "corpus" / driver.name.removesuffix("_fuzz")
    if seeds.is_dir():
        folders.append(str(seeds))
    log = LOGS / f"fuzz-{driver.name}.log"
    command = [str(driver), f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", f"-artifact_prefix={corpus}/", *folders]
    with open(log, "w", encoding="utf-8") as out:
        child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    return driver.name, child, log


def stage_templates(tally, _):
    """All recorded chat templates; their texts come from large packages."""
    if not build(tally, "release", ["tandem"]):
        return
    code, output = run(LOGS / "templates-data.log", [PYTHON, str(ROOT / "tests/tools/fetch_templates.py"), "--all"], 3600)
    if code == 0:
        code, output = run(LOGS / "templates.log", [PYTHON, str(ROOT / "tests/tools/check_templates.py")], 900)
    show_end(output, 5 if code == 0 else 60)
    tally.add(code == 0, code != 0, "" if code == 0 else "templates: build/logs/templates.log")


# Run only where named by --only: they download much or take long.
OPT_IN = {"templates"}
STAGES = {
    "format": stage_format,
    "layers": stage_layers,
    "data": stage_data,
    "unit": stage_unit,
    "e2e": stage_e2e,
    "asan": stage_asan,
    "tsan": stage_tsan,
    "fuzz": stage_fuzz,
    "templates": stage_templates,
}


def main():
    parser = argparse.ArgumentParser(prog="scripts/test", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="stages to run, separated by commas: " + ",".join(STAGES))
    parser.add_argument("--fuzz-seconds", type=int, default=30, help="time for each fuzzer (default 30)")
    options = parser.parse_args()
    wanted = [s for s in options.only.split(",") if s] or [s for s in STAGES if s not in OPT_IN]
    for name in wanted:
        if name not in STAGES:
            parser.error(f"no stage '{name}': choose from {', '.join(STAGES)}")
    LOGS.mkdir(parents=True, exist_ok=True)
    # One folder, whatever a test asks for: the program's own cache and the tests' models.
    os.environ["TANDEM_CACHE"] = os.environ["TANDEM_TEST_CACHE"] = str(CACHE)
    tally = Tally()
    for name in wanted:
        say(f"stage {name}")
        started, passed, failed = time.monotonic(), tally.passed, tally.failed
        STAGES[name](tally, options)
        say(f"stage {name}: {tally.passed - passed} passed, {tally.failed - failed} failed, {time.monotonic() - started:.0f} s")
    for fault in tally.faults:
        print(f"FAILED {fault}")
    print(f"{tally.passed} passed, {tally.failed} failed")
    sys.exit(1 if tally.failed or not tally.passed else 0)


if __name__ == "__main__":
    main()
