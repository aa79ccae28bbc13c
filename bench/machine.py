"""The machine and the build that the figures are of."""

import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import time

FSYNCS = 200


def described(folder):
    """The machine. This measures the disk too, because every durable write waits for it."""
    cpu = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "?")
    memory = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) / 1024 / 1024
    folder.mkdir(parents=True, exist_ok=True)
    mounts = [line.split()[1:3] for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
    above = [mount for mount in mounts if folder.resolve().is_relative_to(mount[0])]
    kind = max(above, key=lambda mount: len(mount[0]))[1]
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "kernel": platform.release(),
        "file_system": kind,
        "fdatasync_ms": fsync_time(folder),
        "load_average": os.getloadavg()[0],
        "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }


def fsync_time(folder):
    """The median time of an append of 4 KiB and its fdatasync, in milliseconds."""
    path = folder / "fsync"
    times = []
    with open(path, "wb", buffering=0) as file:
        for _ in range(FSYNCS):
            began = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    path.unlink()
    return round(statistics.median(times) * 1000, 3)


def fairhold_version(binary, root):
    """The version of the binary, with the commit of the tree if git knows it."""
    version = subprocess.run([binary, "version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    if shutil.which("git"):
        commit = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False).stdout.strip()
        version += f" ({commit})" if commit else ""
    return version
