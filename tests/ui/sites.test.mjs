// Pages of other sites, in a browser that reaches the cluster.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { launch } from "./browser.mjs";
import { Cluster } from "./cluster.mjs";

const METHODS = ["post", "put", "patch", "delete"];
const REBOUND = "rebound.example";

let browser;
let cluster;
let other;
/** The calls that change something, each with a body and with what its path names. */
let calls;

before(async () => {
  // As with DNS rebinding: the name of another site leads to this machine.
  browser = await launch([`--host-resolver-rules=MAP ${REBOUND} 127.0.0.1`]);
  // Without an administrators' token, everybody who reaches the server may do everything.
  cluster = await Cluster.start();
  const { holder, sessions } = await cluster.jam();
  calls = callsOf(JSON.parse(readFileSync(new URL("../../proto/openapi.json", import.meta.url), "utf8")), { grant: holder.id, session: sessions.a });
  other = createServer((request, answer) => {
    if (request.url === "/sandboxed") answer.setHeader("content-security-policy", "sandbox allow-scripts");
    answer.setHeader("content-type", "text/html").end("<h1>Another site</h1>");
  });
  await new Promise((resolve) => { other.listen(0, "127.0.0.1", resolve); });
});

after(async () => {
  await browser?.close();
  await cluster?.stop();
  other?.close();
});

/** What would do most harm as the body of a call. */
const BODIES = {
  "POST /v1/sessions": { ttl: "600s" },
  "POST /v1/locks": { locks: ["deploy"], session: "{session}", wait: "1ms" },
  "POST /v1/locks/{name}": { session: "{session}", owner: "stranger", wait: "1ms" },
  "PATCH /v1/locks/{name}": { limit: 7 },
  "POST /v1/cluster/leader": { to: 2 },
  "PUT /v1/access/roles/{name}": { rules: ["admin **"] },
};

/** @param {{ grant: string, session: string }} own */
function callsOf({ paths }, own) {
  const values = { id: (path) => (path.includes("sessions") ? own.session : path.includes("grants") ? own.grant : "3"), number: () => "1", path: () => "planted", subject: () => "user:eve" };
  return Object.entries(paths).flatMap(([path, item]) => METHODS.filter((method) => method in item).map((method) => ({
    method: method.toUpperCase(),
    path: path.replace(/\{(\w+)\}/g, (_, name) => (values[name] ?? (() => "deploy"))(path)),
    body: JSON.stringify(BODIES[`${method.toUpperCase()} ${path}`] ?? {}).replaceAll("{session}", own.session),
  })));
}

/** The digest of the state, and its revision. */
async function state() {
  const { json } = await cluster.call("/v1/cluster?digest=true");
  assert.ok(json.digest);
  return { digest: json.digest, leader: json.leader, snapshot: json.snapshot_index };
}

/** Makes all calls from a page: as a form may be sent, and as only a script may ask. Returns what the server answered, by its log. */
async function attack(page, base) {
  const answers = [];
  page.on("response", (answer) => {
    const request = answer.request();
    answers.push({ call: `${request.method()} ${new URL(answer.url()).pathname}`, status: answer.status() });
  });
  await page.evaluate(async ({ calls, base }) => {
    const ask = (url, options) => fetch(url, options).then(() => {}, () => {});
    for (const { method, path, body } of calls) {
      await ask(`${base}${path}`, { method, body, headers: { "content-type": "application/json" } });
      // No-cors allows only POST, and only the content types of forms.
      await ask(`${base}${path}`, { method: "POST", body, mode: "no-cors" });
    }
  }, { calls, base });
  return answers;
}

test("another site's page changes nothing by any call", async () => {
  const before = await state();
  // The second one has no origin.
  for (const place of [`http://127.0.0.1:${other.address().port}/`, `http://127.0.0.1:${other.address().port}/sandboxed`]) {
    const page = await browser.newPage();
    await page.goto(place);
    const answers = await attack(page, cluster.urls[0]);
    assert.deepEqual(answers.filter(({ status }) => status !== 403), [], place);
    // The browser asks first whether it may send anything but a form's POST.
    for (const { path } of calls) assert.ok(answers.some(({ call }) => call === `POST ${path}`), `${place}: ${path}`);
    assert.deepEqual(await state(), before);
    await page.close();
  }
});

test("a page whose name was led to this machine changes nothing by any call", async () => {
  const before = await state();
  const page = await browser.newPage();
  const base = `http://${REBOUND}:${cluster.port}`;
  await page.goto(`${base}/livez`);
  const answers = await attack(page, base);
  assert.deepEqual(answers.filter(({ status }) => status !== 403), []);
  for (const { method, path } of calls) assert.ok(answers.some(({ call }) => call === `${method} ${path}`), `${method} ${path}`);
  assert.deepEqual(await state(), before);
  await page.close();
});

test("another site cannot put the dashboard into a frame", async () => {
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${other.address().port}/`);
  const [refused] = await Promise.all([
    page.waitForEvent("console", (message) => message.text().includes("frame-ancestors")),
    page.evaluate((url) => {
      const frame = document.createElement("iframe");
      frame.src = url;
      document.body.append(frame);
    }, `${cluster.urls[0]}/ui/`),
  ]);
  assert.match(refused.text(), /127\.0\.0\.1/);
  await page.close();
});

test("without a browser's headers, the same calls change the state", async () => {
  const before = await state();
  for (const { method, path, body } of calls.filter((call) => ["POST /v1/sessions", "PATCH /v1/locks/deploy"].includes(`${call.method} ${call.path}`))) {
    const answer = await fetch(`${cluster.urls[0]}${path}`, { method, body, headers: { "content-type": "application/json" } });
    assert.ok(answer.ok, `${method} ${path}: ${await answer.text()}`);
  }
  assert.notEqual((await state()).digest, before.digest);
});
