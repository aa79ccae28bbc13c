// The recent events, newest first. The page asks only for what is new.

import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { call, withQuery } from "../api.js";
import { count, parseSpan, shortened, span, visible } from "../format.js";
import { Curl, Heading, Line, LockLink, OwnerLink, Panel, SessionLink, Shape, Table, Typed, usePoll, Waiting } from "../parts.js";
import { keyed, leftOut, seen, seenText } from "../happened.js";
import { link, treeLink } from "../route.js";
import { route, serverNow, settings } from "../state.js";

const ROWS = 100;
const FIELDS = ["lock", "prefix", "session", "type"];
const TYPES = ["queued", "granted", "ended", "cooling", "cooled", "downgraded", "broken", "revoke", "set", "forgotten", "proclaimed", "vacated", "opened",
  "created", "changed", "deleted", "joining", "joined", "removing", "removed", "finalized"];
/** The signs of some types, as in the lists of locks. */
const SIGNS = new Map([["queued", "▸"], ["granted", "■"], ["cooling", "◆"], ["lost", "✕"]]);
const COLOURS = new Map([["queued", "queued"], ["granted", "held"], ["cooling", "cooling"], ["lost", "lost"]]);
/** The server no longer keeps what follows, or has not reached it yet. */
const START_AGAIN = [400, 410];

