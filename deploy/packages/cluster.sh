#!/usr/bin/env bash
# Boots three Debian systems in containers, forms a cluster of them with an older package, and kills, stops, upgrades and removes its
# nodes while clients count under a lock. Needs root, and FAIRHOLD_BINARY, which the clients run:
#     deploy/packages/cluster.sh OLDER.deb NEWER.deb ROOT WORK
# ROOT is the tree of a Debian system with systemd, of which WORK gets copies. Nothing of this machine changes: the containers and the
# bridge between them are in namespaces of this script, and end with it.
set -euo pipefail
if [ "${1:-}" != --alone ]; then
    exec unshare --mount --net --pid --fork --kill-child --mount-proc --propagation private "$0" --alone "$@"
fi
older=$2
newer=$3
tree=$4
work=$5
nodes=(a b c)
clients=2
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd /run/lock

# shellcheck source=deploy/packages/system.sh
. "$(dirname -- "$0")/system.sh"
trap end_systems EXIT

# Each system has its own network, which a bridge connects with the others and with the clients.
connect() {
    rm -rf -- "$work"
    mkdir -p -- "$work"
    ip link set lo up
    ip link add switch type bridge
    ip address add 10.77.0.254/24 dev switch
    ip link set switch up
    echo "127.0.0.1 localhost" >"$work/hosts"
    for id in 1 2 3; do
        node=${nodes[id - 1]}
        echo "10.77.0.$id $node" >>"$work/hosts"
        ip netns add "$node"
        ip link add "to-$node" type veth peer name eth0 netns "$node"
        ip link set "to-$node" master switch up
        ip -n "$node" address add "10.77.0.$id/24" dev eth0
        ip -n "$node" link set eth0 up
        ip -n "$node" link set lo up
    done
    mount --bind "$work/hosts" /etc/hosts
}

# As docs/guides/security.md says.
make_certificates() {
    "$FAIRHOLD_BINARY" cert ca --name prod --out "$work/ca"
    "$FAIRHOLD_BINARY" cert node --ca "$work/ca" --host a,b,c --out "$work/node"
    (umask 077 && head -c 32 /dev/urandom | sha256sum | cut -c 1-64 >"$work/node/admin.token")
    export FAIRHOLD_CACERT="$work/node/ca.crt" FAIRHOLD_ENDPOINT=https://a:7171,https://b:7171,https://c:7171
    export FAIRHOLD_AUTH_TOKEN_FILE="$work/node/admin.token"
}

boot() {
    cp -a -- "$tree" "$work/$1"
    cp -- "$work/hosts" "$work/$1/etc/hosts"
    cp -- "$older" "$work/$1/older.deb"
    cp -- "$newer" "$work/$1/newer.deb"
    start_system "$1" "$work/$1" --network-namespace-path="/run/netns/$1"
}

# Installs a package on the selected system, as docs/guides/install.md says.
install_package() {
    inside env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "/$1.deb" >"$root.apt" 2>&1 ||
        fail "apt-get install: $(cat -- "$root.apt")"
    wanted=$(dpkg-deb --field "$root/$1.deb" Version)
    # shellcheck disable=SC2016
    installed=$(inside dpkg-query --show --showformat='${Version}' fairhold)
    [ "$installed" = "$wanted" ] || fail "version $installed is installed, and not $wanted"
}

# Uses the example of the file, as docs/guides/install.md says.
configure() {
    cp -- "$work"/node/{node.crt,node.key,ca.crt,admin.token} "$root/etc/fairhold"
    # shellcheck disable=SC2016
    inside sh -euc 'cd /etc/fairhold
        chown root:fairhold node.crt node.key ca.crt
        chown fairhold admin.token
        chmod 640 node.crt node.key ca.crt
        chmod 600 admin.token
        sed -i -e "/^# id = 1$/,/^# admin-token-file/s/^# //" -e "s/^id = 1$/id = $0/" fairhold.toml
        fairhold config check --config fairhold.toml --data /var/lib/fairhold' "$1" || fail "config check"
}

