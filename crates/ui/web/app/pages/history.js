// The holders of all locks at a time, and what happened around it.

import { html, useEffect, useState } from "../../vendor/preact.js";
import { call, withQuery } from "../api.js";
import { column, electionsWithin, folded, happened, LOST, nearest, NO_ROWS } from "../happened.js";
import { count, fieldOf, fromField, parseSpan, parseTime, quoted, shortened, span, timeText, zone } from "../format.js";
import { Curl, Guard, Heading, Line, LockLink, OwnerLink, Pages, Panel, Shape, Since, Table, Time, usePoll, Waiting } from "../parts.js";
import { Cycle, refusals, refusedSince } from "../refused.js";
import { link } from "../route.js";
import { look, route, serverNow, settings } from "../state.js";
import { Ended, ENDED } from "./lock.js";

const ROWS = 100;
const STEP = 5 * 60 * 1000;
/** How many holds around a time the page asks for at once, and how many rows it shows of what happened. */
const HOLDS = 1000;
const HAPPENED = 40;
/** A row of the series of minutes covers this time. */
const SERIES_EVERY = 60 * 1000;
const FILTERS = ["owner", "prefix"];
/** How far the page's estimate of the server's time may be behind. */
const CLOCK_SLACK = 2000;
/** A node that follows its leader has everything up to this long ago. */
const SETTLED_AFTER = 10000;

