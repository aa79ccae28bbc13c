#!/usr/bin/env bash
# Makes every package of deploy/ from a program that is built, and checks each: `./fairhold packages` calls this.
#     deploy/packages.sh BINARY FOLDER [OLDER]
# The cluster is upgraded from a package with the program OLDER, or else with BINARY and a lower version number.
# It prints a line for each kind of package: `verified`, or `not covered here` and why. It ends with 1 if a check fails.
set -euo pipefail
binary=$(realpath -- "$1")
mkdir -p -- "$2"
out=$(realpath -- "$2")
older=$(realpath -- "${3:-$binary}")
deploy=$(realpath -- "$(dirname -- "${BASH_SOURCE[0]}")")
cd -- "$deploy/.."
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || date +%s)}"
export SOURCE_DATE_EPOCH FAIRHOLD_BINARY="$binary"
unset NOTIFY_SOCKET
validator_version=1.37.0
suite=${SUITE:-bookworm}
# Empty: the mirror that mmdebstrap knows.
mirror=${MIRROR:-}
failed=
passed=
log=$out/log
mkdir -p -- "$log"

say() {
    printf 'fairhold: %s\n' "$*" >&2
}

verified() {
    printf '%-14s verified: %s\n' "$1" "$2"
}

not_covered() {
    printf '%-14s not covered here, because %s\n' "$1" "$2"
}

# Runs a check, and sets `passed`. If it fails, prints the end of its output.
check() {
    row=$1
    what=$2
    shift 2
    file="$log/$row-$(printf '%s' "$what" | tr -c 'A-Za-z0-9' '-' | cut -c 1-60).log"
    file=${file// /-}
    started=$SECONDS
    # Never call `check` in a condition: bash then ignores `set -e` in all that it calls, and a failed command passes.
    passed=
    (
        set -euo pipefail
        "$@"
    ) >"$file" 2>&1 &
    if wait "$!"; then
        passed=yes
        verified "$row" "$what ($((SECONDS - started)) s)"
    else
        printf '%-14s FAILED: %s\n' "$row" "$what"
        tail -n 25 -- "$file" >&2
        say "the whole output is in $file"
        failed=yes
    fi
}

is_root() {
    [ "$(id -u)" -eq 0 ]
}

has() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 || return 1
    done
}

# The first tool that is missing.
missing() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 || {
            printf '%s' "$tool"
            return
        }
    done
}

# systemd-analyze wants to see the program of the unit.
verify_unit() {
    mkdir -p -- "$out/unit"
    sed "s|^ExecStart=/usr/bin/fairhold|ExecStart=$binary|" "$deploy/systemd/fairhold.service" >"$out/unit/fairhold.service"
    complaints=$(systemd-analyze verify --man=no "$out/unit/fairhold.service" 2>&1)
    printf '%s\n' "$complaints"
    [ -z "$complaints" ]
}

secure_unit() {
    systemd-analyze security --offline=true --threshold=20 "$deploy/systemd/fairhold.service"
}