# Counts under the lock, in the tree of the cluster, until the file `stop` exists. Each success is a line of a file on this machine.
count() {
    while [ ! -e "$work/stop" ]; do
        # shellcheck disable=SC2016
        "$FAIRHOLD_BINARY" lock counter --quiet --timeout 1m -- sh -euc 'number=$("$0" node get /counter --timeout 1m)
            "$0" node put /counter "$((number + 1))" --fence "counter=$FAIRHOLD_TOKEN" --timeout 1m >/dev/null
            echo "$FAIRHOLD_TOKEN" >>"$1/tokens"' "$FAIRHOLD_BINARY" "$work" >>"$work/load.log" 2>&1 ||
            {
                echo "a client of the load ended with $?" >>"$work/load.log"
                return 1
            }
        echo success >>"$work/successes.$1"
    done
}

has_counted() {
    [ -s "$work/load.log" ] || [ "$(wc -l <"$work/tokens")" -ge "$1" ]
}

no_complaints() {
    [ ! -s "$work/load.log" ] || fail "the load: $(tail -n 5 -- "$work/load.log")"
}

# The clients have counted ten times more since now.
load_goes_on() {
    wait_for "the load goes on: $1" 120 has_counted $(($(wc -l <"$work/tokens") + 10))
    no_complaints
}

# Sets `members`: the names of the two nodes that follow, and then that of the leader.
find_members() {
    roles=$("$FAIRHOLD_BINARY" cluster members --output plain --timeout 1m | awk '{ print $2, substr("abc", $1, 1) }' | sort)
    mapfile -t members < <(cut -d ' ' -f 2 <<<"$roles")
    [ "$(cut -d ' ' -f 1 <<<"$roles" | tr '\n' ' ')" = "follower follower leader " ]
}

are_members() {
    [ "$("$FAIRHOLD_BINARY" cluster members --output plain --timeout 1m | cut -f 1 | tr '\n' ' ')" = "$1" ]
}

is_ready() {
    "$FAIRHOLD_BINARY" cluster ready -e "https://$1:7171" --timeout 1m >/dev/null || fail "$1 is active, but not ready"
}

# The process runs the program of the installed package.
runs_installed() {
    inside test "/proc/$(property MainPID)/exe" -ef /usr/bin/fairhold
}

upgrade() {
    on "$1"
    pid=$(property MainPID)
    configuration=$(inside sha256sum /etc/fairhold/fairhold.toml)
    install_package newer
    expect MainPID "$pid" "the upgrade of a package restarts nothing"
    expect NeedDaemonReload no "systemd must have the unit of the new package"
    if runs_installed; then fail "the package has not replaced the program"; fi
    inside timeout 120 systemctl restart "$name" || fail "systemctl restart"
    has_restarted "$pid" || fail "it was not restarted"
    runs_installed || fail "it still runs the program of the older package"
    is_ready "$1"
    [ "$(inside sha256sum /etc/fairhold/fairhold.toml)" = "$configuration" ] || fail "the upgrade has changed the configuration"
    load_goes_on "$1 is upgraded"
}

# What a node and systemd have written: no error, and only these ends of the process with another exit code than 0: check_log NODE [END…]
check_log() {
    on "$1"
    inside journalctl --no-pager -o cat -u "$name" >"$root.log"
    if grep -nE ' ERROR |panicked' "$root.log"; then fail "$1 has written an error"; fi
    ends=$(sed -n 's/^.*: Main process exited, //p' "$root.log")
    shift
    [ "$ends" = "$(printf '%s\n' "$@")" ] || fail "the process has ended with: $ends"
}

connect
make_certificates >"$work/cert.log" 2>&1 || fail "certificates: $(cat -- "$work/cert.log")"
dpkg --compare-versions "$(dpkg-deb --field "$older" Version)" lt "$(dpkg-deb --field "$newer" Version)" || fail "the older package is not older"
for node in "${nodes[@]}"; do boot "$node"; done
for id in 1 2 3; do
    node=${nodes[id - 1]}
    on "$node"
    wait_for "$node is up" 120 is_up
    install_package older
    expect ActiveState inactive "the package must not start a node without a configuration"
    configure "$id"
