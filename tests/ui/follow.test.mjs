// Each page while nodes die and come back, against a cluster of real processes.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { actAs, ADMINISTRATOR, launch, openIn } from "./browser.mjs";
import { Cluster } from "./cluster.mjs";
import { acts, content, furnished } from "./views.mjs";

const ROUNDS = Number(process.env.FAIRHOLD_UI_ROUNDS ?? 1);
/** The bounds of a page, in milliseconds after a node's death. */
const BANNER_WITHIN = 2000;
const FRESH_WITHIN = 5000;
/** So many pages at once: each has its own context, and they share the machine with three nodes. */
const AT_ONCE = 7;

let browser;
let cluster;
let views;

before(async () => {
  browser = await launch();
  cluster = await Cluster.start({ administrator: ADMINISTRATOR, restarts: true });
  views = await furnished(cluster);
});

// A test that fails leaves its pages open, and they would slow down the next one.
afterEach(() => Promise.all(browser.contexts().map((context) => context.close())));

after(async () => {
  await browser?.close();
  await cluster?.stop();
});

/** A view at a node, with its content. */
async function openAt(view, at) {
  const { page, close } = await openIn(browser, cluster, view.hash, { at });
  await content(page, view);
  const { hash } = new URL(page.url());
  return { view, page, close, hash };
}

const batches = (all) => Array.from({ length: Math.ceil(all.length / AT_ONCE) }, (_, at) => all.slice(at * AT_ONCE, (at + 1) * AT_ONCE));

/** How long the rest of a bound is. */
const left = (start, bound) => Math.max(1, bound - (performance.now() - start));

/** Follows a page whose node has died to another one. */
async function follows({ view, page, hash }, dead, start) {
  await page.locator(".stale-banner").waitFor({ timeout: left(start, BANNER_WITHIN) });
  await page.locator(".health", { hasText: /seen 0 s ago at node/ }).filter({ hasNotText: `at node ${dead}` }).waitFor({ timeout: left(start, FRESH_WITHIN) });
  await content(page, view, left(start, FRESH_WITHIN));
  assert.ok(!page.url().startsWith(cluster.urls[dead - 1]), page.url());
  assert.equal(new URL(page.url()).hash, hash, view.name);
}

for (let round = 1; round <= ROUNDS; round += 1) {
  test(`each page warns when the leader is killed, and goes on at another node (round ${round} of ${ROUNDS})`, async () => {
    for (const some of batches(views)) {
      await cluster.serves();
      const leader = await cluster.leader();
      const opened = await Promise.all(some.map((view) => openAt(view, leader - 1)));
      const start = performance.now();
      cluster.kill(leader);
      await Promise.all(opened.map((one) => follows(one, leader, start)));
      const places = await Promise.all(opened.map(({ page }) => page.url()));
      await cluster.serves();
      // The page has looked again since the node is back: it stays where it is.
      await Promise.all(opened.map(({ page }) => page.waitForResponse(/\/v1\/overview$/)));
      assert.deepEqual(opened.map(({ page }) => page.url()), places);
      await Promise.all(opened.map(({ close }) => close()));
    }
  });
}

test("without any node, each page is old at once and has no buttons; with one, it is live again", async () => {
  for (const some of batches(views)) {
    await cluster.serves();
    const opened = await Promise.all(some.map((view) => openAt(view, 0)));
    for (const { view, page } of opened) {
      await actAs(page, ADMINISTRATOR);
      await page.locator(`body:not(.stale)`).waitFor();
      assert.equal(await acts(page).count(), view.acts ?? 0, view.name);
    }
    const start = performance.now();
    for (const node of [1, 2, 3]) cluster.kill(node);
    await Promise.all(opened.map(async ({ view, page }) => {
      await page.locator("body.stale").waitFor({ timeout: left(start, BANNER_WITHIN) });
      assert.equal(await acts(page).count(), 0, view.name);
      assert.doesNotMatch(await page.locator(".strip").innerText(), /leads|voters answer|Live/, view.name);
      assert.ok(await page.locator("main", { hasText: view.shows }).isVisible(), `${view.name}: the old figures stay`);
    }));
    await cluster.serves();
    const back = performance.now();
    await Promise.all(opened.map(async ({ view, page, hash }) => {
      await page.locator("body:not(.stale) .health", { hasText: /seen 0 s ago/ }).waitFor({ timeout: left(back, FRESH_WITHIN) });
      await content(page, view, left(back, FRESH_WITHIN));
      assert.equal(new URL(page.url()).hash, hash, view.name);
    }));
    await Promise.all(opened.map(({ close }) => close()));
  }
});

test("a page with an open dialog stays at its dead node until the dialog is closed", async () => {
  await cluster.serves();
  const leader = await cluster.leader();
  const { page, close } = await openAt(views.find(({ name }) => name === "lock"), leader - 1);
  await actAs(page, ADMINISTRATOR);
  await page.getByRole("button", { name: "Break…" }).click();
  cluster.kill(leader);
  await page.locator(".stale-banner", { hasText: "until the dialog is closed" }).waitFor();
  assert.ok(await page.locator("dialog", { hasText: "The figures are old" }).isVisible());
  await page.getByRole("button", { name: "Close" }).click();
  await page.locator("body:not(.stale) .health", { hasText: /seen 0 s ago/ }).waitFor();
  await close();
});
