"""One-line mistakes and the tests that must notice them. Each is applied to a copy in build/sabotage; a mistake that no longer fits the source,
does not build, or leaves its test green is a failure of this script. The copy is built like the release preset and at the same place relative to
its sources, so that the compiler cache has all but what the mistake touches; it is removed at the end."""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "sabotage"
BUILD = TREE / "build" / "release"
LOGS = ROOT / "build" / "logs"
BUILD_TIMEOUT = 3600
TEST_TIMEOUT = 300
CCACHE = {"CCACHE_BASEDIR": str(TREE), "CCACHE_NOHASHDIR": "1"}


@dataclass
class Mistake:
    name: str
    file: str
    right: str
    wrong: str
    target: str
    tests: str  # a gtest filter


MISTAKES = [
    Mistake("skip the generation check", "src/kv/lease_table.cc",
            "if (found == lease.generations.end() || found->second != ref.generation) {", "if (found == lease.generations.end()) {",
            "kv_test", "*Lease*:*Table*"),
    Mistake("hand back a block that is being sent", "src/kv/lease_table.cc",
            "if (lease.reads == 0) {\n    HandBack(id);", "if (lease.reads >= 0) {\n    HandBack(id);", "kv_test", "*Table*"),
    Mistake("reuse a block that another request holds", "src/kv/block_pool.cc",
            "if (--b.refs == 0) Link(", "if (--b.refs <= 1) Link(", "kv_test", "BlockPool*:*/BlockPool*"),
    Mistake("swap the RoPE pairing", "src/model/kernels_rows.h",
            "S::Mul(S::SwapPairs(v), S::Load(sine + i))", "S::Mul(v, S::Load(sine + i))", "model_test", "*Tiny*:*Kernels*"),
    Mistake("see one key before the window", "src/model/attention.cc",
            "std::max<int64_t>(position - window + 1, 0)", "std::max<int64_t>(position - window, 0)", "model_test", "AttentionTest.*:*KvPaths*"),
    Mistake("scale values as keys", "src/model/kernels_attention.h",
            "MultiplyKeys(a, v, a.v_scales, scores)", "MultiplyKeys(a, v, a.k_scales, scores)", "model_test", "KernelsTest.Attention*"),
    Mistake("draw without the position", "src/model/draw.cc",
            "{static_cast<uint32_t>(position),", "{static_cast<uint32_t>(choice),", "model_test", "Sampler*:UniformDraw*"),
    Mistake("break ties towards the higher id", "src/model/draw.cc",
            "if (largest > best) {", "if (largest >= best) {", "model_test", "Argmax*"),
    Mistake("leave the last byte of a stop string", "src/text/stop_matcher.cc",
            "end - stops_[index].size());", "end - stops_[index].size() + 1);", "text_test", "*Stop*"),
    Mistake("use KV whose lease had ended", "src/xfer/kv_reader.cc",
            "co_return closed.answer == kv::CloseAnswer::kValid;", "co_return closed.answer != kv::CloseAnswer{99};", "handover_sim_test", "*"),
    Mistake("ignore the deadline", "src/net/rpc_server.cc",
            "deadline_ = runtime.Now() + remaining;", "deadline_ = runtime.Now() + 100 * remaining;", "net_test", "*Rpc*"),
    Mistake("never forget a silent instance", "src/cluster/file_discovery.cc",
            "if (now - known.seen >= options_.ttl)", "if (now - known.seen >= 1000 * options_.ttl)", "cluster_test", "*"),
]


running = set()


def run(command, log, timeout):
    """Runs a command in a process group of its own with its output in `log`; one that runs out of time is killed with its children."""
    with open(log, "a", encoding="utf-8") as out:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **CCACHE},
                                 start_new_session=True)
        running.add(child)
        try:
            return child.wait(timeout)
        except subprocess.TimeoutExpired:
            return 124
        finally:
            kill(child)
            running.discard(child)


def kill(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # nobody of the group is left
    child.wait()


def leave(*_):
    for child in list(running):
        kill(child)
    sys.exit(130)


def copy_tree():
    shutil.rmtree(TREE, ignore_errors=True)
    TREE.mkdir(parents=True)
    for name in ("CMakeLists.txt", "CMakePresets.json"):
        shutil.copyfile(ROOT / name, TREE / name)
    for name in ("src", "cmake", "tests", "docs"):
        shutil.copytree(ROOT / name, TREE / name, ignore=shutil.ignore_patterns("__pycache__"))


def build(targets, log):
    if not (BUILD / "build.ninja").exists() and run(["cmake", "-S", str(TREE), "--preset", "release"], log, BUILD_TIMEOUT) != 0:
        return False
    jobs = os.environ.get("TANDEM_JOBS") or str(os.cpu_count() or 1)
    return run(["ninja", "-C", str(BUILD), "-j", jobs, *targets], log, BUILD_TIMEOUT) == 0


def binary_of(target):
    return next((p for p in BUILD.rglob(target) if p.is_file() and os.access(p, os.X_OK)), None)


def test(mistake, log):
    binary = binary_of(mistake.target)
    return run([str(binary), f"--gtest_filter={mistake.tests}", "--gtest_brief=1"], log, TEST_TIMEOUT)


def try_out(mistake):
    """Returns whether the mistake was noticed, and by which test or why not. The copy is built and as it should be, before and after."""
    log = LOGS / f"sabotage-{re.sub(r'[^a-z0-9]+', '-', mistake.name.lower())}.log"
    log.unlink(missing_ok=True)
    path = TREE / mistake.file
    original = path.read_text(encoding="utf-8")
    if original.count(mistake.right) != 1:
        return False, f"the line to change is there {original.count(mistake.right)} times in {mistake.file}"
    if not build([mistake.target], log):
        return False, f"the untouched copy does not build: {log}"
    if test(mistake, log) != 0:
        return False, f"its test is red without the mistake: {log}"
    try:
        path.write_text(original.replace(mistake.right, mistake.wrong), encoding="utf-8")
        if not build([mistake.target], log):
            return False, f"it does not build: {log}"
        if test(mistake, log) == 0:
            return False, f"no test noticed: {log}"
    finally:
        path.write_text(original, encoding="utf-8")
    found = re.findall(r"\[  FAILED  \] (\S+)", log.read_text(encoding="utf-8", errors="replace"))
    return True, found[0] if found else f"{mistake.target} crashed or hung"


def main():
    parser = argparse.ArgumentParser(prog="scripts/sabotage", description="Do the tests notice mistakes?")
    parser.add_argument("name", nargs="*", help="mistakes whose name holds one of these words (default: all)")
    options = parser.parse_args()
    chosen = [m for m in MISTAKES if not options.name or any(word in m.name for word in options.name)]
    if not chosen:
        parser.error("no mistake has such a name: " + "; ".join(m.name for m in MISTAKES))
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    LOGS.mkdir(parents=True, exist_ok=True)
    noticed = missed = 0
    try:
        copy_tree()
        for mistake in chosen:
            started = time.monotonic()
            good, what = try_out(mistake)
            noticed, missed = noticed + good, missed + (not good)
            print(f"{'noticed' if good else 'MISSED '}  {mistake.name}: {what} ({time.monotonic() - started:.0f} s)", flush=True)
    finally:
        shutil.rmtree(TREE, ignore_errors=True)
    print(f"{noticed} passed, {missed} failed")
    sys.exit(1 if missed or not noticed else 0)


if __name__ == "__main__":
    main()
