// Turns in the order of doubt, and what a person makes of each. Every correction is a row of its own on the server.
const { element, part } = bench;
const filters = part("filters");
const NAMES = { rated: "rated down", refused: "refused", contradicted: "contradicted sentence", unsupported: "unsupported sentence", folded: "model's text folded", doubted: "answer doubted itself", edited: "search edited", unsure: "low belief" };
const AT_ONCE = 50;
let offset = 0, listed = [], shown = null, found = [], listing = 0, opening = 0;

// The list.
async function list(first = 0) {
  const mine = ++listing;
  offset = first;
  const asked = new URLSearchParams({ limit: AT_ONCE, offset });
  for (const [name, value] of new FormData(filters)) if (value) asked.set(name, value);
  const answer = await bench.tried("GET", `/v1/reviews?${asked}`);
  if (!answer || mine !== listing) return;
  listed = answer.said.data;
  const total = answer.said.total, last = offset + listed.length;
  part("count").textContent = listed.length ? `${offset + 1}–${last} of ${total.toLocaleString()}` : "";
  part("before").hidden = offset === 0;
  part("after").hidden = last >= total;
  part("nothing").hidden = listed.length > 0;
  bench.redraw(part("turns"), ...listed.map(line));
  mark();
}
function line(turn) {
  const doubts = turn.doubts.map((name) => element("span", NAMES[name], { class: "doubt-word" }));
  const what = element("span", undefined, { class: "meta" }, turn.verdict ? `${turn.verdict} · ` : "", bench.when(turn.created));
  return element("li", undefined, { "data-key": turn.turn_id }, element("button", undefined, { type: "button", "data-turn": turn.turn_id, onclick: () => open(turn.turn_id) },
    element("span", turn.question, { class: "question" }), element("span", undefined, { class: "doubts" }, ...doubts), what));
}
function mark() {
  for (const button of part("turns").querySelectorAll("button")) {
    const here = button.dataset.turn === shown?.turn.id;
    if (here) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}
const around = (step) => listed[listed.findIndex((one) => one.turn_id === shown?.turn.id) + step];
async function go(step) {
  const next = around(step);
  if (next) await open(next.turn_id);
  else say(step > 0 ? "That was the last of this list." : "That is the first of this list.");
}

// One turn.
async function open(turn) {
  const mine = ++opening, answer = await bench.tried("GET", `/v1/reviews/${encodeURIComponent(turn)}`);
  if (!answer || mine !== opening) return;
  found = [];
  show(answer.said);
  part("asked").focus({ preventScroll: true });
  part("one").scrollIntoView({ block: "nearest" });
  history.replaceState(null, "", `?turn=${encodeURIComponent(turn)}`);
}
function show(detail) {
  const same = shown?.turn.id === detail.turn.id;
  shown = detail;
  const { turn, current } = detail;
  part("one").hidden = false;
  part("asked").textContent = turn.question;
  part("facts").textContent = [turn.status, ...detail.doubts.filter((name) => name !== turn.status).map((name) => NAMES[name]), turn.collection, bench.when(turn.created)].join(" · ");
  part("trace").href = `/traces/${encodeURIComponent(turn.id)}`;
  part("history").replaceChildren(...detail.history.map((said) => element("p", said.text, { class: said.role })));
  part("history").parentElement.hidden = !detail.history.length;
  const searched = turn.search_for || turn.rewrite?.text || turn.question;
  if (!same || document.activeElement?.id !== "rewrite") document.getElementById("rewrite").value = current?.rewrite ?? searched;
  part("rewrite-was").textContent = `Searched for: ${searched}`;
  if (!same || document.activeElement?.id !== "answer") document.getElementById("answer").value = current?.answer ?? turn.answer;
  part("none").checked = current?.passages?.length === 0;
  part("rows").replaceChildren(...[...detail.rows].reverse().map(told));
  passages();
  mark();
}
function told(row) {
  const said = [row.rewrite !== null && "question", row.passages !== null && `${row.passages.length} passages`, row.answer !== null && "answer"].filter(Boolean);
  const who = row.by === shown.you ? "you" : row.by;
  const counts = row.n === shown.current?.n ? " (counts)" : "";
  return element("li", `${bench.when(row.at)}, ${who}: ${row.verdict}${said.length ? `, ${said.join(", ")}` : ""}${counts}`, { class: "meta" });
}

// Passages: those the turn had, those a search found, those that were marked.
const marks = () => shown.current?.passages ?? [];
const within = (one, passage) => one.document_id === passage.document_id && one.start >= passage.start && one.end <= passage.end;
function offered() {
  const all = [...(shown.turn.evidence?.passages ?? []), ...found];
  const once = all.filter((one, n) => all.findIndex((other) => within(one, other)) === n);
  const beside = marks().filter((one) => !once.some((passage) => within(one, passage)));
  return [...once, ...beside.map((one) => ({ ...one, title: one.document_id, heading: [], text: one.quote }))];
}
function passages() {
  const cited = new Set((shown.turn.done?.citations ?? []).map((one) => one.passage_id));
  bench.redraw(part("passages"), ...offered().map((passage, n) => {
    const place = [passage.title, ...passage.heading].filter(Boolean).join(" › ");
    const box = element("input", undefined, { type: "checkbox", onchange: () => toggle(n) });
    box.checked = marks().some((one) => within(one, passage));
    const label = element("label", undefined, {}, box, element("span", `${n + 1}. ${place}${cited.has(passage.passage_id) ? " · cited" : ""}`, { class: "place" }));
    const html = rendered.get(passage.text);
    const text = element("div", html ? undefined : passage.text, { class: html ? "passage prose-text" : "passage plain" });
    if (html) anaphora.patch(text, html);
    return element("li", undefined, { "data-key": `${passage.document_id} ${passage.start} ${passage.end}` }, label, text);
  }));
  anaphora.reachable(part("passages"));
  render();
}
// The server makes HTML of Markdown; until it has, or where it fails, a passage is shown as it is written.
const rendered = new Map();
async function render() {
  const texts = offered().map((passage) => passage.text).filter((text) => !rendered.has(text));
  if (!texts.length) return;
  const answer = await bench.tried("POST", "/workbench/passages", { texts });
  texts.forEach((text, n) => rendered.set(text, answer?.said[n]));
  if (answer && shown) passages();
}
function toggle(n) {
  const passage = offered()[n];
  if (!passage) return;
  const rest = marks().filter((one) => !within(one, passage));
  const on = rest.length === marks().length;
  const wanted = on ? [...rest, passage] : rest;
  // Without any mark left nothing was said: that none answers is said by its own key.
  give({ verdict: "corrected", passages: wanted.length ? wanted.map(({ document_id, start, end }) => ({ document_id, start, end })) : null });
}
const none = () => give({ verdict: "corrected", passages: shown.current?.passages?.length === 0 ? null : [] });
async function search(query) {
  if (!query.trim()) return;
  const answer = await bench.tried("POST", "/v1/search", { query, search_for: query, collection: shown.turn.collection, k: 10 });
  if (!answer) return;
  const had = offered().length;
  found = [...found, ...answer.said.passages];
  passages();
  const more = offered().length - had;
  say(more ? `${more} more passages below.` : "Nothing that is not here already.");
}

// Saying something. One request at a time: the next says what it says of the state after the one before.
const say = (text) => { part("said").textContent = text; };
let busy = Promise.resolve();
function give(body, words = "Saved.") {
  busy = busy.then(async () => {
    if (!shown) return;
    const answer = await bench.tried("POST", `/v1/reviews/${encodeURIComponent(shown.turn.id)}`, body);
    if (answer) {
      show(answer.said);
      say(words);
      const row = listed.find((one) => one.turn_id === shown.turn.id);
      if (row) row.verdict = shown.current?.verdict ?? null;
      bench.redraw(part("turns"), ...listed.map(line));
      mark();
    } else show(shown);
    return Boolean(answer);
  });
  return busy;
}
async function judge(verdict) {
  if (!await give({ verdict })) return;
  const unmarked = verdict === "approved" && !shown.current?.passages ? " No passage is marked, so it teaches none." : "";
  if (around(1)) {
    await go(1);
    say(`The one before was ${verdict}.${unmarked}`);
  } else say(`Saved.${unmarked}`);
}
const write = (name) => () => { const field = document.getElementById(name); field.focus(); field.select?.(); };
const acts = {
  approve: () => judge("approved"),
  reject: () => judge("rejected"),
  undo: () => give({ verdict: "undone" }, "Taken back."),
  next: () => go(1),
  previous: () => go(-1),
};
document.addEventListener("click", (event) => acts[event.target.closest("[data-act]")?.dataset.act]?.());
part("none").onchange = none;
const saved = (name, key) => {
  part(name).onsubmit = (event) => {
    event.preventDefault();
    give({ verdict: "corrected", [key]: document.getElementById(key).value || null });
    part("asked").focus({ preventScroll: true });
  };
};
saved("rewriting", "rewrite");
saved("answering", "answer");
part("searching").onsubmit = (event) => { event.preventDefault(); search(document.getElementById("search").value); };
document.getElementById("answer").onkeydown = (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) part("answering").requestSubmit(); };
part("one").addEventListener("keydown", (event) => { if (event.key === "Escape") part("asked").focus({ preventScroll: true }); });
const whenShown = (act) => () => shown && act();
bench.keys({
  a: whenShown(acts.approve), x: whenShown(acts.reject), u: whenShown(acts.undo), j: () => go(1), k: () => go(-1),
  r: whenShown(write("rewrite")), s: whenShown(write("search")), w: whenShown(write("answer")),
  t: whenShown(() => part("trace").click()), 0: whenShown(none),
  ...Object.fromEntries([1, 2, 3, 4, 5, 6, 7, 8, 9].map((n) => [n, whenShown(() => toggle(n - 1))])),
});

// Filters and pages.
let typing = 0;
filters.onsubmit = (event) => event.preventDefault();
filters.oninput = () => { clearTimeout(typing); typing = setTimeout(list, 200); };
part("before").onclick = () => list(Math.max(0, offset - AT_ONCE));
part("after").onclick = () => list(offset + AT_ONCE);
(async () => {
  const known = await bench.tried("GET", "/v1/collections");
  for (const one of known?.said.data ?? []) filters.elements.collection.add(new Option(one.name, one.name));
  await list();
  const wanted = new URLSearchParams(location.search).get("turn") || listed[0]?.turn_id;
  if (wanted) await open(wanted);
})();
