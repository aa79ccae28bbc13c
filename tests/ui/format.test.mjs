// Tests of the pure parts: they need no browser and no server.

import assert from "node:assert/strict";
import { test } from "node:test";
import * as api from "../../crates/ui/web/app/api.js";
import { remedy } from "../../crates/ui/web/app/follow.js";
import * as format from "../../crates/ui/web/app/format.js";
import * as happened from "../../crates/ui/web/app/happened.js";
import * as route from "../../crates/ui/web/app/route.js";

test("a span has two units at most and rounds down", () => {
  const spans = [
    [0, "0 s"], [7, "7 ms"], [999, "999 ms"], [1500, "1.5 s"], [9999, "9.9 s"], [40000, "40 s"], [61000, "1 min 1 s"], [3600000, "1 h"],
    [10920000, "3 h 2 min"], [10979999, "3 h 2 min"], [2 * 86400000 + 3599999, "2 d"], [-5, "0 s"], [null, "—"], [Number.NaN, "—"],
  ];
  for (const [millis, text] of spans) assert.equal(format.span(millis), text, String(millis));
});

test("a span of the API is read", () => {
  for (const [text, millis] of [["90s", 90000], ["250ms", 250], ["", null], ["5m", null], [undefined, null]]) {
    assert.equal(format.parseSpan(text), millis);
  }
});

test("a latency is a bound, or nothing", () => {
  for (const [micros, text] of [[100, "≤ 0.1 ms"], [2500, "≤ 2.5 ms"], [25000, "≤ 25 ms"], [2500000, "≤ 2.5 s"], [0, "—"], [undefined, "—"]]) {
    assert.equal(format.latency(micros), text);
  }
});

test("rows continue those before, or replace them if the server has begun anew", () => {
  const row = (at, grants, term = 1) => [at * 1000, grants, term];
  const answer = (continues, rows) => ({ names: ["at", "grants", "term"], rows, continues, next: "1s-0000000000000007-9" });
  const first = happened.joined(happened.NO_ROWS, answer(false, [row(1, 5), row(2, 7)]));
  const second = happened.joined(first, answer(true, [row(3, 9, 2)]));
  assert.deepEqual(happened.column(second, "grants"), [5, 7, 9]);
  assert.deepEqual(happened.column(second, "held"), [], "the server has no such column");
  assert.deepEqual(happened.elections(second), [2]);
  assert.deepEqual(happened.column(happened.joined(second, answer(false, [row(4, 1)])), "grants"), [1]);
  const many = Array.from({ length: 600 }, (_, at) => row(at, at));
  assert.equal(happened.joined(second, answer(true, many)).rows.length, 600);
});

test("an election is in the row at whose end the term is another one", () => {
  const rows = { names: ["at", "term"], rows: [[60000, 4], [120000, 4], [180000, 6], [240000, 6], [300000, 7]], next: null };
  const found = [{ from: 120000, to: 180000, before: 4, term: 6 }, { from: 240000, to: 300000, before: 6, term: 7 }];
  assert.deepEqual(happened.electionsWithin(rows, 0, 400000), found);
  assert.deepEqual(happened.electionsWithin(rows, 170000, 230000), found.slice(0, 1));
  assert.deepEqual(happened.electionsWithin(rows, 181000, 239000), []);
  assert.deepEqual(happened.electionsWithin(happened.NO_ROWS, 0, 400000), []);
});

test("what happened around a time is what began and ended in it, what is notable and near first", () => {
  const hold = (number, from, to, ended) => ({
    lock: "deploy", number, from: new Date(from).toISOString(), from_revision: number, to: to && new Date(to).toISOString(), to_revision: to && number + 1, ended,
  });
  const holds = [hold(13, 5000), hold(12, 4000, 5000, "broken"), hold(11, 1000, 4000, "released"), hold(10, 500, 9000, "released")];
  const rows = happened.happened(holds, 1000, 9000);
  const shown = (most, at = 4500) => {
    const found = happened.nearest(rows, at, most);
    return [found.rows.map((row) => `${row.at} ${row.kind} #${row.hold.number}`), found.leftOut];
  };
  const all = ["1000 granted #11", "4000 released #11", "4000 granted #12", "5000 broken #12", "5000 granted #13"];
  assert.deepEqual(shown(40), [all, 0], "the end of a window is not in it");
  assert.deepEqual(shown(2, 1000), [["1000 granted #11", "5000 broken #12"], 3]);
  assert.deepEqual(happened.nearest([], 0, 40), { rows: [], leftOut: 0 });
  assert.deepEqual(happened.happened([...holds, ...holds], 1000, 9000), rows, "two answers may have the same hold");
});

