// Each page with answers that it does not expect, and with a clock that is wrong.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { actAs, ADMINISTRATOR, change, isThere, launch, openIn } from "./browser.mjs";
import { Cluster, until } from "./cluster.mjs";
import { content, furnished } from "./views.mjs";

const DAY = 24 * 3600 * 1000;

let browser;
let cluster;
let views;

before(async () => {
  browser = await launch();
  cluster = await Cluster.start({ administrator: ADMINISTRATOR });
  views = await furnished(cluster);
});

after(async () => {
  await browser?.close();
  await cluster?.stop();
});

const open = (view, options) => openIn(browser, cluster, view.hash, options);
const isCall = (url) => url.pathname.startsWith("/v1/");

/** A copy with one more field in each object. */
function more(value) {
  if (Array.isArray(value)) return value.map(more);
  if (value === null || typeof value !== "object") return value;
  const known = Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, key === "meta" ? inner : more(inner)]));
  return { ...known, of_a_later_version: { deep: [{ deeper: null }] } };
}

/** The fields of an answer, such as items.holder.owner: entries of lists have no place. */
function fields(value, prefix = "") {
  if (Array.isArray(value)) return value.flatMap((inner) => fields(inner, prefix));
  if (value === null || typeof value !== "object") return [];
  return Object.entries(value).flatMap(([key, inner]) => [`${prefix}${key}`, ...fields(inner, `${prefix}${key}.`)]);
}

/** A copy without a field. */
function without(value, field) {
  if (Array.isArray(value)) return value.map((inner) => without(inner, field));
  if (value === null || typeof value !== "object") return value;
  const [head] = field.split(".");
  const rest = field.slice(head.length + 1);
  return Object.fromEntries(Object.entries(value).flatMap(([key, inner]) => (key !== head ? [[key, inner]] : rest === "" ? [] : [[key, without(inner, rest)]])));
}

test("a page ignores fields that it does not know", async () => {
  for (const view of views) {
    const { page, wrong, close } = await open(view, { prepare: (opened) => change(opened, more) });
    await content(page, view);
    assert.equal(await page.locator("main", { hasText: "of_a_later_version" }).count(), 0, view.name);
    assert.deepEqual(wrong, [], view.name);
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await close();
  }
});

