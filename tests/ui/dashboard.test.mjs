// The dashboard in a browser, against a cluster of real processes.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { after, before, test } from "node:test";
import { actAs, ADMINISTRATOR, change, inspect, launch, openIn } from "./browser.mjs";
import { Cluster, until } from "./cluster.mjs";
import { acts, content, furnished } from "./views.mjs";

const PICTURES = process.env.FAIRHOLD_PICTURES;
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

const open = (hash, { of = cluster, ...options } = {}) => openIn(browser, of, hash, options);

const seen = (page) => page.locator(".health").innerText();

test("each page shows its content without a violation, in both themes and sizes", async () => {
  if (PICTURES) mkdirSync(PICTURES, { recursive: true });
  for (const view of views) {
    const { page, wrong, close } = await open(view.hash);
    await content(page, view);
    assert.equal(await acts(page).count(), 0, `${view.name} is read-only at first`);
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await page.locator(`html[data-theme=${colorScheme}]`).waitFor();
      for (const width of [1280, 360]) {
        const what = `${view.name} ${colorScheme} ${width}`;
        await page.setViewportSize({ width, height: 800 });
        await inspect(page, width, what);
        if (PICTURES) await page.screenshot({ path: `${PICTURES}/${view.name}-${colorScheme}-${width}.png`, fullPage: true });
        assert.deepEqual(wrong, [], what);
      }
    }
    await close();
  }
});

test("the tiles have their figures as text, and the page asks only for newer rows", async () => {
  const { page, wrong, close } = await open("#/");
  const asked = [];
  page.on("request", (request) => {
    const { pathname, search } = new URL(request.url());
    if (pathname.endsWith("/v1/overview/series")) asked.push(search);
  });
  await until("the page asks for newer rows", async () => asked.some((search) => /^\?after=1s-[0-9a-f]{16}-\d+$/.test(search)));
  assert.equal(await page.locator(".tile").count(), 5);
  await page.locator(".tile svg[aria-hidden=true] rect").first().waitFor();
  assert.equal(await page.locator(".tile svg:not([aria-hidden=true])").count(), 0);
  const { json } = await cluster.call("/v1/overview");
  await page.locator(".tile", { hasText: new RegExp(`Held\\s*${json.totals.held}`) }).waitFor();
  assert.deepEqual(wrong, []);
  await close();
});

test("the tiles of a node with an older program show only what it knows, and no old charts", async () => {
  const { page, close } = await open("#/");
  await page.locator(".tile svg rect").first().waitFor();
  const series = [{ at: "2026-11-22T03:12:00Z", granted: 7, held: 7, queued: 7, lost: 7, term: 1 }];
  await page.route((url) => url.pathname === "/v1/overview", async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...await answer.json(), series } });
  });
  await page.route((url) => url.pathname === "/v1/overview/series", (route) => route.fulfill({ status: 404, json: { code: "not_found", detail: "nothing" } }));
  await page.locator("main", { hasText: "This node's program has no GET /v1/overview/series" }).waitFor();
  const { json } = await cluster.call("/v1/overview");
  const figures = await page.locator(".tile strong").allInnerTexts();
  assert.deepEqual(figures, ["—", String(json.totals.queued), String(json.totals.held), "—", "—"]);
  assert.equal(await page.locator(".tile svg rect").count(), 0);
  assert.equal(await page.locator(".banner").count(), 0);
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await close();
});

test("a search finds a lock, and a link opens it with its exact name", async () => {
  const session = await cluster.session("names");
  const names = ["odd/constructor", "odd/__proto__", "odd/a%2Fb", "odd/#?&=", "odd/🔒🔒"];
  for (const name of names) await cluster.acquire(session, name, "names");
  const { page, wrong, close } = await open("#/locks?sort=name");
  await page.fill("#search", "odd/");
  await page.waitForURL(/match=odd/);
  for (const name of names) await page.locator("main table a", { hasText: name }).waitFor({ timeout: 5000 });
  for (const name of names) {
    await page.locator("main table a", { hasText: name }).click();
    await page.locator("h1", { hasText: name }).waitFor({ timeout: 5000 });
    await page.locator(".holders", { hasText: "names" }).waitFor({ timeout: 5000 });
    await page.goBack();
    await page.locator("h1", { hasText: "Locks" }).waitFor();
  }
  assert.deepEqual(wrong, []);
  await close();
});

