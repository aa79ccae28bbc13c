# shellcheck shell=bash
# Debian systems that run in containers of systemd: the functions of boot.sh and cluster.sh. They act on the selected system: `leader` is
# its first process, as this machine sees it, and `root` is its tree.
name=fairhold.service
declare -A leaders=() machines=() roots=()
groups=()

# Selects a system.
on() {
    leader=${leaders[$1]}
    machine=${machines[$1]}
    root=${roots[$1]}
}

fail() {
    for system in "${!roots[@]}"; do
        printf -- '--- %s\n' "$system" >&2
        tail -n 5 -- "${roots[$system]}.console" >&2 || true
        leader=${leaders[$system]:-}
        [ -z "$leader" ] || inside journalctl --no-pager -o cat -u "$name" -n 40 >&2 || true
    done
    printf '%s: FAILED: %s\n' "$(basename -- "$0" .sh)" "$*" >&2
    exit 1
}

ok() {
    printf '%s: %s\n' "$(basename -- "$0" .sh)" "$*"
}

# Runs a command in the container.
inside() {
    nsenter --target "$leader" --mount --uts --ipc --net --pid -- "$@" </dev/null
}

# Waits until a command succeeds.
wait_for() {
    what=$1
    seconds=$2
    shift 2
    end=$((SECONDS + seconds))
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || fail "not within $seconds s: $what"
        sleep 0.2
    done
}

property() {
    inside systemctl show --property="$1" --value "$name"
}

is() {
    [ "$(property "$1")" = "$2" ]
}

expect() {
    is "$1" "$2" || fail "$1 is $(property "$1"), not $2: $3"
}

is_up() {
    case $(inside systemctl is-system-running 2>/dev/null) in running | degraded) ;; *) return 1 ;; esac
}

# A later start than that of this process, which is active.
has_restarted() {
    is ActiveState active && ! is MainPID "$1" && ! is MainPID 0
}

# Before the first process of the container, systemd-nspawn has another child for a moment.
find_leader() {
    leader=$(pgrep --parent "$machine" | head -n 1) && grep -q '^NSpid:.*[[:space:]]1$' "/proc/$leader/status"
}

# Makes control groups for a container, in each hierarchy that systemd uses, and sets `own`. Two containers in one group would take the
# processes of the other for their own.
make_groups() {
    own=()
    group=$(mktemp --dry-run fairhold-XXXXXX)
    while IFS=: read -r _ hierarchy path; do
        case $hierarchy in
        "") top=/sys/fs/cgroup/unified && [ -d "$top" ] || top=/sys/fs/cgroup ;;
        name=systemd) top=/sys/fs/cgroup/systemd ;;
        *) continue ;;
        esac
        [ -e "$top/cgroup.procs" ] || continue
        mkdir -- "$top${path%/}/$group"
        own+=("$top${path%/}/$group")
    done </proc/self/cgroup
    groups+=("${own[@]}")
}

# Boots a system in a tree, with options for systemd-nspawn, and selects it: start_system NAME ROOT [OPTION…]
start_system() {
    system=$1
    root=$2
    shift 2
    roots[$system]=$root
    [ -e "$root/etc/hosts" ] || echo "127.0.0.1 localhost" >"$root/etc/hosts"
    make_groups
    (
        for group in "${own[@]}"; do echo 0 >"$group/cgroup.procs"; done
        exec systemd-nspawn --quiet --directory="$root" --machine="$system" --register=no --keep-unit --console=pipe --boot "$@"
    ) </dev/null >"$root.console" 2>&1 &
    machine=$!
    machines[$system]=$machine
    wait_for "the container has a first process" 30 find_leader
    leaders[$system]=$leader
}

# Shuts the selected system down.
stop_system() {
    inside systemctl poweroff || true
    wait_for "the container ends" 60 sh -c "! kill -0 $machine"
}

remove_groups() {
    for group in "${groups[@]}"; do
        [ ! -e "$group" ] || find "$group" -depth -type d -exec rmdir {} + || return 1
    done
}

# Ends all containers that still run, and removes their control groups. All else is in the namespaces of this script, and ends with it.
end_systems() {
    [ "${#machines[@]}" -eq 0 ] || kill -KILL "${leaders[@]}" "${machines[@]}" 2>/dev/null || true
    end=$((SECONDS + 10))
    until remove_groups 2>/dev/null || [ "$SECONDS" -ge "$end" ]; do
        sleep 0.2
    done
}

# Removes the package of the selected system and purges it.
remove_and_purge() {
    inside dpkg -r fairhold >"$root.dpkg" 2>&1 || fail "dpkg -r: $(cat -- "$root.dpkg")"
    inside test -d /var/lib/private/fairhold || fail "removing the package has deleted the data"
    inside test -e /etc/fairhold/fairhold.toml || fail "removing the package has deleted the configuration"
    inside dpkg -P fairhold >"$root.dpkg" 2>&1 || fail "dpkg -P: $(cat -- "$root.dpkg")"
    inside test -e /etc/fairhold/ca.crt || fail "the purge has deleted a certificate"
    for path in /var/lib/private/fairhold /var/lib/fairhold /var/log/fairhold /etc/fairhold/fairhold.toml /usr/bin/fairhold; do
        if inside test -e "$path"; then fail "after the purge there is still $path"; fi
    done
    ok "removed: the data stays; purged: nothing stays"
}
