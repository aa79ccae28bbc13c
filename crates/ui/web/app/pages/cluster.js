// The members, as the asked node knows them.

import { html } from "../../vendor/preact.js";
import { count, parseSpan, span, visible } from "../format.js";
import { Heading, Line, Panel, Role, Table, Typed, Waiting } from "../parts.js";
import { failure, look } from "../state.js";
import { Problems } from "./overview.js";

export function Cluster() {
  const found = look.value;
  if (found === null) return html`<${Heading}>Cluster</><${Waiting} poll=${{ error: failure.value }} />`;
  const leads = found.leader === found.id;
  const leader = found.members.find((/** @type {any} */ member) => member.id === found.leader);
  const role = (/** @type {any} */ row) => (isSilent(row) ? "unreachable" : row.role);
  const known = (/** @type {any} */ value, /** @type {(value: any) => any} */ shown) => (value === undefined ? html`<span class="muted">?</span>` : shown(value));
  const columns = [
    { head: "Node", figure: true, cell: (/** @type {any} */ row) => html`<strong>${row.id}</strong>${row.id === found.id ? html` <span class="muted">(asked)</span>` : null}` },
    { head: "Role", cell: (/** @type {any} */ row) => html`<${Role} role=${role(row)} />` },
    { head: "Dashboard", cell: (/** @type {any} */ row) => html`<a href=${`${row.url.replace(/\/$/, "")}/ui/${location.hash}`} rel="noopener"><${Typed} text=${row.url} most=${40} /></a>` },
    { head: "Behind", figure: true, cell: (/** @type {any} */ row) => (row.role === "leader" ? "—" : known(row.lag, count)) },
    { head: "Silent for", figure: true, cell: (/** @type {any} */ row) => (row.id === found.id ? "—" : known(row.silent_for, (text) => span(parseSpan(text)))) },
    { head: "Round trip", figure: true, cell: (/** @type {any} */ row) => (row.id === found.id ? "—" : known(row.round_trip, (text) => span(parseSpan(text)))) },
    { head: "Zone", cell: (/** @type {any} */ row) => (row.zone ? html`<${Typed} text=${row.zone} most=${32} />` : "—") },
  ];
  const facts = [
    ["Cluster", found.cluster ?? "not formed yet"], ["Program of the asked node", found.version], ["Term", count(found.term)],
    ["Revision", count(found.revision)], ["Locks in use", count(found.totals.locks)], ["Sessions", count(found.totals.sessions)],
  ];
  return html`<${Heading}>Cluster</>
    <${Panel} title="Members"><${Table} columns=${columns} rows=${found.members} of=${(/** @type {any} */ row) => row.id} label="Members" empty="The cluster has not formed yet." />
      ${leads ? null : html`<p class="note">Node ${found.id} does not lead, so it does not know how the others are.
        ${leader ? html` <a href=${`${leader.url.replace(/\/$/, "")}/ui/#/cluster`} rel="noopener">Ask node ${leader.id}, which leads</a>.` : null}</p>`}</>
    <${Panel} title=${`What node ${found.id} sees`}><${Problems} problems=${found.problems.filter((/** @type {any} */ problem) => !problem.lock)} /></>
    <${Panel} title="Facts"><dl class="facts">${facts.map(([key, value]) => html`<div key=${key}><dt>${key}</dt><dd class="figure">${visible(String(value))}</dd></div>`)}</dl></>
    <${Panel} title="The same without this page"><${Line} label="fairhold" text="fairhold doctor" /><${Line} label="curl" text=${'curl "$SERVER/v1/overview"'} /></>`;
}

/** Whether the leader has heard nothing of a member for long. @param {any} member */
export function isSilent(member) {
  return (parseSpan(member.silent_for) ?? 0) > 2000;
}
