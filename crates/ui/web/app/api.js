// The calls of the API. Every address is relative to the page, so that a proxy may add a prefix.

const TIMEOUT = 5000;
/** How long a call is not made again with a credential whose rights do not cover it. */
const DENIED_FOR = 30000;

/** Why a call has no answer. */
export class Failure extends Error {
  /** @param {number} status @param {string} code @param {string} detail @param {any} [problem] */
  constructor(status, code, detail, problem) {
    super(detail);
    this.status = status;
    this.code = code;
    this.problem = problem ?? {};
    this.headers = new Headers();
    /** How long the server wants the next try to wait, in milliseconds. */
    this.retryAfter = 0;
  }
}

/** Whether to make a call again: not soon with the same credential after a denial, which costs the server a question to the leader.
 * @param {{ sent: string | null, at: number } | null} denied @param {string | null} credential @param {number} now */
export function mayAsk(denied, credential, now) {
  return denied === null || denied.sent !== credential || now - denied.at >= DENIED_FOR;
}

/** The code of a failure: the server does not know the call. */
export const UNKNOWN_CALL = "unknown_call";
/** Calls with a name in their path. Their 404 means that nothing has that name. */
const NAMED = /^v1\/(elections|locks|nodes|sessions)\/[^?]/;

/** The failure of a read. Without a name in its path, only a program that does not know the call answers with 404.
 * @param {string} path @param {Failure} failure */
export function explained(path, failure) {
  if (failure.status !== 404 || NAMED.test(path)) return failure;
  return new Failure(404, UNKNOWN_CALL, `This node's program has no GET /${path.split("?")[0]}; it is older than this page. Upgrade the node.`);
}

/** @param {string} path such as v1/locks */
export function address(path) {
  return new URL(`../${path}`, document.baseURI).href;
}

/** Whether a browser would ask for another path: it takes names of dots alone for steps. @param {string} path such as v1/locks/.. */
export function hasDots(path) {
  return path.split("?")[0].split("/").some((part) => part === "." || part === "..");
}

/** @param {string} path @param {Record<string, string | number | boolean | null | undefined>} [query] */
export function withQuery(path, query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = pairs.map(([key, value]) => `${encodeURIComponent(key)}=${encodeURIComponent(String(value))}`).join("&");
  return text ? `${path}?${text}` : path;
}

/** @typedef {{ method?: string, token?: string | null, key?: string, timeout?: number, within?: string, form?: any, accept?: string }} Options */

/** @param {string} path @param {Options} [options] */
export function call(path, options = {}) {
  return ask(path, options, async (answer) => (answer.status > 201 ? null : answer.json()));
}

/** A call whose failure does not make the page old. @param {string} path @param {Options} [options] */
export async function callOrNothing(path, options) {
  try {
    return await call(path, options);
  } catch (error) {
    console.debug(error);
    return { body: {}, headers: new Headers(), revision: 0 };
  }
}

/** The first bytes of a value. The rest of a longer one is not fetched.
 * @param {string} path @param {number} most @param {Options} [options] */
export function callBytes(path, most, options = {}) {
  return ask(path, { ...options, accept: "*/*" }, async (answer) => {
    const reader = answer.body?.getReader();
    const bytes = new Uint8Array(most);
    let length = 0;
    while (reader && length < most) {
      const { done, value } = await reader.read();
      if (done) break;
      const taken = value.subarray(0, most - length);
      bytes.set(taken, length);
      length += taken.length;
    }
    await reader?.cancel();
    return bytes.slice(0, length);
  });
}

/**
 * @template T
 * @param {string} path @param {Options} options @param {(answer: Response) => Promise<T>} read
 */
async function ask(path, { method = "GET", token = null, key, timeout = TIMEOUT, within, form, accept = "application/json" }, read) {
  if (hasDots(path)) throw new Failure(400, "invalid_argument", "a name cannot be . or ..");
  const headers = new Headers({ accept });
  if (token) headers.set("authorization", `Bearer ${token}`);
  if (key) headers.set("idempotency-key", key);
  if (within) headers.set("fairhold-timeout", within);
  if (form) headers.set("content-type", "application/json");
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), timeout);
  try {
    const body = form ? JSON.stringify(form) : undefined;
    const answer = await fetch(address(path), {
      method, headers, body, signal: stop.signal, cache: "no-store", redirect: "error",
    });
    if (!answer.ok) {
      const problem = parse(await answer.text());
      const failure = new Failure(answer.status, problem?.code ?? "error", problem?.detail ?? problem?.title ?? `status ${answer.status}`, problem);
      failure.headers = answer.headers;
      failure.retryAfter = waitOf(answer.headers.get("retry-after"));
      throw failure;
    }
    return { body: await read(answer), headers: answer.headers, revision: Number(answer.headers.get("fairhold-revision") ?? 0) };
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure(0, "unreachable", stop.signal.aborted ? "the server did not answer in time" : "the server does not answer");
  } finally {
    clearTimeout(timer);
  }
}

/** The wait that a Retry-After in seconds asks for, in milliseconds: a minute at most. 0: none.
 * @param {string | null} text */
export function waitOf(text) {
  return /^\d{1,9}$/.test(text ?? "") ? Math.min(Number(text), 60) * 1000 : 0;
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
