// The frame around every page: the strip, the menu, the keys, and the pages themselves.

import { computed, effect, html, render } from "../vendor/preact.js";
import { Dialogs } from "./acts.js";
import { Said } from "./dialog.js";
import { remedy } from "./follow.js";
import { atMember, count, span, visible } from "./format.js";
import { copy, focusNext, Guard, Heading, Shape } from "./parts.js";
import { Cluster, isAsked, isSilent } from "./pages/cluster.js";
import { Election, Elections } from "./pages/elections.js";
import { Events } from "./pages/events.js";
import { History } from "./pages/history.js";
import { Lock } from "./pages/lock.js";
import { Locks } from "./pages/locks.js";
import { Overview } from "./pages/overview.js";
import { OneSession, Sessions } from "./pages/sessions.js";
import { Tree } from "./pages/tree.js";
import { Grants, Waits } from "./pages/waits.js";
import { above, bare, link, parse } from "./route.js";
import { admin, age, dialog, failure, late, look, now, paused, route, say, set, settings, stale, start, tokenWanted } from "./state.js";

const MENU = [["", "Overview", "o"], ["locks", "Locks", "l"], ["waits", "Waits", "w"], ["sessions", "Sessions", "s"], ["elections", "Elections", "e"],
  ["tree", "Tree", "t"], ["events", "Events", "v"], ["history", "History", "h"], ["cluster", "Cluster", "c"]];

