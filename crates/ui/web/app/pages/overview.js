// The overview: problems first, then what waits and holds longest.

import { html } from "../../vendor/preact.js";
import { count, parseSpan, shortened, span, visible } from "../format.js";
import { Heading, Line, LockLink, Panel, Since, Spark, Table, Time, Typed, Waiting } from "../parts.js";
import { failure, look, series } from "../state.js";

export function Overview() {
  const found = look.value;
  if (found === null) {
    return html`<${Heading}>Overview</><${Waiting} poll=${{ error: failure.value }} />`;
  }
  return html`<${Heading}>Overview</>
    <${Figures} found=${found} />
    <${Panel} title="Problems"><${Problems} problems=${found.problems} /></>
    <div class="columns">
      <${Panel} title="Waiting longest"><${WaitingLongest} rows=${found.waiting_longest} /></>
      <${Panel} title="Held longest"><${HeldLongest} rows=${found.held_longest} /></>
    </div>`;
}

/** @param {{ found: any }} props */
function Figures({ found }) {
  const rows = series.value;
  const values = (/** @type {string} */ name) => rows.map((row) => Number(row[name] ?? 0));
  const marks = rows.flatMap((row, at) => (at > 0 && row.term !== rows[at - 1].term ? [at] : []));
  const recent = values("granted").slice(-10);
  const rate = recent.length > 0 ? recent.reduce((sum, value) => sum + value, 0) / recent.length : 0;
  const lost = values("lost").slice(-60).reduce((sum, value) => sum + value, 0);
  const cells = [
    ["Grants a second", rate < 10 ? String(Math.round(rate * 10) / 10) : count(Math.round(rate)), "granted"],
    ["Waiting", count(found.totals.queued), "queued"],
    ["Held", count(found.totals.held), "held"],
    ["Lost in the last minute", count(lost), "lost"],
  ];
  return html`<div class="figures">${cells.map(([label, value, name]) => html`<div class="tile" key=${name}>
    <span class="label">${label}</span><strong class="figure">${value}</strong>
    <${Spark} values=${values(name)} marks=${marks} label=${label} /></div>`)}</div>`;
}

/** @param {{ problems: any[] }} props */
export function Problems({ problems }) {
  if (problems.length === 0) return html`<p class="note">No problem is known to this node.</p>`;
  return html`<ul class="problems">${problems.map((problem) => html`<li key=${problem.check + (problem.lock ?? "")}>
    <span class=${problem.severity === "critical" ? "grade lost" : "grade queued"}>${problem.severity === "critical" ? "⬣ fail" : "▲ warn"}</span>
    <span>${shortened(problem.seen, 300)} ${problem.since ? html`<span class="muted">since <${Time} at=${problem.since} /></span>` : null}
      ${problem.lock ? html` <${LockLink} name=${problem.lock} />` : null}
      <span class="advice">→ ${visible(problem.do)}</span></span>
  </li>`)}</ul>`;
}

/** @param {{ rows: any[] }} props */
function WaitingLongest({ rows }) {
  const columns = [
    { head: "Lock", cell: (/** @type {any} */ row) => html`<${LockLink} name=${row.lock} />` },
    { head: "Owner", cell: (/** @type {any} */ row) => html`<${Typed} text=${row.owner} most=${32} />` },
    { head: "Waits", figure: true, cell: (/** @type {any} */ row) => html`<${Since} at=${row.since} />` },
    { head: "For", cell: (/** @type {any} */ row) => (row.waits_for ? html`<${Typed} text=${row.waits_for.owner} most=${32} />` : "—") },
    { head: "In line", figure: true, cell: (/** @type {any} */ row) => count(row.queue_length) },
  ];
  return html`<${Table} columns=${columns} rows=${rows} of=${(/** @type {any} */ row) => row.lock} label="Waiting longest"
    empty="Nobody waits. A request that finds a lock held and passes wait=30s would be here." />`;
}

/** @param {{ rows: any[] }} props */
function HeldLongest({ rows }) {
  const columns = [
    { head: "Lock", cell: (/** @type {any} */ row) => html`<${LockLink} name=${row.lock} />` },
    { head: "Holder", cell: (/** @type {any} */ row) => html`<span class="state held" aria-hidden="true">■</span> <${Typed} text=${row.owner} most=${32} />` },
    { head: "Held for", figure: true, cell: (/** @type {any} */ row) => html`<${Since} at=${row.since} />` },
    { head: "Usual", figure: true, cell: (/** @type {any} */ row) => span(parseSpan(row.usual)) },
    { head: "In line", figure: true, cell: (/** @type {any} */ row) => count(row.queue_length) },
  ];
  const empty = html`Nobody holds a lock. To take one: <${Line} text="fairhold lock demo -- sleep 60" label="Take a lock" />`;
  return html`<${Table} columns=${columns} rows=${rows} of=${(/** @type {any} */ row) => row.lock} label="Held longest" empty=${empty} />`;
}

