#!/usr/bin/env python3
"""A lock in Python with nothing but the standard library: with_lock.py NAME COUNTER-FILE adds 1 to a number under a lock.

    with Lock("deploy") as lock:          # waits in line
        write(value, lock.token())        # an error once the lock may be lost; the token goes with every write

It is believed in from before the last acknowledged renewal was sent, for the ttl less a margin, on a clock that does not go back.
"""

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

TTL = 15.0
MARGIN = 0.3
# On Linux this one counts the time in which the machine was suspended.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Lost(Exception):
    """The lock may be another's: stop."""


def uuid7():
    """The key of a request, made before it is sent, so that asking again is the same request."""
    millis = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    value = (millis & (1 << 48) - 1) << 80 | 0x7 << 76 | (random >> 68 & 0xFFF) << 64 | 0b10 << 62 | random & (1 << 62) - 1
    return str(uuid.UUID(int=value))


class Lock:
    def __init__(self, name, endpoints=None, ttl=TTL):
        endpoints = endpoints or os.environ.get("FAIRHOLD_ENDPOINT", "http://127.0.0.1:7171")
        self.endpoints, self.ttl = endpoints.split(","), ttl
        self.path = "/v1/locks/" + urllib.parse.quote(name, safe="")
        self.ended = threading.Event()

    def call(self, method, path, timeout, key=None):
        """Asks one node after the other: (status, body), or None where none of them has a definite answer."""
        headers = {"Idempotency-Key": key} if key else {}
        for endpoint in self.endpoints:
            request = urllib.request.Request(endpoint + path, method=method, headers=headers)
            try:
                with urllib.request.urlopen(request, timeout=timeout) as answer:
                    return answer.status, json.loads(answer.read() or b"{}")
            except urllib.error.HTTPError as error:
                if error.code not in (429, 503, 504):
                    return error.code, json.loads(error.read() or b"{}")
            except OSError:
                pass  # another node may answer
        return None

    def __enter__(self):
        self.grant = uuid7()
        while True:
            sent = time.clock_gettime(CLOCK)
            answer = self.call("POST", f"{self.path}?wait=10m&ttl={self.ttl}s", 630, self.grant)
            if answer and answer[0] == 200:
                break
            if answer and answer[1].get("code") in ("wait_timeout", "grant_gone"):
                self.grant = uuid7()
            elif answer:
                raise RuntimeError(answer[1].get("detail"))
            time.sleep(0.5)
        self.number = answer[1]["token"]
        self.valid_until = sent + self.ttl - MARGIN
        # While it waited the server kept it alive; from here on only a renewal of our own counts.
        self.renew()
        self.renewals = threading.Thread(target=self.keep, daemon=True)
        self.renewals.start()
        return self

    def renew(self):
        sent = time.clock_gettime(CLOCK)
        answer = self.call("POST", f"/v1/grants/{self.grant}/renew", self.ttl / 6)
        if answer and answer[0] == 200:
            self.valid_until = sent + self.ttl - MARGIN
        elif answer:
            self.valid_until = sent  # it has ended

    def keep(self):
        while not self.ended.wait(self.ttl / 3):
            self.renew()

    def token(self):
        if time.clock_gettime(CLOCK) >= self.valid_until:
            raise Lost("the lock may be another's")
        return self.number

    def __exit__(self, *_):
        self.ended.set()
        self.renewals.join()
        self.call("DELETE", f"/v1/grants/{self.grant}", 5)


def main():
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} NAME COUNTER-FILE")
    name, path = sys.argv[1:]
    with Lock(name) as lock:
        with open(path) as file:
            count = int(file.read())
        lock.token()
        with open(path, "w") as file:
            file.write(str(count + 1))
        print(f"token {lock.token()}: {count + 1}")


if __name__ == "__main__":
    main()
