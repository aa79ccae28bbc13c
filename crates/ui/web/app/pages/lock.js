// One lock: who holds it, who waits, and who held it before.

import { html, useState } from "../../vendor/preact.js";
import { callOrNothing, withQuery } from "../api.js";
import { addressOf, bucket, count, median, ordinal, parseSpan, quoted, sentence, shortened, span, visible, waiterOf, waits } from "../format.js";
import { LOST } from "../happened.js";
import { Curl, Facts, Guard, Heading, Line, LockLink, Meta, OwnerLink, Pages, Panel, SessionLink, Shape, Since, State, Table, Time, Typed, usePoll, Waiting } from "../parts.js";
import { isContender, link, nodeCall } from "../route.js";
import { dialog, late, mayAct, paused, route, serverNow, stale } from "../state.js";

const ROWS = 100;
const CONTENDERS = 20;
/** How often the page asks for the lock and its queue, in milliseconds. It must show a change within a second. */
const EVERY = 750;
/** How many of the other locks of a grant a row of the queue names. */
const OTHERS = 3;
/** Each tab with its label, and with the command and the call that tell the same. */
const TABS = [["queue", "Queue", "queue", "/queue"], ["history", "History", "history", "/history"], ["settings", "Settings", "show", ""]];

/** @param {{ name: string }} props */
export function Lock({ name }) {
  const wanted = route.value.query.get("tab") ?? "queue";
  const [tab, , command, call] = TABS.find(([known]) => known === wanted) ?? TABS[0];
  const base = `v1/locks/${encodeURIComponent(name)}`;
  const poll = usePoll(withQuery(base, { consistency: "local", limit: ROWS }), EVERY);
  const history = usePoll(withQuery(`${base}/history`, { consistency: "local", limit: ROWS }), 3000);
  const lock = poll.body;
  const { cursor, around } = place();
  // An address with both shows the page of the cursor.
  const queue = usePoll(tab === "queue" ? withQuery(`${base}/queue`, { consistency: "local", limit: ROWS, cursor, around: cursor ? "" : around }) : null, EVERY);
  const isElection = useIsElection(name, (lock?.holder_count ?? 0) > 0);
  const ended = (history.body?.items ?? []).filter((/** @type {any} */ held) => held.to).slice(0, 20);
  const usual = median(ended.map((/** @type {any} */ held) => parseSpan(held.held_for) ?? 0));
  // With or without the lock, the holder is in a guard: if it became one, the page would take the queue's guard for it, and forget what is typed there.
  return html`<${Heading}><span class="offscreen">Lock </span><${Typed} text=${name} /></>
    <${Guard} title="Holder">${lock ? html`<${Holders} lock=${lock} usual=${usual} name=${name} chat=${html`<${Chat} poll=${poll} queue=${queue} usual=${usual} name=${name} />`} />` : html`<${Panel} title="Holder"><${Waiting} poll=${poll} /></>`}</>
    <nav class="tabs" aria-label="Views of this lock">${TABS.map(([key, label]) => html`<a key=${key} href=${link("locks", name, { tab: key })}
      aria-current=${tab === key ? "page" : null}>${label}${key === "queue" && lock ? ` ${count(lock.queue_length)}` : ""}</a>`)}
      <a href=${link("waits", null, { lock: name })}>Who waits for whom</a>
      ${isElection ? html`<a href=${link("elections", name)}>Its election</a>` : null}</nav>
    ${tab === "queue" ? html`<${Guard} title="Queue"><${QueuePanel} poll=${queue} name=${name} /></>` : null}
    ${tab === "history" ? html`<${Guard} title="History"><${HistoryPanel} poll=${history} /></>` : null}
    ${tab === "settings" && lock ? html`<${Guard} title="Settings"><${Settings} lock=${lock} /></>` : null}
    <${Panel} title="The same without this page">
      <${Line} label="fairhold" text=${`fairhold locks ${command} -- ${quoted(name)}`} />
      <${Curl} path=${`${base}${call}`} /></>`;
}

/** Which part of the queue the address shows. */
function place() {
  const { query } = route.value;
  return { cursor: query.get("cursor") ?? "", around: query.get("around") ?? "" };
}

