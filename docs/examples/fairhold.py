"""Fairhold from Python, in one file to copy: locks, fencing tokens and elections, with nothing but the standard library.

    from fairhold import Client

    client = Client()                                  # FAIRHOLD_ENDPOINT, or http://127.0.0.1:7171
    with client.lock("deploy") as lock:                # waits in the queue, for as long as it takes
        for part in work:
            lock.check()                               # raises Lost once the lock may belong to another
            client.put("/deployed", part, fence=lock)  # refused by the servers if it does

    with client.elect("primary", "http://10.0.0.7:8080") as term:
        term.lost.wait()                               # until another may lead
    client.leader("primary")                           # {"value": ..., "token": ..., ...}, or None

A lock is a lease. A thread renews it at a third of its ttl. The lock counts as held until the ttl after the last renewal that was
answered, less a margin, on a clock that also counts the time in which the machine was suspended. Python 3.9 or newer.
"""

from __future__ import annotations

import json
import os
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from types import TracebackType
from typing import Any, Optional, Sequence, Union

__all__ = ["Client", "FairholdError", "Lock", "Lost", "NotAcquired", "Refused", "Unavailable"]

MARGIN = 0.3
"""Seconds for which a lock is not believed in any more before its lease ends: for what is on its way then."""
WAIT_MAX = 600.0
"""Seconds for which a server holds one request back."""
ANSWER_WITHIN = 10.0
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class FairholdError(Exception):
    """What can go wrong."""


class Lost(FairholdError):
    """The lock may belong to another by now: stop what needs it."""


class NotAcquired(FairholdError):
    """The lock did not become free in the time that you waited."""


class Unavailable(FairholdError):
    """No node answered in time. It may have happened; a retry with the same key makes it happen once."""


