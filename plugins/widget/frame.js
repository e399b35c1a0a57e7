// The page in the frame of a web site. HTML comes ready from the server's one renderer; nothing here makes HTML of text.
const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const t = (text) => words[text] || text;
const part = (id) => document.getElementById(id);
const turns = part("turns"), question = part("question"), button = part("send"), ask = button.textContent;
const KEPT = 20, TRIES = 8, AGE = 24 * 3600 * 1000, STORE = `anaphora-widget ${given.collection || ""}`;
const names = { version: t("Version"), product: t("Product"), language: t("Language") }, fixed = JSON.parse(given.where || "{}");
// A random text stands for the visitor of this conversation; with the next one, or after a day, there is another.
const random = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
let said = [], picked = {}, visitor = "", running = null, settle = () => {}, site = null, page = null, left = "", waiting = 0, searching = null;

// A conversation outlives a change of the site's page: it lies in the frame's own storage, where a browser gives one.
const store = (write) => { try { return write(localStorage); } catch { return null; } };
const keep = () => store((where) => where.setItem(STORE, JSON.stringify({ at: Date.now(), said, picked, visitor })));
const kept = () => {
  const found = JSON.parse(store((where) => where.getItem(STORE)) || "null");
  return found && Date.now() - found.at < AGE ? found : {};
};
// Only the sites that the operator named hear anything, and only once they have called.
const tell = (name, detail = {}) => { if (site) parent.postMessage({ anaphora: name, ...detail }, site); };

function add(above, name, kind, text = "") {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  made.textContent = text;
  above.append(made);
  return made;
}
function addHtml(above, name, kind, html) {
  const made = add(above, name, kind);
  made.innerHTML = html;
  return made;
}
function pressable(above, text, act, kind = "") {
  const made = add(above, "button", kind, text);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}
