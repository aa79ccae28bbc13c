// If this server does not answer, the page moves to a member that does.

const PROBE = 1000;
/** How long the browser may take to load the page of another member. */
const MOVE = 10000;
let movedAt = -MOVE;

/** Moves to the first other member that answers. The address bar then shows it, with the same view.
 * @param {{ id: number, url: string }[]} members @param {number | undefined} own */
export async function follow(members, own) {
  const others = members.filter((member) => member.id !== own && member.url);
  if (others.length === 0 || performance.now() - movedAt < MOVE) return;
  try {
    const found = await Promise.any(others.map(probe));
    movedAt = performance.now();
    location.replace(`${found.replace(/\/$/, "")}/ui/${location.hash}`);
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
