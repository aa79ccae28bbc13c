// What all pages share: the newest look at the cluster, and the reader's choices.

import { signal, computed } from "../vendor/preact.js";
import { call, mayAsk } from "./api.js";
import { follow } from "./follow.js";
import { parse } from "./route.js";

const EVERY = 1000;
const STALE_AFTER = 2000;
const ADMIN_FOR = 15 * 60 * 1000;

export const route = signal(parse(location.hash));
/** The newest overview. */
export const look = signal(/** @type {any} */ (null));
/** When it arrived, by performance.now(). */
export const lookAt = signal(0);
export const failure = signal(/** @type {any} */ (null));
/** Counts the time between looks, for ages. */
export const now = signal(performance.now());
export const paused = signal(/** @type {number | null} */ (null));
/** The reader's token, in the memory of this page only. */
export const token = signal(/** @type {string | null} */ (null));
export const tokenWanted = signal(/** @type {string | null} */ (null));
export const admin = signal(/** @type {{ token: string | null, until: number } | null} */ (null));
/** Calls whose newest answer is missing while the page shows an older one, with the reason. */
export const late = signal(/** @type {Record<string, string>} */ ({}));
export const dialog = signal(/** @type {any} */ (null));
/** What a screen reader says now. */
export const said = signal("");

export const settings = signal(load());
export const age = computed(() => (look.value === null ? null : now.value - lookAt.value));
/** Whether the figures are old. They are if the server did not answer just now: the next look may be too late for a warning. */
export const stale = computed(() => look.value !== null && paused.value === null && ((age.value ?? 0) > STALE_AFTER || failure.value?.status === 0));
export const mayAct = computed(() => admin.value !== null && !stale.value && paused.value === null && Object.keys(late.value).length === 0);

/** The shortest time between two sentences, in milliseconds. */
const SAID_EVERY = 5000;
/** Then a sentence leaves the page: nobody meets it there later, and the same one can be said again. */
const SAID_FOR = 4000;
let saidAt = -SAID_EVERY;
let saying = 0;

/** Lets a screen reader say a sentence. Of several within five seconds, it says the newest. @param {string} text */
export function say(text) {
  clearTimeout(saying);
  saying = setTimeout(() => {
    saidAt = performance.now();
    said.value = text;
    setTimeout(() => { said.value = ""; }, SAID_FOR);
  }, Math.max(0, saidAt + SAID_EVERY - performance.now()));
}

/** Notes that a call has no new answer, and why; null: it has one, or nothing shows it any more.
 * @param {string} path @param {string | null} why */
export function noteLate(path, why) {
  if (why === null && !(path in late.value)) return;
  const { [path]: _, ...others } = late.value;
  late.value = why === null ? others : { ...others, [path]: why };
}

/** The server's time by the headers of its answers, in whole seconds, for readers that may not see the overview. */
const dated = signal(/** @type {{ at: number, seen: number } | null} */ (null));

/** @param {Headers | undefined} headers */
export function noteDate(headers) {
  const [at, seen] = [Date.parse(headers?.get("date") ?? ""), performance.now()];
  // The header is rounded down: what is furthest ahead is nearest.
  if (!Number.isNaN(at) && (dated.value === null || at - seen > dated.value.at - dated.value.seen)) dated.value = { at, seen };
}

/** The server's time now, in milliseconds: it never depends on the browser's clock. */
export function serverNow() {
  if (look.value !== null) return Date.parse(look.value.as_of) + now.value - lookAt.value;
  return dated.value === null ? null : dated.value.at + now.value - dated.value.seen;
}

/** How long ago a time of the server is. @param {string | null | undefined} text */
export function since(text) {
  const at = Date.parse(text ?? "");
  const server = serverNow();
  return server === null || Number.isNaN(at) ? null : Math.max(0, server - at);
}

function load() {
  const initial = { theme: "", utc: false, keys: true };
  try {
    return { ...initial, ...JSON.parse(localStorage.getItem("fairhold") ?? "{}") };
  } catch {
    return initial;
  }
}

/** @param {Partial<{ theme: string, utc: boolean, keys: boolean }>} change */
export function set(change) {
  settings.value = { ...settings.value, ...change };
  applyTheme();
  try {
    localStorage.setItem("fairhold", JSON.stringify(settings.value));
  } catch {
    // A browser may keep nothing.
  }
}

export function applyTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = settings.value.theme || (dark ? "dark" : "light");
}

/** @param {string | null} given */
export function actAs(given) {
  admin.value = { token: given, until: performance.now() + ADMIN_FOR };
}

/** The credential of the next read. */
export function credential() {
  return token.value ?? admin.value?.token ?? null;
}

/** A call with this credential has failed. @param {any} error @param {string | null} sent */
export function refused(error, sent) {
  // Another one may have replaced it meanwhile.
  if (error.status !== 401 || sent !== credential()) return;
  if (token.value === sent) token.value = null;
  if (admin.value?.token === sent) admin.value = null;
  if (credential() === null) tokenWanted.value = sent === null ? "This server requires a token." : "This server does not accept that token.";
}

let failures = 0;
let cluster = /** @type {string | undefined} */ (undefined);
let denied = /** @type {{ sent: string | null, at: number } | null} */ (null);

async function lookOnce() {
  const sent = credential();
  try {
    const { body } = await call("v1/overview", { token: sent, timeout: 1500 });
    failures = 0;
    cluster ??= body.cluster;
    // Numbers of another cluster at this address would mean something else.
    if ((body.cluster ?? cluster) !== cluster) return location.reload();
    denied = null;
    tokenWanted.value = null;
    look.value = body;
    failure.value = null;
    lookAt.value = performance.now();
    now.value = lookAt.value;
  } catch (error) {
    failure.value = error;
    refused(error, sent);
    const { status, headers } = /** @type {any} */ (error);
    noteDate(headers);
    if (status === 403) denied = { sent, at: performance.now() };
    failures = status > 0 ? 0 : failures + 1;
    // A dialog may wait for an outcome.
    if (failures >= 2 && dialog.value === null) await follow(look.value?.members ?? [], look.value?.id);
  }
}

/** Looks once a second while the page is visible. */
export function start() {
  applyTheme();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
  addEventListener("hashchange", () => { route.value = parse(location.hash); });
  addEventListener("pagehide", () => { token.value = admin.value = null; });
  document.addEventListener("visibilitychange", () => { now.value = performance.now(); });
  for (const used of ["pointerdown", "keydown"]) {
    addEventListener(used, () => { if (admin.value) admin.value = { ...admin.value, until: performance.now() + ADMIN_FOR }; });
  }
  setInterval(() => {
    if (admin.value && admin.value.until < performance.now()) admin.value = null;
    if (!document.hidden) now.value = performance.now();
  }, 500);
  const next = async () => {
    const isDue = paused.value === null && tokenWanted.value === null && mayAsk(denied, credential(), performance.now());
    if (isDue && !document.hidden) await lookOnce();
    // A second failure moves the page.
    setTimeout(next, failures === 1 ? EVERY / 2 : Math.max(EVERY, failure.value?.retryAfter ?? 0));
  };
  next();
}