/** The views of one lock have most calls in common: each is tested where it is shown. */
const SHOWN_AT = { lock: /\/queue$|\/nodes\//, "lock-history": /\/history$/, settings: /\/locks\/deploy$/ };

/** The calls whose fields a view is tested without. All pages have the overview, but few show more of it than the frame does. */
function owns(view, path) {
  if (path === "/v1/overview") return ["overview", "cluster"].includes(view.name);
  return SHOWN_AT[view.name]?.test(path) ?? true;
}

test("a page without a field that it knows is never blank, and is whole again with it", async () => {
  for (const view of views) {
    const known = new Map();
    let missing = null;
    let changed = 0;
    const thrown = [];
    const { page, close } = await open(view, {
      prepare: async (opened) => {
        opened.on("pageerror", (error) => thrown.push(error.message));
        await opened.clock.install();
        await change(opened, (body, path) => {
          if (missing === null) {
            known.set(path, new Set([...(known.get(path) ?? []), ...fields(body)]));
            return body;
          }
          if (path !== missing.path) return body;
          changed += 1;
          return missing.field === null ? {} : without(body, missing.field);
        });
      },
    });
    await content(page, view);
    const cases = [...known].filter(([path]) => owns(view, path)).flatMap(([path, all]) => [null, ...all].map((field) => ({ path, field })));
    assert.ok(cases.length > 5, `${view.name}: ${cases.length}`);
    for (const wanted of cases) {
      changed = 0;
      missing = wanted;
      const what = `${view.name} without ${wanted.path} ${wanted.field}`;
      await until(`an answer: ${what}`, async () => {
        if (changed > 0) return true;
        // Polls that are seldom made are made now. The look is made each second.
        await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
        await page.clock.runFor(1000);
        return false;
      });
      await isThere(page, what);
    }
    missing = null;
    await page.clock.runFor(10000);
    await content(page, view, 10000);
    await until("all is whole again", async () => (await page.locator("main", { hasText: "cannot be shown" }).count()) === 0);
    assert.deepEqual(thrown, [], view.name);
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await close();
  }
});

test("the browser's clock does not matter, a day ahead or behind", async () => {
  for (const [at, view] of views.entries()) {
    const { page, wrong, close } = await open(view, { prepare: (opened) => opened.clock.install({ time: Date.now() + (at % 2 === 0 ? DAY : -DAY) }) });
    await content(page, view);
    await page.locator(".health", { hasText: "seen 0 s ago" }).waitFor();
    // Everything is minutes old at most. Bounds of statistics are no ages.
    const text = (await page.locator("main").innerText()).replace(/[≤>] [0-9].*/g, "");
    assert.doesNotMatch(text, /\b[0-9]+ (d|h)\b/, view.name);
    const times = await page.locator("main time").evaluateAll((all) => all.map((node) => node.dateTime));
    for (const time of times) assert.ok(Math.abs(Date.parse(time) - Date.now()) < DAY / 2, `${view.name}: ${time}`);
    assert.equal(await page.locator("main", { hasText: "in the future" }).count(), 0, view.name);
    assert.deepEqual(wrong, [], view.name);
    await close();
  }
});

test("after an hour of sleep, a page says at once how old it is, and is live again", async () => {
  const { page, close } = await open({ hash: "#/locks/deploy" }, { prepare: (opened) => opened.clock.install() });
  await page.locator(".holders", { hasText: "ci-7" }).waitFor();
  await page.locator(".health", { hasText: "seen 0 s ago" }).waitFor();
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  await page.route(isCall, async (route) => {
    await released;
    await route.continue();
  });
  await page.clock.fastForward(3600 * 1000);
  await page.locator("body.stale .stale-banner", { hasText: "Seen 1 h" }).waitFor();
  release();
  await page.locator("body:not(.stale) .health", { hasText: "seen 0 s ago" }).waitFor();
  assert.match(await page.locator(".holders").innerText(), /for ([0-9]+ min|[0-9.]+ s)/);
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await close();
});

test("an answer that is a page of a proxy makes the figures old, and one without a body does too", async () => {
  for (const answer of [{ contentType: "text/html", body: "<h1>Sign in</h1>" }, { contentType: "application/json", body: "null" }]) {
    const { page, close } = await open({ hash: "#/locks/deploy" });
    await page.locator(".health", { hasText: "seen 0 s ago" }).waitFor();
    await page.route(isCall, (route) => route.fulfill({ status: 200, ...answer }));
    await page.locator("body.stale .stale-banner").waitFor();
    // It claims nothing about the cluster meanwhile.
    assert.doesNotMatch(await page.locator(".strip").innerText(), /leads|voters|Live/);
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await page.locator("body:not(.stale) .health", { hasText: "seen 0 s ago" }).waitFor();
    await close();
  }
});

test("a page that meets another cluster at its address begins anew, and nobody acts there", async () => {
  let other = false;
  const { page, close } = await open({ hash: "#/locks/deploy" }, {
    prepare: (opened) => change(opened, (body, path) => (other && path === "/v1/overview" ? { ...body, cluster: "another" } : body)),
  });
  await page.locator(".holders", { hasText: "ci-7" }).waitFor();
  await actAs(page, ADMINISTRATOR);
  await page.evaluate(() => { globalThis.isFirst = true; });
  other = true;
  await until("the page is another one", () => page.evaluate(() => globalThis.isFirst !== true).catch(() => false));
  await page.locator(".holders", { hasText: "ci-7" }).waitFor();
  await page.locator("body:not(.acting)").waitFor();
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await close();
});

test("while a member does not answer, the page does not say that no problem is known", async () => {
  for (const hash of ["#/", "#/cluster"]) {
    const { page, wrong, close } = await open({ hash }, {
      prepare: (opened) => change(opened, (body, path) => (path !== "/v1/overview" ? body
        : { ...body, problems: [], members: body.members.map((member) => (member.id === 3 ? { ...member, reachable: false } : member)) })),
    });
    await page.locator(".health", { hasText: "2 of 3 voters answer" }).waitFor();
    await page.locator("main", { hasText: "A member does not answer." }).waitFor();
    assert.equal(await page.locator("main", { hasText: "No problem is known" }).count(), 0);
    assert.deepEqual(wrong, []);
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await close();
  }
});

test("a page that lacks a file says why, and one that has all of them never shows that", async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  const why = page.locator("main:not([id])", { hasText: "all its files from one version" });
  await page.route("**/app/route.js", (route) => route.fulfill({ status: 404 }));
  await page.goto(`${cluster.urls[0]}/ui/`);
  assert.equal(await why.evaluate((node) => getComputedStyle(node).opacity), "0");
  await until("it is seen", async () => (await why.evaluate((node) => getComputedStyle(node).opacity)) === "1");
  await page.unrouteAll();
  await page.reload();
  await page.locator("main[id] h1").waitFor();
  assert.equal(await why.count(), 0);
  await context.close();
});

test("a call bears the cookies of a proxy at the same address", async () => {
  let sent;
  const { page, close } = await open({ hash: "#/" }, {
    prepare: async (opened) => {
      await opened.context().addCookies([{ name: "proxy", value: "signed-in", url: cluster.urls[0] }]);
      opened.on("request", async (request) => { if (request.url().endsWith("/v1/overview")) sent ??= (await request.allHeaders()).cookie; });
    },
  });
  await until("a look has the cookie", () => sent === "proxy=signed-in");
  await page.locator(".health", { hasText: "seen 0 s ago" }).waitFor();
  await close();
});
