#!/usr/bin/env bash
# Twenty minutes on a borrowed CUDA machine: tests, benchmark, runs that share a card, and a grid.
#
#   benchmarks/gpu.sh OUT                          all parts
#   benchmarks/gpu.sh OUT bench sharing            some of them
#   benchmarks/gpu.sh --device cpu OUT             tiny sizes, which shows that the script works
#
# Parts, in this order:
#   tests    the tests marked `gpu`
#   bench    python -m benchmarks, BERT-base and MiniLM
#   sharing  1, 2, 4 and 8 runs at once on one card
#   grid     some stages of the real grids at BERT-base's size, on generated text: one by one, the
#            shortest first
#   plan     the time that all grids take, from the rates of those stages
#   demo     the demo with `device: cuda`, in what time is left
#
# OUT (or $OUT) gets summary.md (what became of each part), log.txt (what they printed),
# nvidia-smi.csv (the cards, every second), and bench.json. What runs leave otherwise is removed. The
# script ends with 1 if a part failed or ran out of time.
#
# A part is stopped after its limit, and no part outlasts TOTAL (1200 seconds). LIMIT_bench=60 sets
# another limit for `bench`, LIMIT_setup=60 for all installation.
#
# Python is $PYTHON, as it is; else .venv/bin/python or python3, and what these lack is installed
# into an environment of its own, from the folder of wheels $WHEELS if it is set, else over the
# network: all at once or, if that fails, one by one. Parts whose packages are still missing are
# skipped. If torch sees no GPU, the script ends before it installs anything else.

set -uo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DEVICE=${DEVICE:-cuda}
if [ "${1:-}" = --device ]; then
    DEVICE=${2:?--device needs a word}
    shift 2
fi
if [ $# -gt 0 ]; then
    OUT=$1
    shift
fi
: "${OUT:?usage: benchmarks/gpu.sh [--device cuda|cpu] OUT [PART...]}"
PARTS="${*:-tests bench sharing grid plan demo}"
for part in $PARTS; do
    case $part in
        tests | bench | sharing | grid | plan | demo) ;;
        *) echo "gpu.sh: no part '$part'" >&2 && exit 2 ;;
    esac
done
mkdir -p "$OUT" || exit 2
OUT=$(cd "$OUT" && pwd)
WORK=$(mktemp -d)
TOTAL=${TOTAL:-1200}
LIMIT_setup=${LIMIT_setup:-200}
SUMMARY=$OUT/summary.md
LOG=$OUT/log.txt
SAMPLER=
BAD=0
cd "$ROOT" || exit 2

# shellcheck disable=SC2317 # called by the trap
leave() {
    [ -z "$SAMPLER" ] || kill "$SAMPLER" 2>>"$LOG"
    rm -rf "$WORK"
}
trap leave EXIT
trap 'exit 130' INT TERM

# Sizes and runs: what says something on a GPU, or what a CPU does in a minute.
case $DEVICE in
    cuda*)
        BENCH=(--sizes bert-base minilm --seconds 8)
        SHARING=(--sizes bert-base minilm --runs 1 2 4 8 --repeats 2)
        GRID=benchmarks/grid.yaml
        BACKBONE=results/bench-bert
        STAGES="sst-finetune/main full-mean/sts"
        DEMO=(all)
        ;;
    *)
        BENCH=(--sizes tiny --only "SST 16" --repeats 1)
        SHARING=(--sizes tiny --runs 1 2 --repeats 1 --steps 3)
        GRID=workflow/overlays/demo.yaml
        STAGES="single-task/sst"
        DEMO=(all --dry-run)
        ;;
esac

# record PART OUTCOME [SECONDS [LIMIT]]
record() {
    echo "| $1 | $2 | ${3:-} | ${4:-} |" >>"$SUMMARY"
    echo "$1: $2"
}

# Print those requirements of the project that Python $1 does not meet, one a line, those that most
# parts need first.
unmet() {
    "$1" - <<'PYTHON'
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version

try:
    from packaging.requirements import Requirement
except ImportError:
    from pip._vendor.packaging.requirements import Requirement

with open("pyproject.toml", "rb") as handle:
    project = tomllib.load(handle)["project"]
more = project["optional-dependencies"]
wanted = [*project["dependencies"]]
wanted += [word for word in more["test"] if word.startswith(("pytest>", "hypothesis>"))]
wanted += reversed(more["bench"])  # transformers, which most cases need, before their other peers
for word in wanted:
    requirement = Requirement(word)
    try:
        met = requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        met = False
    if not met:
        print(word)
PYTHON
}

