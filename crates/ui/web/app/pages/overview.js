// The overview: problems first, then what waits and holds longest, what is granted most often, and refused deadlocks.

import { html, signal, useEffect } from "../../vendor/preact.js";
import { call, UNKNOWN_CALL, withQuery } from "../api.js";
import { count, latency, parseSpan, shortened, span, visible } from "../format.js";
import { column, elections, joined, NO_ROWS, rate, sum } from "../happened.js";
import { Guard, Heading, Line, LockLink, OwnerLink, Panel, Shape, Since, Spark, Table, Time, usePoll, Waiting } from "../parts.js";
import { Refusals, refusals, refusedSince, repeated } from "../refused.js";
import { link } from "../route.js";
import { failure, look, serverNow } from "../state.js";

/** The number of seconds over which a figure is taken, so that it does not jump. */
const RECENT = 10;
const HOUR = 3600000;
const REFUSALS = 10;
/** Kept while other pages are shown, so that the server sends only what is newer. */
const kept = signal(NO_ROWS);

export function Overview() {
  const found = look.value;
  if (found === null) {
    return html`<${Heading}>Overview</><${Waiting} poll=${{ error: failure.value }} />`;
  }
  return html`<${Heading}>Overview</>
    <${Guard} title="Figures"><${Figures} found=${found} /></>
    <${Panel} title="Problems" id="problems"><${Problems} problems=${found.problems} /></>
    <div class="columns">
      <${Panel} title="Waiting longest"><${WaitingLongest} rows=${found.waiting_longest} /></>
      <${Panel} title="Held longest"><${HeldLongest} rows=${found.held_longest} /></>
    </div>
    <div class="columns">
      <${Panel} title="Hot locks"><${Hot} rows=${found.hot ?? []} /></>
      <${Panel} title="Refused deadlocks, last hour"><${RefusedLately} /></>
    </div>`;
}

/** @type {typeof call} */
const askSeries = (path, options) => call(withQuery(path, { after: kept.value.next }), options);

function useSeries() {
  const { body, error } = usePoll("v1/overview/series", 1000, askSeries);
  useEffect(() => { if (body) kept.value = joined(kept.value, body); }, [body]);
  const isUnknown = error?.code === UNKNOWN_CALL;
  useEffect(() => { if (isUnknown) kept.value = NO_ROWS; }, [isUnknown]);
  return { series: kept.value, older: isUnknown ? error : null };
}

/** @param {{ found: any }} props */
function Figures({ found }) {
  const { series, older } = useSeries();
  const of = (/** @type {string} */ name) => column(series, name);
  const [grants, commits, broken] = [rate(series, "grants", RECENT), of("commit_p99_us"), of("broken")];
  const lost = broken.length === 0 ? [] : of("expired").map((expired, at) => expired + broken[at]);
  const atMost = (/** @type {number} */ most) => `at most ${count(most)}`;
  const tiles = /** @type {[string, string, number[], (most: number) => string][]} */ ([
    ["Grants a second", grants !== null && grants < 10 ? String(Math.round(grants * 10) / 10) : count(grants && Math.round(grants)), of("grants"), atMost],
    ["Waiting", count(found.totals.queued), of("queued"), atMost],
    ["Held", count(found.totals.held), of("held"), atMost],
    ["Expired or broken, 1 min", count(lost.length === 0 ? null : sum(lost.slice(-60))), lost, (most) => `${atMost(most)} a second`],
    ["Commit p99", latency(Math.max(0, ...commits.slice(-RECENT))), commits, latency],
  ]);
  const marks = elections(series);
  return html`<dl class="figures">${tiles.map(([label, figure, values, shown]) => html`<div class="tile" key=${label}>
    <dt class="label">${label}</dt><dd><strong class="figure">${figure}</strong><${Spark} values=${values} marks=${marks} />
    ${values.length === 0 ? null : html`${" "}<span class="offscreen">${shown(Math.max(...values))} in the last ten minutes</span>`}</dd></div>`)}</dl>
    ${marks.length === 0 ? null : html`<p class="offscreen">The leader changed in the last ten minutes: ${count(marks.length)} ${marks.length === 1 ? "election" : "elections"}.</p>`}
    ${older ? html`<${Waiting} poll=${{ error: older }} />` : null}`;
}