done
ok "three Debian systems are up, and have the older package"

for node in "${nodes[@]}"; do
    on "$node"
    inside systemctl enable --quiet "$name"
    inside systemctl start --no-block "$name"
done
for node in "${nodes[@]}"; do
    on "$node"
    wait_for "$node is active" 120 is ActiveState active
    is_ready "$node"
done
wait_for "they have formed a cluster of three" 60 find_members
ok "started: they have formed a cluster, and all are ready"

"$FAIRHOLD_BINARY" node create /counter 0 >/dev/null || fail "node create"
touch -- "$work/tokens" "$work/load.log"
load=()
for ((client = 1; client <= clients; client++)); do
    count "$client" &
    load+=("$!")
done
load_goes_on "it has begun"

wait_for "the members" 60 find_members
killed=${members[2]}
on "$killed"
pid=$(property MainPID)
inside systemctl kill --signal=KILL --kill-who=main "$name"
wait_for "$killed is started again after kill -9" 120 has_restarted "$pid"
expect NRestarts 1 "it was killed once"
is_ready "$killed"
load_goes_on "$killed was killed"
ok "killed the leader, $killed, with SIGKILL: started again, and ready"

wait_for "the members" 60 find_members
stopped=${members[1]}
on "$stopped"
inside systemctl stop "$name"
expect Result success "it stops in good order"
expect ExecMainStatus 0 "it stops in good order"
load_goes_on "$stopped is stopped"
inside timeout 120 systemctl start "$name" || fail "systemctl start"
is_ready "$stopped"
ok "stopped $stopped: exit code 0, the others go on; started again, and ready"

wait_for "the members" 60 find_members
for node in "${members[@]}"; do upgrade "$node"; done
ok "upgraded ${members[*]} in turn: the package restarts nothing, the restarted node runs its program, and is ready"

removed=c
on "$removed"
"$FAIRHOLD_BINARY" cluster remove 3 --timeout 1m >/dev/null || fail "cluster remove"
wait_for "the removed node ends" 120 is ActiveState failed
expect ExecMainStatus 3 "a removed node"
expect NRestarts 0 "it was started again"
if inside systemctl start "$name" 2>/dev/null; then fail "a removed node has started"; fi
expect ExecMainStatus 3 "a removed node"
expect ActiveState failed "a removed node"
wait_for "the members are 1 and 2" 60 are_members "1 2 "
load_goes_on "$removed is removed"
ok "removed $removed from the cluster: it ends with 3, and is not started again"

touch -- "$work/stop"
for client in "${load[@]}"; do wait "$client" || no_complaints; done
no_complaints
successes=$(cat -- "$work"/successes.* | wc -l)
counter=$("$FAIRHOLD_BINARY" node get /counter)
[ "$counter" -eq "$successes" ] || fail "after $successes acquires, the counter is $counter"
sort --check --numeric-sort --unique "$work/tokens" || fail "the fencing tokens do not rise"
ok "the load: each of $successes acquires succeeded, with a higher token, and is in the counter"

for node in "${nodes[@]}"; do
    ends=()
    [ "$node" != "$killed" ] || ends+=("code=killed, status=9/KILL")
    # It was started once more by hand.
    [ "$node" != "$removed" ] || ends+=("code=exited, status=3/NOTIMPLEMENTED" "code=exited, status=3/NOTIMPLEMENTED")
    check_log "$node" "${ends[@]}"
done
ok "the logs: no error, and no exit code but the expected ones"

on "$removed"
remove_and_purge
for node in a b; do
    on "$node"
    expect ActiveState active "the other nodes go on"
    is_ready "$node"
done
for node in "${nodes[@]}"; do
    on "$node"
    stop_system
done
