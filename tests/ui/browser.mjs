// The browser, and what the tests look at in every page.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const ADMINISTRATOR = "correct-horse-battery-staple-administrator";

export function launch() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
}

/** Opens a view. What the page does wrong is in `wrong`. */
export async function openIn(browser, cluster, hash, { at = 0, ...options } = {}) {
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
  await page.goto(`${cluster.urls[at]}/ui/${hash}`);
  await page.waitForSelector("h1");
  return { page, wrong, close: () => context.close() };
}

/** Nothing scrolls sideways, and axe finds nothing serious. */
export async function inspect(page, width, what) {
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= width, `${what} scrolls sideways at ${width}`);
  await page.evaluate(AXE);
  const found = await page.evaluate(() => globalThis.axe.run());
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
