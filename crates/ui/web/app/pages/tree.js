// The tree, a level at a time: a node with its value, and its children page by page.

import { html, useEffect, useState } from "../../vendor/preact.js";
import { callBytes, withQuery } from "../api.js";
import { asHex, asText, count, laidOut, quoted, shortened, size, visible, visibleLines } from "../format.js";
import { Curl, Facts, Guard, Heading, Line, LockLink, Pages, Panel, SessionLink, Shape, Table, Time, Typed, usePoll, Waiting } from "../parts.js";
import { isContender, isPath, nodeCall, treeLink } from "../route.js";
import { credential, refused, route, say } from "../state.js";

const ROWS = 100;
const SHOWN_MAX = 64 * 1024;
const VALUE_MAX = 1024 * 1024;
const VIEWS = [["json", "JSON"], ["text", "Text"], ["hex", "Hex"]];

/** @param {{ name: string | null }} props the path without its first slash */
export function Tree({ name }) {
  const path = name ?? "";
  if (!isPath(path)) {
    return html`<${Heading}>There is no such node</><${Panel} title="Not found"><p class="note">This address is not a path in the tree. <a href="#/tree">The tree</a></p></>`;
  }
  return html`<${Node} path=${path} />`;
}

/** @param {{ path: string }} props */
function Node({ path }) {
  const cursor = route.value.query.get("cursor") ?? "";
  const base = nodeCall(path);
  const listing = withQuery(base, { children: true, meta: true, consistency: "local", limit: ROWS, cursor });
  const poll = usePoll(listing, 2000);
  const stat = poll.headers ? statOf(poll.headers) : null;
  const gone = poll.error?.code === "no_node";
  return html`<${Heading}>${path === "" ? "Tree" : html`<span class="offscreen">Node </span><${Typed} text=${path.split("/").at(-1)} />`}</>
    <${Trail} path=${path} />
    ${gone ? html`<p class="note lost"><${Shape} of="✕" /> There is no such node${stat ? " any more: this is what it was" : ""}.</p>` : null}
    ${stat ? html`<${Panel} title="Node"><${Stat} stat=${stat} path=${path} /></>
        ${stat.length > 0 ? html`<${Guard} title="Value"><${Value} base=${base} stat=${stat} path=${path} cursor=${cursor} /></>` : null}
        <${Guard} title="Children"><${Children} path=${path} items=${poll.body?.items ?? []} stat=${stat} cursor=${cursor} next=${poll.body?.next_cursor ?? null} /></>`
      : gone ? null : html`<${Panel} title="Node"><${Waiting} poll=${poll} /></>`}
    <${Panel} title="The same without this page"><${Line} label="fairhold" text=${`fairhold node ls ${quoted(`/${path}`)}`} />
      <${Curl} path=${listing} /></>`;
}

/** The answer's headers have the stat of the node itself. @param {Headers} headers */
function statOf(headers) {
  const text = (/** @type {string} */ name) => headers.get(`fairhold-${name}`);
  const figure = (/** @type {string} */ name) => Number(text(name) ?? 0);
  return {
    czxid: figure("czxid"), mzxid: figure("mzxid"), pzxid: figure("pzxid"), created: text("ctime"), written: text("mtime"), version: figure("version"),
    owner: figure("ephemeral-owner"), length: figure("data-length"), children: figure("num-children"),
  };
}

/** The way from the root. @param {{ path: string }} props */
function Trail({ path }) {
  if (path === "") return null;
  const parts = path.split("/");
  return html`<nav class="trail" aria-label="Path"><a href="#/tree">/</a>${parts.map((part, at) => html`<span key=${at}>
    ${at > 0 ? html`<span class="muted" aria-hidden="true">/</span> ` : null}${at + 1 === parts.length ? html`<strong aria-current="page"><${Typed} text=${part} /></strong>`
      : html`<a href=${treeLink(parts.slice(0, at + 1).join("/"))}><${Typed} text=${part} /></a>`}</span>`)}</nav>`;
}

/** The lock that a path below /locks belongs to. @param {string} path */
function lockOf(path) {
  if (!path.startsWith("locks/")) return null;
  const name = isContender(path) ? path.slice(0, path.lastIndexOf("/")) : path;
  return name.slice("locks/".length) || null;
}

/** @param {{ stat: any, path: string }} props */
function Stat({ stat, path }) {
  const lock = lockOf(path);
  const rows = [
    ["Value", size(stat.length)], ["Version", count(stat.version)], ["Children", count(stat.children)],
    ["Ephemeral", stat.owner === 0 ? "no" : html`<${SessionLink} number=${stat.owner} />`],
    ["Created", html`<${Moment} at=${stat.created} revision=${stat.czxid} />`], ["Value written", html`<${Moment} at=${stat.written} revision=${stat.mzxid} />`],
    ["Created at revision (czxid)", count(stat.czxid)], ["Written at revision (mzxid)", count(stat.mzxid)], ["Children changed at (pzxid)", count(stat.pzxid)],
  ];
  if (lock) rows.unshift(["Lock", html`<${LockLink} name=${lock} />`]);
  return html`<${Facts} rows=${rows} />`;
}

