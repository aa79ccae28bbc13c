// What a person pastes into a chat about a lock: one line of plain text. Everything here is a pure function.

import { count, parseSpan, span, time, visible, waits } from "./format.js";
import { link } from "./route.js";

/** How many holders of a shared lock or a semaphore it names. */
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
  const waiters = items.filter((item) => item.state === "queued");
  const chosen = cursor === "" && around !== "" ? waiters.find((item) => String(item.number) === around) : undefined;
  if (chosen) return { waiter: chosen, isChosen: true };
  // A later page does not have the first one.
  return { waiter: cursor === "" && around === "" ? waiters[0] ?? null : null, isChosen: false };
}

/**
 * @typedef {{ name: string, lock: any, usual: number | null, waiter: any, isChosen: boolean, seen: string | null, isOld: boolean, address: string }} Told
 * usual: in milliseconds. seen: when the server said so. isOld: newer answers are missing.
 */

/** @param {Told} told */
export function sentence({ name, lock, usual, waiter, isChosen, seen, isOld, address }) {
  const seenAt = Date.parse(seen ?? "");
  const parts = [
    isChosen ? `${grant(waiter)} has waited for lock ${named(name)} since ${period(waiter.queued_at, seenAt)}${place(waiter)}.` : null,
    held(name, lock, usual, seenAt),
    waiting(lock.queue_length),
    !isChosen && waiter ? `First in line: ${grant(waiter)}, since ${period(waiter.queued_at, seenAt)}.` : null,
    age(seenAt, isOld),
  ];
  return [...parts.filter((part) => part !== null), address].join(" ");
}

/** @param {string} name @param {any} lock @param {number | null} usual @param {number} seenAt */
function held(name, lock, usual, seenAt) {
  const holders = lock.holders.filter((/** @type {any} */ holder) => holder.state === "held");
  const [first] = holders;
  const usually = usual === null ? "" : `; usual: ${span(usual)}`;
  if (holders.length === 1 && !lock.next_cursor) return `Lock ${named(name)} has been held by ${grant(first)} since ${period(first.since, seenAt, usually)}.`;
  if (first) {
    const all = holders.length === lock.holders.length ? lock.holder_count ?? holders.length : holders.length;
    const several = holders.slice(0, NAMED).map((/** @type {any} */ holder) => `${grant(holder)} since ${period(holder.since, seenAt)}`);
    const others = all > several.length ? `, and ${count(all - several.length)} more` : "";
    return `Lock ${named(name)} has ${count(all)} holders: ${several.join(", ")}${others}${usually}.`;
  }
  const cooling = lock.holders.find((/** @type {any} */ holder) => holder.state === "cooling");
  if (cooling) return `Nobody holds lock ${named(name)}: it is cooling after ${grant(cooling)} expired.`;
  const reserved = lock.holders[0];
  return reserved ? `Nobody holds lock ${named(name)}: it is reserved for ${grant(reserved)}, which waits for another lock.` : `Nobody holds lock ${named(name)}.`;
}

/** @param {number | undefined} length */
function waiting(length) {
  if (length === undefined) return null;
  return length === 0 ? "Nobody waits." : `${waits(length)}.`;
}

/** @param {any} row */
function place({ position, waits_for: ahead, estimate }) {
  return `, at place ${count(position)}${ahead ? `, behind ${grant(ahead)}` : ""}${estimate ? ` (it may take about ${span(parseSpan(estimate))} more)` : ""}`;
}

/** A time in UTC, how long that was before the answer, and more about it. @param {string} since @param {number} seenAt */
function period(since, seenAt, more = "") {
  const from = Date.parse(since);
  const lasted = Number.isNaN(seenAt) ? "" : roughly(seenAt - from);
  const about = `${lasted}${more}`.replace(/^; /, "");
  return `${time(since, true)}${about === "" ? "" : ` (${about})`}`;
}

/** A span in whole minutes, so that the line does not change while somebody reads it. @param {number} millis */
function roughly(millis) {
  return millis < 60000 ? "less than 1 min" : span(millis - (millis % 60000));
}

/** @param {number} seenAt @param {boolean} isOld */
function age(seenAt, isOld) {
  const at = Number.isNaN(seenAt) ? null : time(new Date(seenAt).toISOString(), true).replace(/:\d\d UTC$/, " UTC");
  if (!isOld) return at === null ? null : `Seen ${at}:`;
  return at === null ? "This is old, and may have changed:" : `Last seen ${at}, and may have changed since:`;
}

/** A grant by its owner and its public numbers. Its id is a secret, and no answer has it. @param {{ owner: string, number: number, token?: number }} grant */
function grant({ owner, number, token }) {
  const numbers = `grant #${number}${token ? `, token ${token}` : ""}`;
  return owner ? `${named(owner)} (${numbers})` : `${numbers} (without an owner)`;
}

/** A name in the sentence, in quotes if it could be taken for other words. @param {string} text */
function named(text) {
  return /^[\p{L}\p{N}_./:+-]+$/u.test(text) ? text : `“${visible(text)}”`;
}
