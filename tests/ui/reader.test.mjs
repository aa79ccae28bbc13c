// What a screen reader gets: the browser's own tree of names and roles, and the sentences that it says by itself.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { actAs, ADMINISTRATOR, launch, openIn } from "./browser.mjs";
import { Cluster, until } from "./cluster.mjs";
import { content, furnished } from "./views.mjs";

/** The shapes of states, problems and nodes. A screen reader would read "filled square". */
const SHAPES = /[■▸◆□✕▲⬣★●○⊘‖◐→]/u;
/** The shortest time between two sentences, in milliseconds. */
const SAID_EVERY = 5000;

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

/** What a screen reader gets of a page. */
async function tree(page) {
  const client = await page.context().newCDPSession(page);
  const { nodes } = await client.send("Accessibility.getFullAXTree");
  await client.detach();
  return nodes.filter((node) => !node.ignored).map((node) => ({ role: node.role?.value, name: node.name?.value ?? "" }));
}

test("words stand for shapes, tables have headings of rows and columns, and figures are not announced", async () => {
  for (const view of views) {
    const { page, wrong, close } = await openIn(browser, cluster, view.hash);
    await content(page, view);
    const nodes = await tree(page);
    assert.ok(nodes.some(({ role, name }) => role === "heading" && name !== ""), view.name);
    assert.deepEqual(nodes.filter(({ name }) => SHAPES.test(name)), [], view.name);
    assert.deepEqual(nodes.filter(({ role, name }) => ["button", "link", "textbox", "searchbox", "combobox", "table"].includes(role) && name === ""), [], view.name);
    assert.equal(await page.locator("h1").count(), 1, view.name);
    assert.equal(await page.locator("main thead th:not([scope=col]), main tbody tr:not(:has(> th[scope=row]))").count(), 0, view.name);
    // Nothing else is announced when it changes.
    const live = page.locator("[aria-live], [role=status], [role=alert], [role=log], [role=timer], output");
    assert.equal(await live.count(), 1, view.name);
    assert.equal(await live.textContent(), "", view.name);
    assert.deepEqual(wrong, [], view.name);
    await close();
  }
});

/** Runs in the page: notes each sentence and its time. */
function listen() {
  globalThis.sentences = [];
  const region = document.querySelector("body > #app > [role=status]");
  new MutationObserver(() => {
    if (region.textContent !== "") globalThis.sentences.push([region.textContent, performance.now()]);
  }).observe(region, { childList: true, subtree: true, characterData: true });
}

test("one sentence is said in five seconds: the newest", async () => {
  const { page, wrong, close } = await openIn(browser, cluster, "#/locks/deploy");
  await page.evaluate(listen);
  const sentences = () => page.evaluate(() => globalThis.sentences);
  const toggle = page.locator(".toggles button").first();
  assert.equal(await toggle.textContent(), "‖ Pause");
  await page.keyboard.press("p");
  await until("the pause is said", async () => (await sentences()).length === 1);
  assert.equal(await toggle.textContent(), "▸ Resume");
  await page.keyboard.press("p");
  await page.keyboard.press("p");
  const [[first, at], [second, later]] = await until("the newest is said", async () => {
    const found = await sentences();
    return found.length === 2 && found;
  });
  // The same sentence is a new one: the region was empty meanwhile.
  assert.deepEqual([first, second], ["The page is paused.", "The page is paused."]);
  assert.ok(later - at >= SAID_EVERY - 50, `${later - at} ms`);
  assert.deepEqual(wrong, []);
  await close();
});

test("a reader without the overview hears that a part of the page is old, and that it is live again", async () => {
  const isLock = (url) => url.pathname === "/v1/locks/deploy";
  const refusal = (status) => ({ status, contentType: "application/problem+json", json: { title: "planted", code: "planted", detail: "a planted answer" } });
  const { page, wrong, close } = await openIn(browser, cluster, "#/locks/deploy", {
    prepare: (opened) => opened.route((url) => url.pathname === "/v1/overview", (route) => route.fulfill(refusal(403))),
  });
  await page.locator(".holders", { hasText: "ci-7" }).waitFor();
  await page.evaluate(listen);
  const said = (text) => until(text, async () => (await page.evaluate(() => globalThis.sentences)).at(-1)?.[0] === text);
  await page.route(isLock, (route) => route.fulfill(refusal(500)));
  await said("A part of this page is old.");
  await page.unroute(isLock);
  await said("Live again.");
  assert.deepEqual(wrong.filter((text) => !text.startsWith("Failed to load resource")), []);
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await close();
});

test("an open dialog says what happens, because nothing behind it is heard", async () => {
  const { page, wrong, close } = await openIn(browser, cluster, "#/cluster");
  await page.evaluate(listen);
  await actAs(page, ADMINISTRATOR);
  await until("the role is said", async () => (await page.evaluate(() => globalThis.sentences)).some(([text]) => text === "You act as administrator."));
  await page.getByRole("button", { name: "Snapshot…" }).click();
  await page.locator("dialog").getByRole("button", { name: "Copy: fairhold" }).click();
  await page.locator("dialog .line", { hasText: "copied" }).waitFor();
  await page.locator("dialog [role=status]", { hasText: "Copied." }).waitFor({ state: "attached", timeout: 2 * SAID_EVERY });
  assert.equal(await page.locator("body > #app > [role=status]").textContent(), "");
  assert.deepEqual(wrong, []);
  await close();
});
