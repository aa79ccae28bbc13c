// The elections, a page at a time, and one election: its leader, its value, and its candidates.

import { html } from "../../vendor/preact.js";
import { withQuery } from "../api.js";
import { count, ordinal, quoted, shortened, visible, waits } from "../format.js";
import { Copy, Curl, Facts, Guard, Heading, Line, Linked, OpenByName, OwnerLink, Pages, Panel, SessionLink, Shape, Since, Table, Time, Typed, usePoll, Waiting } from "../parts.js";
import { link } from "../route.js";
import { route } from "../state.js";

const ROWS = 100;

export function Elections() {
  const cursor = route.value.query.get("cursor") ?? "";
  const path = withQuery("v1/elections", { consistency: "local", limit: ROWS, cursor });
  const poll = usePoll(path, 2000);
  const next = poll.body?.next_cursor;
  return html`<${Heading}>Elections</>
    <${OpenByName} label="Name of an election" hint="primary" page="elections" />
    <${Panel} title="Elections" extra=${html`<span class="muted">${count(poll.body?.items?.length)} shown, by name</span>`}>
      ${poll.body ? html`<${Rows} items=${poll.body.items} />` : html`<${Waiting} poll=${poll} />`}
      <${Pages} first=${cursor ? link("elections") : null} next=${next ? link("elections", null, { cursor: next }) : null} /></>
    <${Panel} title="The same without this page"><${Line} label="fairhold" text="fairhold elections ls" />
      <${Curl} path=${path} /></>`;
}

/** @param {{ items: any[] }} props */
function Rows({ items }) {
  const columns = [
    { head: "Election", cell: (/** @type {any} */ row) => html`<a class="typed" href=${link("elections", row.election)} title=${visible(row.election)}>${shortened(row.election)}</a>` },
    { head: "Leader", cell: (/** @type {any} */ row) => html`<${Leads} leader=${row.leader} />` },
    { head: "Value", cell: (/** @type {any} */ row) => (row.value ? html`<${Linked} text=${row.value} most=${40} />` : "—") },
    { head: "Leads for", figure: true, cell: (/** @type {any} */ row) => (row.leader?.since ? html`<${Since} at=${row.leader.since} />` : "—") },
    { head: "Waiting", figure: true, cell: (/** @type {any} */ row) => count(row.waiting) },
  ];
  const empty = html`You see no election. To stand for one: <${Line} text="fairhold elect primary --value ADDRESS -- COMMAND" label="Stand for election" />`;
  return html`<${Table} columns=${columns} rows=${items} of=${(/** @type {any} */ row) => row.election} label="Elections" empty=${empty} />`;
}

/** @param {{ leader: any }} props */
function Leads({ leader }) {
  if (!leader) return html`<span class="muted"><${Shape} of="□" /> nobody leads</span>`;
  return html`<span class="role leader"><${Shape} of="★" /></span> <${OwnerLink} owner=${leader.owner} most=${32} /> <span class="muted">#${leader.number}</span>`;
}

/** @param {{ name: string }} props */
export function Election({ name }) {
  const cursor = route.value.query.get("cursor") ?? "";
  const base = `v1/locks/${encodeURIComponent(name)}`;
  const queue = usePoll(withQuery(`${base}/queue`, { consistency: "local", limit: ROWS, cursor }), 2000);
  const led = (queue.body?.holder_count ?? 0) > 0;
  // Without a leader, the server answers this call with an error.
  const path = `v1/elections/${encodeURIComponent(name)}`;
  const found = usePoll(led ? withQuery(path, { consistency: "local" }) : null, 2000);
  const kind = found.error?.code === "kind_mismatch";
  const vacant = !led || found.error?.code === "no_leader";
  const leader = () => {
    if (!queue.body) return html`<${Waiting} poll=${queue} />`;
    if (kind) return html`<p class="note lost">This name is a lock, not an election. <a href=${link("locks", name)}>The lock</a></p>`;
    if (vacant) return html`<${Vacant} base=${base} name=${name} />`;
    return found.body ? html`<${Leader} found=${found.body} />` : html`<${Waiting} poll=${found} />`;
  };
  return html`<${Heading}>Election <${Typed} text=${name} /></>
    <${Panel} title="Leader">${leader()}</>
    ${queue.body && !kind ? html`<${Guard} title="Candidates"><${Candidates} queue=${queue.body} name=${name} cursor=${cursor} /></>` : null}
    <p class="note">An election is a lock: its <a href=${link("locks", name, { tab: "history" })}>history</a>, its <a href=${link("locks", name)}>settings and a break</a> are there.</p>
    <${Panel} title="The same without this page"><${Line} label="fairhold" text=${`fairhold elections show -- ${quoted(name)}`} />
      <${Curl} path=${path} /></>`;
}

/** @param {{ found: any }} props */
function Leader({ found }) {
  const { leader, value, version } = found;
  const rows = [
    ["Leads for", html`<${Since} at=${leader.since} />`], ["Since", html`<${Time} at=${leader.since} />`],
    ["Grant", `#${leader.number}`], ["Session", html`<${SessionLink} number=${found.session} />`], ["Token", found.token],
    ["Value proclaimed at revision", count(found.value_since)], ["Value changed in this term", version === 0 ? "never" : `${count(version)} times`],
  ];
  return html`<p class="note"><span class="role leader"><${Shape} of="★" /> leads</span> <strong><${OwnerLink} owner=${leader.owner} /></strong></p>
    <div class="line"><span class="value">${value === "" ? html`<span class="muted">The value is empty.</span>` : html`<${Linked} text=${value} most=${Infinity} />`}</span>
      <${Copy} text=${value} label="Copy the value" /></div>
    <${Facts} rows=${rows} />`;
}

/** @param {{ base: string, name: string }} props */
function Vacant({ base, name }) {
  const poll = usePoll(withQuery(`${base}/history`, { consistency: "local", limit: 1 }), 5000);
  const last = poll.body?.items.find((/** @type {any} */ held) => held.to);
  return html`<p class="note"><${Shape} of="□" /> Nobody leads.${last ? html` <strong><${OwnerLink} owner=${last.owner} /></strong> led until <${Time} at=${last.to} /> (${visible(last.ended)}).` : null} To stand for election:</p>
    <${Line} label="Stand for election" text=${`fairhold elect ${quoted(name)} --value ADDRESS -- COMMAND`} />`;
}

/** @param {{ queue: any, name: string, cursor: string }} props */
function Candidates({ queue, name, cursor }) {
  const rows = queue.items.filter((/** @type {any} */ item) => item.state === "queued");
  const columns = [
    { head: "Place", figure: true, cell: (/** @type {any} */ row) => ordinal(row.position) },
    { head: "Candidate", cell: (/** @type {any} */ row) => html`<${OwnerLink} owner=${row.owner} most=${32} /> <span class="muted">#${row.number}</span>` },
    { head: "Waits", figure: true, cell: (/** @type {any} */ row) => html`<${Since} at=${row.queued_at} />` },
    { head: "Session", cell: (/** @type {any} */ row) => html`<${SessionLink} number=${row.session} />` },
  ];
  return html`<${Panel} title="Candidates" extra=${html`<span class="muted">${waits(queue.queue_length)}</span>`}>
    <${Table} columns=${columns} rows=${rows} of=${(/** @type {any} */ row) => row.number} label="Candidates" empty="Nobody else stands for election." />
    <${Pages} first=${cursor ? link("elections", name) : null} next=${queue.next_cursor ? link("elections", name, { cursor: queue.next_cursor }) : null} /></>`;
}