test("the grants of one lock to one owner share a row, and so does a loss that repeats", () => {
  const at = (/** @type {number} */ time) => new Date(time).toISOString();
  const hold = (number, owner, ended, lock = "deploy", reason) => ({
    lock, owner, number, from: at(number), from_revision: number, to: at(number + 1), to_revision: number + 1, ended, reason,
  });
  const holds = [hold(1, "a", "released"), hold(2, "a", "released"), hold(3, "a", "broken", "deploy", "hangs"), hold(4, "b", "released"), hold(5, "a", "released", "other"),
    hold(6, "c", "broken", "deploy", "hangs"), hold(7, "c", "broken", "deploy", "hangs"), hold(8, "c", "broken", "deploy", "again")];
  const told = happened.folded(happened.happened(holds, 0, 90)).map((row) => `${row.kind} ${row.hold.lock} ${row.hold.owner} ${row.times ? `${row.times} times, ${row.first} to ${row.at}` : row.at}`);
  assert.deepEqual(told, ["granted deploy a 3 times, 1 to 3", "broken deploy a 4", "granted deploy b 4", "released deploy b 5", "granted other a 5",
    "released other a 6", "granted deploy c 3 times, 6 to 8", "broken deploy c 2 times, 7 to 8", "broken deploy c 9"]);
  const changed = [{ ...hold(1, "a", "upgraded"), from_revision: 1 }, { ...hold(1, "a", "released"), from_revision: 2, to_revision: 3 }];
  assert.equal(happened.folded(happened.happened(changed, 0, 90)).some((row) => row.times), false, "a change of the mode is no other grant");
});

test("an event has the time at which the page saw it, or nothing", () => {
  const [first, second] = happened.keyed([{ revision: 9 }, { revision: 9 }]);
  assert.deepEqual([first.key, second.key], ["9-0", "9-1"]);
  assert.equal(happened.seenText(first, true), "—", "it is from before the page");
  const now = Date.parse("2026-11-22T03:12:09.400Z");
  const texts = (at, before) => happened.seen([first], at, before).map((item) => happened.seenText(item, true));
  assert.deepEqual(texts(now, now - 1000), ["2026-11-22 03:12:09 UTC"]);
  assert.deepEqual(texts(now, now - 60000), ["before 2026-11-22 03:12:09 UTC"]);
  assert.deepEqual(texts(now, null), ["before 2026-11-22 03:12:09 UTC"]);
  assert.deepEqual(texts(null, null), ["—"], "the server's time is unknown");
});

test("a rate is per second, also if the server was late or its clock stepped back", () => {
  const of = (...rows) => ({ names: ["at", "grants"], rows, next: null });
  assert.equal(happened.rate(of(), "grants", 10), null);
  assert.equal(happened.rate(of([1000, 4], [2000, 8]), "grants", 10), 6);
  assert.equal(happened.rate(of([1000, 100], [2000, 4], [6000, 16]), "grants", 2), 4);
  assert.equal(happened.rate(of([9000, 100], [1000, 4], [2000, 8]), "grants", 2), 6);
});

test("a time has its zone", () => {
  const zones = [[0, "UTC"], [60, "UTC+1"], [330, "UTC+5:30"], [-210, "UTC-3:30"], [-480, "UTC-8"]];
  for (const [ahead, text] of zones) assert.equal(format.zone(ahead), text);
  process.env.TZ = "Asia/Kolkata";
  assert.equal(format.time("2026-11-22T03:12:00.000Z", false), "2026-11-22 08:42:00 UTC+5:30");
  assert.equal(format.time("2026-11-22T03:12:00.000Z", true), "2026-11-22 03:12:00 UTC");
  assert.equal(format.time("never", false), "—");
});

