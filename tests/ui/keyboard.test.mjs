// Each page by the keyboard alone.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ADMINISTRATOR, change, launch, openIn } from "./browser.mjs";
import { Cluster } from "./cluster.mjs";
import { content, furnished } from "./views.mjs";

/** More than the controls of any page: a field for a time takes several. */
const TABS_MAX = 400;

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

/** Runs in the page: notes each control that gets the focus, and whether the focus shows. */
function watchFocus() {
  const controls = "a[href], button:enabled, input:enabled, select:enabled, textarea:enabled, [tabindex='0']";
  const describe = (node) => `${node.localName} ${node.getAttribute("aria-label") ?? node.textContent.trim() ?? ""}`.slice(0, 80);
  const reached = new Set();
  const unseen = new Set();
  addEventListener("focusin", ({ target }) => {
    reached.add(target);
    const { outlineStyle, outlineWidth } = getComputedStyle(target);
    if (target.matches(controls) && (outlineStyle === "none" || outlineWidth === "0px")) unseen.add(describe(target));
  });
  globalThis.focusFound = () => {
    const wanted = [...document.querySelectorAll(controls)].filter((node) => node.checkVisibility());
    return { count: wanted.length, missed: wanted.filter((node) => !reached.has(node)).map(describe), unseen: [...unseen] };
  };
}

test("Tab reaches every control of each page, and shows where it is", async () => {
  for (const view of views) {
    const { page, wrong, close } = await openIn(browser, cluster, view.hash);
    await content(page, view);
    // A paused page does not add rows meanwhile.
    await page.keyboard.press("p");
    await page.locator(".banner", { hasText: "Paused" }).waitFor();
    await page.evaluate(watchFocus);
    let found;
    for (let tabs = 0; tabs < TABS_MAX; tabs += 10) {
      for (let at = 0; at < 10; at += 1) await page.keyboard.press("Tab");
      found = await page.evaluate(() => globalThis.focusFound());
      if (found.missed.length === 0) break;
    }
    assert.ok(found.count > 15, `${view.name}: ${found.count} controls`);
    assert.deepEqual(found.missed, [], view.name);
    assert.deepEqual(found.unseen, [], view.name);
    assert.deepEqual(wrong, [], view.name);
    await close();
  }
});

/** From a view, by the keys of rows, to what its row leads to; and back up to the row of the list that has it. */
const WAYS = [
  { from: "#/", row: "#/locks/deploy", heading: "deploy", up: "Locks" },
  { from: "#/locks", row: "#/locks/deploy", heading: "deploy", up: "Locks" },
  { from: "#/waits", row: "#/locks/deploy", heading: "deploy", up: "Locks" },
  { from: "#/sessions", row: "#/sessions/{leader}", heading: "Session {leader}", up: "Sessions" },
  { from: "#/elections", row: "#/elections/primary", heading: "Election primary", up: "Elections" },
  { from: "#/tree/jobs", row: "#/tree/jobs/nightly", heading: "nightly", up: "jobs" },
  { from: "#/events", row: "#/locks/deploy", heading: "deploy", up: "Locks" },
  { from: "#/history", row: "#/locks/deploy?tab=history", heading: "deploy", up: "Locks", back: "#/locks/deploy" },
];

/** Presses keys until a link has the focus. */
async function moveTo(page, row, key) {
  const has = () => page.evaluate((href) => document.activeElement?.getAttribute("href") === href, row);
  for (let at = 0; at < 100 && !await has(); at += 1) await page.keyboard.press(key);
  assert.ok(await has(), `${key} does not lead to ${row}`);
}

test("keys lead to a row, into it, and back to it, and the focus is in the heading of a new page", async () => {
  const leader = await cluster.numberOf("api-1");
  for (const way of WAYS) {
    const named = (text) => text.replace("{leader}", leader);
    const { page, wrong, close } = await openIn(browser, cluster, way.from);
    const row = named(way.row);
    await page.locator(`main a[href="${row}"]`).first().waitFor();
    await moveTo(page, row, way.from === "#/waits" ? "Tab" : "j");
    await page.keyboard.press("Enter");
    await page.locator("h1:focus", { hasText: named(way.heading) }).waitFor();
    await page.keyboard.press("u");
    await page.locator("h1", { hasText: way.up }).waitFor();
    await page.locator(`main a[href="${way.back ?? row}"]:focus`).waitFor();
    assert.deepEqual(wrong, [], way.from);
    await close();
  }
});

test("each page of the menu is reached by keys, with the focus in its heading", async () => {
  const { page, wrong, close } = await openIn(browser, cluster, "#/");
  await page.locator("nav a", { hasText: "Locks" }).waitFor();
  for (const label of await page.locator("nav[aria-label=Pages] a:not(.brand)").allInnerTexts()) {
    await page.evaluate(() => document.querySelector(".brand").focus());
    for (let at = 0; at < 20 && await page.evaluate(() => document.activeElement?.textContent) !== label; at += 1) await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.locator("h1", { hasText: label }).waitFor();
    if (label !== "Overview") await page.locator("h1:focus", { hasText: label }).waitFor();
  }
  assert.deepEqual(wrong, []);
  await close();
});