test("a waits page shows what concerns an owner", async () => {
  const { page, wrong, close } = await open("#/waits?owner=batch");
  await page.locator(".tree li", { hasText: "batch" }).waitFor();
  const rows = await page.locator(".tree li").allInnerTexts();
  assert.equal(rows.length, 2, rows.join("\n"));
  assert.match(rows[0], /ROOT ci-7 .* blocks 4/s);
  assert.equal(await page.locator("[role=tree], [role=treeitem]").count(), 0, "these roles promise the keys of a tree");
  assert.deepEqual(wrong, []);
  await close();
});

test("a row of the waits lists twenty locks and counts the others", async () => {
  const [holder, waiter] = [await cluster.session("hoarder"), await cluster.session("hoarder's waiter")];
  for (let at = 0; at < 22; at += 1) {
    await cluster.acquire(holder, `hoard/${at + 10}`, "hoarder");
    await cluster.acquire(waiter, `hoard/${at + 10}`, "patient");
  }
  const { page, wrong, close } = await open("#/waits?owner=hoarder");
  const root = page.locator(".tree li", { hasText: "ROOT" });
  await root.getByText("and 2 more").waitFor();
  assert.equal(await root.locator(".held-lock a").count(), 20);
  assert.match(await root.innerText(), /blocks 22/);
  assert.deepEqual(wrong, []);
  await close();
});

test("an address that names nothing is answered by the page", async () => {
  const { page, close } = await open("#/nothing");
  await page.locator("h1", { hasText: "There is no such page" }).waitFor();
  await close();
});

/** Switches to acting as administrator, and opens the dialog to break. */
async function beginBreak(page, token) {
  await actAs(page, token);
  await page.getByRole("button", { name: "Break…" }).click();
  await page.getByLabel("Reason").fill("it hangs");
}

test("a break needs the switch, a reason and the name, and happens once", async () => {
  await cluster.acquire(await cluster.session("broken"), "to-break", "first");
  const { page, close } = await open("#/locks/to-break");
  await page.locator(".holders", { hasText: "first" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Break…" }).count(), 0, "it is read-only at first");
  await beginBreak(page, ADMINISTRATOR);
  const submit = page.getByRole("button", { name: "Break", exact: true });
  assert.ok(await submit.isDisabled(), "the name is not typed yet");
  await page.locator("input[name=confirm]").fill("to-break");
  await submit.click();
  await page.locator(".outcome", { hasText: "Done" }).waitFor();
  const { json } = await cluster.call("/v1/locks/to-break/history");
  assert.deepEqual(json.items.map((item) => [item.owner, item.ended, item.reason]), [["first", "broken", "it hangs"]]);
  const { json: events } = await cluster.call("/v1/events?lock=to-break&type=broken");
  assert.deepEqual(events.items.map((event) => event.reason), ["it hangs"]);
  await close();
});

test("a break of a holder that has gone breaks nobody", async () => {
  const session = await cluster.session("changing");
  const first = await cluster.acquire(session, "to-keep", "first");
  const { page, close } = await open("#/locks/to-keep");
  await page.locator(".holders", { hasText: "first" }).waitFor();
  await beginBreak(page, ADMINISTRATOR);
  await page.locator("input[name=confirm]").fill("to-keep");
  await cluster.call(`/v1/grants/${first.id}`, { method: "DELETE" });
  await cluster.acquire(session, "to-keep", "second");
  const isBreak = (answer) => answer.request().method() === "DELETE";
  const [answer] = await Promise.all([page.waitForResponse(isBreak), page.getByRole("button", { name: "Break", exact: true }).click()]);
  assert.deepEqual([answer.status(), (await answer.json()).code], [412, "stale_token"]);
  await page.locator(".outcome", { hasText: "does not hold the lock any more" }).waitFor();
  const { json } = await cluster.call("/v1/locks/to-keep");
  assert.deepEqual(json.holders.map((holder) => holder.owner), ["second"]);
  await close();
});

test("a break whose answer was lost is sent again with the same key, and happens once", async () => {
  const session = await cluster.session("again");
  await cluster.acquire(session, "to-break-again", "first");
  await cluster.acquire(await cluster.session("next"), "to-break-again", "second");
  const { page, close } = await open("#/locks/to-break-again");
  await page.locator(".holders", { hasText: "first" }).waitFor();
  const keys = [];
  await page.route((url) => url.pathname.endsWith("/holders"), async (route) => {
    keys.push(route.request().headers()["idempotency-key"]);
    const answer = await route.fetch();
    if (keys.length > 1) return route.fulfill({ response: answer });
    return route.fulfill({ status: 504, json: { code: "unknown", detail: "the outcome is not known" } });
  });
  await beginBreak(page, ADMINISTRATOR);
  await page.locator("dialog", { hasText: "Only this grant: if the lock changes hands first, nothing is broken." }).waitFor();
  await page.locator("dialog", { hasText: "Next: second, who has waited" }).waitFor();
  await page.locator("input[name=confirm]").fill("to-break-again");
  await page.getByRole("button", { name: "Break", exact: true }).click();
  await page.locator(".outcome", { hasText: "asking again with the same key" }).waitFor();
  await page.locator(".outcome", { hasText: "Done" }).waitFor();
  assert.equal(keys.length, 2);
  assert.equal(keys[0], keys[1]);
  const { json } = await cluster.call("/v1/locks/to-break-again/history");
  assert.deepEqual(json.items.map((item) => [item.owner, item.ended]), [["second", undefined], ["first", "broken"]]);
  await close();
});

test("with old figures or a pause, no break is sent", async () => {
  await cluster.acquire(await cluster.session("old"), "to-leave", "first");
  const { page, close } = await open("#/locks/to-leave");
  await page.locator(".holders", { hasText: "first" }).waitFor();
  await actAs(page, ADMINISTRATOR);
  await page.keyboard.press("p");
  await page.locator(".banner", { hasText: "Paused" }).waitFor();
  assert.equal(await acts(page).count(), 0);
  await page.keyboard.press("p");
  await page.getByRole("button", { name: "Break…" }).click();
  await page.getByLabel("Reason").fill("it hangs");
  await page.locator("input[name=confirm]").fill("to-leave");
  await page.locator("dialog button.danger:enabled").waitFor();
  await page.route((url) => url.pathname === "/v1/overview", (route) => route.fulfill({ status: 503, json: { code: "no_leader", detail: "planted" } }));
  await page.locator("dialog", { hasText: "The figures are old" }).waitFor();
  assert.ok(await page.getByRole("button", { name: "Break", exact: true }).isDisabled());
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });
  assert.equal(await acts(page).count(), 0);
  assert.equal((await cluster.call("/v1/locks/to-leave/holders?reason=without", { method: "DELETE" })).status, 401);
  assert.equal((await cluster.call("/v1/locks/to-leave")).json.holders.length, 1);
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await close();
});