test("a time of an address survives the way through the field for times", () => {
  process.env.TZ = "Asia/Kolkata";
  const at = format.parseTime("2026-11-22T03:12:00Z") ?? 0;
  assert.equal(format.parseTime("2026-11-22T04:12:00+01:00"), at);
  assert.deepEqual([format.fieldOf(at, true), format.fieldOf(at, false)], ["2026-11-22T03:12", "2026-11-22T08:42"]);
  assert.equal(format.fieldOf(at + 1999, true), "2026-11-22T03:12:01");
  for (const utc of [true, false]) assert.equal(format.fromField(format.fieldOf(at, utc), utc), at);
  assert.equal(format.fromField("2026-11-22T03:12:00", true), at);
  assert.equal(format.timeText(at), "2026-11-22T03:12:00Z");
  assert.equal(format.timeText(at + 7), "2026-11-22T03:12:00.007Z");
  assert.equal(format.fromField("", false), null);
  for (const text of ["", "42", "03:12", "2026-11-22", "2026-13-22T03:12:00Z", "2026-11-22T03:12:00"]) assert.equal(format.parseTime(text), null, text);
});

test("hidden characters are made visible and long text is cut in the middle", () => {
  assert.equal(format.visible("a\u202eb\u0000\n\u200b"), "a\\u202eb\\u0000\\u000a\\u200b");
  assert.equal(format.visible("grüße 🔒"), "grüße 🔒");
  assert.equal(format.visible(" a b "), "\\u0020a b\\u0020");
  assert.equal(format.visible("\u00a0\u3164\u{e0041}"), "\\u00a0\\u3164\\u{e0041}");
  assert.equal(format.visible("deploy\ufe0f\u2800"), "deploy\\ufe0f\\u2800");
  assert.equal(format.shortened("x".repeat(64)), "x".repeat(64));
  const cut = format.shortened(`begin${"🔒".repeat(100)}end`, 21);
  assert.equal([...cut].length, 21);
  assert.ok(cut.startsWith("begin") && cut.endsWith("end") && cut.includes("…"));
});

test("text of several lines keeps its line ends and tabs, and shows the rest", () => {
  assert.equal(format.visibleLines("a\tb\r\nc\u202e"), "a\tb\\u000d\nc\\u202e");
  assert.equal(format.visibleLines("  a \n"), "  a \n");
});

test("a size has one unit and rounds down", () => {
  const sizes = [[0, "0 B"], [1023, "1023 B"], [1024, "1 KiB"], [1536, "1.5 KiB"], [1048575, "1023.9 KiB"], [1048576, "1 MiB"], [undefined, "—"]];
  for (const [bytes, text] of sizes) assert.equal(format.size(bytes), text);
});

test("only an address of the web becomes a link", () => {
  assert.equal(format.webLink("https://ci.example/812"), "https://ci.example/812");
  for (const text of ["javascript:alert(1)", " javascript:alert(1)", "data:text/html,x", "ftp://a", "ci.example", ""]) {
    assert.equal(format.webLink(text), null, text);
  }
});

test("a member is a link only if its URL is one of the web", () => {
  const urls = [["http://n1:7171/", "http://n1:7171/ui/#/a"], ["https://n1", "https://n1/ui/#/a"], ["javascript:alert(1)", null], ["n1:7171", null]];
  for (const [url, link] of urls) assert.equal(format.atMember(url, "#/a"), link, url);
});

test("a word is quoted for a shell", () => {
  assert.equal(format.quoted("orders/42"), "orders/42");
  assert.equal(format.quoted("it's $(rm)"), "'it'\\''s $(rm)'");
});

test("a line to copy has the token's place, never a token", () => {
  assert.equal(format.curl("v1/waits?limit=200", false), 'curl "$SERVER/v1/waits?limit=200"');
  assert.equal(format.curl("v1/locks/a!!b/queue", false), 'curl "$SERVER/v1/locks/a%21%21b/queue"', "a shell expands ! in double quotes");
  assert.equal(format.curl("v1/waits", true), 'curl -H "Authorization: Bearer $TOKEN" "$SERVER/v1/waits"');
});

test("figures", () => {
  assert.deepEqual([1, 2, 3, 4, 11, 12, 21, 111, 1002].map(format.ordinal), ["1st", "2nd", "3rd", "4th", "11th", "12th", "21st", "111th", "1,002nd"]);
  assert.deepEqual([format.median([]), format.median([3]), format.median([9, 1, 5])], [null, 3, 5]);
  assert.deepEqual([format.waits(1), format.waits(2)], ["1 waits", "2 wait"]);
  assert.deepEqual([format.bucket(0, 13), format.bucket(12, 13)], ["≤ 1 ms", "> 1 h 9 min"]);
});

