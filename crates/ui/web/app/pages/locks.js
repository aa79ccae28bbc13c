// The list of locks, a page at a time.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../../vendor/preact.js";
import { withQuery } from "../api.js";
import { count, parseSpan, shortened, span, visible } from "../format.js";
import { Curl, Heading, Line, LockLink, OwnerLink, Pages, Panel, Since, State, Table, Time, usePoll, Waiting } from "../parts.js";
import { link, parseSearch } from "../route.js";
import { route } from "../state.js";

const ROWS = 100;
/** The shortest time between two searches, in milliseconds. */
const SEARCH_EVERY = 100;
const ORDERS = [
  ["longest_wait", "longest wait"], ["held_for", "longest hold"], ["waiters", "most waiters"], ["name", "name"],
  ["contention", "most hand-overs"],
];

export function Locks() {
  const { query } = route.value;
  const [text, state, sort, cursor] = ["match", "state", "sort", "cursor"].map((name) => query.get(name) ?? "");
  const search = parseSearch(text);
  const order = ORDERS.some(([name]) => name === sort) ? sort : "longest_wait";
  const path = withQuery("v1/locks", {
    consistency: "local", limit: ROWS, match: search.match, owner: search.owner, state: search.state ?? state, sort: order, cursor,
  });
  const poll = usePoll(path, 2000);
  const items = poll.body?.items ?? [];
  const to = (/** @type {Record<string, string | null>} */ change) => link("locks", null, { match: text, state, sort, cursor: null, ...change });
  const extra = html`<span class="muted">${count(items.length)} shown</span>`;
  return html`<${Heading}>Locks</>
    <${Search} text=${text} to=${to} state=${search.state ?? state} order=${order} />
    ${search.owner ? html`<p class="note">Only locks that ${" "}<${OwnerLink} owner=${search.owner} />${" "} holds or waits for.
      For whom it waits, and who waits for it, is on the page of <a href=${link("waits", null, { owner: search.owner })}>waits</a>.</p>` : null}
    <${Panel} title="Locks" extra=${extra}>
      ${poll.body ? html`<${Rows} items=${items} rest=${Boolean(poll.body.next_cursor)} isAll=${!(text || state || cursor)} search=${search} to=${to} />` : html`<${Waiting} poll=${poll} />`}
      <${Pages} first=${cursor ? link("locks", null, { match: text, state, sort }) : null}
        next=${poll.body?.next_cursor ? link("locks", null, { match: text, state, sort, cursor: poll.body.next_cursor }) : null} />
    </>
    <${Panel} title="The same without this page"><${Curl} path=${path} /></>`;
}

/** @param {{ text: string, to: (change: Record<string, string | null>) => string, state: string, order: string }} props */
function Search({ text, to, state, order }) {
  const [typed, setTyped] = useState(text);
  const timer = useRef(0);
  const searchedAt = useRef(-SEARCH_EVERY);
  // What the address says counts, unless it is what was typed a moment ago: more may have been typed since.
  const sent = useRef(text);
  useLayoutEffect(() => {
    if (text === sent.current) return;
    sent.current = text;
    setTyped(text);
  }, [text]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const change = (/** @type {any} */ event) => {
    const { value } = event.currentTarget;
    setTyped(value);
    clearTimeout(timer.current);
    const search = () => {
      searchedAt.current = performance.now();
      sent.current = value;
      // One entry in the browser's history for the list, not one for each key.
      location.replace(to({ match: value }));
    };
    const rest = searchedAt.current + SEARCH_EVERY - performance.now();
    if (rest > 0) timer.current = setTimeout(search, rest);
    else search();
  };
  const states = [["", "all"], ["held", "held"], ["queued", "with waiters"], ["cooling", "cooling"], ["idle", "idle"]];
  return html`<form class="controls top" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
    <div class="hinted"><label>Name, owner or state <input id="search" type="search" value=${typed} onInput=${change} spellcheck=${false}
      autocomplete="off" placeholder="orders/ or owner:ci-7" aria-describedby="search-hint" /></label>
      <span id="search-hint" class="muted">A part of the name, <code>owner:ci-7</code>, <code>state:held</code>, or several of them.</span></div>
    <label>State <select value=${state} onChange=${(/** @type {any} */ event) => { location.hash = to({ state: event.currentTarget.value }); }}>
      ${states.map(([value, label]) => html`<option value=${value}>${label}</option>`)}</select></label>
    <label>Order <select value=${order} onChange=${(/** @type {any} */ event) => { location.hash = to({ sort: event.currentTarget.value }); }}>
      ${ORDERS.map(([value, label]) => html`<option value=${value}>${label}</option>`)}</select></label>
  </form>`;
}

/** @param {{ items: any[], rest: boolean, isAll: boolean, search: any, to: (change: Record<string, string | null>) => string }} props isAll: nothing is left out */
function Rows({ items, rest, isAll, search, to }) {
  const columns = [
    { head: "Lock", cell: (/** @type {any} */ row) => html`<${LockLink} name=${row.lock} />` },
    { head: "State", cell: (/** @type {any} */ row) => html`<${State} state=${row.state} />${row.limit > 1 ? html` <span class="muted">${row.holders} of ${row.limit}</span>` : null}` },
    { head: "Holder", cell: (/** @type {any} */ row) => (row.holder ? html`<${OwnerLink} owner=${row.holder.owner} most=${32} /> #${row.holder.number}${row.holders > 1 ? ` +${row.holders - 1}` : ""}` : "—") },
    { head: "Held for", figure: true, cell: (/** @type {any} */ row) => (row.since ? html`<${Since} at=${row.since} />` : "—") },
    { head: "Usual", figure: true, cell: (/** @type {any} */ row) => span(parseSpan(row.usual_hold)) },
    { head: "Waiters", figure: true, cell: (/** @type {any} */ row) => count(row.queue_length) },
    { head: "Waiting since", cell: (/** @type {any} */ row) => html`<${Time} at=${row.waiting_since} />` },
    { head: "Hand-overs", figure: true, cell: (/** @type {any} */ row) => count(row.hand_overs) },
  ];
  const empty = rest ? "No match on this page. There may be some on the next one." : isAll
    ? html`You see no locks. To take one:
      <${Line} text="fairhold lock demo -- sleep 60" label="Take a lock" />` : html`You see no match. <${Instead} search=${search} to=${to} />`;
  return html`<${Table} columns=${columns} rows=${items} of=${(/** @type {any} */ row) => row.lock} label="Locks" empty=${empty} />`;
}

/** Offers to look for an owner with the text that no name contains.
 * @param {{ search: any, to: (change: Record<string, string | null>) => string }} props */
function Instead({ search, to }) {
  // A search cannot have an owner with a space.
  if (search.match === "" || search.match.includes(" ") || search.owner) return null;
  const owner = `owner:${search.match}`;
  const href = to({ match: `${search.state ? `state:${search.state} ` : ""}${owner}` });
  return html`Is it an owner? <a class="typed" href=${href} title=${visible(owner)}>${shortened(owner)}</a>`;
}

