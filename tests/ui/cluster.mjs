// A cluster of real processes on this machine, and what the tests do with it.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PROGRAM = process.env.FAIRHOLD ?? "fairhold";

/** The ports of a cluster are in a slot of its own: its peer ports are 100 above the others. */
const SLOT = 200;

/** The first of some neighbouring free ports, whose peer ports are free too. */
async function freePorts(count) {
  const isFree = (port) => new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
  // Files that run at the same time begin at places of their own.
  for (let port = 20000 + (process.pid % 90) * SLOT; port < 40000; port += SLOT) {
    const wanted = [...Array(count).keys()].flatMap((index) => [port + index, port + 100 + index]);
    if ((await Promise.all(wanted.map(isFree))).every(Boolean)) return port;
  }
  throw new Error("no free ports");
}

/** Waits until the condition holds. It fails after a time, with what it was about. */
export async function until(what, condition, within = 10000) {
  const end = performance.now() + within;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (performance.now() > end) throw new Error(`not within ${within} ms: ${what}`);
    await new Promise((resolve) => { setTimeout(resolve, 25); });
  }
}

export class Cluster {
  /** Starts three nodes. With `restarts`, a node that dies comes back after two seconds. */
  static async start({ administrator = null, restarts = false } = {}) {
    const cluster = new Cluster();
    cluster.folder = mkdtempSync(join(tmpdir(), "fairhold-ui-"));
    cluster.port = await freePorts(3);
    cluster.urls = [0, 1, 2].map((index) => `http://127.0.0.1:${cluster.port + index}`);
    const args = ["dev", ...(restarts ? [] : ["--no-restart"]), "--port", String(cluster.port), "--dir", join(cluster.folder, "data")];
    if (administrator !== null) {
      const file = join(cluster.folder, "token");
      writeFileSync(file, administrator, { mode: 0o600 });
      args.push("--admin-token-file", file);
    }
    cluster.process = spawn(PROGRAM, args, { stdio: ["ignore", "pipe", "pipe"] });
    cluster.output = "";
    for (const stream of [cluster.process.stdout, cluster.process.stderr]) stream.on("data", (bytes) => { cluster.output += bytes; });
    await cluster.serves();
    return cluster;
  }

  /** Waits until all nodes serve. */
  async serves() {
    const serves = (url) => fetch(`${url}/readyz`).then((answer) => answer.ok, () => false);
    await until("the cluster serves", async () => (await Promise.all(this.urls.map(serves))).every(Boolean), 60000);
  }

  async stop() {
    this.process.kill("SIGINT");
    await new Promise((resolve) => { this.process.once("exit", resolve); });
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** The leader, as a node knows it: another one than `former`. */
  async leader(at = 0, former = null) {
    return until("a leader is known", async () => {
      const { leader } = await (await fetch(`${this.urls[at]}/v1/cluster`)).json();
      return leader !== former && leader;
    });
  }

  /** Kills a node, by the newest pid that was printed for it. */
  kill(node) {
    const found = [...this.output.matchAll(/node (\d+) pid (\d+)/g)].filter(([, id]) => Number(id) === node).at(-1);
    if (!found) throw new Error(`no pid of node ${node} in:\n${this.output}`);
    process.kill(Number(found[2]), "SIGKILL");
  }

  async call(path, { method = "GET", body, headers = {}, at = 0 } = {}) {
    const answer = await fetch(`${this.urls[at]}${path}`, {
      method, body: body === undefined ? undefined : JSON.stringify(body),
      headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
    });
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, json: text === "" ? null : JSON.parse(text) };
  }

  async session(name) {
    return (await this.call("/v1/sessions", { method: "POST", body: { ttl: "600s", name } })).json.id;
  }

