"""Starts, stops, kills and measures the systems that bench/run compares. Each has its own processes, ended by process id."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

READY_WITHIN = 60.0
GONE_WITHIN = 30.0
LOOK_EVERY = 0.05
PACKAGES = ["zookeeper", "redis-server", "protobuf-compiler", "libprotobuf-dev"]
# These come from a later release of Debian, which has newer ones. They run with the libraries of this release.
NEWER, LATER_RELEASE = ["etcd-server", "libzookeeper-java"], "forky"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


class Trouble(Exception):
    """Something cannot be measured; the text is for the person who runs this."""


def fail(text):
    raise Trouble(text)


def attempt(what, problems, work):
    """Does a part. If it fails, the page says so, and the other parts still run."""
    try:
        work()
    except (Trouble, OSError, ValueError, KeyError, IndexError, subprocess.SubprocessError) as problem:
        say(f"{what}: {problem}")
        problems.append(f"{what}: {str(problem).splitlines()[0] if str(problem) else type(problem).__name__}")


class Tools:
    """The programs of the other systems. Nothing is installed on the machine: packages are unpacked into a separate folder."""

    def __init__(self, folder):
        self.folder = folder
        self.root = folder / "root"
        self.newer = folder / "newer"

    @property
    def libraries(self):
        """The folders of the unpacked libraries, as LD_LIBRARY_PATH."""
        return os.pathsep.join(str(path) for path in sorted((self.root / "usr/lib").glob("*-linux-*")))

    def get(self):
        """Downloads what is missing."""
        if shutil.which("java") is None:
            fail("ZooKeeper needs Java, which is missing: apt-get install default-jre-headless")
        if not (self.root / "usr/share/java/zookeeper.jar").exists() or not (self.root / "usr/include/google").exists():
            self.unpack_packages()
        if not self.etcd.exists() or not self.zookeeper.exists():
            self.unpack_newer()

    @property
    def etcd(self):
        return self.newer / "usr/bin/etcd"

    @property
    def zookeeper(self):
        return self.newer / "usr/share/java/zookeeper.jar"

    def unpack_packages(self):
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            fail("ZooKeeper, Redis and protoc come from Debian's packages, but apt-get or dpkg is missing")
        archives = self.folder / "archives"
        (archives / "partial").mkdir(parents=True, exist_ok=True)
        say(f"downloading {', '.join(PACKAGES)} and their dependencies into {self.folder}")
        command = ["apt-get", "install", "--download-only", "--reinstall", "--no-install-recommends", "-y", "-q"]
        command += ["-o", f"Dir::Cache::archives={archives}", "-o", "Debug::NoLocking=true", *PACKAGES]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            fail(f"cannot download the packages; do you need `apt-get update` first?\n{done.stderr}")
        for archive in sorted(archives.glob("*.deb")):
            subprocess.run(["dpkg", "-x", archive, self.root], check=True)

    def unpack_newer(self):
        """Downloads the packages of a later release, with package lists in a separate folder."""
        say(f"downloading {', '.join(NEWER)} of Debian {LATER_RELEASE} into {self.folder}")
        site = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", "Label: Debian"], capture_output=True, text=True, check=False)
        if not site.stdout:
            fail("etcd and ZooKeeper come from Debian's packages, but this machine has no package lists of Debian")
        apt = self.folder / "later"
        for part in ("lists/partial", "cache/archives/partial"):
            (apt / part).mkdir(parents=True, exist_ok=True)
        (apt / "sources.list").write_text(f"deb [signed-by={KEYRING}] {site.stdout.split()[0]} {LATER_RELEASE} main\n")
        options = {"Dir::State::lists": apt / "lists", "Dir::Cache": apt / "cache", "Dir::Etc::sourcelist": apt / "sources.list"}
        options |= {"Dir::Etc::sourceparts": "/dev/null", "Debug::NoLocking": "true", "APT::Sandbox::User": "root"}
        words = [word for name, choice in options.items() for word in ("-o", f"{name}={choice}")]
        for command in (["update"], ["download", *NEWER]):
            done = subprocess.run(["apt-get", "-q", *words, *command], cwd=apt, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                fail(f"cannot download etcd and ZooKeeper:\n{done.stderr}")
        for archive in sorted(apt.glob("*.deb")):
            subprocess.run(["dpkg", "-x", archive, self.newer], check=True)

    def environment(self):
        """The environment of programs from the unpacked packages."""
        return {**os.environ, "LD_LIBRARY_PATH": self.libraries}

    def protoc(self):
        """A script that runs protoc with its libraries, for etcd's client, whose build calls it."""
        script = self.folder / "protoc"
        script.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{self.libraries}" exec "{self.root}/usr/bin/protoc" "$@"\n')
        script.chmod(0o755)
        return script

    def versions(self):
        """The versions of the compared systems."""
        etcd = [self.etcd, "--version"]
        redis = [self.root / "usr/bin/redis-server", "--version"]
        jar = self.zookeeper.resolve()
        java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
        first_line = lambda command: subprocess.run(command, capture_output=True, text=True, check=True, env=self.environment()).stdout
        return {
            "ZooKeeper": f"{jar.stem.removeprefix('zookeeper-')}, {java}",
            "etcd": first_line(etcd).splitlines()[0].removeprefix("etcd Version: "),
            "Redis": first_line(redis).split("v=")[1].split()[0],
        }