/** The lock in one line, for a chat. @param {{ poll: any, queue: any, usual: number | null, name: string }} props */
function Chat({ poll, queue, usual, name }) {
  const { cursor, around } = place();
  const { waiter, isChosen } = waiterOf(queue.body?.items ?? [], around, cursor);
  const isOld = stale.value || paused.value !== null || Object.keys(late.value).length > 0;
  // Not the query before the hash: nobody knows what is in it.
  const address = addressOf(location.origin + location.pathname, name, isChosen ? waiter.number : null);
  return html`<p class="note muted">As a sentence, to paste into a chat:</p>
    <${Line} label="as a sentence" wraps text=${sentence({ name, lock: poll.body, usual, waiter, isChosen, seen: poll.headers?.get("date") ?? null, isOld, address })} />`;
}

/** Only the contenders of an election have values. @param {string} name @param {boolean} held */
function useIsElection(name, held) {
  const path = withQuery(nodeCall(`locks/${name}`), { children: true, meta: true, consistency: "local", limit: CONTENDERS });
  const { body } = usePoll(held ? path : null, 10000, callOrNothing);
  return (body?.items ?? []).some((/** @type {any} */ node) => isContender(node.path) && node.data_length > 0);
}

/** @param {{ lock: any, usual: number | null, name: string, chat: any }} props */
function Holders({ lock, usual, name, chat }) {
  const held = lock.holders.filter((/** @type {any} */ holder) => holder.state === "held");
  const [first] = held;
  const open = (/** @type {string} */ kind) => () => {
    dialog.value = { kind, lock: name, holder: first, holders: held.length, total: lock.holder_count, waiting: lock.queue_length };
  };
  const act = mayAct.value && first ? html`<span class="acts">
    <button type="button" onClick=${open("revoke")}>Ask back…</button>
    <button type="button" class="danger" onClick=${open("break")}>Break…</button></span>` : null;
  const title = lock.limit > 1 ? `Holders (${count(lock.holder_count)} of ${count(lock.limit)})` : "Holder";
  if (lock.holders.length === 0) {
    return html`<${Panel} title=${title}><p class="note"><${State} state="idle" /> Nobody holds it. To take it:</p>
      <${Line} label="Take it" text=${`fairhold lock ${quoted(name)} -- COMMAND`} />${chat}</>`;
  }
  return html`<${Panel} title=${title} extra=${act}><ul class="holders">${lock.holders.map((/** @type {any} */ holder) => html`<li key=${holder.number}>
    <${State} state=${holder.state} /> <strong><${OwnerLink} owner=${holder.owner} /></strong>
    <span>for <strong><${Since} at=${holder.since} /></strong></span>
    <span class="muted">since <${Time} at=${holder.since} />${usual === null ? "" : `, usual ${span(usual)}`}, grant #${holder.number}, <${SessionLink} number=${holder.session}
      />${holder.token ? `, token ${holder.token}` : ""}, ${holder.mode}${holder.permits > 1 ? `, ${holder.permits} permits` : ""}</span>
    <${Meta} meta=${holder.meta} /></li>`)}</ul>
    ${lock.next_cursor ? html`<p class="note">These are the first ${count(lock.holders.length)} of ${count(lock.holder_count)} holders.</p>` : null}
    ${chat}</>`;
}

/** @param {{ poll: any, name: string }} props */
function QueuePanel({ poll, name }) {
  const { cursor, around } = place();
  if (poll.error?.code === "grant_not_found") return html`<${NotInQueue} name=${name} number=${around} />`;
  if (!poll.body) return html`<${Panel} title="Queue"><${Waiting} poll=${poll} /></>`;
  const { items, holder_count, queue_length, next_cursor, usual_hold } = poll.body;
  const waiters = items.filter((/** @type {any} */ item) => item.state === "queued");
  const isLong = holder_count + queue_length > ROWS;
  const isPart = cursor !== "" || around !== "";
  const wanted = (/** @type {any} */ row) => (String(row.number) === around ? html`<strong><${Shape} of="▸" /> #${row.number}</strong>`
    : html`<a href=${link("locks", name, { around: String(row.number) })} title="Select this waiter, for the sentence and the address">#${row.number}</a>`);
  const columns = [
    { head: "Place", figure: true, cell: (/** @type {any} */ row) => ordinal(row.position) },
    { head: "Owner", cell: (/** @type {any} */ row) => html`<${OwnerLink} owner=${row.owner} most=${32} /> ${wanted(row)}` },
    { head: "Waits for", cell: (/** @type {any} */ row) => (row.waits_for ? html`<${OwnerLink} owner=${row.waits_for.owner} most=${32} /> <span class="muted">#${row.waits_for.number}</span>` : "—") },
    { head: "Waits", figure: true, cell: (/** @type {any} */ row) => html`<${Since} at=${row.queued_at} />` },
    { head: "Estimate", figure: true, cell: (/** @type {any} */ row) => estimate(row, usual_hold) },
    { head: "Mode", cell: (/** @type {any} */ row) => `${row.mode}${row.permits > 1 ? `, ${row.permits} permits` : ""}` },
  ];
  if (waiters.some((/** @type {any} */ row) => row.locks)) {
    columns.push({ head: "Together with", cell: (/** @type {any} */ row) => html`<${Others} locks=${row.locks ?? []} name=${name} />` });
  }
  const places = waiters.length > 0 && isLong ? `, places ${count(waiters[0].position)} to ${count(waiters[waiters.length - 1].position)}` : "";
  return html`<${Panel} title="Queue" extra=${html`<span class="muted">${waits(queue_length)}${places}</span>`}>
    ${isLong || isPart ? html`<${Find} name=${name} />` : null}
    <${Table} columns=${columns} rows=${waiters} of=${(/** @type {any} */ row) => row.number} label="Queue" empty="Nobody waits here." />
    <${Pages} first=${isPart ? link("locks", name) : null} next=${next_cursor ? link("locks", name, { cursor: next_cursor }) : null}
      last=${isLong && next_cursor ? link("locks", name, { around: "last" }) : null} /></>`;
}