  /** Takes a lock, or stands in its queue. */
  async acquire(session, lock, owner, more = {}) {
    const headers = { prefer: "respond-async" };
    const body = { session, owner, wait: "1ms", ...more };
    const answer = await this.call(`/v1/locks/${encodeURIComponent(lock)}`, { method: "POST", body, headers });
    if (answer.status !== 200 && answer.status !== 202) throw new Error(JSON.stringify(answer));
    return answer.json;
  }

  /** ci-7 holds deploy and stock. ci-9 waits for deploy and holds orders/42, for which two wait. */
  async jam() {
    const [a, b, c, d, e] = await Promise.all(["worker-a", "worker-b", "worker-c", "worker-d", "worker-e"].map((name) => this.session(name)));
    const meta = { host: "n7", build: "https://ci.example/812" };
    for (const owner of ["ci-1", "ci-2", "ci-3"]) {
      const { id } = await this.acquire(e, "deploy", owner);
      await this.call(`/v1/grants/${id}`, { method: "DELETE" });
    }
    const holder = await this.acquire(a, "deploy", "ci-7", { meta });
    await this.acquire(a, "stock", "ci-7", { meta });
    await this.acquire(b, "orders/42", "ci-9");
    await this.acquire(b, "deploy", "ci-9");
    await this.acquire(c, "stock", "batch");
    await this.acquire(d, "orders/42", "w1");
    await this.acquire(e, "orders/42", "w2");
    return { holder, sessions: { a, b, c, d, e } };
  }

  /** Enforces access rights. Each user has a role with its rules. Returns the tokens of the users. */
  async enforce(administrator, rulesOf) {
    const ask = async (path, method, body) => {
      const answer = await this.call(path, { method, body, headers: { authorization: `Bearer ${administrator}` } });
      if (answer.status >= 400) throw new Error(JSON.stringify(answer));
      return answer.json;
    };
    const tokens = {};
    for (const [user, rules] of Object.entries(rulesOf)) {
      await ask(`/v1/access/roles/role-of-${user}`, "PUT", { rules });
      await ask(`/v1/access/bindings/role-of-${user}/user:${user}`, "PUT");
      tokens[user] = (await ask("/v1/access/tokens", "POST", { user })).token;
    }
    await ask("/v1/access/bindings/admin/user:root", "PUT");
    await ask("/v1/access/enable", "POST");
    return tokens;
  }

  /** Writes a node, with the bytes as they are. */
  async put(path, value, query = "parents=true") {
    const encoded = path.split("/").map(encodeURIComponent).join("/");
    const answer = await fetch(`${this.urls[0]}/v1/nodes/${encoded}?${query}`, { method: "PUT", body: value });
    if (!answer.ok) throw new Error(await answer.text());
  }

  /** Stands for election, or leads. */
  async stand(session, election, owner, value) {
    const query = new URLSearchParams({ session, owner, value, wait: "1ms" });
    const answer = await fetch(`${this.urls[0]}/v1/elections/${encodeURIComponent(election)}?${query}`, { method: "POST", headers: { prefer: "respond-async" } });
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  }

  /** The number of the session with this name. */
  async numberOf(name) {
    const { json } = await this.call("/v1/sessions?limit=1000");
    return json.items.find((session) => session.name === name).number;
  }

  /** A leader with a candidate in line, jobs with values of all kinds, and an ephemeral node. Returns the number of the leader's session. */
  async furnish() {
    const [leader, next] = await Promise.all([this.session("api-1"), this.session("api-2")]);
    await this.stand(leader, "primary", "api-1", "http://10.0.0.7:8080");
    await this.stand(next, "primary", "api-2", "http://10.0.0.8:8080");
    await this.put("jobs/nightly", '{"state": "running", "host": "n7", "tries": 12345678901234567890, "steps": [], "last": {"ok": true}}');
    await this.put("jobs/nightly/run-7", "first line\nsecond line");
    await this.put("jobs/nightly/binary", new Uint8Array([0, 255, 1, 65]));
    await this.put("workers/api-1", "10.0.0.7", `parents=true&session=${leader}`);
    return String(await this.numberOf("api-1"));
  }
}

