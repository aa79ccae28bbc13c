#!/usr/bin/env bash
# Boots a Debian system in a container, installs the package there, and checks what the unit promises. Needs root:
#     deploy/packages/boot.sh PACKAGE.deb ROOT
# ROOT is the tree of a Debian system with systemd, which this script changes. Nothing of this machine changes: the container has its
# own mounts, processes and network.
set -euo pipefail
if [ "${1:-}" != --alone ]; then
    exec unshare --mount --pid --fork --kill-child --mount-proc --propagation private "$0" --alone "$@"
fi
deb=$2
root=$3
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd /run/lock

# shellcheck source=deploy/packages/system.sh
. "$(dirname -- "$0")/system.sh"
trap end_systems EXIT

cp -- "$deb" "$root/fairhold.deb"
start_system fairhold "$root" --private-network
wait_for "the system is up" 60 is_up
ok "a Debian system with $(inside systemctl --version | head -n 1 | cut -d ' ' -f 1,2) is up"

inside env DEBIAN_FRONTEND=noninteractive dpkg -i /fairhold.deb >"$root.dpkg" 2>&1 || fail "dpkg -i: $(cat -- "$root.dpkg")"
expect ActiveState inactive "the package must not start a node without a configuration"
inside fairhold --version >/dev/null || fail "fairhold does not run"
inside sh -c 'test -s /usr/share/bash-completion/completions/fairhold && test -s /usr/share/man/man1/fairhold.1.gz'
inside getent passwd fairhold >/dev/null || fail "there is no user fairhold"
ok "installed: program, unit, user, manual page and completions"

configure() {
    printf '%s\n' "$@" | nsenter --target "$leader" --mount -- tee /etc/fairhold/fairhold.toml >/dev/null
}

configure 'id = "none"'
if inside systemctl start "$name" 2>/dev/null; then fail "it started with a wrong configuration"; fi
expect ExecMainStatus 2 "a wrong configuration"
sleep 3
expect NRestarts 0 "it was started again with a wrong configuration"
inside systemctl reset-failed "$name"
ok "with a wrong configuration it ends with 2, and is not started again"

configure 'id = 1' 'member = ["1=http://127.0.0.1:7171,127.0.0.1:7271", "2=http://127.0.0.1:7172,127.0.0.1:7272"]'
inside systemctl start --no-block "$name"
wait_for "the node runs" 10 inside curl -sf http://127.0.0.1:7171/livez
sleep 3
expect ActiveState activating "a node without a quorum is not ready"
inside systemctl stop "$name"
inside rm -rf /var/lib/private/fairhold
ok "without a quorum it is not ready"

# As docs/guides/install.md says.
inside sh -euc 'cd /etc/fairhold && umask 077
    fairhold cert ca --name prod --out /root/ca
    fairhold cert node --ca /root/ca --host localhost --out /root/node
    head -c 32 /dev/urandom | sha256sum | cut -c 1-64 >/root/node/admin.token
    cp /root/node/node.crt /root/node/node.key /root/node/ca.crt /root/node/admin.token .
    chown root:fairhold /etc/fairhold/node.* /etc/fairhold/ca.crt
    chown fairhold /etc/fairhold/admin.token
    chmod 640 /etc/fairhold/node.* /etc/fairhold/ca.crt
    chmod 600 /etc/fairhold/admin.token' >"$root.cert" 2>&1 || fail "certificates: $(cat -- "$root.cert")"
configure 'id = 1' 'member = ["1=https://localhost:7171,localhost:7271"]' 'cluster-name = "prod"' \
    'cert = "/etc/fairhold/node.crt"' 'key = "/etc/fairhold/node.key"' 'peer-ca = "/etc/fairhold/ca.crt"' \
    'admin-token-file = "/etc/fairhold/admin.token"'
