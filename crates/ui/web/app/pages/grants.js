// What an owner holds and waits for, over all locks.

import { html, useEffect, useState } from "../../vendor/preact.js";
import { withQuery } from "../api.js";
import { count, ordinal, quoted } from "../format.js";
import { Curl, Heading, Line, LockLink, OwnerLink, Pages, Panel, SessionLink, Since, State, Table, Typed, usePoll, Waiting } from "../parts.js";
import { link } from "../route.js";
import { route } from "../state.js";

const ROWS = 100;

export function Grants() {
  const { query } = route.value;
  const owner = query.get("owner") ?? "";
  const cursor = query.get("cursor") ?? "";
  const path = withQuery("v1/grants", { owner, consistency: "local", limit: ROWS, cursor });
  const poll = usePoll(path, 2000);
  const next = poll.body?.next_cursor ?? null;
  const command = `fairhold grants ls${owner === "" ? "" : ` --owner=${quoted(owner)}`}`;
  return html`<${Heading}>Grants ${owner === "" ? null : html`of <${Typed} text=${owner} />`}</>
    <${Filter} owner=${owner} />
    <${Panel} title="Holds and waits for" extra=${html`<span class="muted">${count(poll.body?.items?.length)} shown, in the order in which they queued</span>`}>
      ${poll.body ? html`<${Rows} items=${poll.body.items} owner=${owner} rest=${next !== null} first=${cursor === ""} />` : html`<${Waiting} poll=${poll} />`}
      <${Pages} first=${cursor ? link("grants", null, { owner }) : null} next=${next ? link("grants", null, { owner, cursor: next }) : null} />
      <p class="note"><a href=${link("waits", null, { owner })}>Who waits for whom</a></p></>
    <${Panel} title="The same without this page"><${Line} label="fairhold" text=${command} /><${Curl} path=${path} /></>`;
}

/** @param {{ owner: string }} props */
function Filter({ owner }) {
  const [typed, setTyped] = useState(owner);
  useEffect(() => setTyped(owner), [owner]);
  const go = (/** @type {Event} */ event) => {
    event.preventDefault();
    location.hash = link("grants", null, { owner: typed });
  };
  return html`<form class="controls" role="search" onSubmit=${go}>
    <label>Owner <input id="search" type="search" value=${typed} spellcheck=${false} autocomplete="off" placeholder="ci-7"
      onInput=${(/** @type {any} */ event) => setTyped(event.currentTarget.value)} /></label>
    <button type="submit">Show</button><a class="button" href=${link("grants")}>Show all</a></form>`;
}

/** @param {{ items: any[], owner: string, rest: boolean, first: boolean }} props */
function Rows({ items, owner, rest, first }) {
  const named = (/** @type {string} */ text, /** @type {number} */ number) => html`<${OwnerLink} owner=${text} most=${32} /> #${number}`;
  const columns = [
    { head: "Lock", cell: (/** @type {any} */ row) => html`<${LockLink} name=${row.lock} />` },
    { head: "State", cell: (/** @type {any} */ row) => html`<${State} state=${row.state} />` },
    { head: "Place", figure: true, cell: (/** @type {any} */ row) => (row.position ? ordinal(row.position) : "—") },
    { head: "For", figure: true, cell: (/** @type {any} */ row) => html`<${Since} at=${row.since} />` },
    ...(owner === "" ? [{ head: "Owner", cell: (/** @type {any} */ row) => named(row.owner, row.number) }]
      : [{ head: "Grant", figure: true, cell: (/** @type {any} */ row) => `#${row.number}` }]),
    { head: "Waits for", cell: (/** @type {any} */ row) => (row.waits_for ? named(row.waits_for.owner, row.waits_for.number) : "—") },
    { head: "Session", cell: (/** @type {any} */ row) => html`<${SessionLink} number=${row.session} />` },
  ];
  const none = owner === "" ? "Nobody holds a lock or waits for one." : "This owner holds no lock and waits for none.";
  const empty = rest ? "No match on this page. There may be some on the next one." : first ? none : "There are no more.";
  return html`<${Table} columns=${columns} rows=${items} of=${(/** @type {any} */ row) => `${row.number}-${row.lock}`} label="Grants" empty=${empty} />`;
}