test("what is typed after / is in the search field, on each page", async () => {
  for (const view of views) {
    const { page, wrong, close } = await openIn(browser, cluster, view.hash);
    await content(page, view);
    const hasField = await page.locator("#search").count() > 0;
    // These letters are keys too: pause, theme, a link.
    await page.keyboard.type("/pdy");
    assert.ok((await page.inputValue("#search:focus")).includes("pdy"), view.name);
    if (!hasField) await page.locator("h1", { hasText: "Locks" }).waitFor();
    assert.equal(await page.locator(".banner").count(), 0, view.name);
    assert.deepEqual(wrong, [], view.name);
    await close();
  }
});

test("Escape empties the search field, leaves it, and the keys work again", async () => {
  const { page, wrong, close } = await openIn(browser, cluster, "#/locks");
  await page.locator("h1", { hasText: "Locks" }).waitFor();
  await page.keyboard.type("/batch");
  await page.locator("#search:focus").waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await page.inputValue("#search:focus"), "");
  await page.keyboard.press("Escape");
  await page.locator("h1:focus").waitFor();
  await page.locator("main select").first().focus();
  await page.keyboard.press("Escape");
  await page.locator("h1:focus").waitFor();
  await page.keyboard.type("go");
  await page.locator("h1:focus", { hasText: "Overview" }).waitFor();
  assert.deepEqual(wrong, []);
  await close();
});

/** Scrolls down, and returns how far. */
const scrolled = (page) => page.evaluate(() => {
  scrollTo(0, 60);
  return scrollY;
});

test("a new page begins at its top, a tab keeps the place, and the way up shows the row", async () => {
  const { page, wrong, close } = await openIn(browser, cluster, "#/locks", { viewport: { width: 1280, height: 300 } });
  const row = page.locator('main a[href="#/locks/deploy"]');
  const click = (locator) => locator.evaluate((node) => node.click());
  await row.waitFor();
  assert.equal(await scrolled(page), 60);
  await click(row);
  await page.locator("h1:focus", { hasText: "deploy" }).waitFor();
  assert.equal(await page.evaluate(() => scrollY), 0);
  await page.locator("table[aria-label=Queue]", { hasText: "ci-9" }).waitFor();
  assert.equal(await scrolled(page), 60);
  await click(page.locator(".tabs a", { hasText: "Settings" }));
  await page.locator(".tabs [aria-current]", { hasText: "Settings" }).waitFor();
  assert.ok(await page.evaluate(() => scrollY) > 0);
  await page.keyboard.press("u");
  await page.locator('main a[href="#/locks/deploy"]:focus').waitFor();
  const { top, bottom } = await row.evaluate((node) => node.getBoundingClientRect());
  assert.ok(top >= 0 && bottom <= 300, `${top} to ${bottom}`);
  assert.deepEqual(wrong, []);
  await close();
});

test("the problems in the strip lead to the heading of their list, also on the overview", async () => {
  const problems = [{ check: "planted", severity: "warning", seen: "a planted problem", do: "nothing" }];
  const { page, wrong, close } = await openIn(browser, cluster, "#/locks", {
    prepare: (opened) => change(opened, (body, path) => (path === "/v1/overview" ? { ...body, problems } : body)),
  });
  const link = page.locator(".health a", { hasText: "1 problem" });
  for (const of of ["another page", "the overview"]) {
    await link.focus();
    await page.keyboard.press("Enter");
    await page.locator("#problems:focus").waitFor();
    assert.ok(page.url().endsWith("/ui/#/"), of);
  }
  assert.deepEqual(wrong, []);
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await close();
});

test("a page that is shown again after an answer that it could not show takes no focus", async () => {
  let isBad = true;
  const { page, close } = await openIn(browser, cluster, "#/cluster", {
    prepare: (opened) => change(opened, (body, path) => (isBad && path === "/v1/cluster/members" ? {} : body)),
  });
  await page.locator("main", { hasText: "The answer cannot be shown here" }).waitFor();
  const link = page.locator("nav[aria-label=Pages] a", { hasText: "Locks" });
  await link.focus();
  isBad = false;
  await page.locator("table[aria-label=Members]").waitFor();
  assert.ok(await link.evaluate((node) => node === document.activeElement));
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await close();
});

test("a page whose answer cannot be shown keeps its heading, and the focus in it", async () => {
  let isBad = true;
  const { page, close } = await openIn(browser, cluster, "#/", {
    prepare: (opened) => change(opened, (body, path) => (isBad && path === "/v1/cluster/members" ? {} : body)),
  });
  await page.locator("nav[aria-label=Pages] a", { hasText: "Cluster" }).click();
  await page.locator("main", { hasText: "The answer cannot be shown here" }).waitFor();
  const heading = page.locator("h1:focus", { hasText: "Cluster" });
  assert.equal(await heading.count(), 1);
  isBad = false;
  await page.locator("table[aria-label=Members]").waitFor();
  assert.equal(await heading.count(), 1);
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await close();
});

test("a dialog keeps the focus, and gives it back", async () => {
  const { page, close } = await openIn(browser, cluster, "#/locks/deploy");
  const opener = page.getByRole("button", { name: "Read-only" });
  await opener.focus();
  await page.keyboard.press("Enter");
  await page.locator("dialog input:focus").waitFor();
  for (let at = 0; at < 8; at += 1) {
    await page.keyboard.press("Tab");
    // After the last control, the browser's own bar has the focus.
    assert.ok(await page.evaluate(() => document.activeElement === document.body || document.activeElement.closest("dialog") !== null));
  }
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });
  assert.ok(await opener.evaluate((node) => node === document.activeElement));
  await close();
});