export function Events() {
  const { query } = route.value;
  const given = Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""]));
  const path = withQuery("v1/events", { consistency: "local", limit: ROWS, ...given });
  const known = useRef(/** @type {any} */ (null));
  const poll = usePoll(path, 1000, (asked, options) => followed(known, asked, options));
  const shown = poll.body;
  const missed = shown ? leftOut(shown.items) : 0;
  const filtered = FIELDS.some((name) => given[name] !== "");
  return html`<${Heading}>Events</>
    <${Filter} given=${given} />
    <${Panel} title="Recent events" extra=${shown ? html`<span class="muted">${count(shown.items.length)} shown, newest first</span>` : null}>
      ${poll.error?.status === 400 ? html`<p class="note lost">${visible(poll.error.message)}</p>` : null}
      ${missed === 0 ? null : html`<p class="note queued"><${Shape} of="▲" /> ${missed === null ? "Some events are" : missed === 1 ? "1 event is" : `${count(missed)} events are`} left out: more happened at once than this page shows.</p>`}
      ${shown ? html`<${Rows} items=${shown.items} filtered=${filtered} />` : html`<${Waiting} poll=${poll} />`}
      ${shown ? html`<p class="note muted">This node keeps the events since revision ${count(shown.oldest)}. Events have no time:
        “seen at” is when this page got them, by the server's clock. Those from before the page have none.</p>` : null}
    </>
    <${Panel} title="The same without this page"><${Curl} path=${path} /></>`;
}

/**
 * Asks for what is new since the previous answer, and adds it. With another credential it starts again, because that one
 * may see less.
 * @param {{ current: any }} known @param {string} path @param {import("../api.js").Options} [options]
 */
async function followed(known, path, options) {
  const sent = options?.token ?? null;
  const before = known.current?.path === path && known.current.sent === sent ? known.current : null;
  const more = before ? await newer(path, before.revision, options) : null;
  const answer = more ?? await call(path, options);
  const { items, oldest, revision, skipped, next_cursor: rest = null } = answer.body;
  const at = serverNow();
  const all = more === null ? keyed(items) : [...seen(keyed(items), at, before.at), ...before.items];
  if (more !== null && rest !== null && all.length > 0) {
    // The row beside the events that are left out.
    const beside = Math.max(0, items.length - 1);
    all[beside] = { ...all[beside], missed: skipped ?? null };
  }
  known.current = { path, sent, at, revision, oldest, items: all.slice(0, ROWS) };
  return { ...answer, body: known.current };
}

/** What is new, or null if that is unknown. @param {string} path @param {number} revision @param {import("../api.js").Options} [options] */
async function newer(path, revision, options) {
  try {
    return await call(`${path}&after=${revision}`, options);
  } catch (error) {
    if (START_AGAIN.includes(/** @type {any} */ (error).status)) return null;
    throw error;
  }
}

/** @param {{ given: Record<string, string> }} props */
function Filter({ given }) {
  const [typed, setTyped] = useState(given);
  const key = FIELDS.map((name) => given[name]).join("\n");
  useEffect(() => setTyped(given), [key]);
  const change = (/** @type {string} */ name) => (/** @type {any} */ event) => setTyped({ ...typed, [name]: event.currentTarget.value });
  const go = (/** @type {Event} */ event) => {
    event.preventDefault();
    location.hash = link("events", null, typed);
  };
  const field = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string} */ id) => html`<label>${label}
    <input id=${id} type="text" value=${typed[name]} spellcheck=${false} autocomplete="off" inputMode=${name === "session" ? "numeric" : "text"} onInput=${change(name)} /></label>`;
  return html`<form class="controls" role="search" onSubmit=${go}>
    ${field("lock", "Lock", "lock")}${field("prefix", "Lock begins with", "search")}${field("session", "Session", "session")}
    <label>Type <select value=${typed.type} onChange=${change("type")}><option value="">all</option>
      ${TYPES.map((type) => html`<option key=${type} value=${type}>${type}</option>`)}</select></label>
    <button type="submit">Show</button><a class="button" href=${link("events")}>Show all</a></form>`;
}

/** @param {{ items: any[], filtered: boolean }} props */
function Rows({ items, filtered }) {
  const { utc } = settings.value;
  const columns = [
    { head: "Revision", figure: true, cell: (/** @type {any} */ row) => count(row.revision) },
    { head: "Seen at", cell: (/** @type {any} */ row) => seenText(row, utc) },
    { head: "Event", cell: (/** @type {any} */ row) => html`<${Kind} event=${row} />` },
    { head: "What", cell: (/** @type {any} */ row) => html`<${Subject} event=${row} />` },
    { head: "Details", wide: true, cell: (/** @type {any} */ row) => html`<${Details} event=${row} />` },
  ];
  const empty = filtered ? "You see no match." : html`You see no events yet. To cause some: <${Line} text="fairhold lock demo -- sleep 60" label="Take a lock" />`;
  return html`<${Table} columns=${columns} rows=${items} of=${(/** @type {any} */ row) => row.key} label="Events" empty=${empty} />`;
}

/** @param {{ event: any }} props */
function Kind({ event }) {
  const isLost = event.type === "broken" || (event.type === "ended" && ["expired", "broken"].includes(event.reason));
  const sign = isLost ? "lost" : event.type;
  return html`<span class=${`state ${COLOURS.get(sign) ?? ""}`}>${SIGNS.has(sign) ? html`<${Shape} of=${SIGNS.get(sign)} /> ` : null}${event.type}</span>`;
}

/** @param {{ event: any }} props */
function Subject({ event }) {
  if (event.lock !== undefined) return html`<${LockLink} name=${event.lock} />${event.number === undefined ? null : html` <span class="muted">#${event.number}</span>`}`;
  if (event.path !== undefined) return html`<a class="typed" href=${treeLink(event.path.slice(1))} title=${visible(event.path)}>${shortened(event.path)}</a>`;
  if (event.session !== undefined) return html`<${SessionLink} number=${event.session} />`;
  return event.member === undefined ? "the cluster" : `node ${event.member}`;
}

/** @param {{ event: any }} props */
function Details({ event }) {
  const parts = [];
  if (event.owner) parts.push(html`<${OwnerLink} owner=${event.owner} most=${48} />`);
  if (event.lock !== undefined && event.session) parts.push(html`<${SessionLink} number=${event.session} />`);
  for (const [name, label] of [["token", "token"], ["version", "version"], ["role", "as"], ["replaces", "in place of node"], ["timing", "timing"], ["cluster_version", "cluster version"]]) {
    if (event[name] !== undefined) parts.push(`${label} ${event[name]}`);
  }
  for (const name of ["ttl", "delay"]) if (event[name] !== undefined) parts.push(`${name} ${span(parseSpan(event[name]))}`);
  if (event.reason) parts.push(html`<${Typed} text=${event.reason} />`);
  if (event.by) parts.push(html`by <${Typed} text=${event.by} most=${48} />`);
  // No elements around the parts: a page of events has few to spare.
  return parts.length === 0 ? "—" : parts.flatMap((part, at) => (at > 0 ? [", ", part] : [part]));
}
