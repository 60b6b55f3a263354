# Shared by the scripts of this folder: where things are, and how they speak. Source it.
set -euo pipefail
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=$(realpath -m "${TANDEM_CACHE:-$HOME/.cache/tandem}")
export TANDEM_CACHE=$cache  # what is started from here looks in the same place
venv=$cache/venv
demo_model=$cache/models/SmolLM2-135M-Instruct.Q4_1.gguf
jobs=${TANDEM_JOBS:-$(nproc)}

# One line per step, so that a long run shows where it is.
say() { if [ -t 2 ]; then printf '\033[1m==>\033[0m %s\n' "$*" >&2; else printf '==> %s\n' "$*" >&2; fi; }
# die REASON REMEDY
die() { printf 'error: %s\n' "$1" >&2; [ $# -lt 2 ] || printf 'remedy: %s\n' "$2" >&2; exit 1; }

# run_logged LOG COMMAND...: quiet unless it fails; then the end of its log is shown.
run_logged() {
  local log=$1; shift
  mkdir -p "$(dirname "$log")"
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    printf 'error: %s failed; all of its output is in %s\n' "$1" "$log" >&2
    return 1
  fi
}

# The cache folder is about to be written to.
need_cache() {
  { mkdir -p "$cache/logs" "$cache/models" 2>/dev/null && [ -w "$cache" ]; } ||
    die "the cache folder $cache cannot be written" "make it writable, or name another folder in the variable TANDEM_CACHE"
}