# make_venv PYTHON: an environment that sees the packages of PYTHON too, whose torch is built for the
# machine's driver
make_venv() {
    "$1" -m venv "$WORK/venv" || return
    "$1" -c 'import site, sys; print(*sys.path[1:], *site.getsitepackages(), sep="\n")' |
        grep packages >"$(echo "$WORK"/venv/lib/python*/site-packages)/base.pth"
    grep -v '^torch==' requirements.lock >"$WORK/constraints.txt"
}

# install REQUIREMENT...: into that environment, if set-up has time left
install() {
    local left=$((LIMIT_setup - SECONDS)) from=(-c "$WORK/constraints.txt")
    [ "$left" -gt 0 ] || return
    # Constraints would also replace packages that the machine has in other versions, and a folder
    # of wheels need not have those.
    [ -z "${WHEELS:-}" ] || from=(--no-index --find-links "$WHEELS")
    timeout "$left" "$WORK/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --retries 1 --timeout 10 "${from[@]}" "$@"
}

# Print which device the Python of the parts computes on; fail with the reason if it has none.
find_device() {
    "$WORK/bin/python" - "$DEVICE" <<'PYTHON'
import re
import subprocess
import sys

import torch

wish = sys.argv[1]
name = "cpu"
if wish.startswith("cuda"):
    if not torch.cuda.is_available():
        try:
            told = subprocess.run(["nvidia-smi"], capture_output=True, text=True).stdout
        except OSError:
            told = ""
        driver = re.search(r"CUDA Version: *([\d.]+)", told)
        sys.exit(
            f"torch {torch.__version__}, built for CUDA {torch.version.cuda}, sees no CUDA device; "
            f"newest CUDA of the driver: {driver[1] if driver else 'not found'} "
            "(see CUDA in docs/cluster.md)"
        )
    name = torch.cuda.get_device_name(torch.device(wish))
print(f"torch {torch.__version__} on {name}, Python {sys.version.split()[0]}")
PYTHON
}

# Choose a Python and install what it lacks; parts call it as `python`, as the pipeline's rules do.
set_up() {
    local chosen=${PYTHON:-} lacking=() device word
    if [ -z "$chosen" ]; then
        chosen=$ROOT/.venv/bin/python
        [ -x "$chosen" ] || chosen=$(command -v python3) || return
        mapfile -t lacking < <(unmet "$chosen")
    fi
    if [ ${#lacking[@]} -gt 0 ]; then
        echo "$chosen lacks: ${lacking[*]}"
        make_venv "$chosen" && chosen=$WORK/venv/bin/python
    fi
    mkdir "$WORK/bin"
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$chosen" >"$WORK/bin/python"
    chmod +x "$WORK/bin/python"
    # As in the Makefile: torch first, without a suffix.
    case " ${lacking[*]} " in *" torch>"*) install "$(grep '^torch==' requirements.lock)" ;; esac
    device=$(find_device) || return
    if [ ${#lacking[@]} -gt 0 ]; then
        install "${lacking[@]}" || for word in "${lacking[@]}"; do install "$word"; done
        mapfile -t lacking < <(unmet "$chosen")
    fi
    echo "$device${lacking:+; not installed: ${lacking[*]}}"
}

# Print the first of the modules $1 that cannot be found.
absent() {
    python - "$@" <<'PYTHON'
import sys
from importlib.util import find_spec

print(next((name for name in sys.argv[1:] if find_spec(name) is None), ""))
PYTHON
}

# part NAME LIMIT "MODULES" COMMAND...: run one part, and record what became of it
part() {
    local name=$1 limit=$2 needs=$3 own="LIMIT_$1" left status=0 began lacking
    shift 3
    case " $PARTS " in *" $name "*) ;; *) return ;; esac
    # shellcheck disable=SC2086 # a list of words
    lacking=$(absent $needs)
    if [ -n "$lacking" ]; then
        record "$name" "skipped: no package $lacking"
        return
    fi
    limit=${!own:-$limit}
    left=$((TOTAL - SECONDS))
    [ "$limit" -le "$left" ] || limit=$left
    if [ "$limit" -le 0 ]; then
        record "$name" "skipped: no time left"
        return
    fi
    printf '\n=== %s, %s\n' "$name" "$(date -u +%FT%TZ)" >>"$LOG"
    began=$SECONDS
    timeout --kill-after=10 "$limit" "$@" >>"$LOG" 2>&1 || status=$?
    case $status in
        0) record "$name" ok $((SECONDS - began)) "$limit" ;;
        124 | 137) record "$name" "timed out" $((SECONDS - began)) "$limit" && BAD=1 ;;
        *) record "$name" "failed ($status)" $((SECONDS - began)) "$limit" && BAD=1 ;;
    esac
}