class Server:
    """One process."""

    def __init__(self, command, log, environment=None):
        self.command, self.log, self.environment = [str(word) for word in command], log, environment
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment, start_new_session=True
            )

    def kill(self):
        """Kills it, as in a crash."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(GONE_WITHIN)
            self.process = None

    def end(self):
        """Ends it with SIGTERM, or with SIGKILL if it does not react."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(GONE_WITHIN)
        except subprocess.TimeoutExpired:
            say(f"killing {self.command[0]}, which does not react to SIGTERM")
            self.process.kill()
            self.process.wait(GONE_WITHIN)
        self.process = None

    def cpu(self):
        """Seconds of processor time since its start."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def resident(self):
        """Bytes in memory."""
        return int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * PAGE


class Cluster:
    """The servers of one system, in their own folder."""

    nodes = 3
    # Seconds for which each load runs before it is measured for the first time.
    warm_at_least, warm_at_most = 5.0, 15.0

    def __init__(self, tools, folder, port):
        self.tools, self.folder, self.port = tools, folder, port
        self.ports = [port + index for index in range(self.nodes)]
        self.endpoints = [f"127.0.0.1:{port}" for port in self.ports]
        self.servers = []

    def __enter__(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.servers = [Server(*self.prepared(index)) for index in range(self.nodes)]
        try:
            for server in self.servers:
                server.start()
            for index in range(self.nodes):
                self.wait_ready(index)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def wait_ready(self, index):
        until = time.monotonic() + READY_WITHIN
        while not self.is_ready(index):
            server = self.servers[index]
            if time.monotonic() > until or server.process.poll() is not None:
                tail = pathlib.Path(server.log).read_text(errors="replace")[-2000:]
                fail(f"{type(self).__name__} node {index + 1} is not ready after {READY_WITHIN:.0f} s, or has ended:\n{tail}")
            time.sleep(LOOK_EVERY)

    def restart(self, index):
        self.servers[index].start()
        self.wait_ready(index)

    def leader_now(self):
        """The index of the leader; waits until there is one."""
        until = time.monotonic() + READY_WITHIN
        while time.monotonic() < until:
            leader = self.leader()
            if leader is not None:
                return leader
            time.sleep(LOOK_EVERY)
        fail(f"{type(self).__name__} has no leader")

    def cpu(self):
        return sum(server.cpu() for server in self.servers)

    def resident(self):
        return sum(server.resident() for server in self.servers)


def http(url, body=None, timeout=2):
    """The JSON of an answer, or None if there is none."""
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"} if data else {})
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            text = answer.read()
            return json.loads(text) if text[:1] == b"{" else {"text": text}
    except (OSError, urllib.error.URLError, ValueError):
        return None


def say_to(endpoint, word):
    """The answer to one line on a new connection, or None."""
    host, port = endpoint.split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2) as connection:
            connection.sendall(word)
            connection.settimeout(2)
            return connection.recv(65536).decode(errors="replace")
    except OSError:
        return ""


class Fairhold(Cluster):
    """Three nodes as `fairhold serve` starts them, with nothing set but addresses and folders, unless a part adds flags."""

    binary = None
    flags = ()

    def prepared(self, index):
        members = []
        for member, port in enumerate(self.ports):
            members += ["--member", f"{member + 1}=http://127.0.0.1:{port},127.0.0.1:{port + 10}"]
        command = [self.binary, "serve", "--id", index + 1, "--data", self.folder / f"node-{index + 1}", *members, *self.flags]
        return command, self.folder / f"node-{index + 1}.log"

    def is_ready(self, index):
        return http(f"http://{self.endpoints[index]}/readyz") is not None

    def leader(self):
        for endpoint in self.endpoints:
            cluster = http(f"http://{endpoint}/v1/cluster")
            if cluster and cluster.get("leader"):
                return int(cluster["leader"]) - 1
        return None

    def term(self):
        """The newest Raft term that a node knows: every election raises it."""
        answers = [http(f"http://{endpoint}/v1/cluster") for endpoint in self.endpoints]
        terms = [int(answer["term"]) for answer in answers if answer]
        if not terms:
            fail("no node reports its term")
        return max(terms)


class ZooKeeper(Cluster):
    """Three servers with the values of the sample configuration. Each write is on the disk of a majority before its answer."""

    # The JVM first interprets, then compiles, then compiles again what is used most.
    warm_at_least, warm_at_most = 15.0, 40.0

    def prepared(self, index):
        home = self.folder / f"node-{index + 1}"
        home.mkdir()
        (home / "myid").write_text(f"{index + 1}\n")
        lines = ["tickTime=2000", "initLimit=10", "syncLimit=5", f"dataDir={home}", f"clientPort={self.ports[index]}"]
        lines += ["clientPortAddress=127.0.0.1", "maxClientCnxns=0", "4lw.commands.whitelist=srvr", "admin.enableServer=false"]
        lines += [f"server.{n + 1}=127.0.0.1:{port + 10}:{port + 20}" for n, port in enumerate(self.ports)]
        configuration = self.folder / f"node-{index + 1}.cfg"
        configuration.write_text("\n".join(lines) + "\n")
        logging = self.folder / f"log4j-{index + 1}.properties"
        logging.write_text("log4j.rootLogger=WARN, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\nlog4j.appender.out.layout=org.apache.log4j.SimpleLayout\n")
        places = [self.tools.zookeeper.parent, self.tools.root / "usr/share/java", pathlib.Path("/usr/share/java")]
        jars = os.pathsep.join(f"{place}/*" for place in places if place.exists())
        command = ["java", "-Xmx1000m", f"-Dlog4j.configuration=file:{logging}", "-cp", jars]
        return command + ["org.apache.zookeeper.server.quorum.QuorumPeerMain", configuration], self.folder / f"node-{index + 1}.log"

    def is_ready(self, index):
        return "Mode:" in say_to(self.endpoints[index], b"srvr")

    def leader(self):
        modes = [say_to(endpoint, b"srvr") for endpoint in self.endpoints]
        return next((index for index, mode in enumerate(modes) if "Mode: leader" in mode), None)


class Etcd(Cluster):
    """Three members with the defaults, but room for everything that one run writes: etcd keeps each version of a key."""

    quota = 8 * 1024**3

    def prepared(self, index):
        name, peer = f"n{index + 1}", f"http://127.0.0.1:{self.ports[index] + 10}"
        client = f"http://{self.endpoints[index]}"
        members = ",".join(f"n{n + 1}=http://127.0.0.1:{port + 10}" for n, port in enumerate(self.ports))
        command = [self.tools.etcd, "--name", name, "--data-dir", self.folder / name]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer]
        command += ["--initial-advertise-peer-urls", peer, "--initial-cluster", members, "--log-level", "error"]
        command += ["--quota-backend-bytes", self.quota]
        return command, self.folder / f"{name}.log"

    def is_ready(self, index):
        health = http(f"http://{self.endpoints[index]}/health")
        return bool(health) and health.get("health") == "true"

    def leader(self):
        for index, endpoint in enumerate(self.endpoints):
            status = http(f"http://{endpoint}/v3/maintenance/status", {})
            if status and status.get("leader") == status["header"]["member_id"]:
                return index
        return None


class Redis(Cluster):
    """One server; every write is on its disk before the answer."""

    nodes = 1
    fsync = "always"

    def prepared(self, index):
        command = [self.tools.root / "usr/bin/redis-server", "--port", self.ports[index], "--bind", "127.0.0.1", "--dir", self.folder]
        command += ["--save", "", "--appendonly", "yes", "--appendfsync", self.fsync]
        return command, self.folder / "server.log", self.tools.environment()

    def is_ready(self, index):
        return "PONG" in say_to(self.endpoints[index], b"PING\r\n")

    def leader(self):
        return 0


class RedisWithoutFsync(Redis):
    """One server; the kernel decides when writes reach the disk."""

    fsync = "no"
