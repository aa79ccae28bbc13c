#!/usr/bin/env bash
# Makes the Debian package and that of its debug symbols from a program that is built:
#     deploy/debian/build.sh BINARY FOLDER
# With the same program and the same SOURCE_DATE_EPOCH, the packages have the same bytes. PACKAGE_VERSION is the version of the
# packages; without it, it follows from that of the program.
set -euo pipefail
binary=$(realpath -- "$1")
mkdir -p -- "$2"
out=$(realpath -- "$2")
deploy=$(realpath -- "$(dirname -- "${BASH_SOURCE[0]}")/..")
: "${SOURCE_DATE_EPOCH:?set it to the time of the commit}"
export SOURCE_DATE_EPOCH
umask 022

upstream=$("$binary" --version | cut -d ' ' -f 2)
version=${PACKAGE_VERSION:-$upstream-1}
arch=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
main=$work/main
symbols=$work/symbols

# Copies a file to a path of the package, with a mode.
put() {
    install -D -m "$3" -- "$1" "$main/$2"
}

fill() {
    sed -e "s/@VERSION@/$version/g" -e "s/@UPSTREAM@/$upstream/g" -e "s/@ARCH@/$arch/g" -e "s/@SIZE@/${size:-0}/g" \
        -e "s/@DEPENDS@/${depends:-}/g" -e "s/@BUILD_ID@/${build_id:-}/g" -e "s/@DATE@/$(LC_ALL=C date -uRd "@$SOURCE_DATE_EPOCH")/g" "$1"
}

put "$binary" usr/bin/fairhold 755
put "$deploy/systemd/fairhold.service" usr/lib/systemd/system/fairhold.service 644
put "$deploy/systemd/fairhold.sysusers" usr/lib/sysusers.d/fairhold.conf 644
put "$deploy/systemd/fairhold.toml" etc/fairhold/fairhold.toml 644
put "$deploy/systemd/fairhold.toml" usr/share/doc/fairhold/examples/fairhold.toml 644
put "$deploy/debian/copyright" usr/share/doc/fairhold/copyright 644
"$binary" man >"$work/man"
put "$work/man" usr/share/man/man1/fairhold.1 644
"$binary" completions bash >"$work/bash"
put "$work/bash" usr/share/bash-completion/completions/fairhold 644
"$binary" completions zsh >"$work/zsh"
put "$work/zsh" usr/share/zsh/vendor-completions/_fairhold 644
"$binary" completions fish >"$work/fish"
put "$work/fish" usr/share/fish/vendor_completions.d/fairhold.fish 644
fill "$deploy/debian/changelog.in" >"$work/changelog"
put "$work/changelog" usr/share/doc/fairhold/changelog.Debian 644
gzip -9n "$main/usr/share/man/man1/fairhold.1" "$main/usr/share/doc/fairhold/changelog.Debian"

# The symbols are named by the id of the build, by which a debugger finds them.
build_id=$(readelf -n "$binary" | sed -n 's/^ *Build ID: //p')
debug=$symbols/usr/lib/debug/.build-id/${build_id:0:2}/${build_id:2}.debug
mkdir -p -- "$(dirname -- "$debug")" "$symbols/usr/share/doc"
objcopy --only-keep-debug --compress-debug-sections "$binary" "$debug"
chmod 644 "$debug"
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$main/usr/bin/fairhold"
ln -s fairhold "$symbols/usr/share/doc/fairhold-dbgsym"

mkdir -p -- "$work/debian" "$main/DEBIAN" "$symbols/DEBIAN"
printf 'Source: fairhold\n\nPackage: fairhold\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd -- "$work" && dpkg-shlibdeps -O "$main/usr/bin/fairhold" | sed 's/^shlibs:Depends=//')
size=$(du -sk --apparent-size --exclude=DEBIAN "$main" | cut -f 1)
fill "$deploy/debian/control.in" >"$main/DEBIAN/control"
echo /etc/fairhold/fairhold.toml >"$main/DEBIAN/conffiles"
install -m 755 -- "$deploy"/debian/{postinst,prerm,postrm} "$main/DEBIAN"
size=$(du -sk --apparent-size --exclude=DEBIAN "$symbols" | cut -f 1)
fill "$deploy/debian/control-dbgsym.in" >"$symbols/DEBIAN/control"
for tree in "$main" "$symbols"; do
    (cd -- "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    chmod 644 "$tree/DEBIAN/md5sums" "$tree/DEBIAN/control"
    find "$tree" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
done
# xz would save a third of the size, and takes much longer: 11.7 MB instead of 17.1 MB.
dpkg-deb --root-owner-group -Zgzip --build "$main" "$out/fairhold_${version}_$arch.deb" >&2
dpkg-deb --root-owner-group -Zgzip --build "$symbols" "$out/fairhold-dbgsym_${version}_$arch.deb" >&2
printf '%s\n' "$out/fairhold_${version}_$arch.deb"
