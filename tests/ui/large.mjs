// What a browser does with a large cluster: 100,000 locks, 10,000 waiters of one lock, and a thousand events a second.
//
// `./fairhold ui-test --large` runs this file. It measures the machine too, so it is not part of the other tests.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { newKey } from "../../crates/ui/web/app/api.js";
import { launch, openIn } from "./browser.mjs";
import { Cluster, until } from "./cluster.mjs";

const LOCKS = 100_000;
const WAITERS = 10_000;
const SESSIONS = 100;
const ROWS = 100;
const CALLS_IN_BATCH = 256;
/** So many batches are under way at once. */
const AT_ONCE = 8;
/** The bounds of the first rows, of a key and of a place, in milliseconds. */
const ROWS_WITHIN = 500;
const KEY_WITHIN = 200;
const PLACES_WITHIN = 1000;
/** The bounds of a page. */
const ELEMENTS_MAX = 1500;
const HEAP_MAX = 60 * 1024 * 1024;
const CPU_MAX = 5;
/** So often a time is measured. The median counts. */
const RUNS = 5;
/** At so many moments a lock is released. */
const MOMENTS = 5;
const SEARCHES = 20;
const SEARCH_RUNS = 3;
/** The time between two keys of a fast typist. */
const BETWEEN_KEYS = 100;
const QUIET_FOR = 20_000;
/** The events of the load, and how many there are in a second. Each grant is one, and so is its end. */
const SOAK_EVENTS = 60_000;
const SOAK_RATE = 1000;
const SOAKED_LOCKS = 125;
/** How long the work takes that measures the machine, in microseconds of a processor. */
const WORK = 20_000;
/** The bounds of a machine that is slower than this would say nothing. */
const SLOWNESS_MAX = 4;

let browser;
let cluster;
let leader;
let sessions;
/** What was acquired of the lock with the queue, by owner, and its holder. */
const grants = new Map();
let holder;

const lockName = (number) => `orders/${String(number).padStart(6, "0")}`;
const median = (figures) => figures.toSorted((a, b) => a - b)[Math.floor(figures.length / 2)];
/** The value that 95 % of the figures do not exceed. */
const p95 = (figures) => figures.toSorted((a, b) => a - b)[Math.ceil(figures.length * 0.95) - 1];

/** Prints what was measured, and compares it with its bound. */
function check(what, found, bound, unit) {
  const line = `${what}: ${found.toFixed(unit === "%" ? 1 : 0)} ${unit}, bound ${bound.toFixed(0)} ${unit}`;
  console.log(line);
  assert.ok(found <= bound, line);
}

/** How many times as long as its processor time a piece of work takes: 1 on a machine that does nothing else. */
function slowness() {
  const [start, used] = [performance.now(), process.cpuUsage()];
  for (;;) {
    const { user, system } = process.cpuUsage(used);
    if (user + system >= WORK) return Math.max(1, (1000 * (performance.now() - start)) / (user + system));
  }
}

/** Measures a time again and again. The bound of the median grows with the slowness of the machine between the runs. */
async function checkTimes(what, within, runs, measure) {
  const [took, slow] = [[], []];
  for (let run = 0; run < runs; run += 1) {
    slow.push(slowness());
    took.push(await measure(run));
  }
  const factor = median(slow);
  console.log(`${what}: ${took.map((time) => time.toFixed(0)).join(", ")} ms; ${factor.toFixed(2)} times slower than an idle machine`);
  assert.ok(factor <= SLOWNESS_MAX, `${what}: the machine is too busy to measure anything`);
  check(`${what}, median`, median(took), within * factor, "ms");
}

/** Makes calls, many in one request. Each must succeed. */
async function batch(calls) {
  const { status, json } = await cluster.call("/v1/batch", { method: "POST", body: { calls }, at: leader - 1 });
  assert.equal(status, 200, JSON.stringify(json));
  for (const answer of json.answers) assert.ok(answer.status < 300, JSON.stringify(answer));
}

async function batches(calls) {
  const parts = Array.from({ length: Math.ceil(calls.length / CALLS_IN_BATCH) }, (_, at) => calls.slice(at * CALLS_IN_BATCH, (at + 1) * CALLS_IN_BATCH));
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let part = parts.shift(); part !== undefined; part = parts.shift()) await batch(part);
  }));
}

const acquire = (lock, owner, number, more = {}) => ({ acquire: { id: newKey(), lock, owner, session: sessions[number % SESSIONS], ...more } });

before(async () => {
  [browser, cluster] = await Promise.all([launch(), Cluster.start()]);
  leader = await cluster.leader();
  const open = async (_, at) => (await cluster.call("/v1/sessions", { method: "POST", body: { ttl: "3600s", name: `worker-${at}` } })).json.id;
  sessions = await Promise.all(Array.from({ length: SESSIONS }, open));
  const first = acquire("deploy", "ci-0", 0);
  holder = first.acquire;
  await batch([first]);
  const locks = Array.from({ length: LOCKS }, (_, at) => acquire(lockName(at), `worker-${at}`, at));
  const queue = Array.from({ length: WAITERS }, (_, at) => acquire("deploy", `ci-${at + 1}`, at, { queue: true }));
  await batches(locks);
  for (const { acquire: grant } of queue) grants.set(grant.owner, grant);
  await batches(queue);
  await Promise.all(cluster.urls.map((_, at) => until(`node ${at + 1} has applied all`, async () => {
    const { json } = await cluster.call("/v1/overview", { at });
    return json.totals.queued === WAITERS && json.totals.held > LOCKS;
  }, 60_000)));
});

