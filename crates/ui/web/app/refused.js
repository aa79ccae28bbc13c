// Requests that were refused because waiting would have caused a deadlock, as the newest look has them.

import { html } from "../vendor/preact.js";
import { count } from "./format.js";
import { LockLink, OwnerLink, SessionLink, Table, Time } from "./parts.js";
import { look } from "./state.js";

/** How many waiters of a deadlock a row names. */
const NAMED = 8;

/** The refused requests that concern what is given, the newest first.
 * @param {Record<string, string>} given owner, lock, session or prefix; an empty text selects all */
export function refusals(given) {
  const matches = (/** @type {any} */ one) => (!given.owner || one.owner === given.owner) && (!given.lock || one.lock === given.lock)
    && (!given.session || String(one.session) === given.session) && (!given.prefix || one.lock.startsWith(given.prefix));
  return (look.value?.refused ?? []).filter((/** @type {any} */ row) => row.cycle.some(matches));
}

/** One row for all refusals with the same owners and locks: the newest of them, and how often it was refused.
 * @param {any[]} rows the newest first */
export function repeated(rows) {
  const found = /** @type {Map<string, any>} */ (new Map());
  for (const row of rows) {
    const key = JSON.stringify([row.cycle.map((/** @type {any} */ one) => [one.owner, one.lock]), row.cycle_left_out ?? 0]);
    const newest = found.get(key) ?? { ...row, key, times: 0 };
    found.set(key, { ...newest, times: newest.times + 1 });
  }
  return [...found.values()];
}

/** Since when the newest look has all refusals, as text; null: its node does not report them. */
export function refusedSince() {
  return look.value?.refused_since ?? null;
}

/** Who waits for what, from the requester back to it. @param {{ row: any }} props */
export function Cycle({ row }) {
  const named = row.cycle.slice(0, NAMED);
  const others = row.cycle.length - named.length + (row.cycle_left_out ?? 0);
  return html`${named.map((/** @type {any} */ one, /** @type {number} */ at) => html`<span key=${at}><${OwnerLink} owner=${one.owner} most=${32} />${at > 0 ? ", which waits for " : " waits for "}
    <${LockLink} name=${one.lock} />, held by${" "}</span>`)}${others > 0 ? html`<span class="muted">${count(others)} more in turn, and at last by </span>` : null}<${OwnerLink} owner=${row.cycle[0]?.owner ?? ""} most=${32} />`;
}

/** @param {{ rows: any[], empty: any }} props rows: what `repeated` has made */
export function Refusals({ rows, empty }) {
  const columns = [
    { head: "Refused", cell: (/** @type {any} */ row) => html`<${Time} at=${row.at} />${row.times > 1 ? `, ${count(row.times)} times` : ""}` },
    { head: "Request of", cell: (/** @type {any} */ row) => html`<${OwnerLink} owner=${row.cycle[0].owner} most=${32} />, <${SessionLink} number=${row.cycle[0].session} />` },
    { head: "Deadlock", wide: true, cell: (/** @type {any} */ row) => html`<${Cycle} row=${row} />` },
  ];
  return html`<${Table} columns=${columns} rows=${rows} of=${(/** @type {any} */ row) => row.key}
    label="Refused deadlocks" empty=${empty} />`;
}

/** How far back the refusals are known. */
export function RefusalsKnown() {
  const since = refusedSince();
  if (since === null) return html`<p class="note">This node reports no refused deadlocks: its program is older than this page, or your rights do not cover its overview.</p>`;
  return html`<p class="note">This node knows all since <${Time} at=${since} />, as far as you may see their locks. It keeps the newest 64, in memory only.</p>`;
}
