#!/usr/bin/env python3
"""Runs what the compose file and the Kubernetes manifests say, with podman, and checks that a cluster forms.

    deploy/packages/containers.py compose|kubernetes STORE IMAGE WORK

Each container has its own network namespace with its own address, and the command, environment, user and mounts of the
file. STORE has podman's storage with IMAGE, and WORK is for certificates and volumes. It needs root, podman, runc, ip and
PyYAML; for kubernetes also kubectl, which only renders the manifests. It changes nothing on this machine: it runs in its
own namespaces, with all its processes."""

import json
import os
import resource
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import yaml

DEPLOY = Path(__file__).resolve().parent.parent
NETWORK = "10.77.0"
NAMES = ["fairhold-1", "fairhold-2", "fairhold-3"]
USER = 65532


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"FAILED ({done.returncode}): {' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def wait_for(what, seconds, holds):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"FAILED: not within {seconds} s: {what}")
        time.sleep(0.3)


def address(name):
    return f"{NETWORK}.{NAMES.index(name) + 1}"


def get(name, path):
    """The status of a probe's answer."""
    try:
        with urllib.request.urlopen(f"http://{address(name)}:7371{path}", timeout=2) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


class Machine:
    """The switch to which all containers are connected, and podman."""

    def __init__(self, store, image, work):
        self.podman = ["podman", "--root", f"{store}/containers", "--runroot", "/run/fairhold-packages", "--cgroup-manager", "cgroupfs"]
        self.podman += ["--runtime", "runc", "--storage-driver", os.environ.get("STORAGE_DRIVER", "overlay")]
        self.image = image
        self.work = Path(work)
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        run("mount", "-t", "tmpfs", "tmpfs", "/run")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "switch", "type", "bridge")
        run("ip", "address", "add", f"{NETWORK}.254/24", "dev", "switch")
        run("ip", "link", "set", "switch", "up")
        self.hosts = self.work / "hosts"
        lines = [f"{address(name)} {name} {name}.fairhold\n" for name in NAMES]
        self.hosts.write_text("127.0.0.1 localhost\n" + "".join(lines))
        run("mount", "--bind", self.hosts, "/etc/hosts")
        for name in NAMES:
            run("ip", "netns", "add", name)
            run("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", f"to-{name}", "master", "switch", "up")
            run("ip", "-n", name, "address", "add", f"{address(name)}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")

    def start(self, name, command, environment, volumes):
        """Starts a container: read-only, without rights, as the user of the image. A volume has a source, a path and a mode."""
        limits = [f"--ulimit={kind}={hard}:{hard}" for kind, hard in [("nofile", hard_limit("NOFILE")), ("nproc", hard_limit("NPROC"))]]
        options = ["--name", name, "--network", f"ns:/run/netns/{name}", "--no-hosts", "--volume", f"{self.hosts}:/etc/hosts:ro"]
        options += ["--read-only", "--read-only-tmpfs=false", "--cap-drop", "all", "--security-opt", "no-new-privileges", *limits]
        for key, value in environment.items():
            options += ["--env", f"{key}={value}"]
        for volume in volumes:
            options += ["--volume", volume]
        run(*self.podman, "run", "--detach", *options, self.image, *command)

    def stop(self, name):
        """Stops a container in good order, and removes it."""
        run(*self.podman, "stop", "--time", "30", name)
        code = run(*self.podman, "inspect", "--format", "{{.State.ExitCode}}", name).strip()
        if code != "0":
            raise SystemExit(f"FAILED: {name} stopped with {code}\n{run(*self.podman, 'logs', name)}")
        run(*self.podman, "rm", name)

    def clean(self):
        for kind in (["rm", "--force", "--all", "--volumes"], ["volume", "rm", "--force", "--all"]):
            subprocess.run([*self.podman, *kind], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    def logs(self):
        for name in NAMES:
            logs = subprocess.run([*self.podman, "logs", "--tail", "15", name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            print(f"--- {name}\n{logs.stdout}", file=sys.stderr)

    def fairhold(self, *arguments):
        """Runs a command of a client, on the machine with the switch."""
        return run(os.environ["FAIRHOLD_BINARY"], *arguments, env={"PATH": os.environ["PATH"], **self.client})

    def certificates(self, cluster, hosts):
        """What docs/guides/install.md says about certificates."""
        binary = os.environ["FAIRHOLD_BINARY"]
        run(binary, "cert", "ca", "--name", cluster, "--out", self.work / "ca")
        run(binary, "cert", "node", "--ca", self.work / "ca", "--host", hosts, "--out", self.work / "node")
        node = self.work / "node"
        (node / "admin.token").write_text(os.urandom(32).hex() + "\n")
        (node / "admin.token").chmod(0o600)
        urls = ",".join(f"https://{host}:7171" for host in hosts.split(",")[:3])
        token = node / "admin.token"
        self.client = {"FAIRHOLD_ENDPOINT": urls, "FAIRHOLD_CACERT": str(node / "ca.crt"), "FAIRHOLD_AUTH_TOKEN_FILE": str(token)}
        return node

    def all_ready(self, seconds):
        wait_for("all nodes are ready", seconds, lambda: all(get(name, "/readyz") == 200 for name in NAMES))

    def locks(self):
        self.fairhold("lock", "packages", "--", "true")

    def members(self):
        members = json.loads(self.fairhold("cluster", "members", "--output", "json"))
        return sorted(member["id"] for member in members["members"])


def hard_limit(kind):
    hard = resource.getrlimit(getattr(resource, f"RLIMIT_{kind}"))[1]
    return 65536 if hard == resource.RLIM_INFINITY else hard


def compose(machine):
    node = machine.certificates("compose", "fairhold-1,fairhold-2,fairhold-3,localhost")
    for path in [node, *node.iterdir()]:
        os.chown(path, USER, USER)
    file = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())
    services = file["services"]
    if list(services) != NAMES:
        raise SystemExit(f"FAILED: the services are {list(services)}")

    def start(name):
        service = services[name]
        volumes = []
        for volume in service["volumes"]:
            source, rest = volume.split(":", 1)
            if not source.startswith("."):
                if source not in file["volumes"]:
                    raise SystemExit(f"FAILED: {source} is no volume of the file")
                volumes.append(f"{source}:{rest}")
            else:
                volumes.append(f"{machine.work / source}:{rest}")
        machine.start(name, service["command"], service["environment"], volumes)

    for name in NAMES:
        start(name)
    machine.all_ready(60)
    print("compose: three containers have formed a cluster")
    for name in NAMES:
        test = services[name]["healthcheck"]["test"]
        if test[0] != "CMD":
            raise SystemExit("FAILED: a health check needs a shell")
        run(*machine.podman, "exec", name, *test[1:])
    print("compose: the health check succeeds in each of them")
    machine.locks()
    for name in NAMES:
        machine.stop(name)
        start(name)
        machine.all_ready(60)
    if machine.members() != [1, 2, 3]:
        raise SystemExit(f"FAILED: members {machine.members()}")
    machine.locks()
    print("compose: each stops with 0, and comes back with its volume; a client takes a lock by TLS")


def kubernetes(machine):
    hosts = ",".join([f"{name}.fairhold" for name in NAMES] + ["fairhold-clients", "localhost"])
    node = machine.certificates("kubernetes", hosts)
    secrets = {"fairhold-node": node, "fairhold-join": machine.work / "join"}
    secrets["fairhold-join"].mkdir()

    def protect(folder):
        """A Secret's files belong to root, and the group of the pod may read them."""
        for path in folder.iterdir():
            os.chown(path, 0, USER)
            path.chmod(0o440)
        os.chown(folder, 0, USER)
        folder.chmod(0o750)

    protect(node)

    def rendered(folder):
        documents = list(yaml.safe_load_all(run("kubectl", "kustomize", DEPLOY / folder)))
        sets = [document for document in documents if document["kind"] == "StatefulSet"]
        return sets[0]["spec"]

    def start(name, spec, seconds=30):
        pod = spec["template"]["spec"]
        container = pod["containers"][0]
        if pod["securityContext"]["runAsUser"] != USER:
            raise SystemExit("FAILED: the pod's user is not that of the image")
        fields = {"metadata.name": name, "metadata.labels['apps.kubernetes.io/pod-index']": name.split("-")[1]}
        environment = {}
        for variable in container["env"]:
            value = variable.get("value")
            if value is None:
                value = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
            for known, text in environment.items():
                value = value.replace(f"$({known})", text)
            environment[variable["name"]] = value
        volumes = []
        for mount in container["volumeMounts"]:
            given = [volume for volume in pod["volumes"] if volume["name"] == mount["name"]]
            source = secrets[given[0]["secret"]["secretName"]] if given else f"{mount['name']}-{name}"
            volumes.append(f"{source}:{mount['mountPath']}" + (":ro" if mount.get("readOnly") else ""))
        machine.start(name, container["args"], environment, volumes)
        probes = [container[kind]["httpGet"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        if [(probe["path"], ports[probe["port"]]) for probe in probes] != [("/livez", 7371), ("/livez", 7371), ("/readyz", 7371)]:
            raise SystemExit("FAILED: the probes")
        wait_for(f"{name} is alive", seconds, lambda: get(name, "/livez") == 200)

    spec = rendered("kubernetes/first-start")
    first = spec["ordinals"]["start"]
    if [f"fairhold-{first + index}" for index in range(spec["replicas"])] != NAMES:
        raise SystemExit("FAILED: the names of the pods")
    for name in NAMES:
        start(name, spec)
    machine.all_ready(60)
    machine.locks()
    print("kubernetes: three pods of first-start/ have formed a cluster, by the number of each pod")

    machine.fairhold("cluster", "invite", "--standing", "--up-to", "5", "--out", machine.work / "join/token")
    protect(secrets["fairhold-join"])
    spec = rendered("kubernetes")
    for name in NAMES:
        machine.stop(name)
        start(name, spec)
        machine.all_ready(60)
    if machine.members() != [1, 2, 3]:
        raise SystemExit(f"FAILED: members {machine.members()}")
    print("kubernetes: each pod comes back with the manifests of a cluster that runs, one after the other")

    machine.stop("fairhold-2")
    run(*machine.podman, "volume", "rm", "data-fairhold-2")
    start_at = time.monotonic()
    # Until the cluster has admitted it, a minute later, it is not alive: the startup probe allows ten minutes.
    start("fairhold-2", spec, 300)
    machine.all_ready(180)
    wait_for("node 4 has the place of node 2", 60, lambda: machine.members() == [1, 3, 4])
    machine.locks()
    print(f"kubernetes: a pod that had lost its volume came back by the join token after {time.monotonic() - start_at:.0f} s")
    machine.stop("fairhold-2")
    start("fairhold-2", spec)
    machine.all_ready(60)
    print("kubernetes: it starts again with its new volume")


def main():
    if len(sys.argv) != 5 or sys.argv[1] not in ("compose", "kubernetes"):
        raise SystemExit(__doc__)
    if os.environ.get("FAIRHOLD_ALONE") != "1":
        # All processes, containers too, end with this one.
        alone = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
        os.execvpe(alone[0], [*alone, sys.executable, *sys.argv], {**os.environ, "FAIRHOLD_ALONE": "1"})
    machine = Machine(*sys.argv[2:])
    try:
        {"compose": compose, "kubernetes": kubernetes}[sys.argv[1]](machine)
    except BaseException:
        machine.logs()
        raise
    finally:
        machine.clean()


if __name__ == "__main__":
    main()