after(async () => {
  await browser?.close();
  await cluster?.stop();
});

/** What the page has measured by itself. */
async function measured(page, name) {
  const found = await page.waitForFunction((key) => globalThis[key], name, { polling: 50 });
  return found.jsonValue();
}

/** Runs in each page before its own code: notes when the first row of a table was drawn, in milliseconds since the navigation. */
function watchFirstRow() {
  const observer = new MutationObserver(() => {
    if (document.querySelector("main tbody tr") === null) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => { globalThis.firstRow = performance.now(); }));
  });
  observer.observe(document, { childList: true, subtree: true });
}

/** A page, with how long its first row took, and a session of the browser's protocol. */
async function openLarge(hash) {
  const { page, wrong, close } = await openIn(browser, cluster, hash, { prepare: (opened) => opened.addInitScript(watchFirstRow) });
  const took = await measured(page, "firstRow");
  const protocol = await page.context().newCDPSession(page);
  await protocol.send("Performance.enable");
  return { page, wrong, close, took, protocol };
}

async function metrics({ protocol }) {
  const { metrics: found } = await protocol.send("Performance.getMetrics");
  return Object.fromEntries(found.map(({ name, value }) => [name, value]));
}

/** Compares the elements and the heap of a page with their bounds. */
async function checkSize(opened, what) {
  const elements = await opened.page.evaluate(() => document.querySelectorAll("*").length);
  await opened.protocol.send("HeapProfiler.collectGarbage");
  const { JSHeapUsedSize: heap } = await metrics(opened);
  check(`${what}, elements`, elements, ELEMENTS_MAX, "elements");
  check(`${what}, heap`, heap / 1024, HEAP_MAX / 1024, "KiB");
}

/** Opens a view again and again, each time with an empty cache, and compares how long its first rows take with the bound. */
async function checkFirstRows(hash, what) {
  await checkTimes(what, ROWS_WITHIN, RUNS, async () => {
    const opened = await openLarge(hash);
    assert.deepEqual(opened.wrong, []);
    await opened.close();
    return opened.took;
  });
}

test("the first rows of the locks are there soon, and few elements and bytes are", async () => {
  await checkFirstRows("#/locks", "Locks, first rows");
  const opened = await openLarge("#/locks");
  assert.equal(await opened.page.locator("main tbody tr").count(), ROWS);
  await checkSize(opened, "Locks");
  await opened.close();
});

/** Runs in the page: how long after the newest key of the search the table has only rows that match. */
function watchSearch(wanted) {
  const search = document.getElementById("search");
  let typedAt = null;
  globalThis.searched = undefined;
  search.addEventListener("input", (event) => { typedAt = search.value === wanted ? event.timeStamp : null; });
  const observer = new MutationObserver(() => {
    const names = [...document.querySelectorAll("main tbody tr th")].map((cell) => cell.textContent);
    if (typedAt === null || names.length === 0 || !names.every((name) => name.includes(wanted))) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => { globalThis.searched = performance.now() - typedAt; }));
  });
  observer.observe(document.querySelector("main"), { childList: true, subtree: true, characterData: true });
}

test("the answer to a search follows its last key", async () => {
  const { page, wrong, close } = await openLarge("#/locks");
  await checkTimes("Search, p95 from a key to the drawn answer", KEY_WITHIN, SEARCH_RUNS, async (run) => {
    const took = [];
    for (let at = 0; at < SEARCHES; at += 1) {
      // No node knows the answer yet: no two searches are the same.
      const wanted = String(1000 + (run * SEARCHES + at) * 137);
      await page.fill("#search", "");
      await page.waitForFunction((rows) => document.querySelectorAll("main tbody tr").length === rows && !location.hash.includes("match"), ROWS);
      await page.evaluate(watchSearch, wanted);
      await page.locator("#search").pressSequentially(wanted, { delay: BETWEEN_KEYS });
      took.push(await measured(page, "searched"));
    }
    return p95(took);
  });
  assert.deepEqual(wrong, []);
  await close();
});

const inView = (page, which) => page.waitForFunction((row) => {
  const found = [...document.querySelectorAll("main tbody tr")].at(row).getBoundingClientRect();
  return found.top >= 0 && found.bottom <= innerHeight;
}, which);

test("End and Home go to the last and the first row", async () => {
  for (const hash of ["#/locks", "#/locks/deploy"]) {
    const { page, close } = await openLarge(hash);
    await page.keyboard.press("End");
    await inView(page, -1);
    await page.keyboard.press("Home");
    await inView(page, 0);
    await close();
  }
});

