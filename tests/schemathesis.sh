#!/bin/sh
# Tests the description of the API against a live cluster of three nodes: every call with valid data, with invalid data, and in
# sequences. Every answer is compared with the description. Takes some minutes, and is not part of `./fairhold test`.
#
#   tests/schemathesis.sh [OPTION OF "schemathesis run"…]
#
# FAIRHOLD_BIN   the program (default: release/fairhold in the target folder)
# PORT           the first of the ports (default 23000; the cluster uses PORT to PORT+2, and the ports 100 above them)
# CASES, SEED    the number of cases for each call, and their seed (defaults 60 and 1)
set -eu

version=4.32.5
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/fairhold/target}
program=${FAIRHOLD_BIN:-$target/release/fairhold}
port=${PORT:-23000}
work=${target}/schemathesis
venv=$work/venv-$version

[ -x "$program" ] || {
    echo "the program $program does not exist: build it (./fairhold build), or set FAIRHOLD_BIN" >&2
    exit 2
}
mkdir -p "$work"
[ -x "$venv/bin/schemathesis" ] || {
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet "schemathesis==$version"
}

"$program" dev --port "$port" --no-restart >"$work/cluster.out" 2>"$work/cluster.log" </dev/null &
cluster=$!
trap 'kill "$cluster" 2>/dev/null || true; wait "$cluster" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
waited=0
until grep -q '^ready ' "$work/cluster.out"; do
    if [ "$waited" -ge 60 ] || ! kill -0 "$cluster" 2>/dev/null; then
        cat "$work/cluster.log" >&2
        echo "the cluster did not become ready" >&2
        exit 1
    fi
    waited=$((waited + 1))
    sleep 1
done

# The second node: it usually forwards its calls to the leader.
url=http://127.0.0.1:$((port + 1))
# It stores its findings in the working directory.
cd "$work"
SCHEMATHESIS_HOOKS=schemathesis_hooks PYTHONPATH=$root/tests PYTHONDONTWRITEBYTECODE=1 "$venv/bin/schemathesis" \
    --config-file "$root/tests/schemathesis.toml" run "$url/openapi.json" --url "$url" \
    --checks all --max-examples "${CASES:-60}" --seed "${SEED:-1}" \
    --generation-database none --request-timeout 30 --continue-on-failure "$@"
