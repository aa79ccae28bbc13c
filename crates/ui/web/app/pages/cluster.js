// The members, as the leader knows them and as they say themselves, and the asked node.

import { html } from "../../vendor/preact.js";
import { atMember, clock, count, parseSpan, share, size, span, visible } from "../format.js";
import { Curl, Facts, Heading, Line, Panel, Role, Shape, Since, Table, Time, Typed, usePoll, Waiting } from "../parts.js";
import { dialog, failure, look, mayAct } from "../state.js";
import { Problems } from "./overview.js";

const EVERY = 3000;
const SELDOM = 10000;
const PHASES = { pending: "is not a member yet", catching_up: "receives the state and the log", promoting: "becomes a voter" };

export function Cluster() {
  const found = look.value;
  const members = usePoll("v1/cluster/members", EVERY);
  const upgrade = usePoll("v1/cluster/upgrade", SELDOM);
  const own = usePoll("v1/cluster", EVERY);
  if (found === null) return html`<${Heading}>Cluster</><${Waiting} poll=${{ error: failure.value }} />`;
  const known = members.body ?? { members: found.members, joins: [], removed: [], joint: false, from_leader: found.leader === found.id };
  const rows = known.members.map((/** @type {any} */ member) => {
    const seen = found.members.find((/** @type {any} */ other) => other.id === member.id);
    const program = upgrade.body?.members.find((/** @type {any} */ other) => other.id === member.id);
    return { ...seen, ...member, version: program?.version ?? seen?.figures?.version };
  });
  const open = (/** @type {any} */ shown) => () => { dialog.value = shown; };
  const act = mayAct.value ? html`<span class="acts">
    <button type="button" onClick=${open({ kind: "hand-over", members: rows.filter((/** @type {any} */ row) => !isSilent(row, known.from_leader)) })}>Hand over…</button>
    <button type="button" onClick=${open({ kind: "snapshot", id: found.id })}>Snapshot…</button></span>` : null;
  return html`<${Heading}>Cluster</>
    <${Panel} title="Members" extra=${act}><${Members} rows=${rows} found=${found} known=${known.from_leader} />
      ${known.from_leader || !members.body ? null : html`<p class="note queued"><${Shape} of="▲" /> The leader does not answer: this is what node ${found.id} knows, and it may be out of date.</p>`}
      ${known.joint ? html`<p class="note queued"><${Shape} of="▲" /> A change of the voters is half done: the voters before it and those after it both count.</p>` : null}</>
    ${rows.some(isAsked) ? html`<${Panel} title="What each member says"><${Reports} rows=${rows} /></>` : null}
    ${known.joins.length > 0 ? html`<${Panel} title="Joins under way"><${Joins} rows=${known.joins} /></>` : null}
    <${Panel} title=${`What node ${found.id} sees`}><${Problems} problems=${found.problems.filter((/** @type {any} */ problem) => !problem.lock)} /></>
    <div class="columns"><${Panel} title="Cluster"><${Facts} rows=${aboutCluster(found, known, upgrade.body)} />
        ${(upgrade.body?.blockers ?? []).map((/** @type {string} */ text) => html`<p class="note" key=${text}>The upgrade waits: ${visible(text)}</p>`)}</>
      <${Panel} title=${`Node ${found.id}, which this page asks`}>${own.body ? html`<${Facts} rows=${aboutNode(own.body)} />` : html`<${Waiting} poll=${own} />`}</></div>
    <${Panel} title="The same without this page"><${Line} label="fairhold" text="fairhold cluster members" /><${Line} label="fairhold doctor" text="fairhold doctor" />
      <${Curl} path="v1/cluster/members" /></>`;
}

/** @param {{ rows: any[], found: any, known: boolean }} props */
function Members({ rows, found, known: fromLeader }) {
  const known = (/** @type {any} */ value, /** @type {(value: any) => any} */ shown) => (value === undefined ? html`<span class="muted">?</span>` : shown(value));
  const passed = (/** @type {any} */ text) => span(parseSpan(text));
  const leads = (/** @type {any} */ row) => row.role === "leader";
  const columns = [
    { head: "Node", figure: true, cell: (/** @type {any} */ row) => html`<strong>${row.id}</strong>${row.id === found.id ? html` <span class="muted">(asked)</span>` : null}` },
    { head: "Role", cell: (/** @type {any} */ row) => html`<${Role} role=${isSilent(row, fromLeader) ? "unreachable" : row.role} />` },
    { head: "Version", cell: (/** @type {any} */ row) => known(row.version, (text) => html`<${Typed} text=${text} most=${20} />`) },
    { head: "Log behind", figure: true, cell: (/** @type {any} */ row) => (leads(row) ? "—" : known(row.lag, count)) },
    { head: "Silent for", figure: true, cell: (/** @type {any} */ row) => (leads(row) ? "—" : known(row.silent_for, passed)) },
    { head: "Round trip", figure: true, cell: (/** @type {any} */ row) => (leads(row) ? "—" : known(row.round_trip, passed)) },
    { head: "Priority", figure: true, cell: (/** @type {any} */ row) => count(row.priority ?? 50) },
    { head: "Zone", cell: (/** @type {any} */ row) => (row.zone ? html`<${Typed} text=${row.zone} most=${32} />` : "—") },
    { head: "Dashboard", cell: (/** @type {any} */ row) => html`<a href=${atMember(row.url, location.hash)} rel="noopener"><${Typed} text=${row.url} most=${40} /></a>
      ${row.removal ? html` <span class="queued"><${Shape} of="▲" /> is being removed: ${visible(row.removal)}</span>` : null}` },
  ];
  return html`<${Table} columns=${columns} rows=${rows} of=${(/** @type {any} */ row) => row.id} label="Members" empty="The cluster has not formed yet." />`;
}