test("a wrong token breaks nothing", async () => {
  await cluster.acquire(await cluster.session("safe"), "safe", "owner");
  const { page, close } = await open("#/locks/safe");
  await page.locator(".holders", { hasText: "owner" }).waitFor();
  await beginBreak(page, "not-the-token-of-this-server-at-all");
  await page.locator("input[name=confirm]").fill("safe");
  const isBreak = (answer) => answer.request().method() === "DELETE";
  const [answer] = await Promise.all([page.waitForResponse(isBreak), page.getByRole("button", { name: "Break", exact: true }).click()]);
  assert.equal(answer.status(), 403);
  const { detail } = await answer.json();
  await page.locator(".outcome", { hasText: detail }).waitFor();
  assert.equal((await cluster.call("/v1/locks/safe")).json.holders.length, 1);
  assert.equal(await page.evaluate(() => JSON.stringify(localStorage)).then((kept) => kept.includes("token")), false);
  await close();
});

test("keys move through the pages, and do nothing while somebody types", async () => {
  const { page, close } = await open("#/");
  const all = [["gl", "Locks"], ["gw", "Waits"], ["gs", "Sessions"], ["ge", "Elections"], ["gt", "Tree"], ["gv", "Events"], ["gh", "History"], ["gc", "Cluster"], ["go", "Overview"]];
  for (const [keys, heading] of all) {
    for (const key of keys) await page.keyboard.press(key);
    await page.locator("h1", { hasText: heading }).waitFor();
  }
  await page.keyboard.press("p");
  await page.locator(".banner", { hasText: "Paused" }).waitFor();
  await page.keyboard.press("p");
  await page.keyboard.press("g");
  await page.keyboard.press("l");
  await page.locator("h1", { hasText: "Locks" }).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("gp");
  assert.equal(await page.inputValue("#search"), "gp");
  assert.equal(await page.locator(".banner").count(), 0);
  await close();
});

