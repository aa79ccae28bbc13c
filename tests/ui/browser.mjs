// The browser, and what the tests look at in every page.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const ADMINISTRATOR = "correct-horse-battery-staple-administrator";

export function launch(more = []) {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", ...more] });
}

/** Opens a view. `prepare` comes before its first request. What the page does wrong is in `wrong`. */
export async function openIn(browser, cluster, hash, { at = 0, prepare = () => {}, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  const wrong = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) wrong.push(message.text()); });
  page.on("pageerror", (error) => wrong.push(error.message));
  page.on("dialog", (dialog) => { wrong.push(`dialog ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => {
    const url = request.url().replace(/^blob:/, "");
    if (!cluster.urls.some((known) => url.startsWith(known))) wrong.push(`asked ${request.url()}`);
  });
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  });
  await prepare(page);
  await page.goto(`${cluster.urls[at]}/ui/${hash}`);
  await page.waitForSelector("main[id] h1");
  return { page, wrong, close: () => context.close() };
}

/** Puts something in the place of each answer of the API that is JSON. */
export function change(page, what) {
  return page.route((url) => url.pathname.startsWith("/v1/"), async (route) => {
    const answer = await route.fetch();
    const isJson = answer.ok() && answer.headers()["content-type"]?.startsWith("application/json");
    await route.fulfill(isJson ? { response: answer, json: what(await answer.json(), new URL(answer.url()).pathname) } : { response: answer });
  });
}

/** The frame, a heading and a panel or a form are there. */
export async function isThere(page, what) {
  const seen = await page.evaluate(() => ({
    links: document.querySelectorAll("nav[aria-label=Pages] a").length, headings: document.querySelectorAll("main h1, main h2").length,
    toggles: document.querySelectorAll(".toggles button").length,
  }));
  assert.equal(seen.links, 10, what);
  assert.equal(seen.toggles, 3, what);
  assert.ok(seen.headings > 0, what);
}

/** Nothing scrolls sideways, and axe finds nothing serious. */
export async function inspect(page, width, what) {
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= width, `${what} scrolls sideways at ${width}`);
  await page.evaluate(AXE);
  const found = await page.evaluate(() => globalThis.axe.run({ resultTypes: ["violations"] }));
  const bad = found.violations.filter((violation) => ["serious", "critical"].includes(violation.impact));
  assert.deepEqual(bad.map((violation) => `${violation.id}: ${violation.nodes[0].html}`), [], what);
}

/** Switches to acting as administrator. */
export async function actAs(page, token) {
  await page.getByRole("button", { name: "Read-only" }).click();
  await page.locator("dialog input[type=password]").fill(token);
  await page.getByRole("button", { name: "Continue" }).click();
  // The frame shows that buttons act.
  await page.locator("body.acting").waitFor();
}