make_deb() {
    rm -f -- "$out"/*.deb
    "$deploy/debian/build.sh" "$binary" "$out"
}

repeat_deb() {
    "$deploy/debian/build.sh" "$binary" "$out/again"
    cmp -- "$out/again"/fairhold_*.deb "$out"/fairhold_*.deb
    rm -rf -- "$out/again"
}

# A Debian system with systemd, made once.
make_system() {
    if [ ! -e "$out/system.done" ]; then
        rm -rf -- "$out/system"
        mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,libstdc++6,curl,procps "$suite" "$out/system" ${mirror:+"$mirror"}
        touch -- "$out/system.done"
    fi
}

boot() {
    make_system
    rm -rf -- "$out/booted"
    cp -a -- "$out/system" "$out/booted"
    "$deploy/packages/boot.sh" "$(echo "$out"/fairhold_*.deb)" "$out/booted"
    rm -rf -- "$out/booted"
}

# The older package has older files, as that of an earlier release has.
upgrade_cluster() {
    make_system
    rm -rf -- "$out/older"
    trap 'rm -rf -- "$out/older" "$out/cluster"' EXIT
    SOURCE_DATE_EPOCH=$((SOURCE_DATE_EPOCH - 86400)) PACKAGE_VERSION=0~older-1 "$deploy/debian/build.sh" "$older" "$out/older"
    "$deploy/packages/cluster.sh" "$(echo "$out/older"/fairhold_*.deb)" "$(echo "$out"/fairhold_*.deb)" "$out/system" "$out/cluster"
}

make_wheel() {
    rm -f -- "$out"/*.whl
    python3 "$deploy/wheel/build.py" "$binary" "$out"
    mkdir -p -- "$out/again"
    python3 "$deploy/wheel/build.py" "$binary" "$out/again"
    cmp -- "$out/again"/*.whl "$out"/*.whl
    rm -rf -- "$out/again"
}

# A newcomer: an environment, the program, a cluster, a lock.
install_wheel() {
    rm -rf -- "$out/newcomer"
    started=$SECONDS
    python3 -m venv "$out/newcomer"
    "$out/newcomer/bin/pip" install --quiet --no-index "$out"/*.whl
    port=7971
    "$out/newcomer/bin/fairhold" dev --port "$port" >"$out/newcomer/dev.log" 2>&1 &
    cluster=$!
    trap 'kill "$cluster" 2>/dev/null; wait "$cluster" 2>/dev/null || true; rm -rf -- "$out/newcomer"' EXIT
    until curl -sf "localhost:$port/readyz" >/dev/null; do
        [ $((SECONDS - started)) -lt 60 ] || {
            cat -- "$out/newcomer/dev.log"
            return 1
        }
        sleep 0.1
    done
    curl -sf -X POST "localhost:$port/v1/locks/first?ttl=30s"
    echo
    echo "from nothing to the first lock: $((SECONDS - started)) s"
}

make_image() {
    for place in image image-again; do
        rm -rf -- "${out:?}/$place"
        "$deploy/container/build.sh" "$binary" "$out/$place" >"$log/$place.digest"
    done
    cat -- "$log/image.digest"
    cmp -- "$log/image.digest" "$log/image-again.digest"
    rm -rf -- "$out/image-again"
}

in_image() {
    # Without the right to raise limits, podman must not ask for more than it has.
    limits=(--ulimit nproc=4096:4096)
    hard=$(ulimit -Hn)
    [ "$hard" = unlimited ] || limits+=(--ulimit "nofile=$hard:$hard")
    # podman leaves a mount behind, and with it the next run could not delete the folder.
    unshare --mount podman --root "$out/image/containers" --runroot /run/fairhold-packages --storage-driver "${STORAGE_DRIVER:-overlay}" \
        --cgroup-manager cgroupfs --runtime runc run --rm --network none --read-only --cap-drop all "${limits[@]}" "$@"
}

check_image() {
    in_image localhost/fairhold version
    for shell in /bin/sh /bin/bash /bin/busybox /usr/bin/perl /usr/bin/openssl; do
        if in_image --entrypoint "$shell" localhost/fairhold -c true; then
            echo "there is $shell in the image"
            return 1
        fi
    done
    # The program is the only one, and belongs to root.
    rm -rf -- "$out/unpacked" && mkdir -p -- "$out/unpacked/layers"
    tar -xf "$out/image/fairhold-image.tar" -C "$out/unpacked"
    find "$out/unpacked/blobs" -type f -size +1k -exec tar -xzf {} -C "$out/unpacked/layers" ';' 2>/dev/null || true
    programs=$(cd -- "$out/unpacked/layers" && find . -type f -perm /111 ! -name '*.so*' ! -name 'ld-linux*')
    rm -rf -- "$out/unpacked"
    echo "programs: $programs"
    [ "$programs" = ./usr/bin/fairhold ]
}

validator() {
    "$out/validator/bin/kubernetes-validate" --strict --quiet "$@"
}

make_validator() {
    if [ ! -x "$out/validator/bin/kubernetes-validate" ]; then
        python3 -m venv "$out/validator"
        "$out/validator/bin/pip" install --quiet "kubernetes-validate==$validator_version"
    fi
}

validate() {
    validator "$deploy"/kubernetes/base/{services,statefulset,disruption,network}.yaml
    # The check can fail.
    sed 's/readinessProbe/readynessProbe/' "$deploy/kubernetes/base/statefulset.yaml" >"$out/misspelt.yaml"
    if validator "$out/misspelt.yaml"; then
        echo "a misspelt probe passes"
        return 1
    fi
    rm -f -- "$out/misspelt.yaml"
}

render() {
    for folder in kubernetes kubernetes/first-start; do
        kubectl kustomize "$deploy/$folder" >"$out/rendered.yaml"
        validator "$out/rendered.yaml"
    done
    rm -f -- "$out/rendered.yaml"
}

# Otherwise a user of the environment could make the program fail.
no_failpoints() {
    grep -aqF FAIRHOLD_LISTEN "$binary" || {
        echo "the search does not find a text that the program contains"
        return 1
    }
    for text in FAIRHOLD_FAILPOINTS FAIRHOLD_PLANTED storage.log.write raft.apply.begin; do
        ! grep -aqF "$text" "$binary" || {
            echo "the program contains $text: build it without the features failpoints and planted"
            return 1
        }
    done
}

containers() {
    "$out/validator/bin/python" "$deploy/packages/containers.py" "$1" "$out/image" localhost/fairhold "$out/work"
    rm -rf -- "$out/work"
}

say "making and checking the packages of $("$binary" --version) in $out"

check program "no failpoints and no planted bugs" no_failpoints

if has systemd-analyze; then
    check unit "systemd-analyze verify" verify_unit
    check unit "systemd-analyze security: exposure of at most 2.0" secure_unit
else
    not_covered unit "systemd-analyze is missing"
fi

if ! has dpkg-deb dpkg-shlibdeps objcopy; then
    not_covered deb "$(missing dpkg-deb dpkg-shlibdeps objcopy) is missing"
else
    check deb "made: program, unit, user, manual page, completions, debug symbols" make_deb
fi
if [ -n "${passed:-}" ] && has dpkg-deb dpkg-shlibdeps objcopy; then
    check deb "made again: the same bytes" repeat_deb
    if has lintian; then
        check deb "lintian: no errors" lintian --allow-root --fail-on error "$out"/*.deb
    else
        not_covered deb "lintian is missing"
    fi
    if ! is_root; then
        not_covered unit,deb "booting a system in a container needs root"
    elif ! has mmdebstrap systemd-nspawn ip; then
        not_covered unit,deb "$(missing mmdebstrap systemd-nspawn ip) is missing"
    else
        check unit,deb "booted in a container: start, ready, kill -9, watchdog, stop, exit codes 2 and 3, removal, purge" boot
        check unit,deb "three systems under load: cluster formed, kill -9, stop, upgrade of each in turn, removal, purge; no acquire lost" upgrade_cluster
        [ "$older" != "$binary" ] || not_covered deb "an upgrade from another program than this one needs --older FILE"
    fi
fi

if ! has python3 curl readelf; then
    not_covered wheel "$(missing python3 curl readelf) is missing"
else
    check wheel "made twice: the same bytes" make_wheel
fi
if [ -n "$passed" ] && has python3 curl readelf; then
    check wheel "from nothing to the first lock: venv, pip install, fairhold dev, curl" install_wheel
    not_covered wheel "systems with another glibc, and aarch64, need other machines"
fi

image=
if ! is_root; then
    not_covered image "building without root is not tested"
elif ! has buildah podman runc mmdebstrap; then
    not_covered image "$(missing buildah podman runc mmdebstrap) is missing"
else
    check image "made twice: the same digest" make_image
    image=$passed
fi
if [ -n "$image" ]; then
    check image "runs read-only as its own user without capabilities; it has no shell" check_image
fi

check kubernetes "tools (kubernetes-validate $validator_version)" make_validator
if [ -z "$passed" ]; then
    not_covered compose "PyYAML is missing"
    not_covered kubernetes "kubernetes-validate is missing"
else
    if [ -n "$image" ] && has ip; then
        check compose "three containers with their own network form a cluster, stop with 0 and come back" containers compose
    else
        not_covered compose "it needs the image, and ip"
    fi
    not_covered compose "docker compose itself, with its networks and published ports, is not here"
    check kubernetes "kubernetes-validate --strict" validate
    if ! has kubectl; then
        not_covered kubernetes "rendering the kustomizations needs kubectl"
    else
        check kubernetes "kubectl kustomize, and kubernetes-validate --strict of what it prints" render
        if [ -n "$image" ] && has ip; then
            check kubernetes "pods as containers: first start, join token, rolling restart, a lost volume" containers kubernetes
        else
            not_covered kubernetes "running the pods needs the image, and ip"
        fi
    fi
    not_covered kubernetes "a kubelet, which acts on probes, volumes, the disruption budget and the network policy, is not here"
fi
not_covered others "there is no Helm chart, no Ansible role and no operator: a package and a unit are all that Ansible needs"

[ -z "$failed" ] || exit 1