function sources(turn, rows) {
  if (!rows.length) return;
  const box = add(turn, "section", "sources");
  add(box, "h2", "", t("Sources"));
  for (const row of rows) {
    const card = add(box, "details", "card"), name = add(card, "summary");
    card.dataset.source = row.n;
    add(name, "span", "chip", row.number);
    add(name, "span", "place", row.label);
    for (const quote of row.quotes) addHtml(card, "blockquote", "", quote);
    if (!row.url) continue;
    const link = add(card, "a", "", t("Open at its source"));
    Object.assign(link, { href: row.url, target: "_blank", rel: "noopener" });
  }
}
// What may be meant, as buttons below a question back; whatever is asked next, they become a list again.
function choices(turn, answer, done, shown) {
  if (!done.alternatives.length) return;
  answer.querySelector(":scope > ol")?.remove();
  const group = add(turn, "div", "choices");
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", t("What may be meant"));
  for (const { text } of done.alternatives) pressable(group, text, () => send(text));
  settle = () => { group.remove(); answer.innerHTML = shown.html; };
}
function show(turn, answer, { text, shown, done }) {
  answer.innerHTML = shown.html;
  answer.classList.remove("streaming");
  for (const notice of shown.notices) add(turn, "p", "notice", notice);
  sources(turn, shown.sources);
  choices(turn, answer, done, shown);
  if (done.status === "refused" && given.search) pressable(add(turn, "div", "choices"), t("Search for this instead"), () => { question.value = text; find(); });
  if (done.turn) rating(turn, done.turn);
  turn.dataset.turn = done.turn;
  part("forget").hidden = !said.some((one) => one.done.turn);
  if (done.doubted) turn.dataset.doubted = "";
  turn.dataset.state = done.status;
}
// Whether the answer was good, and why not; a second word replaces the first.
function rating(turn, id) {
  const box = add(turn, "div", "rating");
  const give = async (value, comment = "") => {
    const body = JSON.stringify({ visitor, turn_id: id, rating: value, comment });
    const response = await call("feedback", { method: "POST", body }).catch(() => null);
    if (!response?.ok) return;
    for (const one of signs) one.setAttribute("aria-pressed", one.dataset.rating === value);
    form?.remove();
    form = comment ? null : add(box, "form");
    if (!form) return;
    const words = add(form, "input");
    Object.assign(words, { placeholder: t("A comment, if you like"), maxLength: 2000 });
    words.setAttribute("aria-label", t("Comment"));
    add(form, "button", "", t("Send"));
    form.addEventListener("submit", (event) => { event.preventDefault(); if (words.value.trim()) give(value, words.value.trim()); });
  };
  let form = null;
  const signs = [["up", "👍", t("Good answer")], ["down", "👎", t("Bad answer")]].map(([value, sign, label]) => {
    const made = pressable(box, sign, () => give(value), "plain");
    made.dataset.rating = value;
    made.title = label;
    made.setAttribute("aria-label", label);
    made.setAttribute("aria-pressed", "false");
    return made;
  });
}
// What scrolls sideways can be reached by key.
function readable(box) {
  for (const one of box.querySelectorAll("pre, .table")) if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
}
// Offers of plugins below the last turn, such as a person to ask; ready HTML like the answers.
async function offer() {
  const turn = turns.lastElementChild, id = turn?.dataset.turn;
  if (!id) return;
  const response = await call("parts", { method: "POST", body: JSON.stringify({ visitor, turn_id: id }) }).catch(() => null);
  const { html } = response?.ok ? await response.json() : {};
  if (html && turn === turns.lastElementChild) turn.querySelector(".answer").before(addHtml(turn, "div", "offer", html));
}
async function fill(pressed) {
  const box = pressed.closest("[data-form]"), fields = [...box.querySelectorAll("input, textarea")];
  if (!fields.every((field) => field.reportValidity())) return;
  const values = fields.map((field) => [field.name, field.type === "checkbox" ? field.checked : field.value]);
  const body = JSON.stringify({ visitor, turn_id: pressed.closest("article").dataset.turn, call: pressed.dataset.call, fields: Object.fromEntries(values) });
  pressed.disabled = true;
  const response = await call("parts", { method: "POST", body }).catch(() => null);
  pressed.disabled = false;
  const reply = await response?.json().catch(() => null);
  box.querySelector(".failed")?.remove();
  if (response?.ok) box.innerHTML = reply.html;
  else add(pressed.parentElement, "p", "failed", reply?.error.message || t("The connection was lost. Ask again."));
}
function begin(text) {
  settle();
  settle = () => {};
  part("suggested").replaceChildren();
  turns.querySelector(".offer")?.remove();
  const turn = add(turns, "article");
  add(turn, "p", "asked", text);
  return [turn, add(turn, "div", "answer")];
}
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = "", { value, done } = await reader.read(); !done; { value, done } = await reader.read()) {
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const line of blocks.flatMap((block) => block.split("\n"))) if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
  }
}
const call = (path, more = {}) => fetch(`v1/widget/${path}`, {
  ...more, credentials: "omit",
  headers: { "Content-Type": "application/json", "Accept-Language": document.documentElement.lang, Authorization: `Bearer ${given.key}` },
});
function body(text) {
  const history = said.slice(-6).flatMap((one) => [{ role: "user", text: one.text }, { role: "assistant", text: one.done.answer }]);
  return JSON.stringify({ question: text, collection: given.collection || "", history, page, where: { ...fixed, ...picked }, visitor });
}
// While more ask than wait at the server, it is asked again after the time that it tells.
async function admitted(text, answer) {
  for (let tries = 1; ; tries++) {
    const response = await call("turns", { method: "POST", body: body(text), signal: running.signal });
    const seconds = Number(response.headers.get("Retry-After"));
    if (response.ok) return response;
    const { error } = await response.json();
    if (error.code !== "queue_full" || tries === TRIES || !seconds) throw new Error(error.message);
    answer.textContent = t("Many are asking just now; one moment, please.");
    await new Promise((go, stop) => {
      setTimeout(go, Math.min(seconds, 30) * (1 + Math.random()) * 1000);
      running.signal.addEventListener("abort", stop, { once: true });
    });
  }
}
async function answer(text) {
  const [turn, answer] = begin(text);
  answer.classList.add("streaming");
  let written = "", shown = null, done = null, failed = "", id = "";
  try {
    const response = await admitted(text, answer);
    id = response.headers.get("X-Turn-Id");
    for await (const event of events(response)) {
      if (event.type === "token") answer.textContent = written += event.text;
      else if (event.type === "fold") answer.textContent = written = Array.from(written).slice(0, event.start).join("");
      else if (event.type === "shown") shown = event;
      else if (event.type === "done") done = event;
      else if (event.type === "error") failed = event.message;
      turns.scrollTop = turns.scrollHeight;
    }
  } catch (error) {
    failed = running.signal.aborted ? t("Stopped before the end.") : error.message;
  }
  if (done && shown) {
    const { answer: whole, status, alternatives, doubted } = done;
    said = [...said, { text, shown, done: { answer: whole, status, alternatives, doubted, turn: shown.kept ? id : "" } }].slice(-KEPT);
    keep();
    show(turn, answer, said.at(-1));
    offer();
  } else {
    answer.className = "answer failed";
    answer.textContent = [running.signal.aborted && written, failed || t("The connection was lost. Ask again.")].filter(Boolean).join("\n\n");
    turn.dataset.state = running.signal.aborted ? "stopped" : "failed";
    pressable(add(turn, "div", "choices"), t("Ask again"), () => send(text));
  }
  readable(turn);
  // A long answer is read from its beginning.
  turns.scrollTop = Math.min(turns.scrollHeight - turns.clientHeight, turn.offsetTop);
  tell("answer", { question: text, status: turn.dataset.state });
}
async function send(text) {
  if (!text || running) return;
  running = new AbortController();
  forget();
  // What was picked in an earlier visit may be gone.
  if (Object.keys(picked).length) await choosing;
  button.textContent = t("Stop");
  question.focus();
  await answer(text);
  running = null;
  button.textContent = ask;
  question.focus();
}
// What can be chosen and asked to begin with; a filter counts as a search.
async function welcome(where = "") {
  const query = new URLSearchParams({ collection: given.collection || "", visitor, where });
  const response = given.key && await call(`welcome?${query}`).catch(() => null);
  return response?.ok ? response.json() : null;
}
async function suggest() {
  if (said.length) return;
  const first = await choosing, narrowed = { ...fixed, ...picked };
  const texts = Object.keys(narrowed).length ? (await welcome(JSON.stringify(narrowed)))?.questions : first;
  if (!texts || said.length || turns.children.length) return;
  part("suggested").replaceChildren();
  for (const text of texts) pressable(part("suggested"), text, () => send(text));
}