/** When a node was written. A few nodes are older than every change. @param {{ at: string | null, revision: number }} props */
function Moment({ at, revision }) {
  return revision === 0 ? html`<span class="muted">with the cluster</span>` : html`<${Time} at=${at} />`;
}

/** Reads the beginning of a value, and again when it was written. @param {string} base @param {number} written */
function useValue(base, written) {
  const [found, setFound] = useState(/** @type {any} */ ({ bytes: null, error: null }));
  useEffect(() => {
    let open = true;
    let timer = 0;
    const next = async () => {
      const sent = credential();
      try {
        const { body } = await callBytes(withQuery(base, { consistency: "local" }), SHOWN_MAX, { token: sent });
        if (open) setFound({ bytes: body, error: null });
      } catch (error) {
        refused(error, sent);
        if (!open) return;
        setFound((/** @type {any} */ before) => ({ ...before, error }));
        timer = setTimeout(next, 5000);
      }
    };
    next();
    return () => { open = false; clearTimeout(timer); };
  }, [base, written]);
  return found;
}

/** @param {{ base: string, stat: any, path: string, cursor: string }} props */
function Value({ base, stat, path, cursor }) {
  const { bytes, error } = useValue(base, stat.mzxid);
  const extra = html`<span class="acts"><button type="button" onClick=${() => download(base, path)}>Download</button></span>`;
  if (bytes === null) return html`<${Panel} title="Value" extra=${extra}><${Waiting} poll=${{ error }} /></>`;
  const whole = stat.length <= bytes.length;
  const text = asText(bytes, whole);
  const json = whole && text !== null ? laidOut(text) : null;
  const forms = /** @type {Record<string, string | null>} */ ({ json, text });
  const possible = VIEWS.filter(([view]) => view === "hex" || forms[view] !== null);
  const wanted = route.value.query.get("as") ?? "";
  const view = possible.some(([known]) => known === wanted) ? wanted : possible[0][0];
  const shown = view === "hex" ? asHex(bytes) : visibleLines(forms[view] ?? "");
  return html`<${Panel} title="Value" extra=${extra}>
    <nav class="tabs" aria-label="How to show the value">${possible.map(([key, label]) => html`<a key=${key} href=${treeLink(path, { as: key, cursor })}
      aria-current=${view === key ? "page" : null}>${label}</a>`)}</nav>
    <pre class=${view === "hex" ? "content" : "content wrapped"} tabIndex="0" role="group" aria-label="Value">${shown}</pre>
    ${whole ? null : html`<p class="note queued"><${Shape} of="▲" /> These are the first ${size(bytes.length)} of ${size(stat.length)}.</p>`}</>`;
}

/** Saves the whole value as a file. @param {string} base @param {string} path */
async function download(base, path) {
  const sent = credential();
  try {
    const { body } = await callBytes(withQuery(base, { consistency: "local" }), VALUE_MAX, { token: sent, timeout: 30000 });
    const url = URL.createObjectURL(new Blob([body], { type: "application/octet-stream" }));
    const anchor = document.createElement("a");
    anchor.href = url;
    anchor.download = shortened(path.split("/").at(-1) ?? "", 100) || "value";
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
    say("The value was downloaded.");
  } catch (error) {
    refused(error, sent);
    say(`The value was not downloaded: ${visible(/** @type {any} */ (error).message)}`);
  }
}

/** @param {{ path: string, items: any[], stat: any, cursor: string, next: string | null }} props */
function Children({ path, items, stat, cursor, next }) {
  const columns = [
    { head: "Name", cell: (/** @type {any} */ row) => html`<a class="typed" href=${treeLink(row.path.slice(1))} title=${visible(row.path)}>${shortened(lastOf(row.path))}</a>` },
    { head: "Value", figure: true, cell: (/** @type {any} */ row) => size(row.data_length) },
    { head: "Children", figure: true, cell: (/** @type {any} */ row) => count(row.num_children) },
    { head: "Version", figure: true, cell: (/** @type {any} */ row) => count(row.version) },
    { head: "Ephemeral", cell: (/** @type {any} */ row) => (row.ephemeral_owner === 0 ? "—" : html`<${SessionLink} number=${row.ephemeral_owner} />`) },
    { head: "Value written", cell: (/** @type {any} */ row) => html`<${Moment} at=${row.mtime} revision=${row.mzxid} />` },
  ];
  const empty = stat.owner !== 0 ? "An ephemeral node has no children." : html`You see no children. To make one:
    <${Line} text=${`fairhold node create ${quoted(`${path === "" ? "" : `/${path}`}/NAME`)} VALUE`} label="Create a child" />`;
  return html`<${Panel} title="Children" extra=${html`<span class="muted">${count(stat.children)} in all, ${count(items.length)} shown</span>`}>
    <${Table} columns=${columns} rows=${items} of=${(/** @type {any} */ row) => row.path} label="Children" empty=${empty} />
    <${Pages} first=${cursor ? treeLink(path) : null} next=${next ? treeLink(path, { cursor: next }) : null} /></>`;
}

/** @param {string} path */
function lastOf(path) {
  return path.slice(path.lastIndexOf("/") + 1);
}
