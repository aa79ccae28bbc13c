// Who waits for whom, roots first, the waits that were refused, and what an owner holds and waits for.

import { html, useEffect, useState } from "../../vendor/preact.js";
import { withQuery } from "../api.js";
import { count, ordinal, parseSpan, quoted, span, waits } from "../format.js";
import { Curl, Heading, Line, LockLink, OwnerLink, Pages, Panel, SessionLink, Shape, Since, State, Table, Typed, usePoll, Waiting } from "../parts.js";
import { Refusals, refusals, RefusalsKnown, repeated } from "../refused.js";
import { link } from "../route.js";
import { route } from "../state.js";

const ROWS = 200;
const GRANTS = 100;
const FIELDS = ["owner", "lock", "session"];

export function Waits() {
  const { query } = route.value;
  const given = Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""]));
  const path = withQuery("v1/waits", { ...given, limit: ROWS });
  const poll = usePoll(path, 2000);
  const tree = poll.body;
  const filtered = FIELDS.some((name) => given[name] !== "");
  return html`<${Heading}>Waits</>
    <${Filter} given=${given} page="waits" />
    <${Panel} title="Who waits for whom" extra=${tree ? html`<span class="muted">${count(tree.items?.length)} rows</span>` : null}>
      ${poll.error?.status === 400 ? html`<p class="note lost">${poll.error.message}</p>` : null}
      ${tree ? html`<${Rows} items=${tree.items} filtered=${filtered} />` : html`<${Waiting} poll=${poll} />`}
      ${tree?.left_out > 0 ? html`<p class="note">${count(tree.left_out)} further rows are left out: name an owner, a lock or a session.</p>` : null}
      ${tree && !tree.complete ? html`<p class="note queued"><${Shape} of="▲" /> More grants wait than the server examines: this is a part of the tree.</p>` : null}
    </>
    <${Panel} title="Refused deadlocks"><${Refusals} rows=${repeated(refusals(given))} empty=${refusals({}).length > 0 ? "None of the known ones matches the filter." : "None is known."} /><${RefusalsKnown} /></>
    <${Panel} title="The same without this page"><${Curl} path=${path} /></>`;
}

/** @param {{ given: Record<string, string>, page: string }} props */
function Filter({ given, page }) {
  const [typed, setTyped] = useState(given);
  const key = Object.values(given).join("\n");
  useEffect(() => setTyped(given), [key]);
  const go = (/** @type {Event} */ event) => {
    event.preventDefault();
    location.hash = link(page, null, typed);
  };
  return html`<form class="controls" role="search" onSubmit=${go}>${Object.keys(given).map((name) => html`<label key=${name}>${name[0].toUpperCase() + name.slice(1)}
      <input id=${name === "owner" ? "search" : name} type="text" value=${typed[name]} spellcheck=${false} autocomplete="off" inputMode=${name === "session" ? "numeric" : "text"}
        onInput=${(/** @type {any} */ event) => setTyped({ ...typed, [name]: event.currentTarget.value })} /></label>`)}
    <button type="submit">Show</button><a class="button" href=${link(page)}>Show all</a></form>`;
}

/** @param {{ items: any[], filtered: boolean }} props */
function Rows({ items, filtered }) {
  if (items.length === 0) {
    return html`<p class="note">${filtered ? "You see no match." : "You see no waits."}</p>`;
  }
  return html`<ol class="tree" aria-label="Who waits for whom">${items.map((item, at) => html`<li key=${`${at}-${item.owner}-${item.waits?.number ?? ""}`}
    class=${`depth${Math.min(item.depth, 8)}`}><span class="offscreen">Level ${item.depth + 1}:</span> <${Row} item=${item} /></li>`)}</ol>`;
}

/** @param {{ item: any }} props */
function Row({ item }) {
  const who = html`<strong><${OwnerLink} owner=${item.owner} most=${48} /></strong>${item.session ? html` <a class="muted" href=${link("waits", null, { session: String(item.session) })}>session ${item.session}</a>` : null}`;
  const holds = (item.holds ?? []).map((/** @type {any} */ held) => html`<span key=${held.lock} class="held-lock">
    ${held.token ? html`<span class="state held"><${Shape} of="■" /></span> holds` : html`<span class="state queued"><${Shape} of="▸" /></span> does not hold it now:`}
    ${" "}<${LockLink} name=${held.lock} /> <span class="muted"><${Since} at=${held.since} />, ${waits(held.queue_length)}${held.holder_count > 1 ? `, ${held.holder_count} holders` : ""}</span></span>`);
  if (item.holds_left_out) holds.push(html`<span key="" class="held-lock muted">and ${count(item.holds_left_out)} more</span>`);
  if (!item.waits) {
    return html`<span class="root-mark">ROOT</span> ${who} <span>blocks <strong>${count(item.blocks)}</strong>${item.blocks_for ? `, the longest for ${span(parseSpan(item.blocks_for))}` : null}</span> ${holds}`;
  }
  return html`<span class="state queued"><${Shape} of="▸" /></span> ${who} <span class="muted">waits <${Since} at=${item.waits.since} /> for</span>
    ${" "}<${LockLink} name=${item.waits.lock} /> <span class="muted">${ordinal(item.waits.position)} in line</span>
    ${item.repeated ? html`<span class="muted">(shown above)</span>` : null} ${holds}`;
}

/** What an owner holds and waits for, over all locks. */
export function Grants() {
  const { query } = route.value;
  const owner = query.get("owner") ?? "";
  const cursor = query.get("cursor") ?? "";
  const path = withQuery("v1/grants", { owner, consistency: "local", limit: GRANTS, cursor });
  const poll = usePoll(path, 2000);
  const next = poll.body?.next_cursor ?? null;
  const command = `fairhold grants ls${owner === "" ? "" : ` --owner=${quoted(owner)}`}`;
  return html`<${Heading}>Grants ${owner === "" ? null : html`of <${Typed} text=${owner} />`}</>
    <${Filter} given=${{ owner }} page="grants" />
    <${Panel} title="Holds and waits for" extra=${html`<span class="muted">${count(poll.body?.items?.length)} shown, in the order in which they queued</span>`}>
      ${poll.body ? html`<${GrantRows} items=${poll.body.items} owner=${owner} rest=${next !== null} first=${cursor === ""} />` : html`<${Waiting} poll=${poll} />`}
      <${Pages} first=${cursor ? link("grants", null, { owner }) : null} next=${next ? link("grants", null, { owner, cursor: next }) : null} />
      <p class="note"><a href=${link("waits", null, { owner })}>Who waits for whom</a></p></>
    <${Panel} title="The same without this page"><${Line} label="fairhold" text=${command} /><${Curl} path=${path} /></>`;
}

/** @param {{ items: any[], owner: string, rest: boolean, first: boolean }} props */
function GrantRows({ items, owner, rest, first }) {
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
  const none = "You see no grants.";
  const empty = rest ? "No match on this page. There may be some on the next one." : first ? none : "There are no more.";
  return html`<${Table} columns=${columns} rows=${items} of=${(/** @type {any} */ row) => `${row.number}-${row.lock}`} label="Grants" empty=${empty} />`;
}
