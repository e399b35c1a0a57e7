#!/bin/sh
# All that is to be measured with a GPU, in some 40 minutes on one card: how fast a model writes, whole answers, prompted
# rewrites beside the packaged ones, dialogs by batch file, and what vLLM counted. The page is written to docs/lab/gpu.md; give
# it a place in mkdocs.yml.
#
#   benchmarks/gpu.sh DATA DOCS VLLM [MODEL]
#
# DATA holds the data sets, DOCS documents, VLLM is the program of an environment of its own (vllm-env/bin/vllm). With
# GPU_URL the server at that address is asked instead of starting one, and the batch file and the counters are left out.
set -eu
cd "$(dirname "$0")/.."

DATA=$1 DOCS=$2 VLLM=$3 MODEL=${4:-Qwen/Qwen2.5-7B-Instruct}
WORK=${GPU_WORK:-$PWD/.gpu}
PAGE=${GPU_PAGE:-docs/lab/gpu.md}
ANAPHORA=${ANAPHORA:-.venv/bin/anaphora}
PYTHON=${PYTHON:-.venv/bin/python}
URL=${GPU_URL:-http://127.0.0.1:8000/v1}
EVERY=${GPU_EVERY:-8}
RUN=$(date +%m%d%H%M)
XGRAMMAR='{"backend": "xgrammar", "disable_any_whitespace": true}'
export ANAPHORA_HOME="$WORK/home" ANAPHORA_LLM__MODEL="$URL" ANAPHORA_LLM__CONTEXT_TOKENS=8192 VLLM_NO_USAGE_STATS=1
mkdir -p "$WORK"

part() { # TITLE COMMAND…: run it, and put what it prints below a heading of the page
    echo "== $1"
    { echo; echo "## $1"; echo; echo '```text'; } >>"$PAGE"
    shift
    began=$(date +%s)
    "$@" >"$WORK/part.txt" 2>"$WORK/part.err" || { cat "$WORK/part.err"; echo "It failed: $*" >>"$WORK/part.txt"; }
    { cat "$WORK/part.txt"; echo '```'; echo; echo "$(($(date +%s) - began)) s."; } >>"$PAGE"
}

cards() { nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader; }
counted() {
    "$PYTHON" -c "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())" "${URL%/v1}/metrics" |
        grep -E '^vllm:(prompt_tokens_total|generation_tokens_total|prefix_cache_(hits|queries)_total)'
}
batch() { # the rounds of `anaphora synth` and `vllm run-batch`, until a run asks nothing
    for round in 1 2 3 4; do
        "$ANAPHORA" synth "$DOCS" --out "$WORK/town" --model batch --windows 2 --batch "$WORK/rounds"
        [ -f "$WORK/rounds/requests.jsonl" ] || break
        "$VLLM" run-batch -i "$WORK/rounds/requests.jsonl" -o "$WORK/rounds/responses.jsonl" --model "$MODEL" \
            --served-model-name batch --max-model-len 8192 --structured-outputs-config "$XGRAMMAR" >"$WORK/batch.log" 2>&1
    done
    sed -n 1,40p "$WORK/town/README.md"
}

printf '# With a GPU\n\nWritten by `benchmarks/gpu.sh` on %s: %s, %s.\n' "$(date +%F)" "$MODEL" "$(cards || echo no card)" >"$PAGE"
SERVER=
if [ -z "${GPU_URL:-}" ]; then
    "$VLLM" serve "$MODEL" --host 127.0.0.1 --port 8000 --max-model-len 8192 --enable-prefix-caching \
        --structured-outputs-config "$XGRAMMAR" >"$WORK/vllm.log" 2>&1 &
    SERVER=$!
    trap 'kill $SERVER 2>/dev/null || true' EXIT INT TERM
    until "$PYTHON" -c "import urllib.request as u; u.urlopen('${URL%/v1}/health')" 2>/dev/null; do
        kill -0 $SERVER 2>/dev/null || { tail -20 "$WORK/vllm.log"; exit 1; }
        sleep 1
    done
fi

part "Doctor" "$ANAPHORA" doctor
part "Answers" "$PYTHON" -m papers.orconvqa answers --data "$DATA" --sets "${GPU_SET:-product-helm}" --name "answers-$RUN" --every "$EVERY" --minutes 12
part "Rewrites" "$PYTHON" -m papers.orconvqa rewriting --data "$DATA" --sets mtrag,cast2019 --name "rewriting-$RUN" --rewriters none,auto,prompted \
    --every "$EVERY"
if [ -n "$SERVER" ]; then
    part "What vLLM counted" counted
    # The card holds one of them.
    kill $SERVER && wait $SERVER || true
    part "Dialogs by batch file" batch
fi
echo "Wrote $PAGE."
