// A value of a node for people: as text, as laid-out JSON, or byte for byte. Everything here is a pure function.

const INDENT_MAX = 32;
/** A browser takes seconds for much more. */
const LAID_OUT_MAX = 256 * 1024;
const ROW = 16;

/** The text of some bytes; null if they are none. A character that the end of a part cuts is left out.
 * @param {Uint8Array} bytes @param {boolean} whole */
export function asText(bytes, whole) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes, { stream: !whole });
  } catch {
    return null;
  }
}

/** An object or a list of JSON, laid out; null for anything else, or if that is much longer. Numbers and names stay as they are written.
 * @param {string} text */
export function laidOut(text) {
  try {
    const value = JSON.parse(text);
    if (typeof value !== "object" || value === null) return null;
  } catch {
    return null;
  }
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g) ?? [];
  let depth = 0;
  const line = () => `\n${"  ".repeat(Math.min(depth, INDENT_MAX))}`;
  const isEnd = (/** @type {string | undefined} */ token) => token === "}" || token === "]";
  const out = tokens.map((token, at) => {
    if (token === ":") return ": ";
    if (token === ",") return `,${line()}`;
    if (token === "{" || token === "[") {
      if (isEnd(tokens[at + 1])) return token;
      depth += 1;
      return `${token}${line()}`;
    }
    if (!isEnd(token) || ["{", "["].includes(tokens[at - 1])) return token;
    depth -= 1;
    return `${line()}${token}`;
  }).join("");
  return out.length <= LAID_OUT_MAX ? out : null;
}

/** Rows of sixteen bytes, with their places and what they are in ASCII.
 * @param {Uint8Array} bytes */
export function asHex(bytes) {
  const rows = [];
  for (let at = 0; at < bytes.length; at += ROW) {
    const row = [...bytes.subarray(at, at + ROW)];
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const letters = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".")).join("");
    rows.push(`${at.toString(16).padStart(6, "0")}  ${digits.padEnd(ROW * 3 - 1)}  ${letters}`);
  }
  return rows.join("\n");
}
