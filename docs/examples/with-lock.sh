#!/usr/bin/env bash
# Runs a command under a lock with bash and curl alone: with-lock.sh NAME COMMAND [ARGUMENT...]
#
# It waits in line, renews at a third of the ttl, and stops the command when it could not renew in time. The command gets
# FAIRHOLD_TOKEN, which every write that must not arrive late must carry. (`fairhold lock` does all this, and stops whole process
# groups, also when it is killed itself.)
set -euo pipefail

api=${FAIRHOLD_ENDPOINT:-http://127.0.0.1:7171}
api=${api%%,*}
ttl=15

if (($# < 2)); then
    echo "usage: $0 NAME COMMAND [ARGUMENT...]" >&2
    exit 2
fi
name=${1//\//%2F}
shift

field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p"; }

# To wait longer than the server allows, ask again.
until grant=$(curl -sS --fail-with-body -X POST "$api/v1/locks/$name?wait=10m&ttl=${ttl}s"); do
    case $(field code <<<"$grant") in
        wait_timeout | no_quorum | overloaded | shutting_down | '') sleep 1 ;;
        *) echo "$0: $grant" >&2; exit 75 ;;
    esac
done
id=$(field id <<<"$grant")
FAIRHOLD_TOKEN=$(field token <<<"$grant")
export FAIRHOLD_TOKEN
# What is taken is given back, however this ends.
trap 'curl -sS -X DELETE --max-time 5 "$api/v1/grants/$id" || true' EXIT

# Renews, and counts from before it asked: SECONDS has no fractions, so one second less.
renew() {
    local asked=$SECONDS status
    status=$(curl -sS -o /dev/null -w '%{http_code}' --max-time 2 -X POST "$api/v1/grants/$id/renew" || true)
    case $status in
        200) valid_until=$((asked + ttl - 1)) next=$((asked + ttl / 3)) ;;
        410) valid_until=$asked ;; # it has ended
    esac
}
valid_until=$SECONDS next=$SECONDS
renew

"$@" &
command=$!
trap 'kill "$command" 2>/dev/null; exit 143' TERM INT
while kill -0 "$command" 2>/dev/null; do
    if ((SECONDS >= valid_until)); then
        echo "$0: the lock was lost; stopping the command" >&2
        kill -KILL "$command"
        exit 79
    fi
    if ((SECONDS >= next)); then
        renew
    fi
    sleep 0.2
done
code=0
wait "$command" || code=$?
exit "$code"
