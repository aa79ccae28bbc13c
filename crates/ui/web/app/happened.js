// What happened and when: the events of several answers, the holds around a time, and the totals over time, as rows of
// figures. Everything here is a pure function.

import { time } from "./format.js";

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

/** How a hold ends that its holder did not end itself. */
export const LOST = ["expired", "broken", "withdrawn"];

/** @typedef {{ at: number, revision: number, key: string, kind: string, isNotable: boolean, hold: any, times?: number, first?: number }} Happened */

/** What began and ended in a time, of the holds that overlap it.
 * @param {any[]} holds @param {number} begin @param {number} end in milliseconds since 1970 @returns {Happened[]} */
export function happened(holds, begin, end) {
  const rows = holds.flatMap((hold) => {
    const key = `${hold.lock} ${hold.number}-${hold.from_revision}`;
    const began = { at: Date.parse(hold.from), revision: hold.from_revision, key: `from ${key}`, kind: "granted", isNotable: false, hold };
    if (!hold.to) return [began];
    return [began, { at: Date.parse(hold.to), revision: hold.to_revision, key: `to ${key}`, kind: hold.ended, isNotable: LOST.includes(hold.ended), hold }];
  });
  // Two answers may have the same hold.
  return [...new Map(rows.filter(({ at }) => at >= begin && at < end).map((row) => [row.key, row])).values()];
}

/** One row for what repeats: the grants of one lock to one owner, without their usual ends, or the same loss.
 * @param {Happened[]} rows @returns {Happened[]} */
export function folded(rows) {
  const groups = /** @type {Map<string, Happened[]>} */ (new Map());
  for (const row of rows) {
    const { lock, owner, by, reason } = row.hold;
    const key = JSON.stringify([lock, owner, ...(row.isNotable ? [row.kind, by, reason] : [])]);
    const group = groups.get(key);
    if (group) group.push(row);
    else groups.set(key, [row]);
  }
  return [...groups].flatMap(([key, group]) => {
    const same = group.filter(({ isNotable, kind }) => isNotable || kind === "granted").sort((one, other) => one.at - other.at);
    // A change of the mode is no other grant.
    const times = new Set(same.map(({ hold }) => hold.number)).size;
    return times < 2 ? group : [{ ...same[same.length - 1], key, times, first: same[0].at }];
  });
}

/** The rows to show, in the order of time: what is notable, then what is nearest to the time.
 * @template {{ at: number, revision?: number, isNotable: boolean }} Row
 * @param {Row[]} rows @param {number} at @param {number} most */
export function nearest(rows, at, most) {
  const far = (/** @type {Row} */ row) => Math.abs(row.at - at);
  const chosen = [...rows].sort((one, other) => Number(other.isNotable) - Number(one.isNotable) || far(one) - far(other)).slice(0, most);
  // In a hand-over, the end and the next grant have the same time and revision: the end comes first.
  chosen.sort((one, other) => one.at - other.at || (one.revision ?? 0) - (other.revision ?? 0) || rank(one) - rank(other));
  return { rows: chosen, leftOut: rows.length - chosen.length };
}

/** @param {any} row */
function rank(row) {
  return row.kind === "granted" ? 1 : 0;
}

const ROWS_MAX = 600;

/** @typedef {{ names: string[], rows: number[][], next: string | null }} Rows */

/** @type {Rows} */
export const NO_ROWS = { names: [], rows: [], next: null };

/** The rows with those of a new answer. A server that cannot continue them answers with all that it has.
 * @param {Rows} before @param {Rows & { continues: boolean }} answer @returns {Rows} */
export function joined(before, answer) {
  const { names = [], rows = [], next = null, continues = false } = answer;
  return { names, next, rows: continues ? [...before.rows, ...rows].slice(-ROWS_MAX) : rows };
}

/** The figures of one column, the oldest first; none if the server has no such column.
 * @param {Rows} series @param {string} name */
export function column(series, name) {
  const at = series.names.indexOf(name);
  return at < 0 ? [] : series.rows.map((row) => row[at]);
}

/** @param {number[]} figures */
export function sum(figures) {
  return figures.reduce((all, figure) => all + figure, 0);
}

/** How much a column grew each second, over the newest rows; null if there are none. A row of a late server covers more than a second.
 * @param {Rows} series @param {string} name @param {number} most */
export function rate(series, name, most) {
  const grown = column(series, name).slice(-most);
  if (grown.length === 0) return null;
  // With the row before them, which ends where they begin.
  const ends = column(series, "at").slice(-most - 1);
  const took = (ends[ends.length - 1] - ends[0]) / 1000;
  return sum(grown) / Math.max(grown.length, took);
}

/** The rows at which the term is another one than before: another leader was elected.
 * @param {Rows} series */
export function elections(series) {
  const terms = column(series, "term");
  return terms.flatMap((term, at) => (at > 0 && term !== terms[at - 1] ? [at] : []));
}

/** The elections in a time, each in the time of its row: after `from`, and until `to` at the latest.
 * @param {Rows} series @param {number} begin @param {number} end in milliseconds since 1970
 * @returns {{ from: number, to: number, before: number, term: number }[]} */
export function electionsWithin(series, begin, end) {
  const [ends, terms] = [column(series, "at"), column(series, "term")];
  const found = elections(series).map((at) => ({ from: ends[at - 1], to: ends[at], before: terms[at - 1], term: terms[at] }));
  return found.filter(({ from, to }) => from <= end && to >= begin);
}