// Sections that fit what is typed so far, until it is asked.
function forget() {
  clearTimeout(waiting);
  searching?.abort();
  part("results").hidden = true;
  part("found").replaceChildren();
}
async function find() {
  forget();
  const text = question.value.trim(), mine = (searching = new AbortController());
  if (text.length < 3 || running) return;
  const response = await call("search", { method: "POST", body: body(text), signal: mine.signal }).catch(() => null);
  const rows = response?.ok ? await response.json().catch(() => []) : [];
  if (mine.signal.aborted || !rows.length) return;
  for (const row of rows) {
    const card = add(part("found"), "li", "card");
    const title = add(card, row.url ? "a" : "span", "place", row.label);
    if (row.url) Object.assign(title, { href: row.url, target: "_blank", rel: "noopener" });
    addHtml(card, "div", "quote", row.html);
    // Two versions of a page have the same headings.
    if (row.url && rows.filter(({ label }) => label === row.label).length > 1) add(card, "p", "note", row.url.replace(/^https?:\/\/|#.*/g, ""));
  }
  part("results").hidden = false;
  part("count").textContent = `${t("Found")}: ${rows.length}`;
}
// Up from the question to what was found, and back.
function step(event) {
  const stops = [...part("found").querySelectorAll(".place[href]"), question], at = stops.indexOf(event.target);
  const next = { ArrowUp: stops[at - 1], ArrowDown: stops[at + 1] }[event.key];
  if (at < 0 || !next || question.value.includes("\n")) return;
  event.preventDefault();
  next.focus();
}
// What the operator lets visitors narrow the search by, unless the site has decided; gives the questions to begin with.
async function choose() {
  const found = await welcome(), before = picked;
  picked = {};
  for (const [field, values] of Object.entries(found?.filters ?? {})) {
    const open = field in fixed ? values.filter((value) => [fixed[field]].flat().includes(value)) : values;
    if (open.length < 2) continue;
    if (open.includes(before[field])) picked[field] = before[field];
    const label = add(part("filters"), "label", "", names[field.toLowerCase()] || field), select = add(label, "select");
    for (const value of ["", ...open]) add(select, "option", "", value === "" ? t("All") : called(field, value));
    select.selectedIndex = open.indexOf(picked[field]) + 1;
    select.addEventListener("change", () => {
      if (select.selectedIndex) picked[field] = open[select.selectedIndex - 1];
      else delete picked[field];
      keep();
      suggest();
      if (!part("results").hidden) find();
    });
  }
  part("filters").hidden = !part("filters").childElementCount;
  return found?.questions;
}
function called(field, value) {
  try {
    if (field.toLowerCase() === "language") return new Intl.DisplayNames([look.lang], { type: "language" }).of(value);
  } catch {}
  return String(value);
}

part("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (running) return;
  const text = question.value.trim();
  question.value = "";
  send(text);
});
button.addEventListener("click", (event) => {
  if (!running) return;
  event.preventDefault();
  running.abort();
});
question.addEventListener("input", () => {
  if (!given.search) return;
  forget();
  waiting = setTimeout(find, 300);
});
question.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!running) part("form").requestSubmit(button);
});
part("new").addEventListener("click", () => {
  running?.abort();
  forget();
  said = [];
  visitor = random();
  part("forget").hidden = true;
  settle = () => {};
  turns.replaceChildren();
  keep();
  suggest();
  question.focus();
});
turns.addEventListener("toggle", (event) => {
  const card = event.target, id = card.closest("article")?.dataset.turn;
  readable(card);
  // A source that is opened speaks for it; it is no matter where that cannot be kept.
  if (id && card.open && card.dataset.source) call("feedback", { method: "POST", body: JSON.stringify({ visitor, turn_id: id, opened: Number(card.dataset.source) }) }).catch(() => null);
}, true);
for (const standing of document.querySelectorAll(".standing")) standing.addEventListener("click", () => send(standing.textContent));
part("forget").addEventListener("click", async () => {
  const response = await call(`visitors/${visitor}`, { method: "DELETE" }).catch(() => null);
  if (response?.ok) part("new").click();
});
turns.addEventListener("click", (event) => {
  const pressed = event.target.closest("[data-action]");
  if (pressed?.dataset.action === "copy-code") {
    navigator.clipboard?.writeText(pressed.nextElementSibling.textContent).then(() => { pressed.textContent = t("Copied"); }, () => {});
  } else if (pressed?.dataset.action === "call") {
    fill(pressed);
  } else if (pressed?.dataset.action === "cite") {
    const card = pressed.closest("article").querySelector(`.sources [data-source="${Number(pressed.dataset.source)}"]`);
    if (!card) return;
    card.open = true;
    card.firstElementChild.focus();
    card.scrollIntoView({ block: "nearest" });
  }
});
// What the visitor reads on the site; left out, it comes back with the next page.
function about(read) {
  page = read && read.title !== left ? read : null;
  part("about").hidden = !page;
  part("page").textContent = page ? [page.title, page.heading].filter(Boolean).join(" › ") : "";
}
part("leave").addEventListener("click", () => {
  left = page.title;
  about(null);
  question.focus();
});
part("close").addEventListener("click", () => tell("close"));
addEventListener("keydown", (event) => {
  step(event);
  const shortcut = event.key === "Escape" || ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "i");
  if (!shortcut) return;
  event.preventDefault();
  if (running && event.key === "Escape") running.abort();
  else if (event.key === "Escape" && !part("results").hidden) { forget(); question.focus(); }
  else tell("close");
});
addEventListener("message", (event) => {
  if (event.source !== parent || !sites.includes(event.origin)) return;
  site = event.origin;
  const { anaphora, text, read } = event.data ?? {};
  const cut = (value) => String(value ?? "").trim().slice(0, 200);
  if (read) about({ url: String(read.url ?? "").slice(0, 2048), title: cut(read.title), heading: cut(read.heading) });
  if (anaphora === "open") { question.focus(); suggest(); }
  else if (anaphora === "ask" && typeof text === "string") send(text.slice(0, 4000).trim());
});

const look = document.documentElement;
if (/^#[0-9a-f]{6}$/i.test(given.color || "")) {
  const light = [0.2126, 0.7152, 0.0722].reduce((sum, share, n) => sum + share * (parseInt(given.color.slice(1 + 2 * n, 3 + 2 * n), 16) / 255) ** 2.2, 0);
  look.style.setProperty("--accent", given.color);
  look.style.setProperty("--on-accent", light > 0.18 ? "#000" : "#fff");
}
if (["light", "dark"].includes(given.theme)) look.style.colorScheme = given.theme;
if (given.name) document.title = part("name").textContent = given.name;
if (given.note) part("note").textContent = given.note;
if (given.inline) part("close").hidden = true;
if (/^https:/.test(given.logo || "")) Object.assign(part("logo"), { src: given.logo, hidden: false });
({ said = [], picked = {}, visitor = random() } = kept());
for (const one of said) show(...begin(one.text), one);
readable(turns);
turns.scrollTop = turns.scrollHeight;
offer();
const choosing = choose();