/** @param {{ rows: any[] }} props */
function Reports({ rows }) {
  const said = (/** @type {(figures: any) => any} */ shown) => (/** @type {any} */ row) => (row.figures ? shown(row.figures) : html`<span class="muted">?</span>`);
  const ready = (/** @type {any} */ figures) => (figures.ready === false ? html`<span class="queued"><${Shape} of="▲" /> no</span>` : "yes");
  const columns = [
    { head: "Node", figure: true, cell: (/** @type {any} */ row) => html`<strong>${row.id}</strong>` },
    { head: "Heard", figure: true, cell: said((figures) => html`<${Since} at=${figures.as_of} /> ago`) },
    { head: "Answers", cell: (/** @type {any} */ row) => (row.reachable ? "yes" : html`<span class="lost"><${Shape} of="⬣" /> no</span>`) },
    { head: "Ready", cell: (/** @type {any} */ row) => (row.reachable && row.figures ? ready(row.figures) : "—") },
    { head: "Applied", figure: true, cell: said((figures) => count(figures.applied_index)) },
    { head: "State behind", figure: true, cell: said((figures) => count(figures.behind)) },
    { head: "Snapshot", figure: true, cell: said((figures) => count(figures.snapshot_index)) },
    { head: "Log", figure: true, cell: said((figures) => count(figures.log_entries)) },
    { head: "Disk free", figure: true, cell: said((figures) => `${size(figures.disk_free_bytes)} of ${size(figures.disk_bytes)}`) },
    { head: "Clock", figure: true, cell: said((figures) => clock(figures.clock_ahead_ms, figures.clock_doubt_ms)) },
    { head: "Open files", figure: true, cell: said((figures) => share(figures.open_files, figures.open_files_max)) },
    { head: "Up", figure: true, cell: said((figures) => html`<${Since} at=${figures.started_at} />`) },
  ];
  return html`<${Table} columns=${columns} rows=${rows} of=${(/** @type {any} */ row) => row.id} label="What each member says" empty="The cluster has not formed yet." />`;
}

/** @param {{ rows: any[] }} props */
function Joins({ rows }) {
  const columns = [
    { head: "Node", figure: true, cell: (/** @type {any} */ row) => html`<strong>${row.id}</strong>` },
    { head: "As", cell: (/** @type {any} */ row) => `${row.role}${row.replaces ? `, instead of node ${row.replaces}` : ""}` },
    { head: "Now", cell: (/** @type {any} */ row) => html`${/** @type {any} */ (PHASES)[row.phase] ?? row.phase}${row.waits_for ? html` <span class="queued"><${Shape} of="▲" /> ${visible(row.waits_for)}</span>` : null}` },
    { head: "Log behind", figure: true, cell: (/** @type {any} */ row) => count(row.lag) },
    { head: "Since", cell: (/** @type {any} */ row) => html`<${Time} at=${row.requested_at} />` },
    { head: "Address", cell: (/** @type {any} */ row) => html`<${Typed} text=${row.url} most=${40} />` },
  ];
  return html`<${Table} columns=${columns} rows=${rows} of=${(/** @type {any} */ row) => row.id} label="Joins under way" empty="No node joins." />`;
}

/** @param {any} found @param {any} known @param {any} upgrade */
function aboutCluster(found, known, upgrade) {
  return [
    ["Id", html`<${Typed} text=${found.cluster ?? "not formed yet"} />`], ["Term", count(found.term)], ["Revision", count(found.revision)],
    ["Locks in use", count(found.totals.locks)], ["Sessions", count(found.totals.sessions)], ["Cluster version", count(upgrade?.cluster_version)],
    ["Nodes removed so far", count(known.removed.length)],
  ];
}

/** @param {any} own */
function aboutNode(own) {
  return [
    ["Program", visible(own.version)], ["Applied log entry", count(own.applied_index)], ["Last log entry", count(own.last_log_index)],
    ["Newest snapshot up to", count(own.snapshot_index)], ["State", size(own.state_bytes)], ["Budget of the state", size(own.state_bytes_max)],
    ["Unprotected on purpose", own.insecure?.length > 0 ? visible(own.insecure.join(", ")) : "nothing"],
  ];
}

/** Whether the node that answers asks this member. @param {any} member */
export function isAsked(member) {
  return typeof member.reachable === "boolean";
}

/** Whether a member does not answer. If no node asks the members, only the leader knows; then a member that has not
 * answered it yet does not answer. @param {any} member @param {boolean} fromLeader */
export function isSilent(member, fromLeader) {
  if (isAsked(member)) return !member.reachable;
  if (!fromLeader || member.role === "leader") return false;
  const silent = parseSpan(member.silent_for);
  return silent === null || silent > 2000;
}
