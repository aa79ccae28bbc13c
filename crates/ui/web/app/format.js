// Text for people: of figures, times and names, of the value of a node, and the sentence about a lock. Everything here is a pure function.

import { link } from "./route.js";

const UNITS = [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000], ["ms", 1]];
const TEXT_MAX = 64;

/** A duration of the API, such as "90s" or "250ms", in milliseconds; null if it is none.
 * @param {string | null | undefined} text */
export function parseSpan(text) {
  const found = /^(\d+)(ms|s)$/.exec(text ?? "");
  return found ? Number(found[1]) * (found[2] === "s" ? 1000 : 1) : null;
}

/** A duration for people, in two units at most, rounded down.
 * @param {number | null | undefined} millis */
export function span(millis) {
  if (millis === null || millis === undefined || Number.isNaN(millis)) return "—";
  let rest = Math.max(0, Math.floor(millis));
  if (rest >= 10000) rest -= rest % 1000;
  const first = UNITS.findIndex(([, size]) => rest >= size);
  if (first < 0) return "0 s";
  if (UNITS[first][0] === "s" && rest < 10000) return `${Math.floor(rest / 100) / 10} s`;
  const [unit, size] = UNITS[first];
  const text = `${Math.floor(rest / size)} ${unit}`;
  const next = UNITS[first + 1];
  if (!next || next[0] === "ms") return text;
  const smaller = Math.floor((rest % size) / next[1]);
  return smaller > 0 ? `${text} ${smaller} ${next[0]}` : text;
}

/** The time that some measured times do not exceed, in microseconds; 0 and null: nothing was measured.
 * @param {number | null | undefined} micros */
export function latency(micros) {
  if (!micros) return "—";
  return `≤ ${micros < 10000 ? `${micros / 1000} ms` : span(micros / 1000)}`;
}

/** A number with separators.
 * @param {number | null | undefined} value */
export function count(value) {
  return value === null || value === undefined ? "—" : value.toLocaleString("en-US");
}

/** "1 waits", "2 wait".
 * @param {number} value */
export function waits(value) {
  return `${count(value)} ${value === 1 ? "waits" : "wait"}`;
}

/** "1st", "2nd", "3rd", "11th".
 * @param {number} value */
export function ordinal(value) {
  const tens = value % 100;
  const ending = tens >= 11 && tens <= 13 ? "th" : ({ 1: "st", 2: "nd", 3: "rd" }[value % 10] ?? "th");
  return `${count(value)}${ending}`;
}

// Characters that show nothing, move others, or are blank but no plain space.
const HIDDEN = /[\p{C}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Z}/gu;

/** @param {string} character */
function escaped(character) {
  const digits = (character.codePointAt(0) ?? 0).toString(16);
  return digits.length > 4 ? `\\u{${digits}}` : `\\u${digits.padStart(4, "0")}`;
}

/** Text that somebody typed, with control, direction and blank characters made visible, and spaces at its ends.
 * @param {string} text */
export function visible(text) {
  return text.replace(HIDDEN, escaped).replace(/^ +| +$/g, (spaces) => escaped(" ").repeat(spaces.length));
}

/** Text of several lines, with everything visible but its line ends and tabs.
 * @param {string} text */
export function visibleLines(text) {
  return text.replace(HIDDEN, (found) => (found === "\n" || found === "\t" ? found : escaped(found)));
}

/** The same, cut in the middle if it is long.
 * @param {string} text */
export function shortened(text, most = TEXT_MAX) {
  const shown = [...visible(text)];
  if (shown.length <= most) return shown.join("");
  const half = Math.floor((most - 1) / 2);
  return `${shown.slice(0, half).join("")}…${shown.slice(-half).join("")}`;
}

/** The text as a link, if it is one of the web; otherwise null.
 * @param {string} text */
