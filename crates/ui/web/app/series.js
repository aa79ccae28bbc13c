// The totals over time, as rows of figures. Everything here is a pure function.

const ROWS_MAX = 600;

/** @typedef {{ names: string[], rows: number[][], next: string | null }} Rows */

/** @type {Rows} */
export const NO_ROWS = { names: [], rows: [], next: null };

/** The rows with those of a new answer. A server that cannot continue them answers with all that it has.
 * @param {Rows} before @param {Rows & { continues: boolean }} answer @returns {Rows} */
export function joined(before, answer) {
  const { names = [], rows = [], next = null, continues = false } = answer;
  return { names, next, rows: continues ? [...before.rows, ...rows].slice(-ROWS_MAX) : rows };
}

/** The figures of one column, the oldest first; none if the server has no such column.
 * @param {Rows} series @param {string} name */
export function column(series, name) {
  const at = series.names.indexOf(name);
  return at < 0 ? [] : series.rows.map((row) => row[at]);
}

/** @param {number[]} figures */
export function sum(figures) {
  return figures.reduce((all, figure) => all + figure, 0);
}

/** How much a column grew each second, over the newest rows; null if there are none. A row of a late server covers more than a second.
 * @param {Rows} series @param {string} name @param {number} most */
export function rate(series, name, most) {
  const grown = column(series, name).slice(-most);
  if (grown.length === 0) return null;
  // With the row before them, which ends where they begin.
  const ends = column(series, "at").slice(-most - 1);
  const took = (ends[ends.length - 1] - ends[0]) / 1000;
  return sum(grown) / Math.max(grown.length, took);
}

/** The rows at which the term is another one than before: another leader was elected.
 * @param {Rows} series */
export function elections(series) {
  const terms = column(series, "term");
  return terms.flatMap((term, at) => (at > 0 && term !== terms[at - 1] ? [at] : []));
}

/** The elections in a time, each in the time of its row: after `from`, and until `to` at the latest.
 * @param {Rows} series @param {number} begin @param {number} end in milliseconds since 1970
 * @returns {{ from: number, to: number, before: number, term: number }[]} */
export function electionsWithin(series, begin, end) {
  const [ends, terms] = [column(series, "at"), column(series, "term")];
  const found = elections(series).map((at) => ({ from: ends[at - 1], to: ends[at], before: terms[at - 1], term: terms[at] }));
  return found.filter(({ from, to }) => from <= end && to >= begin);
}