# train_stages CONFIG DEVICE RESULTS STAGE...: train VARIANT/STAGE of a configuration, with seed 0,
# each alone on the device; RESULTS.trained names those that are done
# shellcheck disable=SC2317 # called by another shell, which `timeout` can stop
train_stages() {
    local config=$1 device=$2 root=$3 stage key
    shift 3
    python -m minbert plan --configfile "$config" --config "device=$device" "results=$root" \
        >"$root.plan" || return 1
    for stage in "$@"; do
        key=$(awk -v variant="${stage%/*}" -v stage="${stage#*/}" \
            '$1 == variant && $2 == stage { print $3; exit }' "$root.plan")
        [ -n "$key" ] || { echo "no grid has the stage $stage" && return 1; }
        python -m snakemake --cores all --configfile "$config" \
            --config "device=$device" "results=$root" -- \
            "$root/store/train/$key/seed0/run.json" || return 1
        echo "$stage" >>"$root.trained"
    done
}
export -f train_stages

{
    echo "# $(date -u +%FT%TZ), $DEVICE, $(uname -sr)"
    echo
    echo "| part | outcome | seconds | limit |"
    echo "| --- | --- | --- | --- |"
} >"$SUMMARY"
: >"$LOG"

began=$SECONDS
if ! set_up >>"$LOG" 2>&1; then
    record set-up "failed: $(tail -n 1 "$LOG")" $((SECONDS - began))
    exit 1
fi
record set-up "ok: $(tail -n 1 "$LOG")" $((SECONDS - began))
export PATH="$WORK/bin:$PATH" MINBERT_TEST_DEVICE="$DEVICE"
export PYTHONPATH="$ROOT:$ROOT/src:$ROOT/tests:${PYTHONPATH:-}"

if command -v nvidia-smi >>"$LOG"; then
    nvidia-smi --loop=1 --format=csv --query-gpu=timestamp,index,name,utilization.gpu,utilization.memory,memory.used,power.draw,clocks.sm,temperature.gpu \
        >"$OUT/nvidia-smi.csv" 2>>"$LOG" &
    SAMPLER=$!
else
    record nvidia-smi "skipped: not found"
fi

part tests 100 "torch pytest hypothesis" \
    python -m pytest -q -m gpu -p no:cacheprovider tests/unit/test_gpu.py
part bench 320 "torch transformers" \
    python -m benchmarks --device "$DEVICE" "${BENCH[@]}" --out "$OUT"
part sharing 160 "torch transformers" \
    python -m benchmarks.sharing --device "$DEVICE" "${SHARING[@]}"
: >"$WORK/grid.trained"
# shellcheck disable=SC2016,SC2086 # the inner shell expands its own words; stages are a list
[ -z "${BACKBONE:-}" ] || python -c 'import pathlib, sys; from benchmarks.workload import make_workload
make_workload(pathlib.Path(sys.argv[1]), "bert-base")' "$BACKBONE" >>"$LOG" 2>&1
part grid 200 "torch snakemake mlflow" \
    bash -c 'train_stages "$@"' grid "$GRID" "$DEVICE" "$WORK/grid" $STAGES
part plan 40 "pydantic" \
    python -m minbert plan --configfile "$GRID" --config "device=$DEVICE" "results=$WORK/grid"
if [[ " $PARTS " = *" plan "* ]]; then
    trained=$(paste -sd ' ' "$WORK/grid.trained")
    record "rates in plan" "of stages trained alone on $DEVICE: ${trained:-none, so they are assumed}"
fi
part demo "$TOTAL" "torch snakemake mlflow" \
    python -m snakemake "${DEMO[@]}" --cores all --configfile workflow/overlays/demo.yaml \
    --config "device=$DEVICE" "results=$WORK/demo"

if [ -n "$SAMPLER" ]; then
    if kill "$SAMPLER" 2>>"$LOG"; then
        record nvidia-smi "ok: $(($(wc -l <"$OUT/nvidia-smi.csv") - 1)) samples"
    else
        record nvidia-smi "failed: ended early" && BAD=1
    fi
    SAMPLER=
fi
exit $BAD
