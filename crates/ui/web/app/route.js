// The address of a view: #/locks/orders%2F42?tab=history. Everything here is a pure function.

const PAGES = ["", "locks", "waits", "grants", "sessions", "elections", "tree", "events", "history", "cluster"];
/** The pages that also show one of what they list. */
const NAMED = ["locks", "sessions", "elections", "tree"];

/** @typedef {{ page: string, name: string | null, query: Map<string, string> }} Route */

/** @param {string} hash @returns {Route} */
export function parse(hash) {
  const [path, query] = cut(hash.replace(/^#\/?/, ""), "?");
  const [page, name] = cut(path, "/");
  const known = PAGES.includes(page) && (name === "" || NAMED.includes(page));
  const pairs = new Map(query.split("&").filter(Boolean).map((pair) => {
    const [key, value] = cut(pair, "=");
    return [decode(key), decode(value)];
  }));
  return { page: known ? page : "unknown", name: known && name !== "" ? decode(name) : null, query: pairs };
}

/** @param {string} page @param {string | null} [name] @param {Record<string, string | null | undefined>} [query] */
export function link(page, name = null, query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = pairs.map(([key, value]) => `${encodeURIComponent(key)}=${encodeURIComponent(String(value))}`).join("&");
  return `#/${page}${name === null ? "" : `/${encodeURIComponent(name)}`}${text ? `?${text}` : ""}`;
}

/** The view of a node of the tree. Its slashes stay readable. @param {string} path such as jobs/nightly
 * @param {Record<string, string | null | undefined>} [query] */
export function treeLink(path, query = {}) {
  const [head, tail] = cut(link("tree", null, query), "?");
  return `${head}${path === "" ? "" : `/${encoded(path)}`}${tail ? `?${tail}` : ""}`;
}

/** The call that reads a node. @param {string} path such as jobs/nightly */
export function nodeCall(path) {
  return `v1/nodes/${encoded(path)}`;
}

/** Whether a call can carry this path: a browser would shorten one with dots. @param {string} path */
export function isPath(path) {
  return path === "" || path.split("/").every((part) => part !== "" && part !== "." && part !== "..");
}

/** Whether this is the node of a holder or a waiter. @param {string} path */
export function isContender(path) {
  return /\/[0-9]+-lock-[0-9]{10}$/.test(path);
}

/** What is above a view. @param {Route} route */
export function above({ page, name }) {
  if (name === null) return "#/";
  return page === "tree" ? treeLink(name.split("/").slice(0, -1).join("/")) : link(page);
}

/** The view itself, as a row of the view above links to it. @param {Route} route */
export function bare({ page, name }) {
  return page === "tree" && name !== null ? treeLink(name) : link(page, name);
}

/** @param {string} path */
function encoded(path) {
  return path.split("/").map(encodeURIComponent).join("/");
}

/** @param {string} text @param {string} at @returns {[string, string]} */
function cut(text, at) {
  const index = text.indexOf(at);
  return index < 0 ? [text, ""] : [text.slice(0, index), text.slice(index + 1)];
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The search of the list of locks: words of the kind owner:ci-7 or state:held, and a part of the name.
 * @param {string} text */
export function parseSearch(text) {
  const states = ["held", "queued", "cooling", "idle"];
  const found = /** @type {Record<string, string>} */ ({});
  const rest = text.split(/\s+/).filter((word) => {
    const [key, value] = cut(word, ":");
    if (key === "state" && states.includes(value)) found.state = value;
    else if (key === "owner" && value) found.owner = value;
    else return word !== "";
    return false;
  });
  return { ...found, match: rest.join(" ") };
}