test("a clock is ahead or behind, with a doubt, and open files are a share of what is allowed", () => {
  const clocks = [
    [3, 2, "+3 ± 2 ms"], [-1234, 40, "−1,234 ± 40 ms"], [0, 1, "0 ± 1 ms"], [3600000, 2, "+1 h, ± 2 ms"], [undefined, undefined, "—"],
  ];
  for (const [ahead, doubt, text] of clocks) assert.equal(format.clock(ahead, doubt), text);
  for (const [part, whole, text] of [[410, 10240, "4%"], [0, 1024, "0%"], [64, undefined, "64"], [undefined, 1024, "—"]]) {
    assert.equal(format.share(part, whole), text);
  }
});

test("every name survives the way into the address and back", () => {
  for (const name of ["constructor", "__proto__", "../x", "a%2Fb", "orders/42", "#", "?", "a=b&c", "🔒".repeat(128), "<script>", " "]) {
    const parsed = route.parse(route.link("locks", name, { tab: "history", at: "2026-11-22T03:12:00Z" }));
    assert.equal(parsed.name, name);
    assert.equal(parsed.page, "locks");
    assert.equal(parsed.query.get("at"), "2026-11-22T03:12:00Z");
  }
});

test("an address that names no page is no page", () => {
  for (const hash of ["#/nothing", "#/waits/x", "#/__proto__", "#/cluster/"]) {
    assert.equal(route.parse(hash).page, hash === "#/cluster/" ? "cluster" : "unknown", hash);
  }
  assert.equal(route.parse("").page, "");
  assert.equal(route.parse("#/sessions/41").name, "41");
  assert.equal(route.parse(route.link("grants", null, { owner: "a&b=ü" })).query.get("owner"), "a&b=ü");
  assert.equal(route.parse("#/locks/%zz").name, "%zz");
});

test("a search has words and a part of a name", () => {
  assert.deepEqual(route.parseSearch("state:held owner:ci-7 ord"), { state: "held", owner: "ci-7", match: "ord" });
  assert.deepEqual(route.parseSearch("state:other"), { match: "state:other" });
  assert.deepEqual(route.parseSearch(""), { match: "" });
});

test("a path of the tree survives the way into the address, with readable slashes", () => {
  for (const path of ["jobs/nightly", "a%2Fb/#?&=/ü", "constructor/__proto__", " / "]) {
    const address = route.treeLink(path, { cursor: "a/b" });
    assert.equal(route.parse(address).name, path);
    assert.equal(route.parse(address).query.get("cursor"), "a/b");
  }
  assert.equal(route.treeLink("jobs/nightly"), "#/tree/jobs/nightly");
  assert.equal(route.treeLink("", { cursor: "x" }), "#/tree?cursor=x");
  assert.equal(route.nodeCall("a b/c"), "v1/nodes/a%20b/c");
});

test("a call cannot leave the tree by dots", () => {
  for (const path of ["..", "a/../b", ".", "a//b", "/", "a/"]) assert.equal(route.isPath(path), false, path);
  for (const path of ["", "a", "..x", "a/...", "a%2F.."]) assert.equal(route.isPath(path), true, path);
});

test("a call cannot have a name of dots alone, which a browser takes for a step", () => {
  for (const path of ["v1/locks/..", "v1/locks/./queue", "v1/locks/../holders?token=1"]) assert.ok(api.hasDots(path), path);
  for (const path of ["v1/locks/..x", "v1/locks/a%2F..", "v1/locks?match=/../"]) assert.ok(!api.hasDots(path), path);
});

test("a wait that the server asks for is in seconds, and a minute at most", () => {
  for (const [text, wait] of [["7", 7000], ["0", 0], ["3600", 60000], ["Wed, 21 Oct 2026 07:28:00 GMT", 0], ["-1", 0], [null, 0]]) assert.equal(api.waitOf(text), wait, text);
});

