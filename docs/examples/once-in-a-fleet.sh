#!/bin/sh
# Runs a command once for each period in a whole fleet, however many machines start it and however far their clocks are apart.
# In the crontab of every machine:
#
#     FAIRHOLD_ENDPOINT=http://a:7171,http://b:7171,http://c:7171
#     0 3 * * *  once-in-a-fleet.sh nightly "$(date +\%F)" ./backup.sh
#
# The first in the queue runs it and records that; the others find the record. Where the command fails, or its machine
# dies, the next in line runs it. A lock alone would not do: who comes when it is free again would run the command once more.
set -eu

if [ $# -lt 3 ]; then
    echo "usage: $0 JOB PERIOD COMMAND [ARGUMENT...]" >&2
    exit 2
fi
job=$1
period=$2

if [ "${FAIRHOLD_LOCK:-}" != "once/$job" ]; then
    # Comes back here with the lock, and is stopped should it be lost.
    exec fairhold lock "once/$job" --quiet -- "$0" "$@"
fi
shift 2

done=/once/$job/$period
code=0
fairhold node stat "$done" >/dev/null 2>&1 || code=$?
case $code in
    0) exit 0 ;; # it was run
    1) ;;        # there is no such node: it was not
    *) echo "$0: the cluster cannot be asked whether $job was run" >&2; exit "$code" ;;
esac

"$@"

# Refused where the lock was lost meanwhile: then another may have run it too, and writes it down.
fairhold node put "$done" "by $(uname -n)" --parents --fence "once/$job=$FAIRHOLD_TOKEN" >/dev/null