/** A waiter has no estimate although there is a usual hold, if the holder exceeds it. @param {any} row @param {string | undefined} usual */
function estimate(row, usual) {
  if (row.estimate) return `about ${span(parseSpan(row.estimate))}`;
  return usual && row.waits_for ? "unknown: the holder exceeds its usual time" : "unknown";
}

/** The other locks of a grant of several. @param {{ locks: any[], name: string }} props */
function Others({ locks, name }) {
  const others = locks.filter((lock) => lock.name !== name);
  return others.length === 0 ? "—" : html`<span class="owned">${others.slice(0, OTHERS).map((lock) => html`<${LockLink} key=${lock.name} name=${lock.name} />`)}
    ${others.length > OTHERS ? html`<span class="muted">and more</span>` : null}</span>`;
}

/** Opens a long queue at a waiter. @param {{ name: string }} props */
function Find({ name }) {
  const [typed, setTyped] = useState("");
  const number = typed.trim().replace(/^#/, "");
  const go = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (/^[0-9]{1,16}$/.test(number)) location.hash = link("locks", name, { around: number });
  };
  return html`<form class="controls" onSubmit=${go}>
    <label>Find a waiter by the number of its grant <input type="text" inputMode="numeric" pattern="\\s*#?[0-9]{1,16}\\s*" title="a number, such as 57"
      value=${typed} placeholder="57" spellcheck=${false} autocomplete="off" onInput=${(/** @type {any} */ event) => setTyped(event.currentTarget.value)} /></label>
    <button type="submit">Find</button></form>`;
}

/** @param {{ name: string, number: string }} props */
function NotInQueue({ name, number }) {
  return html`<${Panel} title="Queue"><${Find} name=${name} />
    <p class="note">Grant #${visible(number)} neither holds this lock nor waits for it. If it held the lock before, it is in the <a href=${link("locks", name, { tab: "history" })}>history</a>.</p>
    <${Pages} first=${link("locks", name)} next=${null} last=${link("locks", name, { around: "last" })} /></>`;
}

export const ENDED = new Map([["withdrawn", "caller gone"]]);

/** @param {{ poll: any }} props */
function HistoryPanel({ poll }) {
  if (!poll.body) return html`<${Panel} title="History"><${Waiting} poll=${poll} /></>`;
  const rows = poll.body.items;
  const columns = [
    { head: "Owner", cell: (/** @type {any} */ row) => html`<${OwnerLink} owner=${row.owner} most=${32} /> <span class="muted">#${row.number}</span>` },
    { head: "From", cell: (/** @type {any} */ row) => html`<${Time} at=${row.from} />` },
    { head: "To", cell: (/** @type {any} */ row) => (row.to ? html`<${Time} at=${row.to} />` : "now") },
    { head: "Held", figure: true, cell: (/** @type {any} */ row) => (row.to ? span(parseSpan(row.held_for)) : html`<${Since} at=${row.from} />`) },
    { head: "Waited", figure: true, cell: (/** @type {any} */ row) => span(Date.parse(row.from) - Date.parse(row.queued_at)) },
    { head: "Token", figure: true, cell: (/** @type {any} */ row) => row.token },
    { head: "Ended", cell: (/** @type {any} */ row) => html`<${Ended} row=${row} />` },
  ];
  return html`<${Panel} title="History" extra=${html`<span class="muted">newest first, ${count(rows.length)} shown</span>`}>
    <${TimeLine} rows=${rows} />
    <${Table} columns=${columns} rows=${rows} of=${(/** @type {any} */ row) => `${row.number}-${row.from_revision}`} label="History" empty="Nobody has held it yet." /></>`;
}

