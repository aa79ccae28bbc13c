// The dialogs of administrators about sessions and nodes: end a session, hand the leadership over, take a snapshot.

import { html, useState } from "../vendor/preact.js";
import { withQuery } from "./api.js";
import { Dialog, Field, isReason, useAct } from "./dialog.js";
import { count, quoted, visible } from "./format.js";
import { Line, Shape, Typed } from "./parts.js";
import { mayAct, stale } from "./state.js";

/** A server may need so long to hand over, and to store a snapshot. */
const TIMEOUT = 15000;

/** The end of each dialog. @param {{ text: string, busy: boolean, done: boolean, ready: boolean, label: string, danger?: boolean, close: () => void }} props */
function Ending({ text, busy, done, ready, label, danger = false, close }) {
  return html`${stale.value ? html`<p class="lost">The figures are old: wait until the page is live again.</p>` : null}
    <p role="status" class="outcome">${text}</p>
    <p class="buttons"><button type="button" onClick=${close}>${done ? "Close" : "Cancel"}</button>
      <button type="submit" class=${danger ? "danger" : ""} disabled=${!ready || busy || done || !mayAct.value}>${label}</button></p>`;
}

/** @param {{ shown: any, close: () => void }} props */
export function EndSession({ shown, close }) {
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
export function HandOver({ shown, close }) {
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
export function Snapshot({ shown, close }) {
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
