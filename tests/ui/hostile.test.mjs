// Text of strangers in every field of every page, and names that look like something else.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { ADMINISTRATOR, change, launch, openIn } from "./browser.mjs";
import { Cluster, until } from "./cluster.mjs";
import { furnished } from "./views.mjs";

const HOSTILE = ["\"><img src=x onerror=alert(1)>", "javascript:alert(1)", "data:text/html,<script>alert(1)</script>", "a\u202eb"];
/** 512 bytes, the most of a lock's name. */
const EMOJI = "🔒".repeat(128);
const NAMES = ["constructor", "__proto__", "..x", "a%2Fb", "#", "?", "a&b=c", "it's", "<b>x</b>", EMOJI];

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

const open = (hash, options) => openIn(browser, cluster, hash, options);

/** Nothing of the text became more than text. */
async function isOnlyText(page, what) {
  assert.equal(await page.locator("main img, main script, main b, main iframe").count(), 0, what);
  const links = await page.locator("a[href]").evaluateAll((all) => all.map((node) => node.protocol));
  assert.deepEqual(links.filter((protocol) => !["http:", "https:"].includes(protocol)), [], what);
}

/** The values that a page reads, and does not only show. */
const READ = new Set(["next_cursor", "next", "as_of", "names", "role", "state", "mode", "type", "ended", "id", "number", "session"]);

/** A copy in which each text is hostile, but what the page reads: times, spans, figures and states. */
function poisoned(value, key = "", made = { at: 0 }) {
  if (Array.isArray(value)) return value.map((inner) => (READ.has(key) ? inner : poisoned(inner, key, made)));
  if (value !== null && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, poisoned(inner, name, made)]));
  if (typeof value !== "string" || READ.has(key) || /^(\d{4}-\d\d-\d\dT.*|\d+(ms|s)?)$/.test(value)) return value;
  made.at += 1;
  return HOSTILE[made.at % HOSTILE.length];
}

test("hostile text in each field of each answer is only text, also on a narrow page", async () => {
  for (const view of views) {
    const { page, wrong, close } = await open(view.hash, { prepare: (opened) => change(opened, (body) => poisoned(body)), viewport: { width: 320, height: 640 } });
    const main = page.locator("main");
    // The page shows some of the texts, as they are typed, with hidden characters made visible.
    await main.filter({ hasText: /onerror=alert\(1\)|javascript:alert|data:text\/html|a\\u202eb/ }).waitFor();
    await isOnlyText(page, view.name);
    assert.equal((await main.innerText()).includes("\u202e"), false, view.name);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= 320, `${view.name} scrolls sideways`);
    assert.deepEqual(wrong, [], view.name);
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await close();
  }
});

test("hostile text that a client stored is shown as it was typed, on each page that has it", async () => {
  const [tag, script, data] = HOSTILE;
  const lock = "hostile/<script>alert(1)</script>";
  const [holder, waiter, third] = [await cluster.session(tag), await cluster.session("waiter"), await cluster.session("third")];
  await cluster.acquire(holder, lock, tag, { meta: { link: script, "<b>bold</b>": data } });
  await cluster.acquire(waiter, lock, script);
  const headers = { authorization: `Bearer ${ADMINISTRATOR}` };
  const breakIt = (reason) => cluster.call(`/v1/locks/${encodeURIComponent(lock)}/holders?reason=${encodeURIComponent(reason)}`, { method: "DELETE", headers });
  assert.deepEqual([(await breakIt("\u202ewhy")).status, (await breakIt("<b>why</b>")).status], [400, 204]);
  await cluster.acquire(holder, lock, tag, { meta: { link: script } });
  await cluster.stand(third, "hostile/<b>", tag, data);
  await cluster.put(`hostile/${tag}`, `<b>${script}</b>`);
  const number = String(await cluster.numberOf(tag));
  const of = (page, name) => `#/${page}/${encodeURIComponent(name)}`;
  const shown = [
    ["#/", tag], ["#/locks?match=hostile", script], [of("locks", lock), tag], [`${of("locks", lock)}?tab=history`, "<b>why</b>"], ["#/waits", tag],
    ["#/sessions", tag], [`#/sessions/${number}`, tag], ["#/elections", data], [of("elections", "hostile/<b>"), data], ["#/tree/hostile", tag],
    [`#/tree/hostile/${encodeURIComponent(tag)}`, `<b>${script}</b>`], ["#/events", "<b>why</b>"], ["#/history?prefix=hostile", script],
  ];
  for (const [hash, text] of shown) {
    const { page, wrong, close } = await open(hash);
    await page.locator("main", { hasText: text }).waitFor();
    await isOnlyText(page, hash);
    assert.deepEqual(wrong, [], hash);
    await close();
  }
});