/** @param {{ row: any }} props */
export function Ended({ row }) {
  if (!row.to) return html`<${State} state="held" />`;
  const word = ENDED.get(row.ended) ?? row.ended;
  return html`${LOST.includes(row.ended) ? html`<span class="state lost"><${Shape} of="✕" /> ${word}</span>` : word}${row.by ? html` <span class="muted">by ${shortened(row.by, 40)}</span>` : null}
    ${row.reason ? ` “${shortened(row.reason, 120)}”` : null}`;
}

/** The newest holds as bars. The table below says the same. @param {{ rows: any[] }} props */
function TimeLine({ rows }) {
  const shown = rows.slice(0, 24);
  const end = serverNow() ?? Date.now();
  const start = Math.min(...shown.map((/** @type {any} */ row) => Date.parse(row.queued_at)));
  if (shown.length < 2 || !(end > start)) return null;
  const at = (/** @type {string | undefined} */ text) => ((text ? Date.parse(text) : end) - start) / (end - start) * 1000;
  const tall = 12;
  const bar = (/** @type {any} */ row, /** @type {number} */ index) => {
    const [queued, from, to] = [at(row.queued_at), at(row.from), at(row.to)];
    const y = (shown.length - 1 - index) * tall;
    const kind = LOST.includes(row.ended) ? "lost" : "held";
    return html`<g key=${`${row.number}-${row.from_revision}`}><title>${visible(row.owner)}</title>
      <line class="wait" x1=${queued} x2=${from} y1=${y + tall / 2} y2=${y + tall / 2} />
      <rect class=${kind} x=${from} y=${y + 2} width=${Math.max(2, to - from)} height=${tall - 4} /></g>`;
  };
  return html`<figure class="timeline" aria-hidden="true"><svg viewBox=${`0 0 1000 ${shown.length * tall}`} preserveAspectRatio="none">${shown.map(bar)}</svg>
    <figcaption class="muted"><span>${span(end - start)} ago</span><span><span class="queued">— waited</span> · <span class="held">▬ held</span> · <span class="lost">▬ lost</span></span><span>now</span></figcaption></figure>`;
}

/** @param {{ lock: any }} props */
function Settings({ lock }) {
  const rows = [
    ["Permits (limit)", count(lock.limit)],
    ["Most waiters", lock.max_waiters === undefined ? "no limit of its own" : count(lock.max_waiters)],
    ["Longest hold", lock.max_hold ? span(parseSpan(lock.max_hold)) : "no limit"],
    ["Newest token", lock.last_token ?? "—"],
  ];
  const found = lock.statistics;
  const ends = found ? [["Released", found.released], ["Expired", found.expired], ["Broken", found.broken], ["Caller gone", found.abandoned], ["Gave up waiting", found.gave_up], ["Granted after a wait", found.hand_overs]] : [];
  return html`<div class="columns"><${Panel} title="Settings"><${Facts} rows=${rows} /></>
    <${Panel} title="How holds ended"><${Facts} rows=${ends.map(([key, value]) => [key, count(value)])} />
      ${found ? null : html`<p class="note">Nothing has been counted yet.</p>`}</></div>
    ${found ? html`<div class="columns"><${Buckets} title="How long they waited" spans=${found.waited} note="Only waits that ended with a grant count: nobody who still waits is in these figures." /><${Buckets} title="How long they held" spans=${found.held} /></div>` : null}`;
}

/** @param {{ title: string, spans: any, note?: string }} props */
function Buckets({ title, spans, note }) {
  const most = Math.max(...spans.buckets, 1);
  return html`<${Panel} title=${title}>${note ? html`<p class="note">${note}</p>` : null}<table class="buckets" aria-label=${title}><tbody>${spans.buckets.map((/** @type {number} */ value, /** @type {number} */ index) => html`<tr key=${index}>
    <th scope="row" class="figure">${bucket(index, spans.buckets.length)}</th>
    <td aria-hidden="true"><svg viewBox="0 0 100 10" preserveAspectRatio="none"><rect x="0" y="1" width=${(value / most) * 100} height="8" /></svg></td>
    <td class="figure">${count(value)}</td></tr>`)}</tbody></table></>`;
}