export function webLink(text) {
  try {
    const url = new URL(text);
    return ["http:", "https:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/** The same view at another member, as a link; null if the member's URL is none of the web.
 * @param {string} url @param {string} hash */
export function atMember(url, hash) {
  return webLink(url) && `${url.replace(/\/$/, "")}/ui/${hash}`;
}

/** A zone, such as UTC+5:30: other abbreviations mean several zones.
 * @param {number} ahead minutes ahead of UTC */
export function zone(ahead) {
  const [hours, minutes] = [Math.floor(Math.abs(ahead) / 60), Math.abs(ahead) % 60];
  const rest = minutes === 0 ? "" : `:${String(minutes).padStart(2, "0")}`;
  return ahead === 0 ? "UTC" : `UTC${ahead > 0 ? "+" : "-"}${hours}${rest}`;
}

/** A time for people, with its zone.
 * @param {string | null | undefined} text @param {boolean} utc */
export function time(text, utc) {
  const at = new Date(text ?? "");
  if (Number.isNaN(at.getTime())) return "—";
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  const of = utc
    ? [at.getUTCFullYear(), at.getUTCMonth() + 1, at.getUTCDate(), at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()]
    : [at.getFullYear(), at.getMonth() + 1, at.getDate(), at.getHours(), at.getMinutes(), at.getSeconds()];
  return `${of[0]}-${two(of[1])}-${two(of[2])} ${two(of[3])}:${two(of[4])}:${two(of[5])} ${zone(utc ? 0 : -at.getTimezoneOffset())}`;
}

/** A time of an address, such as 2026-11-22T03:12:00Z, in milliseconds; null if it is none.
 * @param {string} text */
export function parseTime(text) {
  const at = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? null : at;
}

/** A time for an address or a call.
 * @param {number} millis */
export function timeText(millis) {
  return new Date(millis).toISOString().replace(".000Z", "Z");
}

/** A time as a field for times has it: in whole seconds, which it leaves out if they are 0.
 * @param {number} millis @param {boolean} utc */
export function fieldOf(millis, utc) {
  const ahead = utc ? 0 : -new Date(millis).getTimezoneOffset() * 60000;
  return new Date(millis + ahead).toISOString().slice(0, 19).replace(/(:\d\d):00$/, "$1");
}

/** The time that such a field has, in milliseconds; null if it has none.
 * @param {string} text @param {boolean} utc */
export function fromField(text, utc) {
  const at = Date.parse(utc ? `${text}Z` : text);
  return Number.isNaN(at) ? null : at;
}

/** The bound of a bucket of a histogram, for people.
 * @param {number} index @param {number} length */
export function bucket(index, length) {
  return index + 1 < length ? `≤ ${span(4 ** index)}` : `> ${span(4 ** (index - 1))}`;
}

/** The middle of some numbers; null if there are none.
 * @param {number[]} values */
export function median(values) {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted.length > 0 ? sorted[Math.floor(sorted.length / 2)] : null;
}

/** A word for a shell, in quotes if it needs them.
 * @param {string} text */
export function quoted(text) {
  return /^[A-Za-z0-9_./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** The line for a terminal that makes the call of a page.
 * @param {string} path @param {boolean} withToken the server wants one */
export function curl(path, withToken) {
  return `curl ${withToken ? '-H "Authorization: Bearer $TOKEN" ' : ""}"$SERVER/${path.replaceAll("!", "%21")}"`;
}

/** How far a clock is ahead, with the doubt about it: "+3 ± 2 ms".
 * @param {number | null | undefined} ahead @param {number | null | undefined} doubt in milliseconds */
export function clock(ahead, doubt) {
  if (ahead === null || ahead === undefined) return "—";
  const [sign, most] = [ahead < 0 ? "−" : ahead > 0 ? "+" : "", Math.abs(ahead)];
  return `${sign}${most < 10000 ? count(most) : `${span(most)},`} ± ${count(doubt)} ms`;
}

/** A share in percent. Without a whole, the part itself.
 * @param {number | null | undefined} part @param {number | null | undefined} whole */
export function share(part, whole) {
  return part === null || part === undefined || !whole ? count(part) : `${Math.round((part / whole) * 100)}%`;
}

/** A size for people.
 * @param {number | null | undefined} bytes */
export function size(bytes) {
  if (bytes === null || bytes === undefined) return "—";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const at = bytes < 1024 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  return at === 0 ? `${bytes} B` : `${Math.floor((bytes / 1024 ** at) * 10) / 10} ${units[at]}`;
}

/** How many holders of a shared lock or a semaphore a sentence names. */
const NAMED = 2;

/** The address of a lock's page, with the waiter that is selected there. A chat takes all of it for the link.
 * @param {string} page where the page is, without a view @param {string} name @param {number | null} number */
export function addressOf(page, name, number) {
  const view = link("locks", name, { around: number === null ? null : String(number) });
  return page + view.replace(/[!'()*]/g, (found) => `%${found.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** The waiter that the sentence is about: the one that the address selects, otherwise the first one.
 * @param {any[]} items the page of the queue @param {string} around what the address selects @param {string} cursor */
export function waiterOf(items, around, cursor) {
  const isChosen = cursor === "" && around !== "";
  const waiter = items.find((item) => item.state === "queued" && (!isChosen || String(item.number) === around));
  // A later page does not have the first one.
  return waiter && cursor === "" ? { waiter, isChosen } : { waiter: null, isChosen: false };
}

/** A lock in one line, for a chat. @param {{ name: string, lock: any, usual: number | null, waiter: any, isChosen: boolean, seen: string | null, isOld: boolean, address: string }} told
 * usual: in milliseconds. seen: when the server said so. isOld: newer answers are missing. */
export function sentence({ name, lock, usual, waiter, isChosen, seen, isOld, address }) {
  const at = Date.parse(seen ?? "");
  const since = (/** @type {string} */ from) => ` since ${time(from, true)}${Number.isNaN(at) ? "" : ` (${roughly(at - Date.parse(from))})`}`;
  const about = `lock ${named(name)}`;
  return [
    isChosen ? `${grant(waiter)} has waited for ${about}${since(waiter.queued_at)}${place(waiter)}.` : "",
    held(lock, about, since, usual === null ? "" : ` It is usually held for ${span(usual)}.`),
    lock.queue_length === undefined ? "" : `${lock.queue_length === 0 ? "Nobody waits" : waits(lock.queue_length)} for it.`,
    waiter && !isChosen ? `Next: ${grant(waiter)}${since(waiter.queued_at)}.` : "",
    Number.isNaN(at) ? "" : `${isOld ? "Last seen" : "Seen"} ${time(new Date(at).toISOString(), true).replace(/:\d\d UTC$/, " UTC")}.`,
    isOld ? "It may have changed since." : "",
    address,
  ].filter(Boolean).join(" ");
}

/** @param {any} lock @param {string} about @param {(from: string) => string} since @param {string} usually */
function held(lock, about, since, usually) {
  const holders = lock.holders.filter((/** @type {any} */ holder) => holder.state === "held");
  const all = lock.next_cursor ? lock.holder_count : holders.length;
  const others = all > NAMED ? `, and ${count(all - NAMED)} more` : "";
  const list = holders.slice(0, NAMED).map((/** @type {any} */ holder) => grant(holder) + since(holder.since)).join(others ? ", " : " and ");
  if (list) return `L${about.slice(1)} has been held by ${list}${others}.${usually}`;
  const [last] = lock.holders;
  const why = last ? `: it ${last.state === "cooling" ? "is cooling after" : "is reserved for"} ${grant(last)}` : "";
  return `Nobody holds ${about}${why}.`;
}

/** @param {any} row */
function place({ position, waits_for: ahead, estimate }) {
  return `, with ${count(position - 1)} ahead${ahead ? `, behind ${grant(ahead)}` : ""}${estimate ? `. It may wait about ${span(parseSpan(estimate))} more` : ""}`;
}

/** A span in whole minutes, so that the line does not change while somebody reads it. @param {number} millis */
function roughly(millis) {
  return millis < 60000 ? "less than 1 min" : span(millis - (millis % 60000));
}

/** A grant by its owner and its public numbers. Its id is a secret, and no answer has it. @param {{ owner: string, number: number, token?: number }} grant */
function grant({ owner, number, token }) {
  return `${owner ? named(owner) : "somebody"} (grant #${number}${token ? `, token ${token}` : ""})`;
}

/** A name, in quotes if it could be taken for other words. @param {string} text */
function named(text) {
  return /^[\p{L}\p{N}_./:+-]+$/u.test(text) ? text : `“${visible(text)}”`;
}

const INDENT_MAX = 32;
/** A browser takes seconds for much more. */
const LAID_OUT_MAX = 256 * 1024;
const ROW = 16;

/** The text of some bytes; null if they are none. A character that the end of a part cuts is left out.
 * @param {Uint8Array} bytes @param {boolean} whole */
export function asText(bytes, whole) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes, { stream: !whole });
  } catch {
    return null;
  }
}

/** An object or a list of JSON, laid out; null for anything else, or if that is much longer. Numbers and names stay as they are written.
 * @param {string} text */
export function laidOut(text) {
  try {
    const value = JSON.parse(text);
    if (typeof value !== "object" || value === null) return null;
  } catch {
    return null;
  }
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g) ?? [];
  let depth = 0;
  const line = () => `\n${"  ".repeat(Math.min(depth, INDENT_MAX))}`;
  const isEnd = (/** @type {string | undefined} */ token) => token === "}" || token === "]";
  const out = tokens.map((token, at) => {
    if (token === ":") return ": ";
    if (token === ",") return `,${line()}`;
    if (token === "{" || token === "[") {
      if (isEnd(tokens[at + 1])) return token;
      depth += 1;
      return `${token}${line()}`;
    }
    if (!isEnd(token) || ["{", "["].includes(tokens[at - 1])) return token;
    depth -= 1;
    return `${line()}${token}`;
  }).join("");
  return out.length <= LAID_OUT_MAX ? out : null;
}

/** Rows of sixteen bytes, with their places and what they are in ASCII.
 * @param {Uint8Array} bytes */
export function asHex(bytes) {
  const rows = [];
  for (let at = 0; at < bytes.length; at += ROW) {
    const row = [...bytes.subarray(at, at + ROW)];
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const letters = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".")).join("");
    rows.push(`${at.toString(16).padStart(6, "0")}  ${digits.padEnd(ROW * 3 - 1)}  ${letters}`);
  }
  return rows.join("\n");
}