export function History() {
  const { query } = route.value;
  const asked = query.get("at") ?? "";
  const cursor = query.get("cursor") ?? "";
  // Without a time in the address, the present: nothing is after it.
  const before = query.get("before") ?? "";
  const given = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  const at = parseTime(asked);
  const present = serverNow();
  // Without a time in the address, the page shows the present, and puts it into the address.
  const isDue = asked === "" && present !== null;
  useEffect(() => {
    if (isDue) location.replace(link("history", null, { at: timeText(present - (present % 1000)), before: "1", ...given }));
  }, [isDue]);
  const isFuture = at !== null && present !== null && at > present + CLOCK_SLACK;
  const path = at === null || present === null || isFuture ? null
    : withQuery("v1/history", { at: timeText(at), ...given, consistency: "local", limit: ROWS, cursor });
  // A hold that has ended no longer changes. A node without a leader may not know of its end yet.
  const isFinal = (/** @type {any} */ body) => Number(at) + SETTLED_AFTER < (serverNow() ?? 0) && (look.value === null || look.value.leader)
    && body.items.every((/** @type {any} */ row) => row.to);
  const poll = usePoll(path, 10000, call, isFinal);
  return html`<${Heading}>History</>
    <${Filter} at=${at} given=${given} before=${before} isLast=${at !== null && present !== null && at + STEP > present} />
    ${at === null && asked !== "" ? html`<p class="note lost"><${Shape} of="✕" /> The time in this address cannot be read. Write one like 2026-11-22T03:12:00Z.</p>` : null}
    ${isFuture ? html`<p class="note lost"><${Shape} of="✕" /> This time is in the future by the server's clock. Choose an earlier one.</p>` : null}
    ${path === null && !isFuture && (asked === "" || at !== null) ? html`<p class="note">Loading…</p>` : null}
    ${path === null || at === null ? null : html`<${Guard} title="Held then"><${Found} poll=${poll} at=${at} given=${given} before=${before} cursor=${cursor} /></>
      <${Panel} title=${before ? "The ten minutes before" : "Five minutes before and after"}><${Around} at=${at} given=${given} begin=${at - (before ? 2 : 1) * STEP} /></>
      <${Panel} title="The same without this page"><${Line} label="fairhold" text=${command(at, given)} /><${Curl} path=${path} /></>`}`;
}

/** @param {number} at @param {Record<string, string>} given */
function command(at, given) {
  const filters = FILTERS.filter((name) => given[name] !== "").map((name) => ` --${name}=${quoted(given[name])}`);
  return `fairhold locks history --at ${timeText(at)}${filters.join("")}`;
}

/** @param {{ at: number | null, given: Record<string, string>, before: string, isLast: boolean }} props isLast: the only later step is to now */
function Filter({ at, given, before, isLast }) {
  const { utc } = settings.value;
  const shown = { at: at === null ? "" : fieldOf(at, utc), ...given };
  const [typed, setTyped] = useState(/** @type {Record<string, string>} */ (shown));
  const key = Object.values(shown).join("\n");
  useEffect(() => setTyped(shown), [key]);
  const chosen = fromField(typed.at, utc);
  const go = (/** @type {Event} */ event) => {
    event.preventDefault();
    // An unchanged field has no milliseconds, but the address may have some.
    const isSame = typed.at === shown.at;
    const time = isSame ? at : chosen;
    if (time !== null) location.hash = link("history", null, { ...typed, at: timeText(time), before: isSame ? before : "" });
  };
  const step = (/** @type {number} */ by) => link("history", null, { at: timeText(/** @type {number} */ (at) + by), ...given });
  const field = (/** @type {string} */ name) => (/** @type {any} */ event) => setTyped({ ...typed, [name]: event.currentTarget.value });
  return html`<form class="controls" onSubmit=${go}>
    <label>Time (${zone(utc ? 0 : -new Date(chosen ?? Date.now()).getTimezoneOffset())}) <input type="datetime-local" step="1" required value=${typed.at} onInput=${field("at")} /></label>
    ${at === null ? null : html`<a class="button" href=${step(-STEP)}><${Shape} of="‹" /> 5 min earlier</a>${isLast
      ? html`<a class="button" href=${link("history", null, given)}>Now <${Shape} of="›" /></a>` : html`<a class="button" href=${step(STEP)}>5 min later <${Shape} of="›" /></a>`}`}
    <label>Owner <input id="search" type="text" value=${typed.owner} spellcheck=${false} autocomplete="off" onInput=${field("owner")} /></label>
    <label>Name begins with <input type="text" value=${typed.prefix} spellcheck=${false} autocomplete="off" placeholder="orders/" onInput=${field("prefix")} /></label>
    <button type="submit">Show</button></form>`;
}

/** @param {{ poll: any, at: number, given: Record<string, string>, before: string, cursor: string }} props */
function Found({ poll, at, given, before, cursor }) {
  const { body } = poll;
  if (!body) return html`<${Panel} title="Held then"><${Waiting} poll=${poll} /></>`;
  const here = { at: timeText(at), before, ...given };
  return html`<${Panel} title="Held then" extra=${html`<span class="muted">${count(body.items.length)} shown, by name</span>`}>
    <${Rows} items=${body.items} rest=${body.next_cursor !== null} first=${cursor === ""} />
    <${Pages} first=${cursor ? link("history", null, here) : null} next=${body.next_cursor ? link("history", null, { ...here, cursor: body.next_cursor }) : null} />
    <${Known} body=${body} at=${at} /></>`;
}

/** @param {{ items: any[], rest: boolean, first: boolean }} props */
function Rows({ items, rest, first }) {
  const columns = [
    { head: "Lock", cell: (/** @type {any} */ row) => html`<${LockLink} name=${row.lock} tab="history" />` },
    { head: "Holder", cell: (/** @type {any} */ row) => html`<${OwnerLink} owner=${row.owner} most=${32} /> <span class="muted">#${row.number}</span>` },
    { head: "From", cell: (/** @type {any} */ row) => html`<${Time} at=${row.from} />` },
    { head: "To", cell: (/** @type {any} */ row) => (row.to ? html`<${Time} at=${row.to} />` : "now") },
    { head: "Held", figure: true, cell: (/** @type {any} */ row) => (row.to ? span(parseSpan(row.held_for)) : html`<${Since} at=${row.from} />`) },
    { head: "Ended", cell: (/** @type {any} */ row) => html`<${Ended} row=${row} />` },
  ];
  const empty = rest ? "No match on this page. There may be some on the next one." : first ? "You see no match." : "There are no more.";
  return html`<${Table} columns=${columns} rows=${items} of=${(/** @type {any} */ row) => `${row.number}-${row.from_revision}-${row.lock}`} label="Held then" empty=${empty} />`;
}

