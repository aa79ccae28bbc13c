// What all dialogs of administrators share.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { call, newKey } from "./api.js";
import { visible } from "./format.js";
import { admin, dialog, said } from "./state.js";

const TRIES = 4;
const REASON_MIN = 3;
const REASON_MAX = 256;

/** A dialog. A screen reader reads `about` when it opens; without that, it begins at the heading, which has the focus.
 * @param {{ label: string, about?: any, close: () => void, children: any, stays?: boolean }} props */
export function Dialog({ label, about = null, close, children, stays = false }) {
  const node = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const shown = node.current;
    shown?.showModal();
    // A closed dialog gives the focus back. One that is only removed does not.
    return () => shown?.close();
  }, []);
  return html`<dialog ref=${node} aria-label=${label} aria-describedby=${about === null ? null : "about"}
    onCancel=${(/** @type {Event} */ event) => { event.preventDefault(); close(); }}
    onClose=${() => { if (stays && node.current?.isConnected) node.current.showModal(); }}>
    <h2 tabIndex=${about === null ? -1 : null} autofocus=${about === null}>${label}</h2>${about === null ? null : html`<div id="about">${about}</div>`}${children}<${Said} /></dialog>`;
}

/** What a screen reader says. It hears nothing from behind an open dialog, so the dialog says it then. @param {{ when?: boolean }} props */
export function Said({ when = true }) {
  return html`<div role="status" class="offscreen">${when ? said.value : ""}</div>`;
}

/** Sends a change, again with the same key while it is not known whether it happened.
 * @param {string} path @param {any} options @param {(text: string) => void} tell */
async function send(path, options, tell) {
  const shown = dialog.value;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await call(path, options);
    } catch (error) {
      const failed = /** @type {any} */ (error);
      const unknown = failed.status === 0 || failed.status === 503 || failed.status === 504;
      if (!unknown || attempt === TRIES) throw error;
      tell("It is not known yet whether it happened: asking again with the same key.");
      await new Promise((resolve) => { setTimeout(resolve, Math.max(500 * attempt, failed.retryAfter)); });
      if (dialog.value !== shown) throw error;
    }
  }
}

/** An act of an administrator: what it says, whether it is done, and how to send it once. */
export function useAct() {
  const [state, setState] = useState({ busy: false, text: "", done: false });
  // A request has its key as long as it is not known whether it happened. Another request has another key.
  const key = useRef({ of: "", value: newKey() });
  const tell = (/** @type {string} */ text) => setState({ busy: true, text, done: false });
  /** @param {string} path @param {any} options @param {(body: any) => string} done @param {(error: any) => string} [failed] */
  const act = async (path, options, done, failed = (error) => visible(error.message)) => {
    const of = JSON.stringify([path, options]);
    if (key.current.of !== of) key.current = { of, value: newKey() };
    tell("Sending…");
    try {
      const { body } = await send(path, { ...options, key: key.current.value, token: admin.value?.token }, tell);
      setState({ busy: false, done: true, text: done(body) });
    } catch (error) {
      // After a refusal, the next try is another request. Otherwise it may have happened: the key stays.
      const { status } = /** @type {any} */ (error);
      if (status >= 400 && status < 500) key.current = { of: "", value: newKey() };
      setState({ busy: false, done: false, text: failed(error) });
    }
  };
  return { ...state, act };
}

/** Whether the server takes this reason. @param {string} reason */
export function isReason(reason) {
  const bytes = new TextEncoder().encode(reason).length;
  return bytes >= REASON_MIN && bytes <= REASON_MAX;
}

/** @param {{ label: string, value: string, set: (text: string) => void, name?: string, hint?: string }} props */
export function Field({ label, value, set, name, hint }) {
  return html`<label>${label} <input type="text" name=${name} value=${value} placeholder=${hint} spellcheck=${false} autocomplete="off"
    onInput=${(/** @type {any} */ event) => set(event.currentTarget.value)} /></label>`;
}