class Refused(FairholdError):
    """The cluster refuses the request as it is."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(": ".join(str(problem[part]) for part in ("detail", "advice") if part in problem) or f"status {status}")
        self.status = status
        self.code: str = problem.get("code", "")


def _now() -> float:
    return time.clock_gettime(_CLOCK)


def _key() -> str:
    """A UUIDv7, made before the request is sent: sending it again is the same request."""
    millis = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    value = (millis & (1 << 48) - 1) << 80 | 0x7 << 76 | (random >> 68 & 0xFFF) << 64 | 0b10 << 62 | random & (1 << 62) - 1
    return str(uuid.UUID(int=value))


class Client:
    """A cluster. It may be used by many threads."""

    def __init__(self, endpoints: Union[str, Sequence[str], None] = None, owner: Optional[str] = None) -> None:
        named = endpoints or os.environ.get("FAIRHOLD_ENDPOINT", "http://127.0.0.1:7171")
        urls = named.split(",") if isinstance(named, str) else list(named)
        self._urls = [url.strip().rstrip("/") if "://" in url else "http://" + url.strip() for url in urls]
        self._cluster: Optional[str] = None
        self.owner = owner or f"{os.environ.get('USER', 'python')}@{os.uname().nodename}:{os.getpid()}"
        # A proxy of the environment is for the internet.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def lock(self, name: str, wait: Optional[float] = None, ttl: float = 15.0, shared: bool = False) -> Lock:
        """The lock of that name: acquire it by `with`. Waits at most `wait` seconds, 0 for not at all, None for ever."""
        query = {"owner": self.owner, "mode": "shared" if shared else "exclusive"}
        return Lock(self, "/v1/locks/" + _segment(name), name, query, wait, ttl)

    def elect(self, name: str, value: str, wait: Optional[float] = None, ttl: float = 15.0) -> Lock:
        """Stands for the election: inside the `with`, this program leads, known by `value`."""
        return Lock(self, "/v1/elections/" + _segment(name), name, {"owner": self.owner, "value": value}, wait, ttl)

    def leader(self, name: str) -> Optional[dict[str, Any]]:
        """The leader of an election and its value; None if nobody leads."""
        try:
            return self.call("GET", "/v1/elections/" + _segment(name))
        except Refused as refused:
            if refused.code == "no_leader":
                return None
            raise

    def get(self, path: str) -> bytes:
        """The value of a node of the tree."""
        return self._ask("GET", _node(path), None, {}, ANSWER_WITHIN)

    def put(self, path: str, value: Union[str, bytes], fence: Optional[Lock] = None) -> None:
        """Writes a value, with missing parents. With a fence the write happens only while that lock is held; otherwise `Lost`."""
        headers = {"Idempotency-Key": _key()}
        if fence is not None:
            headers["Fairhold-Fence"] = f"{_segment(fence.name)}={fence.token}"
        body = value.encode() if isinstance(value, str) else value
        try:
            self._ask("PUT", _node(path) + "?parents", body, headers, ANSWER_WITHIN)
        except Refused as refused:
            if refused.code == "stale_token":
                raise Lost(str(refused)) from refused
            raise

    def call(self, method: str, path: str, key: Optional[str] = None, within: float = ANSWER_WITHIN) -> dict[str, Any]:
        """Any other call of the API, such as `call("GET", "/v1/locks/deploy/queue")`."""
        headers = {"Idempotency-Key": key} if key else {}
        answer: dict[str, Any] = json.loads(self._ask(method, path, None, headers, within) or b"{}")
        return answer

    def _ask(self, method: str, path: str, body: Optional[bytes], headers: dict[str, str], within: float) -> bytes:
        """Asks one node after the other, always with the same key, until there is a definite answer."""
        until, why = _now() + within, "no endpoint"
        while True:
            for url in self._urls:
                left = until - _now()
                if left <= 0:
                    raise Unavailable(f"no answer within {within:g} s: {why}")
                request = urllib.request.Request(url + path, data=body, method=method, headers=headers)
                if self._cluster:
                    request.add_header("Fairhold-Cluster", self._cluster)
                try:
                    with self._opener.open(request, timeout=left) as answer:
                        if self._is_ours(answer.headers):
                            content: bytes = answer.read()
                            return content
                        why = f"{url}: another server answers there"
                except urllib.error.HTTPError as error:
                    if error.code not in (503, 504) and self._is_ours(error.headers):
                        raise Refused(error.code, _problem(error.read())) from None
                    why = f"{url}: {_problem(error.read()).get('detail', error.code)}"
                except OSError as error:
                    why = f"{url}: {error}"
            time.sleep(min(0.2, max(0.0, until - _now())))

    def _is_ours(self, headers: Any) -> bool:
        """Whether the answer comes from the cluster that answered first, and not from a proxy or another cluster."""
        cluster = headers.get("Fairhold-Cluster")
        if cluster and not self._cluster:
            self._cluster = cluster
        return bool(headers.get("Fairhold-Request-Id")) and cluster in (None, self._cluster)


class Lock:
    """A lock, or the leadership of an election. Use it by `with`; every `with` acquires it anew."""

    def __init__(self, client: Client, path: str, name: str, query: dict[str, str], wait: Optional[float], ttl: float) -> None:
        self._client, self._path, self._query, self._wait, self._ttl = client, path, query, wait, ttl
        self.name = name
        self.token = 0
        """The fencing token: greater than that of every earlier holder. It goes with every write that needs the lock."""
        self.lost = threading.Event()
        """Set once the lock may belong to another."""
        self._grant, self._valid_until, self._released = "", 0.0, threading.Event()

    def __enter__(self) -> Lock:
        self.lost, self._released, self._grant = threading.Event(), threading.Event(), _key()
        until = None if self._wait is None else _now() + self._wait
        while True:
            left = WAIT_MAX if until is None else max(0.0, min(WAIT_MAX, until - _now()))
            query = {**self._query, "ttl": f"{self._ttl:g}s", "wait": f"{int(left * 1000)}ms"}
            try:
                path = f"{self._path}?{urllib.parse.urlencode(query)}"
                self.token = self._client.call("POST", path, self._grant, left + ANSWER_WITHIN)["token"]
                break
            except (Refused, Unavailable, KeyboardInterrupt) as error:
                is_over = until is not None and _now() >= until
                if isinstance(error, Refused) and error.code in ("lock_held", "wait_timeout", "grant_gone") and not is_over:
                    self._grant = _key()
                    continue
                # Whatever was asked for is taken back; it would end by itself with its ttl.
                self._give_back()
                if isinstance(error, Refused) and error.code in ("lock_held", "wait_timeout"):
                    raise NotAcquired(str(error)) from error
                raise
        # While it waited, the servers kept it alive; from here on, only a renewal of our own counts.
        self._valid_until = 0.0
        if not self._renew():
            self._give_back()
            raise Lost(f"{self.name} was lost as soon as it was acquired")
        threading.Thread(target=self._keep, name=f"fairhold {self.name}", daemon=True).start()
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self._released.set()
        self._give_back()

    def check(self) -> int:
        """The fencing token; raises `Lost` once the lock may belong to another."""
        if self.lost.is_set() or _now() >= self._valid_until:
            self.lost.set()
            raise Lost(f"{self.name} may belong to another by now")
        return self.token

    def _keep(self) -> None:
        while not self._released.wait(self._ttl / 3):
            if not self._renew():
                self.lost.set()
                return

    def _renew(self) -> bool:
        """Renews until it works, is refused, or the lease is over."""
        while not self._released.is_set():
            sent = _now()
            left = self._valid_until - sent if self._valid_until else self._ttl - MARGIN
            if left <= 0:
                return False
            try:
                # A renewal counts only if the answer names this grant.
                answer = self._client.call("POST", f"/v1/grants/{self._grant}/renew", within=min(left, self._ttl / 3))
                if answer.get("id") == self._grant:
                    self._valid_until = sent + self._ttl - MARGIN
                    return True
                return False
            except Unavailable:
                continue
            except Refused:
                return False
        return True

    def _give_back(self) -> None:
        try:
            self._client.call("DELETE", f"/v1/grants/{self._grant}", within=2.0)
        except FairholdError:
            pass  # it ends with its ttl


def _segment(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def _node(path: str) -> str:
    return "/v1/nodes/" + urllib.parse.quote(path.lstrip("/"))


def _problem(body: bytes) -> dict[str, Any]:
    try:
        problem = json.loads(body)
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}
