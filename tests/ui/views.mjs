// The views of the dashboard, and what each shows of a furnished cluster (`jam` and `furnish`).

/** `acts` is the number of buttons of administrators. `{leader}` is the number of a session, which only the server knows. */
const VIEWS = [
  { name: "overview", hash: "#/", shows: "ci-7" },
  { name: "locks", hash: "#/locks", shows: "orders/42" },
  { name: "lock", hash: "#/locks/deploy", shows: "ci-9", acts: 2 },
  { name: "lock-history", hash: "#/locks/deploy?tab=history", shows: "ci-3", acts: 2 },
  { name: "settings", hash: "#/locks/deploy?tab=settings", shows: "How long they held", acts: 2 },
  { name: "waits", hash: "#/waits", shows: "ROOT" },
  { name: "grants", hash: "#/grants?owner=ci-9", shows: "2nd" },
  { name: "sessions", hash: "#/sessions", shows: "worker-a" },
  { name: "session", hash: "#/sessions/{leader}", shows: "/workers/api-1", acts: 1 },
  { name: "elections", hash: "#/elections", shows: "http://10.0.0.7:8080" },
  { name: "election", hash: "#/elections/primary", shows: "api-2" },
  { name: "tree", hash: "#/tree/jobs/nightly", shows: "run-7" },
  { name: "events", hash: "#/events", shows: "orders/42" },
  { name: "history", hash: "#/history", shows: "ci-7" },
  { name: "cluster", hash: "#/cluster", shows: "leader", acts: 2 },
];

/** The views of a cluster with `jam` and `furnish`. */
export async function furnished(cluster) {
  await cluster.jam();
  const leader = await cluster.furnish();
  return VIEWS.map((view) => ({ ...view, hash: view.hash.replace("{leader}", leader) }));
}

/** Waits until a view shows its content. */
export function content(page, view, within = 5000) {
  return page.locator("main", { hasText: view.shows }).waitFor({ timeout: within });
}

/** The buttons of administrators, which change something. */
export function acts(page) {
  return page.locator(".acts button").filter({ hasNotText: "Download" });
}