function App() {
  const { page, name } = route.value;
  const label = page === "grants" ? "Grants" : MENU.find(([known]) => known === page)?.[1] ?? "Fairhold";
  document.title = `${name === null ? label : page === "locks" ? visible(name) : `${visible(name)} · ${page}`} · Fairhold`;
  return html`<a class="skip" href=${location.hash || "#/"} onClick=${skip}>Skip to the page</a>
    <${Strip} /><${Guard} title="Banner"><${Banner} /></>
    <main id="main" tabIndex="-1" key=${`${page}/${name ?? ""}`}><${Guard} title="Page" heading=${name === null ? label : visible(name)}><${Page} page=${page} name=${name} /></></main>
    <footer><button type="button" class="plain" onClick=${() => { dialog.value = { kind: "keys" }; }}>Keys</button></footer>
    <${Said} when=${dialog.value === null && tokenWanted.value === null} />
    <${Guard} title="Dialog"><${Dialogs} /></>`;
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** @param {{ page: string, name: string | null }} props */
function Page({ page, name }) {
  if (page === "locks" && name !== null) return html`<${Lock} name=${name} />`;
  if (page === "locks") return html`<${Locks} />`;
  if (page === "waits") return html`<${Waits} />`;
  if (page === "grants") return html`<${Grants} />`;
  if (page === "sessions") return name === null ? html`<${Sessions} />` : html`<${OneSession} name=${name} />`;
  if (page === "elections") return name === null ? html`<${Elections} />` : html`<${Election} name=${name} />`;
  if (page === "tree") return html`<${Tree} name=${name} />`;
  if (page === "events") return html`<${Events} />`;
  if (page === "history") return html`<${History} />`;
  if (page === "cluster") return html`<${Cluster} />`;
  if (page === "") return html`<${Overview} />`;
  return html`<${Heading}>There is no such page</>`;
}

function Strip() {
  const { page } = route.value;
  return html`<header class="strip"><nav aria-label="Pages"><a class="brand" href="#/">fairhold</a>
      ${MENU.map(([key, label]) => html`<a key=${key} href=${link(key)} aria-current=${page === key ? "page" : null}>${label}</a>`)}</nav>
    <${Guard} title="Health"><${Health} /></><${Controls} /></header>`;
}

function Health() {
  const found = look.value;
  if (found === null || stale.value) {
    const why = failure.value?.status === 403 ? "Not permitted: " : "";
    return html`<p class="health muted">${failure.value ? `${why}${visible(failure.value.message)}` : "Connecting…"}</p>`;
  }
  const leads = found.leader === found.id;
  const isKnown = leads || found.members.some(isAsked);
  const voters = found.members.filter((/** @type {any} */ member) => member.role !== "learner");
  const answering = voters.filter((/** @type {any} */ member) => !isSilent(member, leads)).length;
  const spare = answering - (Math.floor(voters.length / 2) + 1);
  const problems = found.problems.length;
  return html`<ul class="health" aria-label="Health">
    <li>${found.leader ? html`<span class="role leader"><${Shape} of="★" /></span> node ${found.leader} leads` : html`<span class="lost"><${Shape} of="⬣" /> no leader</span>`}</li>
    <li>${isKnown ? html`${answering} of ${voters.length} voters answer${spare > 0 ? `, can lose ${spare}` : html`, <span class=${spare === 0 ? "queued" : "lost"}>${spare === 0 ? html`<${Shape} of="▲" /> can lose none` : html`<${Shape} of="⬣" /> no majority`}</span>`}` : `${found.members.length} members`}</li>
    <li class="figure">rev ${count(found.revision)}</li>
    <li class="figure">seen ${span(Math.floor((age.value ?? 0) / 1000) * 1000)} ago at node ${found.id}</li>
    ${problems > 0 ? html`<li><a class="queued" href="#/" onClick=${showProblems}><${Shape} of="▲" /> ${count(problems)} ${problems === 1 ? "problem" : "problems"}</a></li>` : null}</ul>`;
}

/** Goes to the problems, also on the overview itself. @param {MouseEvent} event */
function showProblems(event) {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const heading = document.getElementById("problems");
  if (heading === null) {
    focusNext("problems");
    return;
  }
  event.preventDefault();
  heading.focus({ preventScroll: true });
  heading.scrollIntoView({ block: "center" });
}

function Controls() {
  const dark = document.documentElement.dataset.theme === "dark";
  const acting = admin.value !== null;
  settings.value;
  return html`<div class="toggles">
    <button type="button" onClick=${pause}>${paused.value === null ? html`<${Shape} of="‖" /> Pause` : html`<${Shape} of="▸" /> Resume`}</button>
    <button type="button" onClick=${() => set({ theme: dark ? "light" : "dark" })} aria-label=${dark ? "Use the light theme" : "Use the dark theme"}><${Shape} of="◐" /></button>
    <button type="button" class=${acting ? "danger" : ""}
      onClick=${() => { if (acting) admin.value = null; else dialog.value = { kind: "admin" }; }}>
      ${acting ? "Stop acting" : "Read-only: act as administrator"}</button></div>`;
}

function pause() {
  paused.value = paused.value === null ? performance.now() : null;
  say(paused.value === null ? "The page is live." : "The page is paused.");
}

function Banner() {
  if (paused.value !== null) return html`<p class="banner"><${Shape} of="‖" /> Paused ${span(Math.floor((now.value - paused.value) / 1000) * 1000)} ago. Only ages go on. <button type="button" onClick=${pause}>Go on</button></p>`;
  const [why] = Object.values(late.value);
  if (why !== undefined && !stale.value) return html`<p class="banner stale-banner"><${Shape} of="▲" /> A part of this page is old, and nothing can be changed here: ${visible(why)}</p>`;
  if (admin.value !== null && !stale.value) return html`<p class="banner acting-banner">You act as administrator.</p>`;
  if (!stale.value) return null;
  const others = look.value.members.filter((/** @type {any} */ member) => member.id !== look.value.id);
  return html`<p class="banner stale-banner"><${Shape} of="▲" /> Seen ${span(Math.floor((age.value ?? 0) / 1000) * 1000)} ago: ${failure.value ? visible(failure.value.message) : "no answer"}. ${remedy(failure.value?.status ?? 0, dialog.value !== null, others.length)}
    ${others.map((/** @type {any} */ member) => html` <a key=${member.id} href=${atMember(member.url, location.hash)}>Node ${member.id}</a>`)}</p>`;
}

/** How long a row may take to appear that gets the focus. */
const ROW_WITHIN = 3000;

/** Goes to the view above. The row of the view that it left gets the focus, unless the reader goes on before it is there. */
function up() {
  if (route.value.page === "") return;
  const left = bare(route.value);
  const watched = /** @type {HTMLElement} */ (document.getElementById("app"));
  const found = new MutationObserver(() => {
    const row = [...document.querySelectorAll("main a")].find((node) => node.getAttribute("href") === left);
    if (!row) return;
    stop.abort();
    /** @type {HTMLElement} */ (row).focus();
  });
  const stop = new AbortController();
  stop.signal.addEventListener("abort", () => found.disconnect());
  addEventListener("hashchange", () => {
    found.observe(watched, { childList: true, subtree: true });
    for (const goesOn of ["keydown", "pointerdown", "hashchange"]) addEventListener(goesOn, () => stop.abort(), { signal: stop.signal });
    setTimeout(() => stop.abort(), ROW_WITHIN);
  }, { once: true });
  location.hash = above(route.value);
}

let prefix = false;

/** @param {KeyboardEvent} event */
function onKey(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  const typing = target.closest?.("input, select, textarea, dialog") !== null;
  const { type, value } = /** @type {any} */ (target);
  // The first Escape empties a search field.
  if (typing && event.key === "Escape" && target.closest("main") && (type !== "search" || !value)) document.querySelector("h1")?.focus();
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !settings.value.keys || document.querySelector("dialog[open]")) return;
  const after = prefix;
  prefix = false;
  if (after) {
    const found = MENU.find(([, , key]) => key === event.key);
    if (found) location.hash = link(found[0]);
    return;
  }
  /** @type {Record<string, () => void>} */
  const actions = {
    g: () => { prefix = true; },
    "/": search,
    j: () => move(1),
    k: () => move(-1),
    u: up,
    p: pause,
    d: () => set({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" }),
    z: () => { set({ utc: !settings.value.utc }); say(settings.value.utc ? "Times are in UTC." : "Times are local."); },
    y: () => { copy(location.href); },
    "?": () => { dialog.value = { kind: "keys" }; },
  };
  const action = actions[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
}

function search() {
  const field = document.getElementById("search");
  if (field) {
    field.focus();
    return;
  }
  focusNext("search");
  location.hash = link("locks");
  // The browser tells of the new address later, maybe after the next key. That key belongs to the field already.
  route.value = parse(location.hash);
}

/** @param {number} by */
function move(by) {
  const rows = [...document.querySelectorAll("main tbody tr a, main .tree a")].filter((node, at, all) => {
    const row = node.closest("tr, li");
    return all.findIndex((other) => other.closest("tr, li") === row) === at;
  });
  const at = rows.findIndex((node) => node.closest("tr, li")?.contains(document.activeElement));
  const next = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
  /** @type {HTMLElement | undefined} */ (next)?.focus();
}

addEventListener("keydown", onKey);
effect(() => {
  document.body.classList.toggle("acting", admin.value !== null);
  document.body.classList.toggle("stale", stale.value);
});
/** How long this is so before a screen reader says it: a tab that is shown again has new figures within a second. */
const OLD_FOR = 1000;
let isToldOld = false;
const oldness = computed(() => (stale.value ? "The figures are old." : Object.keys(late.value).length > 0 ? "A part of this page is old." : null));
effect(() => {
  const text = oldness.value;
  const timer = setTimeout(() => {
    if (text !== null) say(text);
    // Some readers may not see the overview.
    else if (isToldOld && paused.peek() === null) say(look.peek() === null ? "Live again." : `Live again at node ${look.peek().id}.`);
    isToldOld = text !== null;
  }, OLD_FOR);
  return () => clearTimeout(timer);
});
const isActing = computed(() => admin.value !== null);
effect(() => {
  if (!isActing.value) return undefined;
  say("You act as administrator.");
  return () => say("You do not act as administrator any more.");
});
start();
const root = /** @type {HTMLElement} */ (document.getElementById("app"));
root.replaceChildren();
render(html`<${App} />`, root);
