#!/bin/sh
# Tests the API's description against a live cluster of three nodes: every call with data that fits it, with data that does not,
# and in sequences; every answer is compared with what is described. Takes some minutes, and is no part of `./fairhold test`.
#
#   tests/schemathesis.sh [OPTION OF "schemathesis run"…]
#
# FAIRHOLD_BIN   the program (default: release/fairhold in the target folder)
# PORT           the first of the ports (default 23000; the cluster takes PORT to PORT+2, and those 100 above)
# CASES, SEED    how many cases for each call, and of which seed (defaults 60 and 1)
set -eu

version=4.32.5
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/fairhold/target}
program=${FAIRHOLD_BIN:-$target/release/fairhold}
port=${PORT:-23000}
work=${target}/schemathesis
venv=$work/venv-$version

[ -x "$program" ] || {
    echo "there is no program $program: build it (./fairhold build), or name it with FAIRHOLD_BIN" >&2
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

# The second node: its calls go through the leader, whichever that is, as often as not.
url=http://127.0.0.1:$((port + 1))
# It keeps what it found where it runs.
cd "$work"
SCHEMATHESIS_HOOKS=schemathesis_hooks PYTHONPATH=$root/tests PYTHONDONTWRITEBYTECODE=1 "$venv/bin/schemathesis" \
    --config-file "$root/tests/schemathesis.toml" run "$url/openapi.json" --url "$url" \
    --checks all --max-examples "${CASES:-60}" --seed "${SEED:-1}" \
    --generation-database none --request-timeout 30 --continue-on-failure "$@"