test("the view above", () => {
  const of = (/** @type {string} */ hash) => route.above(route.parse(hash));
  assert.equal(of("#/tree/a/b%2Fc"), "#/tree/a/b");
  assert.equal(of("#/tree/a/b"), "#/tree/a");
  assert.equal(of("#/tree/a"), "#/tree");
  assert.equal(of("#/sessions/41"), "#/sessions");
  assert.equal(of("#/elections/a%2Fb"), "#/elections");
  assert.equal(of("#/cluster"), "#/");
});

test("the view itself, as the view above links to it", () => {
  const of = (/** @type {string} */ hash) => route.bare(route.parse(hash));
  assert.equal(of("#/tree/a/b%23?as=hex"), "#/tree/a/b%23");
  assert.equal(of("#/locks/a%2Fb?tab=history"), "#/locks/a%2Fb");
  assert.equal(of("#/sessions/41"), "#/sessions/41");
});

test("the node of a holder is told from a lock", () => {
  assert.ok(route.isContender("/locks/deploy/23-lock-0000000001"));
  for (const path of ["/locks/deploy", "/locks/23-lock-1", "/locks/a/x23-lock-0000000001"]) assert.equal(route.isContender(path), false, path);
});

test("after a denial, a call waits for another credential or for half a minute", () => {
  const denied = { sent: "mine", at: 1000 };
  assert.ok(api.mayAsk(null, "mine", 1000));
  assert.equal(api.mayAsk(denied, "mine", 30999), false);
  assert.ok(api.mayAsk(denied, "mine", 31000));
  assert.ok(api.mayAsk(denied, "another", 1001));
  assert.ok(api.mayAsk(denied, null, 1001));
});

test("a call that an older program does not know is told from a name that is not there", () => {
  const gone = new api.Failure(404, "not_found", "there is nothing here");
  for (const path of ["v1/events?after=4", "v1/elections", "v1/grants?owner=a", "v1/history?at=x", "v1/overview/series", "v1/nodes/?children=true"]) {
    assert.equal(api.explained(path, gone).code, api.UNKNOWN_CALL, path);
  }
  assert.equal(api.explained("v1/events?limit=200", gone).message, "This node's program has no GET /v1/events; it is older than this page. Upgrade the node.");
  for (const path of ["v1/locks/a", "v1/elections/a?consistency=local", "v1/sessions/41", "v1/nodes/a"]) assert.equal(api.explained(path, gone), gone, path);
  const late = new api.Failure(503, "no_leader", "no leader");
  assert.equal(api.explained("v1/events", late), late);
});

test("the page tries other members only if this one does not answer", () => {
  assert.match(remedy(0, false, 2), /tries other members/);
  assert.match(remedy(0, true, 2), /until the dialog is closed/);
  assert.match(remedy(0, false, 0), /no other member/);
  for (const status of [403, 503]) assert.match(remedy(status, false, 2), /asks it again/);
});

test("a value is text if its bytes are, also if its end cuts a character", () => {
  const bytes = new TextEncoder().encode("aü");
  assert.equal(format.asText(bytes, true), "aü");
  assert.equal(format.asText(bytes.subarray(0, 2), false), "a");
  assert.equal(format.asText(bytes.subarray(0, 2), true), null);
  assert.equal(format.asText(new Uint8Array([255]), false), null);
});

test("JSON is laid out with its numbers as they are written", () => {
  assert.equal(format.laidOut('{"a":12345678901234567890,"b":[1,"x, {y}"],"c":{},"a":[]}'),
    '{\n  "a": 12345678901234567890,\n  "b": [\n    1,\n    "x, {y}"\n  ],\n  "c": {},\n  "a": []\n}');
  for (const text of ["", "7", '"x"', "null", "{", "v1.7"]) assert.equal(format.laidOut(text), null, text);
  const deep = (/** @type {number} */ levels) => `${"[".repeat(levels)}${"]".repeat(levels)}`;
  assert.ok((format.laidOut(deep(1000)) ?? "").length > 1000, "the indentation has a bound");
  assert.equal(format.laidOut(deep(30000)), null, "that is better read as text");
});

test("hex has sixteen bytes a row", () => {
  assert.equal(format.asHex(new Uint8Array([0, 65, 255])), `000000  00 41 ff${" ".repeat(39)}  .A.`);
  assert.equal(format.asHex(new Uint8Array(33)).split("\n").length, 3);
  assert.equal(format.asHex(new Uint8Array(0)), "");
});
