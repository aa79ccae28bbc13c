// The parts of which pages are made.

import { html, useLayoutEffect, useRef, useState, Component } from "../vendor/preact.js";
import { call, explained, mayAsk, UNKNOWN_CALL } from "./api.js";
import { count, curl, shortened, span, time, visible, webLink } from "./format.js";
import { bare, link } from "./route.js";
import { credential, noteDate, noteLate, now, paused, refused, route, say, settings, since, token, tokenWanted } from "./state.js";

/** Text that somebody typed. The whole of it is in the tooltip. @param {{ text: string, most?: number }} props */
export function Typed({ text, most = 64 }) {
  return html`<span class="typed" title=${visible(text)}>${shortened(text, most)}</span>`;
}

/** @param {{ name: string, tab?: string }} props */
export function LockLink({ name, tab }) {
  return html`<a class="typed" href=${link("locks", name, { tab })} title=${visible(name)}>${shortened(name)}</a>`;
}

/** What an owner holds and waits for. @param {{ owner: string, most?: number }} props */
export function OwnerLink({ owner, most }) {
  // A link needs a text.
  if (owner === "") return html`<${Typed} text="" />`;
  return html`<a class="typed" href=${link("grants", null, { owner })} title=${visible(owner)}>${shortened(owner, most)}</a>`;
}

/** @param {{ number: number | string }} props */
export function SessionLink({ number }) {
  return html`<a href=${link("sessions", String(number))}>session ${number}</a>`;
}

/** What somebody attached to a grant or a session. @param {{ meta: Record<string, string> | undefined }} props */
export function Meta({ meta }) {
  const pairs = Object.entries(meta ?? {});
  if (pairs.length === 0) return null;
  return html`<dl class="meta">${pairs.map(([key, text]) => html`<div key=${key}><dt><${Typed} text=${key} most=${32} /><${Shape} of="=" /></dt><dd><${Linked} text=${text} /></dd></div>`)}</dl>`;
}

/** Text that is a link if it is an address of the web. @param {{ text: string, most?: number }} props */
export function Linked({ text, most }) {
  const href = webLink(text);
  return href ? html`<a href=${href} rel="noopener noreferrer nofollow"><${Typed} text=${text} most=${most} /></a>` : html`<${Typed} text=${text} most=${most} />`;
}

/** How many there are, unless that is hidden from this reader. @param {{ of: number | undefined, words?: string }} props */
export function Count({ of, words = "" }) {
  return of === undefined ? html`<span class="muted">hidden</span>` : `${count(of)}${words}`;
}

/** Names with their values. @param {{ rows: any[][] }} props */
export function Facts({ rows }) {
  return html`<dl class="facts">${rows.map(([key, value]) => html`<div key=${key}><dt>${key}</dt><dd class="figure">${value}</dd></div>`)}</dl>`;
}

/** The first, the next and the last page of a list. @param {{ first: string | null, next: string | null, last?: string | null }} props */
export function Pages({ first, next, last = null }) {
  if (!first && !next && !last) return null;
  return html`<nav class="pages" aria-label="Further pages of the list">
    ${first ? html`<a href=${first}>First page</a>` : null}${next ? html`<a href=${next}>Next page</a>` : null}${last ? html`<a href=${last}>Last page</a>` : null}</nav>`;
}

/** Opens one of many by what its field says. @param {{ label: string, hint: string, page: string, digits?: boolean }} props */
export function OpenByName({ label, hint, page, digits = false }) {
  const [typed, setTyped] = useState("");
  const go = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (typed.trim() !== "") location.hash = link(page, typed.trim());
  };
  return html`<form class="controls" role="search" onSubmit=${go}>
    <label>${label} <input id="search" type="search" inputMode=${digits ? "numeric" : "text"} value=${typed} spellcheck=${false} autocomplete="off"
      placeholder=${hint} onInput=${(/** @type {any} */ event) => setTyped(event.currentTarget.value)} /></label>
    <button type="submit">Open</button></form>`;
}