test("the page moves to another node with the same view, and says how old it is if there is none", async () => {
  const mortal = await Cluster.start();
  try {
    await mortal.jam();
    const leader = await mortal.leader();
    const { page, close } = await open("#/locks/deploy?tab=history", { at: leader - 1, of: mortal });
    await page.locator("main", { hasText: "ci-7" }).waitFor();
    mortal.kill(leader);
    await until("another node is shown", async () => !page.url().startsWith(mortal.urls[leader - 1]), 10000);
    assert.ok(page.url().endsWith("/ui/#/locks/deploy?tab=history"), page.url());
    await page.locator(".health", { hasText: "seen 0 s ago" }).waitFor({ timeout: 10000 });
    await page.locator("main", { hasText: "ci-7" }).waitFor();
    assert.ok(!(await seen(page)).includes(`at node ${leader}`));
    // A member that does not answer does not count, whether the page asks the leader or a follower.
    const next = await mortal.leader(leader % 3, leader);
    const follower = [1, 2, 3].find((node) => node !== leader && node !== next);
    for (const node of [next, follower]) {
      await page.goto(`${mortal.urls[node - 1]}/ui/#/cluster`);
      await page.locator(".health", { hasText: "2 of 3 voters answer, ▲ can lose none" }).waitFor({ timeout: 10000 });
      await page.locator("table[aria-label=Members] tbody tr", { hasText: "⊘ unreachable" }).waitFor();
      const row = page.locator("table[aria-label='What each member says'] tbody tr", { hasText: "⬣ no" });
      await row.waitFor();
      assert.match(await row.innerText(), new RegExp(`^${leader}\\b`));
    }
    const said = await page.locator("table[aria-label='What each member says'] tbody tr", { hasText: "yes" }).allInnerTexts();
    assert.equal(said.length, 2, said.join("\n"));
    for (const row of said) assert.match(row, /s ago\s+yes\s+yes\s+[\d,]+\s+[\d,]+\s.*iB of .*iB\s.*\d%/s);
    assert.equal(said.filter((row) => /[\d,]+ ± [\d,]+ ms/.test(row)).length, 1, "the clock of the asked node is compared with no other");
    await page.goto(`${mortal.urls[next - 1]}/ui/#/locks/deploy?tab=history`);
    await page.locator("main", { hasText: "ci-7" }).waitFor();
    for (const node of [1, 2, 3]) if (node !== leader) mortal.kill(node);
    await page.locator(".banner", { hasText: "Seen" }).waitFor({ timeout: 5000 });
    await page.locator("body.stale").waitFor();
    assert.ok(await page.locator("main", { hasText: "ci-7" }).isVisible(), "the old figures stay");
    await close();
  } finally {
    await mortal.stop();
  }
});

test("a break is sent again until its dialog is closed or changed", async () => {
  for (const button of [null, "Close", "Ask it back instead"]) {
    const lock = `to-call-off/${button}`;
    await cluster.acquire(await cluster.session(lock), lock, "first");
    const { page, close } = await open(`#/locks/${encodeURIComponent(lock)}`, { prepare: (opened) => opened.clock.install() });
    await page.locator(".holders", { hasText: "first" }).waitFor();
    let sent = 0;
    await page.route((url) => url.pathname.endsWith("/holders"), (route) => {
      sent += 1;
      return route.fulfill({ status: 503, json: { code: "no_leader", detail: "planted" } });
    });
    await beginBreak(page, ADMINISTRATOR);
    await page.locator("input[name=confirm]").fill(lock);
    // From here on, no timer of the page fires before the test says so.
    await page.clock.pauseAt(Date.now() + 60_000);
    await page.getByRole("button", { name: "Break", exact: true }).click();
    await page.locator(".outcome", { hasText: "asking again" }).waitFor();
    assert.equal(sent, 1);
    if (button !== null) await page.getByRole("button", { name: button }).click();
    // The page makes its look, whose timer is due after that of the break.
    const looks = page.waitForRequest((request) => request.url().endsWith("/v1/overview"));
    await page.clock.runFor(2000);
    await looks;
    assert.equal(sent > 1, button === null, `${button}: sent ${sent} times`);
    assert.equal((await cluster.call(`/v1/locks/${encodeURIComponent(lock)}`)).json.holders.length, 1);
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await close();
  }
});

test("a break is not done because a proxy answers with a page, or refused after one that may have happened", async () => {
  await cluster.acquire(await cluster.session("proxied"), "proxied", "first");
  const { page, close } = await open("#/locks/proxied");
  await page.locator(".holders", { hasText: "first" }).waitFor();
  let refuses = false;
  await page.route((url) => url.pathname.endsWith("/holders"), (route) => route.fulfill(refuses
    ? { status: 403, json: { code: "permission_denied", detail: "planted" } } : { status: 200, contentType: "text/html", body: "<h1>Sign in</h1>" }));
  await beginBreak(page, ADMINISTRATOR);
  await page.locator("input[name=confirm]").fill("proxied");
  await page.getByRole("button", { name: "Break", exact: true }).click();
  await page.locator(".outcome", { hasText: "asking again" }).waitFor();
  refuses = true;
  await page.locator(".outcome", { hasText: "planted" }).waitFor();
  assert.equal(await page.locator(".outcome").innerText(), "planted");
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await close();
});

