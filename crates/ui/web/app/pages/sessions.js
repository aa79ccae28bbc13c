// The sessions, a page at a time, and one session with what it owns.

import { html } from "../../vendor/preact.js";
import { callOrNothing, withQuery } from "../api.js";
import { count, parseSpan, shortened, span } from "../format.js";
import { Count, Curl, Facts, Guard, Heading, Line, LockLink, Meta, OpenByName, Pages, Panel, Shape, Since, State, Table, Time, Typed, usePoll, Waiting } from "../parts.js";
import { link, treeLink } from "../route.js";
import { dialog, mayAct, route } from "../state.js";

const ROWS = 100;
/** Fewer than elsewhere: each session has up to 16 grants and 16 nodes, so a page of them is long. */
const LISTED = 50;
const GRANTS_SHOWN = 3;
const HIDDEN = "Your rights do not let you see them.";

export function Sessions() {
  const cursor = route.value.query.get("cursor") ?? "";
  const path = withQuery("v1/sessions", { consistency: "local", limit: LISTED, cursor });
  const poll = usePoll(path, 2000);
  const next = poll.body?.next_cursor;
  return html`<${Heading}>Sessions</>
    <${OpenByName} label="Number of a session" hint="41" page="sessions" digits=${true} />
    <${Panel} title="Sessions" extra=${html`<span class="muted">${count(poll.body?.items?.length)} shown, by number</span>`}>
      ${poll.body ? html`<${Rows} items=${poll.body.items} />` : html`<${Waiting} poll=${poll} />`}
      <${Pages} first=${cursor ? link("sessions") : null} next=${next ? link("sessions", null, { cursor: next }) : null} /></>
    <${Panel} title="The same without this page"><${Line} label="fairhold" text="fairhold sessions ls" />
      <${Curl} path=${path} /></>`;
}

/** @param {{ items: any[] }} props */
function Rows({ items }) {
  const columns = [
    { head: "Session", cell: (/** @type {any} */ row) => html`<a href=${link("sessions", String(row.number))}>${row.number}</a>` },
    { head: "Name", cell: (/** @type {any} */ row) => html`<${Name} session=${row} most=${32} />` },
    { head: "Holds and waits for", cell: (/** @type {any} */ row) => html`<${Owned} session=${row} />` },
    { head: "Ephemeral nodes", figure: true, cell: (/** @type {any} */ row) => html`<${Count} of=${row.ephemeral_count} />` },
    { head: "Timeout", figure: true, cell: (/** @type {any} */ row) => span(parseSpan(row.ttl)) },
    { head: "Open for", figure: true, cell: (/** @type {any} */ row) => html`<${Since} at=${row.opened_at} />` },
  ];
  const empty = html`No session is open. To open one: <${Line} text="fairhold sessions open --ttl 1m --name worker-3" label="Open a session" />`;
  return html`<${Table} columns=${columns} rows=${items} of=${(/** @type {any} */ row) => row.number} label="Sessions" empty=${empty} />`;
}

/** @param {{ session: any, most?: number }} props */
function Name({ session, most }) {
  if (session.name !== undefined) return html`<${Typed} text=${session.name} most=${most} />`;
  return html`<span class="muted">${session.anonymous ? "for one grant" : "—"}</span>`;
}

/** The first grants of a session. @param {{ session: any }} props */
function Owned({ session }) {
  if (session.grant_count === undefined) return html`<${Count} of=${undefined} />`;
  const shown = session.grants.slice(0, GRANTS_SHOWN);
  if (shown.length === 0) return "—";
  const more = session.grants.length > shown.length || session.next_cursor !== null;
  return html`<span class="owned">${shown.map((/** @type {any} */ grant) => html`<span key=${`${grant.number}-${grant.lock}`}>
    <${Sign} state=${grant.state} /> <${LockLink} name=${grant.lock} /></span>`)}
    ${more ? html`<span class="muted">${count(session.grant_count)} grants in all</span>` : null}</span>`;
}

/** @param {{ state: string }} props */
function Sign({ state }) {
  return html`<span class=${`state ${state}`}><${Shape} of=${state === "held" ? "■" : "▸"} /><span class="offscreen">${state}</span></span>`;
}

/** @param {{ name: string }} props */
export function OneSession({ name }) {
  if (!/^[0-9]{1,16}$/.test(name)) {
    return html`<${Heading}>There is no such session</><${Panel} title="Not found"><p class="note">A session has a number here. <a href=${link("sessions")}>Sessions</a></p></>`;
  }
  return html`<${Numbered} number=${name} />`;
}