/** A time, with the other zone in its tooltip. @param {{ at: string | null | undefined }} props */
export function Time({ at }) {
  if (!at) return "—";
  const { utc } = settings.value;
  return html`<time dateTime=${at} title=${time(at, !utc)}>${time(at, utc)}</time>`;
}

/** How long ago something was; it counts on between looks. @param {{ at: string | null | undefined }} props */
export function Since({ at }) {
  now.value;
  const ago = since(at);
  return span(ago === null ? null : ago - (ago % 1000));
}

/** A sign for the eye, beside words that say the same: a screen reader would read "filled square". @param {{ of: string | undefined }} props */
export function Shape({ of }) {
  return html`<span aria-hidden="true">${of}</span>`;
}

const STATES = new Map([["held", "■"], ["queued", "▸"], ["cooling", "◆"], ["idle", "□"], ["lost", "✕"]]);
const ROLES = new Map([["leader", "★"], ["follower", "●"], ["learner", "○"], ["unreachable", "⊘"]]);

/** @param {{ state: string }} props */
export function State({ state }) {
  return html`<span class=${`state ${state}`}>${STATES.has(state) ? html`<${Shape} of=${STATES.get(state)} /> ` : null}${state}</span>`;
}

/** @param {{ role: string }} props */
export function Role({ role }) {
  return html`<span class=${`role ${role}`}>${ROLES.has(role) ? html`<${Shape} of=${ROLES.get(role)} /> ` : null}${role}</span>`;
}

/** How long an error is shown before another try: the next answer may be right again. */
const RETRY_AFTER = 5000;

/** Shows what is in it. An error of that is shown in its place, and the rest of the page stays. With a `heading`, it holds a whole page. */
export class Guard extends Component {
  constructor() {
    super();
    this.state = { error: null };
    this.timer = 0;
  }

  /** @param {any} error */
  componentDidCatch(error) {
    console.warn(error);
    this.setState({ error: String(error) });
    this.timer = setTimeout(() => this.setState({ error: null }), RETRY_AFTER);
  }

  componentWillUnmount() {
    clearTimeout(this.timer);
  }

  render() {
    const { title, heading, children } = /** @type {any} */ (this.props);
    if (this.state.error === null) return children;
    return html`${heading ? html`<${Heading}>${heading}</>` : null}<${Panel} title=${title}><${Broken} error=${this.state.error} /></>`;
  }
}

/** A panel that survives its own errors. */
export class Panel extends Guard {
  render() {
    const { title, extra, id, children } = /** @type {any} */ (this.props);
    const { error } = this.state;
    return html`<section class="panel">
      <header><h2 id=${id} tabIndex=${id ? -1 : null}>${title}</h2>${error === null ? extra ?? null : null}</header>
      ${error === null ? children : html`<${Broken} error=${error} />`}
    </section>`;
  }
}

/** @param {{ error: string }} props */
function Broken({ error }) {
  return html`<p class="note lost">The answer cannot be shown here: ${visible(error)}</p>`;
}

/**
 * A table. Below 640 px its rows are cards with the same cells and their headings.
 * @param {{ columns: { head: string, cell: (row: any) => any, figure?: boolean, wide?: boolean }[], rows: any[], of: (row: any) => any, label: string, empty: any }} props
 */
export function Table({ columns, rows, of, label, empty }) {
  if (rows.length === 0) return html`<p class="note">${empty}</p>`;
  const of_column = (/** @type {any} */ column) => [column.figure && "figure", column.wide && "wide"].filter(Boolean).join(" ");
  return html`<table aria-label=${label}>
    <thead><tr>${columns.map((column) => html`<th scope="col" class=${of_column(column)}>${column.head}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${of(row)}>
      ${columns.map((column, at) => html`<${at === 0 ? "th" : "td"} scope=${at === 0 ? "row" : null} data-head=${column.head} class=${of_column(column)}>${column.cell(row)}</>`)}
    </tr>`)}</tbody>
  </table>`;
}