/** @param {{ problems: any[] }} props */
export function Problems({ problems }) {
  const isLost = look.value.members.some((/** @type {any} */ member) => member.reachable === false);
  if (problems.length === 0) return html`<p class="note">${isLost ? "A member does not answer." : "No problem is known to this node."}</p>`;
  return html`<ul class="problems">${problems.map((problem) => html`<li key=${[problem.check, problem.lock, problem.since].join(" ")}>
    <span class=${problem.severity === "critical" ? "grade lost" : "grade queued"}>${problem.severity === "critical" ? html`<${Shape} of="⬣" /> fail` : html`<${Shape} of="▲" /> warn`}<span class="offscreen">: </span></span>
    <span>${shortened(problem.seen, 300)} ${problem.since ? html`<span class="muted">since <${Time} at=${problem.since} /></span>` : null}
      ${problem.lock ? html` <${LockLink} name=${problem.lock} />` : null}
      <span class="advice"><${Shape} of="→" /> ${visible(problem.do)}</span></span>
  </li>`)}</ul>`;
}

/** @param {{ rows: any[] }} props */
function WaitingLongest({ rows }) {
  const columns = [
    { head: "Lock", cell: (/** @type {any} */ row) => html`<${LockLink} name=${row.lock} />` },
    { head: "Owner", cell: (/** @type {any} */ row) => html`<${OwnerLink} owner=${row.owner} most=${32} />` },
    { head: "Waits", figure: true, cell: (/** @type {any} */ row) => html`<${Since} at=${row.since} />` },
    { head: "For", cell: (/** @type {any} */ row) => (row.waits_for ? html`<${OwnerLink} owner=${row.waits_for.owner} most=${32} />` : "—") },
    { head: "Waiters", figure: true, cell: (/** @type {any} */ row) => count(row.queue_length) },
  ];
  return html`<${Table} columns=${columns} rows=${rows} of=${(/** @type {any} */ row) => row.lock} label="Waiting longest"
    empty="You see no waits." />`;
}

/** @param {{ rows: any[] }} props */
function HeldLongest({ rows }) {
  const columns = [
    { head: "Lock", cell: (/** @type {any} */ row) => html`<${LockLink} name=${row.lock} />` },
    { head: "Holder", cell: (/** @type {any} */ row) => html`<span class="state held"><${Shape} of="■" /></span> <${OwnerLink} owner=${row.owner} most=${32} />` },
    { head: "Held for", figure: true, cell: (/** @type {any} */ row) => html`<${Since} at=${row.since} />` },
    { head: "Usual", figure: true, cell: (/** @type {any} */ row) => span(parseSpan(row.usual)) },
    { head: "Waiters", figure: true, cell: (/** @type {any} */ row) => count(row.queue_length) },
  ];
  const empty = html`You see no holds. To take one: <${Line} text="fairhold lock demo -- sleep 60" label="Take a lock" />`;
  return html`<${Table} columns=${columns} rows=${rows} of=${(/** @type {any} */ row) => row.lock} label="Held longest" empty=${empty} />`;
}

/** @param {{ rows: any[] }} props */
function Hot({ rows }) {
  if (refusedSince() === null) return html`<p class="note">This node's program is older than this page: it does not report hot locks.</p>`;
  const columns = [
    { head: "Lock", cell: (/** @type {any} */ row) => html`<${LockLink} name=${row.lock} tab="history" />` },
    { head: "Grants/min", figure: true, cell: (/** @type {any} */ row) => count(row.grants_per_minute) },
    { head: "Hand-overs/min", figure: true, cell: (/** @type {any} */ row) => count(row.hand_overs_per_minute) },
    { head: "Wait p50", figure: true, cell: (/** @type {any} */ row) => (row.hand_overs_per_minute > 0 ? span(parseSpan(row.wait_p50)) : "—") },
    { head: "Waiters", figure: true, cell: (/** @type {any} */ row) => count(row.queue_length) },
  ];
  return html`<${Table} columns=${columns} rows=${rows} of=${(/** @type {any} */ row) => row.lock} label="Hot locks"
    empty="You see no lock that was granted and released in the last minute." />`;
}

function RefusedLately() {
  const since = refusedSince();
  if (since === null) return html`<p class="note">This node's program is older than this page: it does not report refused deadlocks.</p>`;
  const from = (serverNow() ?? 0) - HOUR;
  const rows = repeated(refusals({}).filter((/** @type {any} */ row) => Date.parse(row.at) >= from));
  return html`<${Refusals} rows=${rows.slice(0, REFUSALS)} empty="You see none." />
    ${rows.length > REFUSALS ? html`<p class="note"><a href=${link("waits")}>${count(rows.length - REFUSALS)} more</a></p>` : null}
    ${Date.parse(since) > from ? html`<p class="note">Complete since <${Time} at=${since} />.</p>` : null}`;
}
