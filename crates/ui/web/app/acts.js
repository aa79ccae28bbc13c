// The dialogs of administrators: a token, a break, and what else they change. Nothing here happens by one key or one click.

import { html, useState } from "../vendor/preact.js";
import { withQuery } from "./api.js";
import { Dialog, Field, isReason, useAct } from "./dialog.js";
import { count, quoted, visible, waits } from "./format.js";
import { Line, Shape, Since, Typed, usePoll } from "./parts.js";
import { actAs, admin, dialog, look, mayAct, set, settings, stale, token, tokenWanted } from "./state.js";

/** The dialog asks for so much of a queue, which begins with the holders. */
const QUEUE_ROWS = 100;
/** A server may need so long to hand over, and to store a snapshot. */
const TIMEOUT = 15000;

export function Dialogs() {
  const shown = dialog.value;
  const close = () => { dialog.value = null; };
  if (tokenWanted.value !== null) return html`<${SignIn} />`;
  if (shown?.kind === "admin") return html`<${Administrator} close=${close} />`;
  if (shown?.kind === "keys") return html`<${Keys} close=${close} />`;
  if (shown?.kind === "break") return html`<${Break} key=${shown.lock} shown=${shown} close=${close} />`;
  if (shown?.kind === "revoke") return html`<${AskBack} key=${shown.lock} shown=${shown} close=${close} />`;
  if (shown?.kind === "end") return html`<${EndSession} key=${shown.session.number} shown=${shown} close=${close} />`;
  if (shown?.kind === "hand-over") return html`<${HandOver} shown=${shown} close=${close} />`;
  if (shown?.kind === "snapshot") return html`<${Snapshot} shown=${shown} close=${close} />`;
  return null;
}

function SignIn() {
  const [typed, setTyped] = useState("");
  const go = (/** @type {Event} */ event) => {
    event.preventDefault();
    token.value = typed.trim() || null;
    tokenWanted.value = null;
  };
  const about = html`<p>${tokenWanted.value} The token stays in the memory of this page: a reload forgets it.</p>`;
  return html`<${Dialog} label="Sign in" about=${about} close=${() => {}} stays=${true}><form onSubmit=${go}>
    <label>Token <input type="password" autocomplete="off" autofocus value=${typed} onInput=${(/** @type {any} */ event) => setTyped(event.currentTarget.value)} /></label>
    <p class="buttons"><button type="submit">Sign in</button></p></form></>`;
}

/** @param {{ close: () => void }} props */
function Administrator({ close }) {
  const [typed, setTyped] = useState("");
  const go = (/** @type {Event} */ event) => {
    event.preventDefault();
    actAs(typed.trim() || token.value);
    close();
  };
  const about = html`<p>You can then break locks and ask for them back, end sessions, hand the leadership over and take snapshots. It ends after 15 minutes without use, by a reload, and at another node.</p>`;
  return html`<${Dialog} label="Act as administrator" about=${about} close=${close}><form onSubmit=${go}>
    <label>Administrator token <input type="password" autocomplete="off" autofocus value=${typed} onInput=${(/** @type {any} */ event) => setTyped(event.currentTarget.value)} /></label>
    <p class="muted">Leave it empty if this server asks for none, or to use the token that you signed in with. The page keeps it in memory only.</p>
    <p class="buttons"><button type="button" onClick=${close}>Cancel</button><button type="submit">Continue</button></p></form></>`;
}

/** Who waits first in line, while the grant that the dialog is about still holds the lock. @param {{ lock: string, holder: any }} props */
function NextInLine({ lock, holder }) {
  const { body } = usePoll(withQuery(`v1/locks/${encodeURIComponent(lock)}/queue`, { consistency: "local", limit: QUEUE_ROWS }));
  const items = body?.items ?? [];
  const next = items.find((/** @type {any} */ item) => item.state === "queued");
  if (!next || !items.some((/** @type {any} */ item) => item.state === "held" && item.number === holder.number)) return null;
  return html`<p>Next: <strong><${Typed} text=${next.owner} /></strong>, who has waited <${Since} at=${next.queued_at} />.</p>`;
}

