// The calls of the API. Every address is relative to the page, so that a proxy may add a prefix.

const TIMEOUT = 5000;

/** Why a call has no answer. */
export class Failure extends Error {
  /** @param {number} status @param {string} code @param {string} detail @param {any} [problem] */
  constructor(status, code, detail, problem) {
    super(detail);
    this.status = status;
    this.code = code;
    this.problem = problem ?? {};
  }
}

/** @param {string} path such as v1/locks */
export function address(path) {
  return new URL(`../${path}`, document.baseURI).href;
}

/** @param {string} path @param {Record<string, string | number | boolean | null | undefined>} [query] */
export function withQuery(path, query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = pairs.map(([key, value]) => `${encodeURIComponent(key)}=${encodeURIComponent(String(value))}`).join("&");
  return text ? `${path}?${text}` : path;
}

/**
 * @param {string} path
 * @param {{ method?: string, token?: string | null, key?: string, timeout?: number, form?: any }} [options]
 */
export async function call(path, { method = "GET", token = null, key, timeout = TIMEOUT, form } = {}) {
  const headers = new Headers({ accept: "application/json" });
  if (token) headers.set("authorization", `Bearer ${token}`);
  if (key) headers.set("idempotency-key", key);
  if (form) headers.set("content-type", "application/json");
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), timeout);
  try {
    const body = form ? JSON.stringify(form) : undefined;
    const answer = await fetch(address(path), {
      method, headers, body, signal: stop.signal, cache: "no-store", credentials: "omit", redirect: "error",
    });
    const text = await answer.text();
    const parsed = parse(text);
    if (!answer.ok) {
      throw new Failure(answer.status, parsed?.code ?? "error", parsed?.detail ?? parsed?.title ?? `status ${answer.status}`, parsed);
    }
    return { body: parsed, revision: Number(answer.headers.get("fairhold-revision") ?? 0) };
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure(0, "unreachable", stop.signal.aborted ? "the server did not answer in time" : "the server does not answer");
  } finally {
    clearTimeout(timer);
  }
}

/** @param {string} text */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** A new ULID, for an Idempotency-Key. */
export function newKey() {
  const random = crypto.getRandomValues(new Uint8Array(16));
  let at = Date.now();
  const head = Array.from({ length: 10 }, () => {
    const digit = DIGITS[at % 32];
    at = Math.floor(at / 32);
    return digit;
  }).reverse();
  return head.join("") + Array.from(random, (byte) => DIGITS[byte % 32]).join("");
}