/** @param {{ number: string }} props */
function Numbered({ number }) {
  const cursor = route.value.query.get("cursor") ?? "";
  const base = `v1/sessions/${number}`;
  const poll = usePoll(withQuery(base, { consistency: "local", limit: ROWS, cursor }), 2000);
  const session = poll.body;
  const ended = poll.error?.code === "session_not_found";
  const heardAgo = useHeardAgo(base, session, ended);
  const act = mayAct.value && session && !ended ? html`<span class="acts"><button type="button" class="danger"
    onClick=${() => { dialog.value = { kind: "end", session }; }}>End…</button></span>` : null;
  return html`<${Heading}>Session ${number} ${session?.name === undefined ? null : html`<${Typed} text=${session.name} />`}</>
    ${ended ? html`<p class="note lost"><${Shape} of="✕" /> This session has ended, or never was. All that it owned ended with it.</p>` : null}
    ${ended && !session ? null : html`<${Panel} title="Session" extra=${act}>${session ? html`<${About} session=${session} heardAgo=${heardAgo} />` : html`<${Waiting} poll=${poll} />`}</>`}
    ${session ? html`<${Guard} title="Grants"><${Grants} session=${session} /></><${Guard} title="Ephemeral nodes"><${Ephemeral} session=${session} /></>
      <${Pages} first=${cursor ? link("sessions", number) : null} next=${session.next_cursor ? link("sessions", number, { cursor: session.next_cursor }) : null} />` : null}
    <${Panel} title="The same without this page"><${Line} label="fairhold" text=${`fairhold sessions show ${number}`} />
      <${Curl} path=${base} /></>`;
}

/** How long ago the leader heard from a session. Another node has to ask the leader; without one, this is unknown.
 * @param {string} base @param {any} session @param {boolean} ended */
function useHeardAgo(base, session, ended) {
  const known = session?.heard_ago;
  const asks = session && !ended && known === undefined;
  const asked = usePoll(asks ? withQuery(base, { limit: 1 }) : null, 5000, callOrNothing);
  return known ?? asked.body?.heard_ago;
}

/** @param {{ session: any, heardAgo: string | undefined }} props */
function About({ session, heardAgo }) {
  const heard = parseSpan(heardAgo);
  const rows = [
    ["Name", html`<${Name} session=${session} />`],
    ["Timeout without a keepalive", span(parseSpan(session.ttl))],
    ["Last heard from", heard === null ? html`<span class="muted">unknown</span>` : `${span(heard - (heard % 1000))} ago`],
    ["Open for", html`<${Since} at=${session.opened_at} />`],
    ["Opened", html`<${Time} at=${session.opened_at} />`],
  ];
  return html`<${Facts} rows=${rows} /><${Meta} meta=${session.meta} />
    <p class="note"><a href=${link("waits", null, { session: String(session.number) })}>Who waits for whom</a></p>`;
}

/** @param {{ session: any }} props */
function Grants({ session }) {
  const columns = [
    { head: "Lock", cell: (/** @type {any} */ row) => html`<${LockLink} name=${row.lock} />` },
    { head: "State", cell: (/** @type {any} */ row) => html`<${State} state=${row.state} />` },
    { head: "Grant", figure: true, cell: (/** @type {any} */ row) => `#${row.number}` },
    { head: "Token", figure: true, cell: (/** @type {any} */ row) => row.token ?? "—" },
  ];
  return html`<${Panel} title="Grants" extra=${html`<span class="muted"><${Count} of=${session.grant_count} words=" in all" /></span>`}>
    <${Table} columns=${columns} rows=${session.grants} of=${(/** @type {any} */ row) => `${row.number}-${row.lock}`} label="Grants"
      empty=${session.grant_count === undefined ? HIDDEN : "It holds nothing here, and waits for nothing."} /></>`;
}

/** @param {{ session: any }} props */
function Ephemeral({ session }) {
  const columns = [{ head: "Path", cell: (/** @type {string} */ path) => html`<a class="typed" href=${treeLink(path.slice(1))}>${shortened(path)}</a>` }];
  return html`<${Panel} title="Ephemeral nodes" extra=${html`<span class="muted"><${Count} of=${session.ephemeral_count} words=" in all" /></span>`}>
    <${Table} columns=${columns} rows=${session.ephemeral_nodes} of=${(/** @type {string} */ path) => path} label="Ephemeral nodes"
      empty=${session.ephemeral_count === undefined ? HIDDEN : "No node here ends with this session."} /></>`;
}