/** What a shell passes on of the last word of a line. */
const lastWord = (line) => execFileSync("sh", ["-c", `for word in ${line.split(" ").slice(2).join(" ")}; do last=$word; done; printf %s "$last"`], { encoding: "utf8" });

const electionOf = (name) => `${[...name].slice(0, 127).join("")}!`;

test("a name that looks like something else is opened, linked and copied exactly", async () => {
  const session = await cluster.session("names");
  for (const name of NAMES) {
    await cluster.acquire(session, name, "holds it");
    await cluster.stand(session, electionOf(name), "stands", name);
  }
  const { page, wrong, close } = await open("#/locks?sort=name");
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
  for (const [kind, names, text] of [["locks", NAMES, "holds it"], ["elections", NAMES.map(electionOf), "stands"]]) {
    for (const name of names) {
      await page.goto(`${cluster.urls[0]}/ui/#/${kind}${kind === "locks" ? `?sort=name&match=${encodeURIComponent(name)}` : ""}`);
      await page.locator(`main table a[href="#/${kind}/${encodeURIComponent(name).replaceAll('"', '\\"')}"]`).click();
      await page.locator("h1 .typed").waitFor();
      assert.equal(await page.locator("h1 .typed").getAttribute("title"), name);
      await page.locator("main", { hasText: text }).waitFor();
      await page.keyboard.press("y");
      const link = page.url();
      await until(`${link} is copied`, async () => (await clipboard()) === link);
      await page.getByRole("button", { name: "Copy: fairhold" }).click();
      await until(`${name} is copied`, async () => (await clipboard()) !== link);
      assert.equal(lastWord(await clipboard()), name);
      if (kind !== "locks") continue;
      // The link opens the same for another reader.
      const other = await open(new URL(link).hash);
      await other.page.locator(`h1 .typed[title="${name.replaceAll('"', '\\"')}"]`).waitFor();
      assert.deepEqual(other.wrong, [], name);
      await other.close();
    }
  }
  assert.deepEqual(wrong, []);
  await close();
});

test("a name that no lock can have is told, and asks for nothing else", async () => {
  for (const page of ["locks", "elections"]) {
    for (const name of ["..", ".", "../x", "%2e%2e", "a//b", "/"]) {
      const asked = [];
      const { page: opened, close } = await open(`#/${page}/${name.replaceAll("/", "%2F")}`, {
        prepare: (fresh) => { fresh.on("request", (request) => asked.push(new URL(request.url()).pathname)); },
      });
      await opened.locator("main .note.lost", { hasText: "No answer yet" }).first().waitFor();
      assert.deepEqual(asked.filter((path) => !/^\/(ui\/|v1\/(overview$|(locks|elections)\/[^/]+(\/|$)|nodes\/locks\/))/.test(path)), [], name);
      await close();
    }
  }
});

test("a name in a line to copy is no option, and what is copied has no control characters", async () => {
  const { page, close } = await open("#/locks/--endpoint%3Devil.example%3A7171?tab=history");
  const line = page.locator("code[aria-label=fairhold]");
  await line.filter({ hasText: "fairhold locks history -- --endpoint=evil.example:7171" }).waitFor();
  await page.goto(`${cluster.urls[0]}/ui/#/elections/--endpoint%3Devil`);
  await line.filter({ hasText: "fairhold elections show -- --endpoint=evil" }).waitFor();
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.goto(`${cluster.urls[0]}/ui/#/locks/x%15touch%20y%0A%1b%5b201~`);
  await line.filter({ hasText: "u0015" }).waitFor();
  await page.getByRole("button", { name: "Copy: fairhold" }).click();
  await until("it is copied", async () => (await page.evaluate(() => navigator.clipboard.readText())) === "fairhold locks queue -- 'xtouch y[201~'");
  await close();
});
