#!/usr/bin/env bash
# Makes the image from a program that is built, and prints its digest:
#     deploy/container/build.sh BINARY FOLDER [NAME]
# FOLDER gets fairhold-image.tar (an OCI archive). The base is the unpacked Debian packages of a few libraries. BASE=FOLDER takes
# another base. Two builds from the same program and the same packages have the same digest.
set -euo pipefail
binary=$(realpath -- "$1")
mkdir -p -- "$2"
out=$(realpath -- "$2")
name=${3:-localhost/fairhold}
here=$(realpath -- "$(dirname -- "${BASH_SOURCE[0]}")")
# The image has no files of the host's storage of containers, and leaves none there.
store=(--root "$out/containers" --runroot /run/fairhold-packages --storage-driver "${STORAGE_DRIVER:-overlay}")
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
base=$work/base

if [ -n "${BASE:-}" ]; then
    cp -a -- "$BASE" "$base"
else
    SOURCE_DATE_EPOCH=0 mmdebstrap --quiet --variant=extract --include=libc6,libstdc++6,libgcc-s1,ca-certificates \
        "${SUITE:-bookworm}" "$work/all.tar" ${MIRROR:+"$MIRROR"} >&2
    mkdir -p -- "$work/all" "$base"/{etc/ssl/certs,usr/share/doc,usr/bin,tmp}
    tar -xf "$work/all.tar" -C "$work/all"
    # Only libraries and licences: no program and no script of the packages. openssl is there for a script of ca-certificates.
    (cd -- "$work/all" && tar -c --exclude='libssl.*' --exclude='libcrypto.*' lib lib64 usr/lib | tar -x -C "$base")
    (cd -- "$work/all" && tar -c usr/share/doc/{libc6,gcc-*-base,ca-certificates}/copyright | tar -x -C "$base")
    find "$base" \( -path '*/gconv' -o -path '*/perl*' -o -path '*/ssl' -o -path '*/engines-*' -o -path '*/ossl-modules' \
        -o -path '*/audit' -o -path '*/cmake' -o -name 'systemd' -o -name 'debug' \) -type d -prune -not -path "$base/etc/*" -exec rm -rf {} +
    cat "$work/all"/usr/share/ca-certificates/mozilla/*.crt >"$base/etc/ssl/certs/ca-certificates.crt"
    printf 'root:x:0:0:root:/:/sbin/nologin\nfairhold:x:65532:65532::/var/lib/fairhold:/sbin/nologin\n' >"$base/etc/passwd"
    printf 'root:x:0:\nfairhold:x:65532:\n' >"$base/etc/group"
    printf 'hosts: files dns\n' >"$base/etc/nsswitch.conf"
    chmod 1777 "$base/tmp"
fi
mkdir -p -- "$base/var/lib" "$work/data/fairhold"
chmod 700 "$work/data/fairhold"
install -m 755 -- "$binary" "$work/fairhold"
strip --strip-unneeded "$work/fairhold"
find "$base" "$work/data" "$work/fairhold" -exec touch -hd @0 {} +

buildah "${store[@]}" bud --isolation chroot --timestamp 0 --format oci --layers=false --quiet \
    --file "$here/Containerfile" --tag "$name" "$work" >"$work/id"
rm -f -- "$out/fairhold-image.tar"
buildah "${store[@]}" push --quiet --digestfile "$work/digest" "$name" "oci-archive:$out/fairhold-image.tar:fairhold" >&2
cat -- "$work/digest"
echo