/** The number of the grant in each row of the queue, and its place. */
const placesIn = (page) => page.evaluate(() => [...document.querySelectorAll("main table[aria-label=Queue] tbody tr")].map((row) => {
  const [place, owner] = [...row.cells].map((cell) => cell.textContent);
  return `${parseInt(place, 10)} ${/#(\d+)$/.exec(owner)[1]}`;
}));

/** Runs in the page: notes when its queue begins with this row, in the page's time. */
function watchQueue(wanted) {
  globalThis.moved = undefined;
  const observer = new MutationObserver(() => {
    const first = document.querySelector("main table[aria-label=Queue] tbody td:nth-child(2)")?.textContent ?? "";
    if (!first.endsWith(`#${wanted.next}`) || !document.querySelector("main .holders").textContent.includes(`grant #${wanted.holds}, `)) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => { globalThis.moved = performance.now(); }));
  });
  observer.observe(document.querySelector("main"), { childList: true, subtree: true, characterData: true });
}

/** The queue, as a page of it shows it. */
async function queued() {
  const { json } = await cluster.call(`/v1/locks/deploy/queue?limit=${ROWS}`);
  return json.items.filter(({ state }) => state === "queued");
}

test("a lock with ten thousand waiters is there soon, and its places follow a release", async () => {
  await checkFirstRows("#/locks/deploy", "Lock with waiters, first rows");
  const opened = await openLarge("#/locks/deploy");
  const { page } = opened;
  await checkSize(opened, "Lock with waiters");
  await checkTimes("Places after a release, at the worst moment", PLACES_WITHIN, RUNS, async () => {
    const took = [];
    for (let at = 0; at < MOMENTS; at += 1) {
      const [next, second] = await queued();
      // Each time at another moment of what the page asks again and again.
      await page.waitForTimeout((at * PLACES_WITHIN) / MOMENTS);
      await page.evaluate(watchQueue, { holds: next.number, next: second.number });
      const start = await page.evaluate(() => performance.now());
      await batch([{ release: { id: holder.id, session: holder.session } }]);
      took.push(await measured(page, "moved") - start);
      holder = grants.get(next.owner);
      assert.deepEqual(await placesIn(page), (await queued()).map(({ position, number }) => `${position} ${number}`));
    }
    return Math.max(...took);
  });
  await opened.close();
});

/** The share of a core that a page uses while something goes on: its main thread, and all threads of its process. */
async function cpuWhile(opened, goesOn) {
  const start = await metrics(opened);
  await goesOn;
  const end = await metrics(opened);
  const share = (name) => (100 * (end[name] - start[name])) / (end.Timestamp - start.Timestamp);
  return { main: share("ThreadTime"), all: share("ProcessTime") };
}

test("a quiet page uses little of a core", async () => {
  for (const [hash, what] of [["#/", "Overview"], ["#/locks", "Locks"], ["#/locks/deploy", "Lock with waiters"]]) {
    const opened = await openLarge(hash);
    const { main, all } = await cpuWhile(opened, opened.page.waitForTimeout(QUIET_FOR));
    console.log(`${what}, quiet: all threads of its process ${all.toFixed(1)} % of a core`);
    check(`${what}, quiet: main thread`, main, CPU_MAX, "%");
    await opened.close();
  }
});

/** Takes and releases locks, at most at the rate of the load. */
async function load() {
  const start = performance.now();
  const rounds = SOAK_EVENTS / (2 * SOAKED_LOCKS);
  let started = 0;
  await Promise.all(Array.from({ length: AT_ONCE }, async (_, caller) => {
    while (started < rounds) {
      const due = (started * 2 * SOAKED_LOCKS * 1000) / SOAK_RATE;
      started += 1;
      await new Promise((resolve) => { setTimeout(resolve, due - (performance.now() - start)); });
      const taken = Array.from({ length: SOAKED_LOCKS }, (_, at) => acquire(`busy/${caller}/${at}`, `busy-${at}`, at));
      await batch(taken.flatMap((call) => [call, { release: { id: call.acquire.id, session: call.acquire.session } }]));
    }
  }));
  console.log(`Load: at least ${((1000 * SOAK_EVENTS) / (performance.now() - start)).toFixed(0)} events/s`);
}

test("after a minute of a thousand events a second, no page has grown", async () => {
  const views = [["#/", "Overview"], ["#/locks?sort=contention", "Locks"], ["#/locks/deploy", "Lock with waiters"], ["#/events", "Events"]];
  const opened = await Promise.all(views.map(([hash]) => openLarge(hash)));
  const loaded = load();
  const cpus = await Promise.all(opened.map((one) => cpuWhile(one, loaded)));
  for (const [at, [, what]] of views.entries()) {
    console.log(`${what}, under load: main thread ${cpus[at].main.toFixed(1)} %, all threads of its process ${cpus[at].all.toFixed(1)} % of a core`);
    await checkSize(opened[at], `${what}, after the load`);
    assert.deepEqual(opened[at].wrong, []);
    await opened[at].close();
  }
});
