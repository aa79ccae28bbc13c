// Tests of the line for a chat: they need no browser and no server.

import assert from "node:assert/strict";
import { test } from "node:test";
import { addressOf, sentence, waiterOf } from "../../crates/ui/web/app/format.js";

const PAGE = "http://n1:7171/ui/";
const holder = { state: "held", owner: "ci-7", number: 88, token: 89, since: "2026-11-22T00:10:31.200Z" };
const waiter = { state: "queued", owner: "ci-9", number: 91, position: 2, queued_at: "2026-11-22T00:11:02Z", waits_for: { owner: "ci-7", number: 88 } };
const deploy = { holders: [holder], holder_count: 1, queue_length: 12, next_cursor: null };

function told(more = {}) {
  const number = more.isChosen ? waiter.number : null;
  return sentence({
    name: "deploy", lock: deploy, usual: 40000, waiter, isChosen: false, seen: "Sun, 22 Nov 2026 03:12:09 GMT", isOld: false,
    address: addressOf(PAGE, more.name ?? "deploy", number), ...more,
  });
}

test("a sentence has the lock, its holder, the first waiter and the link", () => {
  assert.equal(told(), "Lock deploy has been held by ci-7 (grant #88, token 89) since 2026-11-22 00:10:31 UTC (3 h 1 min). It is usually held for 40 s. "
    + "12 wait for it. Next: ci-9 (grant #91) since 2026-11-22 00:11:02 UTC (3 h 1 min). Seen 2026-11-22 03:12 UTC. http://n1:7171/ui/#/locks/deploy");
});

test("a sentence begins with the waiter that is selected, and its link selects it", () => {
  const text = told({ isChosen: true });
  assert.ok(text.startsWith("ci-9 (grant #91) has waited for lock deploy since 2026-11-22 00:11:02 UTC (3 h 1 min), with 1 ahead, behind ci-7 (grant #88). Lock deploy "), text);
  assert.ok(text.endsWith("12 wait for it. Seen 2026-11-22 03:12 UTC. http://n1:7171/ui/#/locks/deploy?around=91"), text);
  assert.match(told({ isChosen: true, waiter: { ...waiter, estimate: "90s" } }), /behind ci-7 \(grant #88\)\. It may wait about 1 min 30 s more\./);
  assert.match(told({ isChosen: true, waiter: { ...waiter, waits_for: undefined } }), /, with 1 ahead\. Lock/, "what the reader may not see is left out");
});

test("a sentence leaves out what is unknown", () => {
  const text = told({ usual: null, waiter: null, seen: null, lock: { ...deploy, queue_length: undefined } });
  assert.equal(text, "Lock deploy has been held by ci-7 (grant #88, token 89) since 2026-11-22 00:10:31 UTC. http://n1:7171/ui/#/locks/deploy");
  assert.match(told({ seen: null }), /00:10:31 UTC\. It is usually held for 40 s\./);
  assert.match(told({ lock: { ...deploy, holders: [{ ...holder, owner: "" }] } }), /held by somebody \(grant #88, token 89\) since/);
});

test("a sentence says that it is old", () => {
  assert.match(told({ isOld: true }), / Last seen 2026-11-22 03:12 UTC\. It may have changed since\. http/);
  assert.match(told({ isOld: true, seen: null }), / It may have changed since\. http/);
});

test("a sentence names some of several holders", () => {
  const holders = [70, 71, 72].map((number) => ({ ...holder, owner: `t-${number}`, number, token: number }));
  const several = (lock) => told({ name: "gpu", waiter: null, lock: { ...deploy, queue_length: 0, ...lock } });
  assert.match(several({ holders, holder_count: 130, next_cursor: "72" }),
    /^Lock gpu has been held by t-70 \(grant #70, token 70\) since 2026-11-22 00:10:31 UTC \(3 h 1 min\), t-71 [^,]*, token 71\) since [^,]*, and 128 more\. It is usually held for 40 s\. Nobody waits for it\. Seen/);
  assert.match(several({ holders: holders.slice(0, 2), holder_count: 2 }), /^Lock gpu has been held by t-70 [^,]*, token 70\) since [^,]* and t-71 [^,]*, token 71\) since [^,]*\(3 h 1 min\)\. It is/);
});

test("a sentence of a lock without a holder says why", () => {
  const of = (holders, queue_length = 0) => told({ waiter: null, lock: { ...deploy, holders, holder_count: holders.length, queue_length } });
  assert.match(of([]), /^Nobody holds lock deploy\. Nobody waits for it\. Seen/);
  assert.match(of([{ ...holder, state: "cooling", token: undefined }], 1), /^Nobody holds lock deploy: it is cooling after ci-7 \(grant #88\)\. 1 waits for it\. Seen/);
  assert.match(of([{ ...holder, state: "queued", token: undefined }]), /^Nobody holds lock deploy: it is reserved for ci-7 \(grant #88\)\./);
});

test("a name in a sentence stays a name, and the link is whole", () => {
  const name = "a b\u202e\n(x)";
  const text = told({ name, waiter: null });
  assert.ok(text.startsWith("Lock “a b\\u202e\\u000a(x)” has been held by ci-7"), text);
  assert.ok(text.endsWith(". http://n1:7171/ui/#/locks/a%20b%E2%80%AE%0A%28x%29"), text);
  assert.equal(text.split("\n").length, 1);
});

test("a sentence is about the waiter that the address selects, otherwise about the first", () => {
  const items = [holder, waiter, { ...waiter, number: 92 }];
  const about = (around, cursor) => {
    const found = waiterOf(items, around, cursor);
    return [found.waiter?.number ?? null, found.isChosen];
  };
  assert.deepEqual(about("", ""), [91, false]);
  assert.deepEqual(about("92", ""), [92, true]);
  assert.deepEqual(about("88", ""), [null, false], "it holds the lock");
  assert.deepEqual(about("last", ""), [null, false]);
  assert.deepEqual(about("92", "100-92"), [null, false], "a later page does not have the first");
  assert.deepEqual(waiterOf([], "", ""), { waiter: null, isChosen: false });
});