/** @param {{ shown: any, close: () => void }} props */
function Break({ shown, close }) {
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const { act, ...state } = useAct();
  const { lock, holder } = shown;
  const ready = (typed === lock || typed === visible(lock)) && isReason(reason) && mayAct.value && !state.busy && !state.done;
  const path = withQuery(`v1/locks/${encodeURIComponent(lock)}/holders`, { token: `${holder.token}`, reason });
  const go = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (ready) act(path, { method: "DELETE" }, () => `Done: the grant of ${visible(holder.owner)} has ended, and token ${holder.token} is stale.`, refusal);
  };
  const about = html`<p><strong><${Typed} text=${holder.owner} /></strong> has held <strong><${Typed} text=${lock} /></strong> for <${Since} at=${holder.since} />:
      grant #${holder.number}, token ${holder.token}. ${shown.waiting > 0 ? `${waits(shown.waiting)}.` : "Nobody waits."}
      ${shown.total > 1 ? html` <strong>All ${count(shown.total)} holders lose it.</strong>` : null}</p>
    <p>The grant ends, the token becomes stale, and the next in line gets the lock in the same step.
      ${" "}${shown.total > 1 ? "If this grant ends first, nothing is broken." : "Only this grant: if the lock changes hands first, nothing is broken."}</p>
    <${NextInLine} lock=${lock} holder=${holder} />
    <p class="lost"><${Shape} of="⬣" /> The holder may go on writing. Only a fence stops that.</p>`;
  return html`<${Dialog} label="Break a lock" about=${about} close=${close}><form onSubmit=${go}>
    <${Field} label="Reason" value=${reason} set=${setReason} hint="3 to 256 bytes, for the holder and the history" />
    <${Field} label="Type the name of the lock" name="confirm" value=${typed} set=${setTyped} />
    <${Line} label="fairhold" text=${`fairhold locks break --token ${holder.token} --reason ${quoted(reason || "REASON")} -- ${quoted(lock)}`} />
    ${stale.value ? html`<p class="lost">The figures are old: wait until the page is live again.</p>` : null}
    <p role="status" class="outcome">${state.text}</p>
    <p class="buttons"><button type="button" onClick=${() => { dialog.value = { ...shown, kind: "revoke" }; }}>Ask it back instead</button>
      <button type="button" onClick=${close}>Close</button>
      <button type="submit" class="danger" disabled=${!ready}>Break</button></p></form></>`;
}

/** @param {any} error */
function refusal(error) {
  if (error.code === "stale_token") return "That grant does not hold the lock any more. Close this, and look again.";
  if (error.status === 0 || error.status === 504) return "It is not known whether it happened. The history of the lock says so.";
  return visible(error.message);
}

/** @param {{ shown: any, close: () => void }} props */
function AskBack({ shown, close }) {
  const [reason, setReason] = useState("");
  const { act, ...state } = useAct();
  const go = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (state.busy || state.done || !mayAct.value) return;
    const form = reason ? { reason } : {};
    act(`v1/locks/${encodeURIComponent(shown.lock)}/holders/revoke`, { method: "POST", form }, () => "Asked. The holder decides when it releases the lock.");
  };
  const about = html`<p>The holder of <strong><${Typed} text=${shown.lock} /></strong> learns that you want the lock back, and decides. If the lock changes hands first, the next holder learns it. It ends nothing.</p>`;
  return html`<${Dialog} label="Ask for a lock back" about=${about} close=${close}><form onSubmit=${go}>
    <${Field} label="Reason" value=${reason} set=${setReason} />
    <p role="status" class="outcome">${state.text}</p>
    <p class="buttons"><button type="button" onClick=${close}>Close</button><button type="submit" disabled=${!mayAct.value || state.busy || state.done}>Ask</button></p></form></>`;
}

/** The end of each dialog. @param {{ text: string, busy: boolean, done: boolean, ready: boolean, label: string, danger?: boolean, close: () => void }} props */
function Ending({ text, busy, done, ready, label, danger = false, close }) {
  return html`${stale.value ? html`<p class="lost">The figures are old: wait until the page is live again.</p>` : null}
    <p role="status" class="outcome">${text}</p>
    <p class="buttons"><button type="button" onClick=${close}>Close</button>
      <button type="submit" class=${danger ? "danger" : ""} disabled=${!ready || busy || done || !mayAct.value}>${label}</button></p>`;
}

