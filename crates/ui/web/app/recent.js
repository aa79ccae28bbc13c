// The events that a page shows, of several answers. Everything here is a pure function.

import { time } from "./format.js";
import { sum } from "./series.js";

/** An answer that comes later after the one before, in milliseconds, does not tell when its events happened. */
const LATE = 5000;

/** The events, each with a key: an answer has a revision from its last event on. @param {any[]} items */
export function keyed(items) {
  let at = 0;
  return items.map((item, index) => {
    at = items[index - 1]?.revision === item.revision ? at + 1 : 0;
    return { ...item, key: `${item.revision}-${at}` };
  });
}

/** New events with the time at which the page got them: they have none of their own.
 * @param {any[]} items @param {number | null} now by the server's clock @param {number | null} before when the last answer came */
export function seen(items, now, before) {
  if (now === null) return items;
  const isLate = before === null || now - before > LATE;
  return items.map((item) => ({ ...item, seen: { at: new Date(now).toISOString(), isLate } }));
}

/** When the page got an event, for people; nothing for an event from before the page.
 * @param {any} item @param {boolean} utc */
export function seenText(item, utc) {
  if (!item.seen) return "—";
  return `${item.seen.isLate ? "before " : ""}${time(item.seen.at, utc)}`;
}

/** How many events are left out beside these rows; null: they are not counted. @param {any[]} items */
export function leftOut(items) {
  const counts = items.flatMap(({ missed }) => (missed === undefined ? [] : [missed]));
  return counts.includes(null) ? null : sum(counts);
}
