// What readers with few rights see in a browser, against a cluster of real processes that enforces access rights.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ADMINISTRATOR, launch, openIn } from "./browser.mjs";
import { Cluster, until } from "./cluster.mjs";

let browser;
let cluster;
let tokens;

before(async () => {
  browser = await launch();
  cluster = await Cluster.start({ administrator: ADMINISTRATOR });
  await cluster.jam();
  tokens = await cluster.enforce(ADMINISTRATOR, { inspector: ["inspect locks:**"], observer: ["status cluster"] });
});

after(async () => {
  await browser?.close();
  await cluster?.stop();
});

/** Opens a view, and signs in. `asked` has the paths of the calls after that. */
async function openAs(user, hash, options) {
  const { page, close } = await openIn(browser, cluster, hash, options);
  await page.locator("dialog input[type=password]").fill(tokens[user]);
  const asked = [];
  page.on("response", (answer) => { asked.push(new URL(answer.url()).pathname); });
  await page.getByRole("button", { name: "Sign in" }).click();
  return { page, close, asked };
}

test("a reader without the right to the overview sees ages, and seldom asks for it", async () => {
  const { page, close, asked } = await openAs("inspector", "#/locks/deploy");
  await page.locator(".health", { hasText: "Not permitted" }).waitFor();
  await page.locator(".holders", { hasText: /for \d/ }).waitFor();
  const times = (path) => asked.filter((known) => known === path).length;
  await until("the page has asked for the lock several times", async () => times("/v1/locks/deploy") >= 5);
  assert.equal(times("/v1/overview"), 1);
  assert.match(await page.locator("code[aria-label=curl]").innerText(), /^curl -H "Authorization: Bearer \$TOKEN" "\$SERVER/);
  await close();
});

test("the numbers of what is hidden are hidden, and not 0", async () => {
  const { page, close } = await openAs("observer", "#/sessions");
  const row = page.locator("table[aria-label=Sessions] tbody tr", { hasText: "worker-a" });
  await row.waitFor();
  assert.match(await row.innerText(), /worker-a\s+hidden\s+hidden/);
  await row.locator("a").click();
  await page.locator(".panel", { hasText: "Your rights do not let you see them." }).nth(1).waitFor();
  assert.equal(await page.locator(".panel > header", { hasText: "hidden" }).count(), 2);
  await close();
});

test("a reader without a right to the locks is told that it sees none, and not that there is none", async () => {
  const { page, close } = await openAs("observer", "#/");
  for (const text of ["You see no waits.", "You see no holds.", "You see no lock that"]) await page.locator(".panel", { hasText: text }).waitFor();
  assert.equal(await page.locator("main", { hasText: /nobody (waits|holds)|no request was/i }).count(), 0);
  await page.locator(".tile", { hasText: /Held\s*3/ }).waitFor();
  await close();
});

test("after signing in, a page that seldom asks asks at once", async () => {
  const { page, close } = await openAs("inspector", "#/history?at=2026-11-22T03:12:00Z");
  // It asks every ten seconds.
  await page.locator("main", { hasText: "You see no match." }).waitFor({ timeout: 6000 });
  await close();
});

test("the present is the server's for a reader without the overview, too", async () => {
  const time = Date.now() - 365 * 24 * 3600 * 1000;
  const { page, close } = await openAs("inspector", "#/history", { prepare: (opened) => opened.clock.install({ time }) });
  await page.waitForURL(/at=/);
  const at = Date.parse(new URLSearchParams(page.url().split("?")[1]).get("at"));
  assert.ok(Math.abs(at - Date.now()) < 60000, page.url());
  await page.locator("main", { hasText: "ci-7" }).waitFor();
  await close();
});