/** Answers that say that there is nothing, or no longer. */
const GONE = [404, 410];
/** Answers that another try soon would not change: it follows later. */
const LATER = [400, 404, 409, 410, 429];
const LATER_FACTOR = 5;
/** How long a server may wait for the leader. It answers before the page gives up. */
const WITHIN = "3s";

/**
 * Asks a call again and again while the page is visible. What it knew of another address is forgotten.
 * @param {string | null} path @param {number} [every] @param {typeof call} [ask] how, if not with the path alone
 * @param {(body: any) => boolean} [isFinal] whether another answer with the same credential would be the same
 */
export function usePoll(path, every = 1000, ask = call, isFinal = () => false) {
  const [found, setFound] = useState(/** @type {any} */ ({ path: null, body: null, error: null }));
  // Before the page is drawn: the answer should not wait for that too.
  useLayoutEffect(() => {
    if (path === null) return undefined;
    let open = true;
    let busy = false;
    let known = false;
    let denied = /** @type {{ sent: string | null, at: number } | null} */ (null);
    let final = /** @type {{ sent: string | null } | null} */ (null);
    let timer = 0;
    const next = async () => {
      let pause = 1000;
      busy = true;
      const sent = credential();
      const isDue = paused.value === null && tokenWanted.value === null && mayAsk(denied, sent, performance.now());
      if (isDue) pause = every;
      if (isDue && !document.hidden && (final === null || final.sent !== sent)) {
        try {
          const { body, headers } = await ask(path, { token: sent, within: WITHIN });
          known = true;
          denied = null;
          noteDate(headers);
          final = isFinal(body) ? { sent } : null;
          if (open) setFound({ path, body, headers, error: null });
          noteLate(path, null);
        } catch (caught) {
          const error = explained(path, /** @type {any} */ (caught));
          refused(error, sent);
          if (error.status === 403) denied = { sent, at: performance.now() };
          if (LATER.includes(error.status)) pause *= LATER_FACTOR;
          if (error.retryAfter) pause = Math.max(pause, error.retryAfter);
          // No later answer replaces the body if the node's program does not know the call.
          const keeps = (/** @type {any} */ before) => before.path === path && error.code !== UNKNOWN_CALL;
          if (open) setFound((/** @type {any} */ before) => (keeps(before) ? { ...before, error } : { path, body: null, error }));
          // The page says by itself that something has ended or is not there.
          if (open && known) noteLate(path, GONE.includes(error.status) ? null : error.message);
        }
      }
      busy = false;
      if (open) timer = setTimeout(next, pause);
    };
    const wake = () => {
      if (document.hidden || busy) return;
      clearTimeout(timer);
      next();
    };
    document.addEventListener("visibilitychange", wake);
    next();
    return () => {
      open = false;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", wake);
      noteLate(path, null);
    };
  }, [path, every]);
  return found.path === path ? found : { path, body: null, error: null };
}

/** What to show while there is no answer. @param {{ poll: any }} props */
export function Waiting({ poll }) {
  if (!poll.error) return html`<p class="note">Loading…</p>`;
  if (poll.error.code === UNKNOWN_CALL) return html`<p class="note queued"><${Shape} of="▲" /> ${poll.error.message}</p>`;
  if (poll.error.status === 403) return html`<p class="note">Not permitted: ${visible(poll.error.message)}</p>`;
  return html`<p class="note lost">No answer yet: ${visible(poll.error.message)}</p>`;
}

/** Copies text, also where the page is no secure context. Says the outcome, and returns it. @param {string} text */
export async function copy(text) {
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
    } else {
      const area = document.createElement("textarea");
      area.value = text;
      area.className = "offscreen";
      (document.querySelector("dialog[open]") ?? document.body).append(area);
      area.select();
      const isDone = document.execCommand("copy");
      area.remove();
      if (!isDone) throw new Error();
    }
    say("Copied.");
    return "copied";
  } catch {
    say("Cannot copy: select the text.");
    return "cannot copy: select the text";
  }
}

