// Fairhold from JavaScript, in one file to copy: a lock with its fencing token, with nothing but fetch (Node 18 or newer).
//
//   import { Client } from "./fairhold.mjs";
//   const client = new Client();                               // FAIRHOLD_ENDPOINT, or http://127.0.0.1:7171
//   await client.withLock("deploy", async (lock) => {
//     await client.put("/deployed", "v1.7", lock);             // refused by the servers once the lock is another's
//     await fetch(elsewhere, { signal: lock.signal });         // aborted as soon as the lock may be another's
//   });
//
// A lock is a lease. It counts as held until the ttl after the last renewal that was answered, less a margin.
import { randomBytes } from "node:crypto";

const MARGIN = 300;
const ANSWER_WITHIN = 10_000;
const pause = (millis) => new Promise((done) => setTimeout(done, millis));
const now = () => performance.now();

/** A UUIDv7, made before the request is sent: sending it again is the same request. */
function newKey() {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes[6] = (bytes[6] & 0x0f) | 0x70;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** The cluster refuses the request as it is: `code` is for programs. */
export class Refused extends Error {
  constructor(status, problem) {
    super([problem.detail, problem.advice].filter(Boolean).join(": ") || `status ${status}`);
    Object.assign(this, { name: "Refused", status, code: problem.code });
  }
}

export class Client {
  #urls;
  #cluster;

  constructor(endpoints = process.env.FAIRHOLD_ENDPOINT ?? "http://127.0.0.1:7171") {
    this.#urls = endpoints.split(",").map((url) => (url.includes("://") ? url : `http://${url}`).replace(/\/+$/, ""));
  }

  /** Runs `work` while it holds the lock, and gives it back. Rejects if the lock does not become free within `wait` seconds. */
  async withLock(name, work, { wait = 600, ttl = 15 } = {}) {
    const grant = newKey();
    const path = `/v1/locks/${encodeURIComponent(name)}?wait=${wait}s&ttl=${ttl}s`;
    const lost = new AbortController();
    const lock = { name, grant, signal: lost.signal, token: 0, validUntil: now() + ttl * 1000 - MARGIN };
    let timer;
    try {
      lock.token = (await this.call("POST", path, { key: grant, within: wait * 1000 + ANSWER_WITHIN })).token;
      // While it waited, the servers kept it alive; from here on, only a renewal of our own counts.
      lock.validUntil = now() + ttl * 1000 - MARGIN;
      if (!(await this.#renew(lock, ttl))) throw new Error(`${name} was lost as soon as it was acquired`);
      const watch = () => {
        if (now() >= lock.validUntil) lost.abort(new Error(`${name} may belong to another by now`));
        else timer = setTimeout(watch, Math.min(lock.validUntil - now(), 100));
      };
      watch();
      const renewals = setInterval(async () => {
        if (!(await this.#renew(lock, ttl))) lost.abort(new Error(`${name} was lost`));
      }, (ttl * 1000) / 3);
      try {
        return await work(lock);
      } finally {
        clearInterval(renewals);
      }
    } finally {
      clearTimeout(timer);
      // It ends with its ttl if this gets no answer.
      await this.call("DELETE", `/v1/grants/${grant}`, { within: 2000 }).catch(() => {});
    }
  }

  /** Writes a value, with missing parents; with a lock, only while that lock is held. */
  put(path, value, lock) {
    const headers = lock ? { "Fairhold-Fence": `${encodeURIComponent(lock.name)}=${lock.token}` } : {};
    const levels = path.replace(/^\//, "").split("/").map(encodeURIComponent).join("/");
    return this.call("PUT", `/v1/nodes/${levels}?parents`, { key: newKey(), body: value, headers });
  }

  async #renew(lock, ttl) {
    const sent = now();
    try {
      // A renewal counts only if the answer names this grant.
      const answer = await this.call("POST", `/v1/grants/${lock.grant}/renew`, { within: lock.validUntil - sent });
      if (answer.id !== lock.grant) return false;
      lock.validUntil = sent + ttl * 1000 - MARGIN;
      return true;
    } catch (error) {
      return !(error instanceof Refused) && now() < lock.validUntil;
    }
  }

  /** Any other call: asks one node after the other, always with the same key, until there is a definite answer. */
  async call(method, path, { key, body, headers = {}, within = ANSWER_WITHIN } = {}) {
    const until = now() + within;
    let why = "no endpoint";
    for (let turn = 0; ; turn += 1) {
      const left = until - now();
      if (left <= 0) throw new Error(`no answer within ${within} ms: ${why}`);
      const url = this.#urls[turn % this.#urls.length];
      const own = { ...headers, ...(key && { "Idempotency-Key": key }), ...(this.#cluster && { "Fairhold-Cluster": this.#cluster }) };
      try {
        const answer = await fetch(url + path, { method, body, headers: own, signal: AbortSignal.timeout(Math.ceil(left)) });
        const cluster = answer.headers.get("Fairhold-Cluster");
        this.#cluster ??= cluster ?? undefined;
        const isOurs = answer.headers.has("Fairhold-Request-Id") && (cluster === null || cluster === this.#cluster);
        const text = await answer.text();
        if (isOurs && answer.ok) return text ? JSON.parse(text) : {};
        if (isOurs && answer.status !== 503 && answer.status !== 504) throw new Refused(answer.status, JSON.parse(text));
        why = `${url}: status ${answer.status}`;
      } catch (error) {
        if (error instanceof Refused) throw error;
        why = `${url}: ${error.message}`;
      }
      if ((turn + 1) % this.#urls.length === 0) await pause(Math.min(200, Math.max(0, until - now())));
    }
  }
}