client=(env FAIRHOLD_ENDPOINT=https://localhost:7171 FAIRHOLD_CACERT=/etc/fairhold/ca.crt fairhold)
inside fairhold config check --config /etc/fairhold/fairhold.toml --data /var/lib/fairhold || fail "config check"
inside timeout 30 systemctl start "$name" || fail "systemctl start"
expect ActiveState active "it is ready"
inside "${client[@]}" cluster ready >/dev/null || fail "systemd says that it is ready, and the node does not"
pid=$(property MainPID)
[ "$(inside ps -o user= -p "$pid")" = fairhold ] || fail "it does not run as fairhold"
[ "$(inside stat -Lc %U:%a /var/lib/fairhold)" = fairhold:700 ] || fail "the data directory: $(inside stat -Lc %U:%a /var/lib/fairhold)"
inside "${client[@]}" lock boot -- true || fail "no lock"
ok "started: active when the node is ready; it runs as fairhold"

inside systemctl kill --signal=KILL --kill-who=main "$name"
wait_for "it is started again after kill -9" 30 has_restarted "$pid"
inside "${client[@]}" lock boot -- true || fail "no lock after kill -9"
ok "killed with SIGKILL: started again"

inside mkdir -p "/run/systemd/system/$name.d"
# A key that only root may read comes as a credential.
inside sh -euc 'mkdir -m 700 /etc/keys && chown root:root /etc/fairhold/node.key && chmod 600 /etc/fairhold/node.key && mv /etc/fairhold/node.key /etc/keys'
credential='LoadCredential=node.key:/etc/keys/node.key\nEnvironment=FAIRHOLD_KEY=%d/node.key'
printf '[Service]\nWatchdogSec=4\n%b\n' "$credential" | nsenter --target "$leader" --mount -- tee "/run/systemd/system/$name.d/watchdog.conf" >/dev/null
inside systemctl daemon-reload
inside systemctl restart "$name"
pid=$(property MainPID)
sleep 10
expect MainPID "$pid" "the node must feed the watchdog"
inside "${client[@]}" lock boot -- true || fail "no lock with a key from systemd"
ok "it feeds the watchdog, and has a key that systemd passes to it"
inside systemctl kill --signal=STOP --kill-who=main "$name"
wait_for "the watchdog ends a stopped node" 30 has_restarted "$pid"
inside journalctl -o cat -u "$name" | grep -q 'Watchdog timeout' || fail "the watchdog did not act"
ok "paused with SIGSTOP: the watchdog ended it, and it was started again"

pid=$(property MainPID)
inside dpkg -i /fairhold.deb >"$root.dpkg" 2>&1 || fail "dpkg -i: $(cat -- "$root.dpkg")"
expect MainPID "$pid" "installing a package restarts nothing"
inside grep -q '^id = 1' /etc/fairhold/fairhold.toml || fail "the configuration was replaced"
ok "installed again: the node goes on, and its configuration stays"

inside systemctl stop "$name"
expect Result success "it stops in good order"
expect ExecMainStatus 0 "it stops in good order"
ok "stopped: exit code 0"

inside rm /var/lib/private/fairhold/IDENTITY
if inside systemctl start "$name" 2>/dev/null; then fail "it started without its identity"; fi
sleep 3
expect ExecMainStatus 3 "a directory that cannot take part"
expect ActiveState failed "a directory that cannot take part"
expect NRestarts 0 "it was started again"
ok "with a directory that cannot take part it ends with 3, and is not started again"

# Without the package there is no user fairhold, and systemd passes all secrets.
inside sh -euc 'userdel fairhold && rm -rf /var/lib/private/fairhold /var/lib/fairhold
    cp /root/node/* /etc/keys && chmod 600 /etc/keys/* && rm /etc/fairhold/node.crt /etc/fairhold/admin.token
    chmod 755 /etc/fairhold'
for file in node.crt:CERT ca.crt:PEER_CA admin.token:ADMIN_TOKEN_FILE; do
    credential="$credential\\nLoadCredential=${file%:*}:/etc/keys/${file%:*}\\nEnvironment=FAIRHOLD_${file#*:}=%d/${file%:*}"
done
printf '[Service]\nWatchdogSec=4\n%b\n' "$credential" | nsenter --target "$leader" --mount -- tee "/run/systemd/system/$name.d/watchdog.conf" >/dev/null
inside systemctl daemon-reload
inside systemctl reset-failed "$name"
inside timeout 30 systemctl start "$name" || fail "systemctl start without a user fairhold"
user=$(inside ps -o uid= -p "$(property MainPID)")
[ "$user" -ge 61184 ] || fail "without a user fairhold it runs as $user"
inside "${client[@]}" lock boot -- true || fail "no lock without a user fairhold"
ok "without a user fairhold it runs as a temporary user, with all secrets from systemd"

remove_and_purge
stop_system