/** @param {{ shown: any, close: () => void }} props */
function EndSession({ shown, close }) {
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const { act, ...state } = useAct();
  const { session } = shown;
  const number = String(session.number);
  const ready = typed.trim() === number && isReason(reason);
  const go = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!ready || state.busy || state.done || !mayAct.value) return;
    const failed = (/** @type {any} */ error) => (error.code === "session_not_found" ? "There is no such session any more." : visible(error.message));
    act(withQuery(`v1/sessions/${number}`, { reason }), { method: "DELETE" }, () => `Session ${number} has ended.`, failed);
  };
  const about = html`<p>Session <strong>${number}</strong>${session.name === undefined ? null : html` <strong><${Typed} text=${session.name} /></strong>`}${" "}
      and all that it owns ends: its grants, its places in queues and its ephemeral nodes.</p>
    <p class="lost"><${Shape} of="⬣" /> Its client may go on writing. Only a fence stops that.</p>`;
  return html`<${Dialog} label="End a session" about=${about} close=${close}><form onSubmit=${go}>
    <${Field} label="Reason" value=${reason} set=${setReason} hint="3 to 256 bytes, for the holder and the history" />
    <${Field} label="Type the number of the session" name="confirm" value=${typed} set=${setTyped} />
    <${Line} label="fairhold" text=${`fairhold sessions end ${number} --reason ${quoted(reason || "REASON")}`} />
    <${Ending} ...${state} ready=${ready} label="End" danger=${true} close=${close} /></form></>`;
}

/** @param {{ shown: any, close: () => void }} props */
function HandOver({ shown, close }) {
  const voters = shown.members.filter((/** @type {any} */ member) => member.role === "follower");
  const [to, setTo] = useState(String(voters[0]?.id ?? ""));
  const { act, ...state } = useAct();
  const go = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (to === "" || state.busy || state.done || !mayAct.value) return;
    act("v1/cluster/leader", { method: "POST", form: { to: Number(to) }, timeout: TIMEOUT }, (body) => `Node ${body?.leader ?? to} leads.`);
  };
  const about = html`<p>Another voter leads from then on. Requests wait for a moment, and locks, sessions and queues stay as they are.</p>`;
  return html`<${Dialog} label="Hand the leadership over" about=${about} close=${close}><form onSubmit=${go}>
    <label>To <select value=${to} onChange=${(/** @type {any} */ event) => setTo(event.currentTarget.value)}>
      ${voters.map((/** @type {any} */ member) => html`<option key=${member.id} value=${member.id}>node ${member.id}</option>`)}</select></label>
    <${Line} label="fairhold" text=${`fairhold cluster transfer-leader ${to}`} />
    <${Ending} ...${state} ready=${to !== ""} label="Hand over" close=${close} /></form></>`;
}

/** @param {{ shown: any, close: () => void }} props */
function Snapshot({ shown, close }) {
  const { act, ...state } = useAct();
  const go = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (state.busy || state.done || !mayAct.value) return;
    act("v1/cluster/snapshot", { method: "POST", form: {}, timeout: TIMEOUT },
      (body) => `Node ${body?.id ?? shown.id} has stored a snapshot up to log entry ${count(body?.snapshot_index)}.`);
  };
  const about = html`<p>Node ${shown.id}, which this page asks, stores its state in a file of its own. Nodes also do that by themselves.</p>`;
  return html`<${Dialog} label="Take a snapshot" about=${about} close=${close}><form onSubmit=${go}>
    <${Line} label="fairhold" text="fairhold cluster snapshot" />
    <${Ending} ...${state} ready=${true} label="Take it" close=${close} /></form></>`;
}

export const KEYS = [
  ["/", "search"], ["Esc", "leave a field"], ["j, k", "next and previous row"], ["Enter", "open"], ["u", "up"], ["g o, g l, g w", "overview, locks, waits"],
  ["g s, g e, g t", "sessions, elections, tree"], ["g v, g h, g c", "events, history, cluster"],
  ["p", "pause"], ["d", "dark or light"], ["z", "local time or UTC"], ["y", "copy a link to this view"], ["?", "this list"],
];

/** @param {{ close: () => void }} props */
function Keys({ close }) {
  return html`<${Dialog} label="Keys" close=${close}><dl class="facts">${KEYS.map(([key, what]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
    <${KeySwitch} /><p class="muted">${look.value ? `Fairhold ${visible(look.value.version)}` : ""}</p>
    <p class="buttons"><button type="button" onClick=${close}>Close</button></p></>`;
}

function KeySwitch() {
  return html`<label class="check"><input type="checkbox" checked=${settings.value.keys} onChange=${(/** @type {any} */ event) => set({ keys: event.currentTarget.checked })} /> Single keys work</label>`;
}