/** How far back the history goes. @param {{ body: any, at: number }} props */
function Known({ body, at }) {
  const isOlder = body.oldest !== undefined && at < Date.parse(body.oldest);
  return html`${isOlder ? html`<p class="note queued"><${Shape} of="▲" /> This time is before the end of the oldest kept hold. Holds that ended earlier may be missing.</p>` : null}
    <p class="note">The cluster keeps the newest ${count(body.kept_per_lock)} ended holds of each lock and the newest 100,000 in total. Within these limits,
      it keeps them for a week, unless its state is nearly full. ${body.oldest === undefined ? null : html`The oldest kept one ended <${Time} at=${body.oldest} />.`}${" "}
      If more than ${count(body.kept_per_lock)} holds of a lock have ended since this time, the older ones of that lock are missing.</p>`;
}

/** The holds around a time. If they do not fit into one answer, another one, and the lost holds of all locks: those
 * must not depend on the names of the locks. @type {typeof call} */
const askHolds = async (path, options) => {
  const found = await call(path, options);
  const { items, next_cursor } = found.body ?? {};
  if (!next_cursor) return found;
  const next = (/** @type {string} */ query) => call(`${path}&${query}`, options).then(({ body }) => body);
  const body = await next(`cursor=${next_cursor}`);
  const all = [...items, ...body.items];
  const lost = [];
  if (body.next_cursor) for (const ended of LOST) lost.push(await next(`ended=${ended}`));
  return { ...found, body: { ...body, last: all.at(-1)?.lock, items: [...all, ...lost.flatMap((page) => page.items)], lacks: lost.some((page) => page.next_cursor) } };
};

/** What happened around a time. Elections and refused deadlocks are in this node's memory only. @param {{ at: number, given: Record<string, string>, begin: number }} props */
function Around({ at, given, begin }) {
  const poll = usePoll("v1/overview/series?step=1m", SERIES_EVERY);
  const end = begin + 2 * STEP;
  const path = withQuery("v1/history", { from: timeText(begin), to: timeText(end), ...given, consistency: "local", limit: HOLDS });
  // What ends later is outside of this time.
  const holds = usePoll(path, 10000, askHolds, () => end + SETTLED_AFTER < (serverNow() ?? 0) && (look.value === null || look.value.leader));
  const ofHolds = folded(happened(holds.body?.items ?? [], begin, end)).map((row) => ({ ...row, when: html`${row.first ? html`<${Time} at=${timeText(row.first)} /> to ` : ""}<${Time} at=${timeText(row.at)} />`, what: html`<${Hold} row=${row} />` }));
  const found = electionsWithin(poll.body ?? NO_ROWS, begin, end).map(({ from, to, before, term }) => ({
    at: from, isNotable: true, key: `term-${term}`, when: html`<${Time} at=${timeText(from)} /> to <${Time} at=${timeText(to)} />`,
    what: html`<span class="state queued"><${Shape} of="★" /> election</span> Term ${count(before)} became ${count(term)}.`,
  }));
  const within = (/** @type {any} */ row) => Date.parse(row.at) >= begin && Date.parse(row.at) <= end;
  const refused = refusals(given).filter(within).map((/** @type {any} */ row, /** @type {number} */ index) => ({
    at: Date.parse(row.at), isNotable: true, key: `refused-${row.at}-${index}`, when: html`<${Time} at=${row.at} />`,
    what: html`<span class="state lost"><${Shape} of="✕" /> refused deadlock</span> <${Cycle} row=${row} />`,
  }));
  const { rows, leftOut } = nearest([...ofHolds, ...found, ...refused], at, HAPPENED);
  const columns = [{ head: "When", cell: (/** @type {any} */ row) => row.when }, { head: "What", wide: true, cell: (/** @type {any} */ row) => row.what }];
  const empty = `${holds.body?.next_cursor ? "None of the holds that this page got" : "No hold that you see"} began or ended in these ten minutes. This node knows of no election in them, and ${refusals({}).some(within)
    ? "none of the refused deadlocks matches the filter" : "of no refused deadlock"}.`;
  if (!holds.body) return html`<${Waiting} poll=${holds} />`;
  const { next_cursor, last, lacks } = holds.body;
  return html`${next_cursor ? html`<p class="note queued"><${Shape} of="▲" /> ${lacks ? "Lost holds may be missing here. " : ""}Of the other holds, this page has ${last === undefined ? "only a part"
      : html`only those of the locks up to <span class="typed">${shortened(last)}</span> in the order of names, and of this lock maybe a part`}. Filter by owner or name to see others.</p>` : null}
    ${leftOut ? html`<p class="note">${count(leftOut)} more rows are left out. ${next_cursor ? "Of what this page has, lost" : "Lost"} holds, elections and refusals come first, then what is nearest to this time.</p>` : null}
    <${Table} columns=${columns} rows=${rows} of=${(/** @type {any} */ row) => row.key} label="Around then" empty=${empty} />
    <${AroundKnown} poll=${poll} begin=${begin} end=${end} />`;
}

