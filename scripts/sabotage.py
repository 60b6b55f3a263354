"""One-line mistakes and the tests that must notice them. Each is applied to a copy in build/sabotage/tree; a mistake that no longer fits the
source, does not build, or leaves its test green is a failure of this script."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACE = ROOT / "build" / "sabotage"
TREE = PLACE / "tree"
BUILD = PLACE / "build"
LOGS = ROOT / "build" / "logs"
TEST_TIMEOUT = 300


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
    Mistake("draw without the position", "src/model/draw.cc",
            "{static_cast<uint32_t>(position),", "{static_cast<uint32_t>(choice),", "model_test", "Sampler*:UniformDraw*"),
    Mistake("break ties towards the higher id", "src/model/draw.cc",
            "if (largest > best) {", "if (largest >= best) {", "model_test", "Argmax*"),
    Mistake("leave the last byte of a stop string", "src/text/stop_matcher.cc",
            "end - stops_[index].size());", "end - stops_[index].size() + 1);", "text_test", "*Stop*"),
    Mistake("use KV whose lease had ended", "src/xfer/kv_reader.cc",
            "co_return closed.answer == kv::CloseAnswer::kValid;", "co_return closed.answer != kv::CloseAnswer{99};", "handover_sim_test", "*"),
    Mistake("ignore the deadline", "src/net/rpc_server.cc",
            "deadline_ = runtime.Now() + remaining;", "deadline_ = kNever;", "net_test", "*Rpc*"),
    Mistake("never forget a silent instance", "src/cluster/file_discovery.cc",
            "if (now - known.seen >= options_.ttl) Hide(known);", "if (now - known.seen >= 1000 * options_.ttl) Hide(known);", "cluster_test", "*"),
]


def run(command, log, timeout=3600, variables=None):
    with open(log, "a", encoding="utf-8") as out:
        try:
            return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, timeout=timeout,
                                  env={**os.environ, **(variables or {})}).returncode
        except subprocess.TimeoutExpired:
            return 124


def copy_tree():
    """Only files that changed are copied, so that a second run builds little."""
    TREE.mkdir(parents=True, exist_ok=True)
    for name in ("CMakeLists.txt", "CMakePresets.json"):
        shutil.copy2(ROOT / name, TREE / name)
    for name in ("src", "cmake", "tests", "docs"):
        for source in (ROOT / name).rglob("*"):
            target = TREE / source.relative_to(ROOT)
            if source.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            elif not target.exists() or target.read_bytes() != source.read_bytes():
                shutil.copyfile(source, target)


def build(target, log):
    if not (BUILD / "build.ninja").exists():
        code = run(["cmake", "-S", str(TREE), "-B", str(BUILD), "-G", "Ninja", "-DCMAKE_CXX_COMPILER=clang++-19", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache",
                    "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -g1"], log)
        if code != 0:
            return False
    jobs = os.environ.get("TANDEM_JOBS") or str(os.cpu_count() or 1)
    return run(["ninja", "-C", str(BUILD), "-j", jobs, target], log) == 0


def binary_of(target):
    return next((p for p in BUILD.rglob(target) if p.is_file() and os.access(p, os.X_OK)), None)


def test(mistake, log):
    binary = binary_of(mistake.target)
    return run([str(binary), f"--gtest_filter={mistake.tests}", "--gtest_brief=1"], log, TEST_TIMEOUT)


def try_out(mistake):
    """Returns what went wrong, or the test that noticed."""
    log = LOGS / f"sabotage-{re.sub(r'[^a-z0-9]+', '-', mistake.name.lower())}.log"
    log.unlink(missing_ok=True)
    path = TREE / mistake.file
    original = path.read_text(encoding="utf-8")
    if original.count(mistake.right) != 1:
        return False, f"the line to change is there {original.count(mistake.right)} times"
    if not build(mistake.target, log):
        return False, f"the untouched copy does not build: {log}"
    if test(mistake, log) != 0:
        return False, f"its test is red without the mistake: {log}"
    try:
        path.write_text(original.replace(mistake.right, mistake.wrong), encoding="utf-8")
        if not build(mistake.target, log):
            return False, f"it does not build: {log}"
        if test(mistake, log) == 0:
            return False, f"no test noticed: {log}"
    finally:
        path.write_text(original, encoding="utf-8")
    found = re.findall(r"\[  FAILED  \] (\S+)", log.read_text(encoding="utf-8", errors="replace"))
    return True, found[0] if found else f"{mistake.target} crashed or hung"


def main():
    wanted = sys.argv[1:]
    LOGS.mkdir(parents=True, exist_ok=True)
    copy_tree()
    noticed = missed = 0
    for mistake in MISTAKES:
        if wanted and not any(word in mistake.name for word in wanted):
            continue
        good, what = try_out(mistake)
        noticed, missed = noticed + good, missed + (not good)
        print(f"{'noticed' if good else 'MISSED '}  {mistake.name}: {what}", flush=True)
    print(f"{noticed} passed, {missed} failed")
    sys.exit(1 if missed or not noticed else 0)


if __name__ == "__main__":
    main()