/** How long the outcome stays beside a button. */
const OUTCOME_FOR = 4000;

/** @param {{ text: string, label: string }} props label: what a screen reader says of the button */
export function Copy({ text, label }) {
  const [outcome, setOutcome] = useState("");
  const timer = useRef(0);
  useLayoutEffect(() => () => clearTimeout(timer.current), []);
  const go = async () => {
    setOutcome(await copy(text));
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setOutcome(""), OUTCOME_FOR);
  };
  return html`<button type="button" onClick=${go} aria-label=${label}>Copy</button>${outcome ? html`<span class="muted">${outcome}</span>` : null}`;
}

/** A line to copy. @param {{ text: string, label: string, wraps?: boolean }} props wraps: people read it, so all of it is in view */
export function Line({ text, label, wraps = false }) {
  return html`<div class="line"><code class=${wraps ? "wraps" : null} tabIndex="0" role="group" aria-label=${label}>${visible(text)}</code>
    <${Copy} text=${text.replace(/\p{Cc}/gu, "")} label=${`Copy: ${label}`} /></div>`;
}

/** The call of a page, to copy. @param {{ path: string }} props */
export function Curl({ path }) {
  return html`<${Line} label="curl" text=${curl(path, token.value !== null)} />`;
}

/** A small chart of the last ten minutes, for the eye only: its figures stand beside it as text. @param {{ values: number[], marks?: number[] }} props */
export function Spark({ values, marks = [] }) {
  const [width, height, points] = [120, 28, 60];
  const step = Math.max(1, Math.ceil(values.length / points));
  const bars = [];
  for (let at = 0; at < values.length; at += step) bars.push(Math.max(...values.slice(at, at + step)));
  const most = Math.max(...bars, 1);
  const wide = width / points;
  const bar = (/** @type {number} */ value, /** @type {number} */ at) => {
    const tall = Math.max(1, (value / most) * (height - 2));
    return html`<rect x=${width - (bars.length - at) * wide} y=${height - tall} width=${wide - 0.4} height=${tall} />`;
  };
  const mark = (/** @type {number} */ at) => {
    const x = width - (bars.length - Math.floor(at / step)) * wide;
    return html`<line class="mark" x1=${x} x2=${x} y1="0" y2=${height} />`;
  };
  return html`<svg class="spark" viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
    ${bars.map(bar)}${marks.map(mark)}</svg>`;
}

/** The id of what gets the focus on the next page. */
let wanted = /** @type {string | null} */ (null);

/** Has something else than its heading get the focus on the next page. @param {string} id */
export function focusNext(id) {
  wanted = id;
}

/** The view that has begun; null: none has yet. */
let begun = /** @type {string | null} */ (null);
/** Whether the focus was in the page when its heading went. */
let hadFocus = false;

/** Begins a new page: at its top, with the focus in the heading. @param {{ children: any }} props */
export function Heading({ children }) {
  const node = useRef(/** @type {HTMLElement | null} */ (null));
  // Before anybody sees the heading: a later change of the focus would take it from what a key has chosen since.
  useLayoutEffect(() => {
    const chosen = wanted === null ? null : document.getElementById(wanted);
    wanted = null;
    const view = bare(route.peek());
    // A heading that is there again, before or after an answer that could not be shown, begins nothing. It only takes the
    // focus that the page had and has lost.
    const isNew = begun !== null && begun !== view;
    begun = view;
    if (isNew) scrollTo(0, 0);
    if (isNew && chosen) chosen.focus();
    else if (isNew || (hadFocus && document.activeElement === document.body)) node.current?.focus({ preventScroll: true });
    return () => { hadFocus = document.activeElement?.closest("main") !== null; };
  }, []);
  return html`<h1 tabIndex="-1" ref=${node}>${children}</h1>`;
}
