#!/usr/bin/env python3
"""Makes a Python wheel around a program that is built: `pip install` of it gives the command `fairhold`.

    deploy/wheel/build.py BINARY FOLDER

A wheel is a zip file. Its tag names the oldest glibc with the symbols that the program needs, so that pip installs it
only where it runs. With the same program, the wheel has the same bytes."""

import base64
import hashlib
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

METADATA = """Metadata-Version: 2.1
Name: fairhold
Version: {version}
Summary: Fair locks and coordination on three or five nodes
License: Apache-2.0
Requires-Python: >=3.8
Description-Content-Type: text/markdown

One program, server and client. `fairhold dev` starts a trial cluster on this machine, and
`fairhold help` lists the commands.
"""

# The newest versions of symbols that each tag allows, oldest first, as in the policies of auditwheel.
POLICIES = [
    ("manylinux_2_28", {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}),
    ("manylinux_2_31", {"GLIBC": (2, 31), "GLIBCXX": (3, 4, 28), "CXXABI": (1, 3, 12), "GCC": (7, 0, 0)}),
    ("manylinux_2_34", {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (7, 0, 0)}),
    ("manylinux_2_35", {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0, 0)}),
    ("manylinux_2_39", {"GLIBC": (2, 39), "GLIBCXX": (3, 4, 33), "CXXABI": (1, 3, 14), "GCC": (14, 0, 0)}),
]
# The libraries that every system with these tags has.
LIBRARIES = re.compile(r"^(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+|ld-linux-.*)\.so\.\d+$")


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def platform_tag(binary):
    """The oldest tag whose systems have all the symbols and libraries that the program needs."""
    foreign = [name for name in re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", binary)) if not LIBRARIES.match(name)]
    if foreign:
        raise SystemExit(f"the program needs libraries that other systems may lack: {foreign}")
    needed = re.findall(r"Name: (GLIBC|GLIBCXX|CXXABI|GCC)_([0-9.]+)", output("readelf", "-VW", binary))
    for tag, newest in POLICIES:
        if all(tuple(map(int, version.split("."))) <= newest[family] for family, version in needed):
            return f"{tag}_{platform.machine()}"
    raise SystemExit("the program needs a newer glibc than any known tag has")


def main(binary, folder):
    version = output(binary, "--version").split()[1]
    tag = f"py3-none-{platform_tag(binary)}"
    info = f"fairhold-{version}.dist-info"
    license_text = (Path(__file__).parents[2] / "LICENSE").read_bytes()
    wheel = f"Wheel-Version: 1.0\nGenerator: deploy/wheel/build.py\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files = [
        (f"fairhold-{version}.data/scripts/fairhold", Path(binary).read_bytes(), 0o755),
        (f"{info}/licenses/LICENSE", license_text, 0o644),
        (f"{info}/METADATA", METADATA.format(version=version).encode(), 0o644),
        (f"{info}/WHEEL", wheel.encode(), 0o644),
    ]
    record = ""
    for name, data, _ in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), 0o644))
    path = Path(folder) / f"fairhold-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data, mode in files:
            entry = zipfile.ZipInfo(name)  # its time is fixed: 1980
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data)
    print(path)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(sys.argv[1], sys.argv[2])