test("a break of a grant whose token is not known is refused", async () => {
  const session = await cluster.session("without-token");
  const { id } = await cluster.acquire(session, "without-token", "first");
  const { page, close } = await open("#/locks/without-token", {
    prepare: (opened) => change(opened, (body, path) => {
      if (path.endsWith("/without-token")) for (const holder of body.holders ?? []) delete holder.token;
      return body;
    }),
  });
  await page.locator(".holders", { hasText: "first" }).waitFor();
  await beginBreak(page, ADMINISTRATOR);
  await page.locator("input[name=confirm]").fill("without-token");
  await cluster.call(`/v1/grants/${id}`, { method: "DELETE" });
  await cluster.acquire(session, "without-token", "second");
  const isBreak = (answer) => answer.request().method() === "DELETE";
  const [answer] = await Promise.all([page.waitForResponse(isBreak), page.getByRole("button", { name: "Break", exact: true }).click()]);
  assert.equal(answer.status(), 400);
  assert.deepEqual((await cluster.call("/v1/locks/without-token")).json.holders.map((holder) => holder.owner), ["second"]);
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await close();
});

test("the role of an administrator ends in a hidden tab, and on a page that is left", async () => {
  const { page, close } = await open("#/locks/deploy", { prepare: (opened) => opened.clock.install() });
  await actAs(page, ADMINISTRATOR);
  await page.evaluate(() => dispatchEvent(new PageTransitionEvent("pagehide", { persisted: true })));
  await page.locator("body:not(.acting)").waitFor();
  await actAs(page, ADMINISTRATOR);
  const hide = (hidden) => page.evaluate((value) => {
    Object.defineProperty(document, "hidden", { configurable: true, value });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  await hide(true);
  await page.clock.fastForward(8 * 3600 * 1000);
  await hide(false);
  await page.evaluate(() => dispatchEvent(new PointerEvent("pointerdown")));
  await page.locator("body:not(.acting)").waitFor();
  await close();
});

test("a lock is asked back once: the answer has no body", async () => {
  await cluster.acquire(await cluster.session("asked-back"), "asked-back", "first");
  const { page, wrong, close } = await open("#/locks/asked-back");
  await page.locator(".holders", { hasText: "first" }).waitFor();
  await actAs(page, ADMINISTRATOR);
  let asked = 0;
  page.on("request", (request) => { if (request.url().endsWith("/revoke")) asked += 1; });
  await page.getByRole("button", { name: "Ask back…" }).click();
  await page.getByRole("button", { name: "Ask", exact: true }).click();
  await page.locator(".outcome", { hasText: "Asked." }).waitFor();
  assert.equal(asked, 1);
  assert.deepEqual(wrong, []);
  await close();
});

test("a break that was lost, and is asked for with another reason, is told as it is", async () => {
  await cluster.acquire(await cluster.session("lost"), "lost", "first");
  const { page, close } = await open("#/locks/lost");
  await page.locator(".holders", { hasText: "first" }).waitFor();
  const keys = new Set();
  await page.route((url) => url.pathname.endsWith("/holders"), async (route) => {
    keys.add(route.request().headers()["idempotency-key"]);
    const answer = await route.fetch();
    if (keys.size > 1) return route.fulfill({ response: answer });
    return route.fulfill({ status: 504, json: { code: "unknown", detail: "the outcome is not known" } });
  });
  await beginBreak(page, ADMINISTRATOR);
  await page.locator("input[name=confirm]").fill("lost");
  await page.getByRole("button", { name: "Break", exact: true }).click();
  await page.locator(".outcome", { hasText: "It is not known whether it happened." }).waitFor();
  await page.getByLabel("Reason").fill("it still hangs");
  await page.getByRole("button", { name: "Break", exact: true }).click();
  await page.locator(".outcome", { hasText: "That grant does not hold the lock any more." }).waitFor();
  assert.equal(keys.size, 2);
  const { json } = await cluster.call("/v1/locks/lost/history");
  assert.deepEqual(json.items.map((item) => [item.owner, item.ended, item.reason]), [["first", "broken", "it hangs"]]);
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await close();
});
