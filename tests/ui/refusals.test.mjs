// Each page while the server answers with errors.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { actAs, ADMINISTRATOR, isThere, launch, openIn } from "./browser.mjs";
import { Cluster, until } from "./cluster.mjs";
import { content, furnished } from "./views.mjs";

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
const problem = (status, more = {}) => ({ status, contentType: "application/problem+json", json: { title: "planted", code: "planted", detail: "a planted answer", ...more } });

const REFUSALS = [[503, { "retry-after": "7" }], [429, { "retry-after": "7" }], [500, {}], [410, {}]];

test("while the server refuses, a page says why, keeps what it showed, and waits as long as the server says", async () => {
  for (const [at, view] of views.entries()) {
    const [status, headers] = REFUSALS[at % REFUSALS.length];
    const what = `${view.name} ${status}`;
    const refusal = { ...problem(status), headers };
    const asked = [];
    const waiting = new Set();
    let refuses = true;
    const { page, close } = await open(view, {
      prepare: async (opened) => {
        await opened.clock.install();
        opened.on("request", (request) => { if (isCall(new URL(request.url()))) waiting.add(request); });
        for (const end of ["requestfinished", "requestfailed"]) opened.on(end, (request) => waiting.delete(request));
        await opened.route(isCall, (route) => {
          if (!refuses) return route.continue();
          asked.push(new URL(route.request().url()).pathname);
          return route.fulfill(refusal);
        });
      },
    });
    // The clock passes on only when each call has its answer: else the page gives up on a server that answers.
    const passes = (condition) => until(what, async () => {
      if (waiting.size === 0) await page.clock.runFor(1000);
      return condition();
    });
    const looks = () => asked.filter((path) => path === "/v1/overview").length;
    // At first it has nothing to show.
    await page.locator(".health", { hasText: "a planted answer" }).waitFor();
    await isThere(page, what);
    if (headers["retry-after"]) {
      await page.clock.runFor(4000);
      assert.equal(looks(), 1, `${what}: asked within the wait`);
    }
    refuses = false;
    await passes(async () => (await page.locator("main", { hasText: view.shows }).count()) > 0);
    // Then it keeps what it has.
    asked.length = 0;
    refuses = true;
    await passes(() => looks() > 0);
    await passes(async () => (await page.locator("body.stale .stale-banner", { hasText: "a planted answer" }).count()) > 0);
    await page.locator(".stale-banner", { hasText: "The page stays here" }).waitFor();
    await content(page, view);
    await close();
  }
});

test("after a lost look, a page waits as long as the server says all the same", async () => {
  const asked = [];
  let isLost = null;
  const { page, close } = await open({ hash: "#/locks/deploy" }, {
    prepare: async (opened) => {
      await opened.clock.install();
      await opened.route((url) => url.pathname === "/v1/overview", (route) => {
        if (isLost === null) return route.continue();
        asked.push(isLost ? "lost" : "refused");
        if (!isLost) return route.fulfill({ ...problem(503), headers: { "retry-after": "7" } });
        isLost = false;
        return route.abort();
      });
    },
  });
  await page.locator(".health", { hasText: "seen 0 s ago" }).waitFor();
  isLost = true;
  await until("a lost look and a refused one", async () => {
    await page.clock.runFor(250);
    return asked.length === 2;
  });
  await page.locator(".health", { hasText: "a planted answer" }).waitFor();
  await page.clock.runFor(5000);
  assert.deepEqual(asked, ["lost", "refused"]);
  await close();
});

test("a queue that is there before its holder stays when the holder comes", async () => {
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  const { page, wrong, close } = await open({ hash: "#/locks/deploy" }, {
    prepare: (opened) => opened.route((url) => url.pathname === "/v1/locks/deploy", async (route) => {
      await released;
      await route.continue();
    }),
  });
  const row = await page.locator("table[aria-label=Queue] tbody tr", { hasText: "ci-9" }).elementHandle();
  assert.equal(await page.locator(".holders").count(), 0);
  release();
  await page.locator(".holders", { hasText: "ci-7" }).waitFor();
  assert.ok(await row.evaluate((node) => node.isConnected));
  assert.deepEqual(wrong, []);
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await close();
});

test("events that the server no longer keeps are asked for from the start", async () => {
  const { page, close } = await open({ hash: "#/events" });
  await page.locator("table[aria-label=Events]").waitFor();
  const asked = [];
  await page.route((url) => url.pathname === "/v1/events", (route) => {
    const isNewer = new URL(route.request().url()).searchParams.has("after");
    asked.push(isNewer);
    return isNewer ? route.fulfill(problem(410, { code: "compacted" })) : route.continue();
  });
  await until("it starts again after a refusal", () => asked.join().includes("true,false,true,false"));
  assert.ok(await page.locator("table[aria-label=Events] tr", { hasText: "deploy" }).count() > 0);
  assert.equal(await page.locator(".banner").count(), 0);
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await close();
});

test("a lock can be broken while its page does not learn whether it is an election", async () => {
  const isSide = (url) => url.pathname.startsWith("/v1/nodes/locks/");
  const { page, close } = await open({ hash: "#/locks/deploy" });
  await page.locator(".holders", { hasText: "ci-7" }).waitFor();
  await actAs(page, ADMINISTRATOR);
  let refused = 0;
  await page.route(isSide, (route) => {
    refused += 1;
    return route.fulfill(problem(503));
  });
  await until("the side call is refused", async () => {
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    return refused > 1;
  });
  assert.equal(await page.locator(".banner", { hasText: "old" }).count(), 0);
  await page.getByRole("button", { name: "Break…" }).waitFor();
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await close();
});
