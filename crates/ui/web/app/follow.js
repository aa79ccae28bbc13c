// If this server does not answer, the page moves to a member that does.

import { atMember } from "./format.js";

const PROBE = 1000;
/** How long the browser may take to load the page of another member. */
const MOVE = 10000;
let movedAt = -MOVE;

/** What the page does about old figures. Another member cannot help if this one answers.
 * @param {number} status of the newest answer; 0: there is none @param {boolean} hasDialog @param {number} others */
export function remedy(status, hasDialog, others) {
  if (status > 0) return "This node answers with an error. The page stays here and asks it again.";
  if (others === 0) return "There is no other member. The page asks this one again.";
  return hasDialog ? "The page stays until the dialog is closed." : "The page tries other members.";
}

/** Moves to the first other member that answers. The address bar then shows it, with the same view.
 * @param {{ id: number, url: string }[]} members @param {number | undefined} own */
export async function follow(members, own) {
  const others = members.filter((member) => member.id !== own && atMember(member.url, "") !== null);
  if (others.length === 0 || performance.now() - movedAt < MOVE) return;
  try {
    const found = await Promise.any(others.map(probe));
    movedAt = performance.now();
    location.replace(/** @type {string} */ (atMember(found, location.hash)));
  } catch {
    // None answers: the page stays, and says how old its figures are.
  }
}

/** @param {{ url: string }} member */
async function probe(member) {
  // The page may not read the answer, but it learns that there is one.
  const options = /** @type {RequestInit} */ ({ mode: "no-cors", cache: "no-store", credentials: "omit" });
  await fetch(`${member.url.replace(/\/$/, "")}/livez`, { ...options, signal: AbortSignal.timeout(PROBE) });
  return member.url;
}