/** The beginning or the end of a hold. @param {{ row: import("../happened.js").Happened }} props */
function Hold({ row: { kind, isNotable, hold, times } }) {
  const [sign, colour] = isNotable ? ["✕ ", "lost"] : kind === "granted" ? ["■ ", "held"] : ["", ""];
  return html`<span class=${`state ${colour}`}><${Shape} of=${sign} />${ENDED.get(kind) ?? kind}</span>${" "}
    <${LockLink} name=${hold.lock} tab="history" /> <${OwnerLink} owner=${hold.owner} most=${32} /> ${times ? html`<strong>${count(times)} times</strong>` : html`<span class="muted">#${hold.number}</span>`}${kind === "granted" ? null
      : html`${times ? "" : ` after ${span(parseSpan(hold.held_for))}`}${hold.by ? `, by ${shortened(hold.by, 40)}` : ""}${hold.reason ? `: “${shortened(hold.reason, 120)}”` : ""}`}`;
}

/** How much of that time the node knows. @param {{ poll: any, begin: number, end: number }} props */
function AroundKnown({ poll, begin, end }) {
  const ends = column(poll.body ?? NO_ROWS, "at");
  const [first, last, since] = [ends[0], ends[ends.length - 1], refusedSince()];
  const refused = since === null ? null : Date.parse(since);
  const until = Math.min(end, serverNow() ?? end);
  // The newest row may be a minute old, and the answer too.
  const isPart = begin < Math.max(first ?? Infinity, refused ?? Infinity) || until > (last ?? 0) + 2 * SERIES_EVERY;
  return html`${isPart ? html`<p class="note queued"><${Shape} of="▲" /> This node knows only a part of these ten minutes.</p>` : null}
    ${poll.body ? html`<p class="note">${first === undefined ? "It knows of no elections yet: it started less than a minute ago." : html`It knows the elections from${" "}
      <${Time} at=${timeText(first)} /> to <${Time} at=${timeText(last)} />, by minutes, at most twelve hours.`}</p>` : html`<${Waiting} poll=${poll} />`}
    <p class="note">${since === null ? "It reports no refused deadlocks: its program is older than this page, or your rights do not cover its overview."
      : html`It knows the refused deadlocks since <${Time} at=${since} />, at most 64.`} It has both in memory only.</p>`;
}
