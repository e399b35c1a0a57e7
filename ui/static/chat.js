// The conversation: asking, the running turn, and what can be done with a turn afterwards.
const { make, t, tn } = anaphora;
anaphora.translate(element);
const part = (name) => element.querySelector(`[data-part="${name}"]`);
const turns = part("turns"), scroll = part("scroll"), question = element.querySelector("#question");
const sendButton = element.querySelector('.composer [data-action="send"]');
const stopButton = element.querySelector('[data-action="stop"]');
const latest = element.querySelector('[data-action="latest"]');
const sources = new WeakMap();
let conversation = null; // id, null for one that has not begun
let collection = "";
let running = null; // {stream, article, seen} of the turn being answered; `seen`: when it was drawn last
let opening = 0;
let asking = false; // between the click and the answer whether the server is there
const model = part("model");
let settled = false; // whether the page has come to what its address names
const invitation = question.placeholder;

const atEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 90;
const toEnd = () => { scroll.scrollTop = scroll.scrollHeight; };
const say = (text) => { part("said").textContent = text; };

function settle() {
  const empty = !turns.children.length;
  element.classList.toggle("empty", empty);
  sendButton.hidden = !!running;
  stopButton.hidden = !running;
  sendButton.disabled = !question.value.trim();
}
function grow() {
  question.style.height = "auto";
  question.style.height = Math.min(question.scrollHeight, 220) + "px";
  settle();
}
function here(id, title, name) {
  conversation = id;
  part("title").textContent = title || "";
  document.title = title ? `${title} · Anaphora` : "Anaphora";
  if (name) collection = name;
  part("collection").textContent = id ? collection : "";
  part("export").hidden = !id;
  part("share").hidden = !id || !element.dataset.sharing;
  if (id) part("export").href = `v1/conversations/${encodeURIComponent(id)}?format=markdown`;
  const address = new URL(location.href);
  ["document", "at", "collection"].forEach((key) => address.searchParams.delete(key));
  if (id) address.searchParams.set("c", id);
  else address.searchParams.delete("c");
  // Another conversation is another place to come back to.
  const moved = new URLSearchParams(location.search).get("c") !== (id || null);
  if (address.href !== location.href) history[moved && settled ? "pushState" : "replaceState"](null, "", address);
  if (collection) choose();
  anaphora.emit("current", { id, collection: id ? collection : "" });
}
// Which model answers: the page may choose among those that the operator offers.
function answeredBy(name) {
  model.dataset.chosen = name;
  model.value = [...model.options].some((option) => option.value === name) ? name : "";
}
model.addEventListener("change", async () => {
  if (!conversation) { model.dataset.chosen = model.value; return; }
  const answer = await anaphora.call(server, "choose_model", { id: conversation, model: model.value });
  answeredBy(answer ? answer.model : model.dataset.chosen || "");
});
anaphora.on("models", ({ names, sharing }) => {
  element.dataset.sharing = sharing ? "1" : "";
  part("share").hidden = !conversation || !sharing;
  model.hidden = !names.length;
  anaphora.redraw(model, new Option(t("Standard model"), ""), ...names.map((name) => new Option(name, name)));
  answeredBy(model.dataset.chosen || "");
});
// Somebody else's conversation is read, not gone on with.
function lend(own) {
  question.disabled = model.disabled = !own;
  question.placeholder = own ? invitation : t("Somebody else asked here; begin a new conversation to ask");
}
function showSources(article, cite) {
  turns.querySelectorAll(".turn.shown").forEach((turn) => turn.classList.remove("shown"));
  article?.classList.add("shown");
  const asked = article?.querySelector(".asked")?.textContent || "";
  anaphora.emit("sources", { html: (article && sources.get(article)) || "", about: asked, cite, open: !!cite });
}

// What the operator lets people narrow a search by; a choice lasts as long as this page and its collection.
let narrowed = "";
async function choose() {
  if (collection === narrowed) return;
  narrowed = collection;
  const answer = await server.filters({ id: collection }).catch(() => null);
  if (narrowed === collection) anaphora.patch(part("filters"), answer?.html || "");
}
const where = () => {
  const picked = [...part("filters").querySelectorAll("select")].filter((one) => one.value).map((one) => [one.name, JSON.parse(one.value)]);
  return picked.length ? Object.fromEntries(picked) : null;
};
part("filters").addEventListener("change", () => welcome());

async function welcome() {
  choose();
  if (conversation || turns.children.length) return;
  const mine = opening;
  const answer = await anaphora.call(server, "welcome", { id: collection, where: where() });
  if (answer && mine === opening && !turns.children.length) anaphora.patch(part("welcome"), answer.html);
}
// The turn goes on without this page, and is found again with its conversation.
function leave() {
  running = null;
  turns.removeAttribute("aria-busy");
}
function fresh() {
  leave();
  opening++;
  turns.replaceChildren();
  here(null, "");
  answeredBy("");
  lend(true);
  showSources(null);
  settle();
  welcome();
  question.focus();
}
async function open(id) {
  leave();
  const mine = ++opening;
  const answer = await anaphora.call(server, "open_conversation", { id });
  if (mine !== opening) return;
  if (!answer) return fresh();
  part("welcome").replaceChildren();
  turns.replaceChildren();
  show(answer.turns);
  here(answer.id, answer.title, answer.collection);
  answeredBy(answer.model);
  lend(answer.own);
  showSources(turns.lastElementChild);
  resume();
  settle();
  toEnd();
  offer();
}
// Draw the last turn on if it is still being answered.
function resume() {
  const article = turns.lastElementChild;
  if (running || !article?.dataset.turn || article.dataset.state !== "running") return;
  const stream = named();
  running = { stream, article, conversation, replaced: [], seen: Date.now() };
  article.dataset.drawn = "1";
  turns.setAttribute("aria-busy", "true");
  trigger("ask", { stream, question: article.querySelector(".asked").textContent, collection, conversation, watch: article.dataset.turn });
  attend(stream);
}
const named = () => (crypto.randomUUID ? crypto.randomUUID() : String(Math.random()).slice(2) + Date.now());
// Draw these turns; those that are there already stay as they are.
function show(wanted) {
  const there = new Map([...turns.children].map((article) => [article.dataset.turn, article]));
  wanted.forEach(({ turn, html, sources: found }, at) => {
    const fresh = anaphora.element(html);
    const article = there.get(turn) || fresh;
    if (article !== fresh) anaphora.patch(article, fresh.innerHTML);
    sources.set(article, found);
    if (turns.children[at] !== article) turns.insertBefore(article, turns.children[at] ?? null);
  });
  while (turns.children.length > wanted.length) turns.lastElementChild.remove();
  anaphora.reachable(turns);
}
// Another tab has gone on with this conversation, or deleted it.
async function refresh() {
  if (running || !conversation || turns.querySelector(".editor")) return;
  const mine = opening, answer = await server.open_conversation({ id: conversation }).catch(() => null);
  if (!answer || mine !== opening || running) return;
  if (answer.error) return fresh();
  show(answer.turns);
  here(answer.id, answer.title);
}
// What plugins offer below the last turn.
async function offer() {
  const article = turns.lastElementChild, id = article?.dataset.turn, place = article?.querySelector('[data-part="below"]');
  if (!id || !place || running || question.disabled || place.hasChildNodes()) return;
  const answer = await server.below_turn({ id }).catch(() => null);
  if (!answer?.html || article !== turns.lastElementChild || running) return;
  const follow = atEnd();
  place.innerHTML = answer.html;
  if (follow) toEnd();
}
async function version(id) {
  if (running) return;
  const answer = await anaphora.call(server, "show_version", { id: conversation, turn: id });
  if (!answer || answer.id !== conversation || running) return;
  show(answer.turns);
  anaphora.share({ conversation });
  const article = [...turns.children].find((turn) => turn.dataset.turn === id);
  showSources(article);
  article?.querySelector('[data-action="version"]:not(:disabled)')?.focus({ preventScroll: true });
  offer();
  say(article?.querySelector(".versions")?.getAttribute("aria-label") || "");
  anaphora.emit("changed");
}

// A question that could not be sent stays where it was written, with what became of it.
function hold(text, why) {
  part("held").hidden = !why;
  part("held").firstElementChild.textContent = why || "";
  if (why && text && !question.value.trim()) {
    question.value = text;
    grow();
  }
}
// Ask; `place` is the turn of which the new one is a version (retry, edit, other search words).
async function ask(text, { place = null, searchFor = null } = {}) {
  text = text.trim();
  if (!text || running || asking) return false;
  asking = true;
  const reached = await anaphora.reached();
  asking = false;
  if (!reached) {
    if (place) anaphora.toast(t("The server cannot be reached. Nothing was changed; try again."));
    else hold(text, t("The server cannot be reached. Your question is kept here."));
    return false;
  }
  hold();
  const stream = named();
  const instead = place?.dataset.turn || place?.dataset.instead || null;
  const replaced = [];
  if (place) {
    // A refused retry stands behind the turns it was to replace: once more means their place, not its own.
    const first = [...turns.children].find((turn) => turn.dataset.turn === instead) || place;
    while (turns.lastElementChild) {
      const last = turns.lastElementChild;
      last.remove();
      if (last.dataset.turn) replaced.unshift(last);
      if (last === first) break;
    }
  }
  part("welcome").replaceChildren();
  const article = make("article", null, { class: "turn", "data-state": "running" }, make("div", null, { class: "question" }, make("p", text, { class: "asked" })));
  turns.appendChild(article);
  if (instead) article.dataset.instead = instead;
  running = { stream, article, conversation, replaced, seen: Date.now() };
  turns.setAttribute("aria-busy", "true");
  settle();
  toEnd();
  showSources(article);
  trigger("ask", { stream, question: text, collection, model: model.value, conversation, where: where(), search_for: searchFor, instead_of: instead });
  attend(stream);
  return true;
}
// A connection that breaks ends nothing by itself: the server is asked whether it is there, and then for the turn.
// One that is busy with answering may take its time to say so.
async function attend(stream) {
  for (let missed = 0, broken = false; running?.stream === stream; ) {
    await new Promise((later) => { woken = later; setTimeout(later, 4000); });
    if (running?.stream !== stream) return;
    const reached = await anaphora.reached(20000);
    if (running?.stream !== stream) return;
    missed = reached ? 0 : missed + 1;
    broken = broken || away || !reached;
    away = false;
    if (reached && conversation && (broken || Date.now() - running.seen > 8000)) {
      const drawn = await look(broken);
      if (drawn) return;
      broken &&= drawn === null;
    }
    if (missed < 2 || running?.stream !== stream) continue;
    const { article, replaced } = running;
    running = null;
    turns.removeAttribute("aria-busy");
    article.before(...replaced);
    const asked = article.querySelector(".asked").textContent;
    article.remove();
    settle();
    hold(asked, t("The connection was lost while this was being answered. Your question is kept here."));
    return recover(conversation, asked);
  }
}
// Once the server is back, the question that was kept here may have its answer there.
async function recover(id, asked) {
  const mine = opening;
  while (id && mine === opening && !running) {
    await new Promise((later) => { woken = later; setTimeout(later, 4000); });
    if (mine !== opening || running || !(await anaphora.reached())) continue;
    const answer = await server.open_conversation({ id }).catch(() => null);
    if (!answer || mine !== opening || running) continue;
    if (answer.error || asked !== lastAsked(answer)) return;
    if (question.value === asked) { question.value = ""; grow(); }
    hold();
    return open(id);
  }
}
const lastAsked = (answer) => answer.turns.length && anaphora.element(answer.turns.at(-1).html).querySelector(".asked").textContent;
// Look at what the server has of the conversation: whether the turn has ended unseen, or its pictures must be asked for.
// Gives null where it could not be looked at.
async function look(broken) {
  const mine = opening, { stream } = running;
  const answer = await server.open_conversation({ id: conversation }).catch(() => null);
  if (!answer || answer.error || mine !== opening || running?.stream !== stream) return null;
  const { article } = running, asked = article.querySelector(".asked").textContent;
  if (lastAsked(answer) !== asked) return false; // it is about to begin
  const last = answer.turns.at(-1);
  if (anaphora.element(last.html).dataset.state === "running" && !broken) return false;
  leave();
  article.dataset.turn = last.turn;
  show(answer.turns);
  showSources(turns.lastElementChild);
  resume();
  settle();
  offer();
  anaphora.emit("changed");
  return true;
}
let away = false, woken = null; // whether the page was out of sight or off line, and what ends the wait for the next look
const back = () => { if (document.hidden) return; away = true; woken?.(); };
addEventListener("online", back);
addEventListener("pageshow", (event) => { if (event.persisted) back(); });
document.addEventListener("visibilitychange", back);
async function stop() {
  if (!running) return;
  const { stream, article } = running;
  const answer = await anaphora.call(server, "stop", { stream });
  if (answer?.stopped || running?.stream !== stream) return;
  // The server knows nothing of it any more (it was restarted, or is gone): end it here.
  running = null;
  article.dataset.state = "failed";
  article.querySelector(".waiting")?.remove();
  settle();
}
function draw(picture) {
  if (!picture || !running || picture.stream !== running.stream) return;
  const { article } = running;
  const follow = atEnd();
  running.seen = Date.now();
  if (article.isConnected) {
    const now = anaphora.element(picture.html);
    if (!article.dataset.drawn) {
      article.replaceChildren(...now.childNodes);
      article.dataset.drawn = "1";
    } else anaphora.patch(article, now.innerHTML);
    for (const name of ["turn", "state"]) article.dataset[name] = now.dataset[name];
    article.setAttribute("aria-label", now.getAttribute("aria-label"));
    if (sources.get(article) !== picture.sources) {
      sources.set(article, picture.sources);
      if (article.classList.contains("shown")) showSources(article);
    }
    if (picture.conversation && picture.conversation !== conversation) {
      here(picture.conversation, article.querySelector(".asked").textContent, collection);
      anaphora.emit("changed");
    }
    if (follow) toEnd();
    else latest.hidden = atEnd();
  }
  if (!picture.final) return;
  // What never began replaced nothing: the turns that made room for it come back, or the question to where it was written.
  const refused = !picture.kept && article.isConnected, again = refused && !article.dataset.instead && !question.value.trim();
  if (refused && !again) article.before(...running.replaced);
  if (again) article.remove();
  running = null;
  turns.removeAttribute("aria-busy");
  if (!picture.kept && conversation && !picture.conversation) here(null, "");
  if (again) {
    hold(article.querySelector(".asked").textContent, article.querySelector(".banner").textContent);
    showSources(turns.lastElementChild);
    settle();
    welcome();
    return;
  }
  if (picture.kept) anaphora.share({ conversation });
  anaphora.reachable(article);
  say(article.dataset.state === "failed" ? t("The answer failed.") : t("The answer is complete."));
  settle();
  anaphora.emit("changed");
  offer();
}

function edit(article) {
  if (running) return;
  const box = article.querySelector(".question"), asked = article.querySelector(".asked");
  const area = make("textarea", null, { class: "field edit", "aria-label": t("Edit the question") });
  area.value = asked.textContent;
  const later = turns.children.length - [...turns.children].indexOf(article) - 1;
  const note = later ? tn("The turn after this one will stay with the version above.", "The %(num)s turns after this one will stay with the version above.", later) : "";
  const close = () => { editor.remove(); box.hidden = false; };
  const submit = () => { if (area.value.trim()) ask(area.value, { place: article }); };
  const editor = make("div", null, { class: "editor" }, area, make("div", null, { class: "row" }, make("span", note, { class: "note" }),
    make("button", t("Cancel"), { type: "button", class: "button", onclick: close }),
    make("button", t("Ask again"), { type: "button", class: "button primary", onclick: submit })));
  box.hidden = true;
  box.after(editor);
  area.onkeydown = (event) => {
    if (event.key === "Escape") { event.stopPropagation(); close(); }
    else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); submit(); }
  };
  const fit = () => { area.style.height = "auto"; area.style.height = area.scrollHeight + 2 + "px"; };
  area.oninput = fit;
  fit();
  area.focus();
}
let rated = Promise.resolve(); // one after the other: what was said last is what is kept
function rate(article, change) {
  const state = (article.rating ??= {
    rating: article.querySelector('[data-action="rate"][aria-pressed="true"]')?.dataset.rating || null,
    reason: article.querySelector('[data-action="reason"][aria-pressed="true"]')?.dataset.reason || "",
  });
  Object.assign(state, change);
  const box = article.querySelector(".feedback");
  for (const button of article.querySelectorAll('[data-action="rate"]'))
    button.setAttribute("aria-pressed", String(button.dataset.rating === state.rating));
  for (const pill of box.querySelectorAll('[data-action="reason"]')) {
    pill.hidden = pill.dataset.rating !== state.rating;
    pill.setAttribute("aria-pressed", String(pill.dataset.reason === state.reason));
  }
  box.querySelector(".feedback-title").textContent = state.rating === "up" ? t("What was good?") : t("What was wrong?");
  const said = { turn: article.dataset.turn, rating: state.rating, reason: state.reason, comment: box.querySelector("textarea").value };
  rated = rated.then(() => anaphora.call(server, "rate", said));
  return rated;
}
// A source that is looked at speaks for it; it is no matter where that cannot be kept.
const noteOpened = ({ turn, source }) => turn && server.note_opened({ turn, source: Number(source) }).catch(() => null);
anaphora.on("opened", noteOpened);

const actions = {
  share: async () => {
    const id = conversation, answer = await anaphora.call(server, "share", { id });
    if (!answer) return;
    const link = new URL(answer.path, location.href).href;
    const said = tn("Whoever has this link reads the conversation for %(num)s day: %(link)s", "Whoever has this link reads the conversation for %(num)s days: %(link)s", answer.days, { link });
    const copied = await Promise.resolve().then(() => navigator.clipboard.writeText(link)).then(() => true, () => false);
    if (!copied) prompt(t("The browser did not allow copying; copy the link from here:"), link);
    anaphora.toast(copied ? t("The link was copied.") + " " + said : said, () => anaphora.call(server, "unshare", { id, turn: answer.share }));
  },
  send: () => send(),
  "close-keys": () => part("keys").close(),
  stop: () => stop(),
  latest: () => { toEnd(); latest.hidden = true; },
  example: (target) => {
    ask(target.querySelector(".text").textContent);
    question.focus({ preventScroll: true }); // what was pressed is gone
  },
  retry: (target, article) => ask(article.querySelector(".asked").textContent, { place: article }),
  edit: (target, article) => edit(article),
  version: (target) => version(target.dataset.version),
  "search-alone": (target, article) => {
    const question = article.querySelector(".asked").textContent;
    ask(question, { place: article, searchFor: question });
  },
  search: (target, article) => {
    const words = article.querySelector('[data-enter="search"]').value.trim();
    if (words) ask(article.querySelector(".asked").textContent, { place: article, searchFor: words });
  },
  fill: (target, article) => {
    const input = article.querySelector('[data-enter="search"]');
    input.value = target.textContent;
    input.focus();
  },
  sources: (target, article) => { showSources(article); anaphora.drawer("panel", true); },
  cite: (target, article) => {
    showSources(article, { n: target.dataset.source, key: target.dataset.citation });
    noteOpened({ turn: article.dataset.turn, source: target.dataset.source });
  },
  copy: async (target, article) => {
    const copy = article.querySelector(".answer").cloneNode(true);
    copy.querySelectorAll(".chip").forEach((chip) => chip.replaceWith(`[${chip.textContent}]`));
    copy.style.cssText = "position:fixed;left:-99999px;white-space:normal";
    document.body.append(copy);
    const text = copy.innerText.trim();
    copy.remove();
    try {
      await navigator.clipboard.writeText(text);
      say(t("Copied."));
      target.classList.add("done");
      setTimeout(() => target.classList.remove("done"), 1200);
    } catch {
      anaphora.toast(t("The browser did not allow copying; select the text instead."));
    }
  },
  rate: async (target, article) => {
    const same = target.getAttribute("aria-pressed") === "true";
    const rating = same ? null : target.dataset.rating;
    const box = article.querySelector(".feedback");
    box.hidden = !rating;
    if (await rate(article, { rating, reason: "" })) say(rating ? t("Thank you, noted.") : t("Taken back."));
  },
  reason: (target, article) => {
    const reason = target.getAttribute("aria-pressed") === "true" ? "" : target.dataset.reason;
    rate(article, { reason });
  },
  feedback: async (target, article) => {
    if (!(await rate(article, {}))) return;
    article.querySelector(".feedback").hidden = true;
    say(t("Thank you, noted."));
  },
  call: async (target, article) => {
    const box = target.closest("[data-form]"), fields = [...box.querySelectorAll("input, textarea")];
    if (!fields.every((field) => field.reportValidity())) return;
    const said = fields.map((field) => [field.name, field.type === "checkbox" ? field.checked : field.value]);
    target.disabled = true;
    const answer = await anaphora.call(server, target.dataset.call, { turn: article.dataset.turn, ...Object.fromEntries(said) });
    target.disabled = false;
    if (!answer) return;
    box.innerHTML = answer.html;
    say(box.textContent);
  },
  "feedback-close": (target, article) => { article.querySelector(".feedback").hidden = true; },
};
async function send() {
  const text = question.value;
  if (running && text.trim()) anaphora.toast(t("An answer is still being written: wait for it, or stop it with Esc."));
  if (await ask(text) && question.value === text) {
    question.value = "";
    grow();
  }
}
// On touch a doubt is told where it is tapped; its first piece has the words.
function doubted(piece) {
  const pieces = [...turns.querySelectorAll(".doubt")];
  const first = pieces.slice(0, pieces.indexOf(piece) + 1).reverse().find((one) => one.tabIndex === 0);
  first?.focus({ preventScroll: true });
}
element.addEventListener("click", (event) => {
  const doubt = event.target.closest(".doubt");
  if (doubt && !event.target.closest("button, a")) doubted(doubt);
  const target = event.target.closest("[data-action]");
  const action = target && actions[target.dataset.action];
  if (action && !target.disabled) action(target, target.closest(".turn"));
});
element.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if (event.target === question && event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    send();
  } else if (event.target.dataset?.enter && event.key === "Enter") {
    actions[event.target.dataset.enter](event.target, event.target.closest(".turn"));
  } else if (event.target === question && event.key === "ArrowUp" && !question.value && turns.lastElementChild?.querySelector('[data-action="edit"]')) {
    event.preventDefault();
    edit(turns.lastElementChild);
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "?" && !event.ctrlKey && !event.metaKey && !event.target.closest("input, textarea, select, dialog")) part("keys").showModal();
  if (event.key !== "Escape" || part("keys").open) return;
  if (running) stop();
  else if (anaphora.narrow()) anaphora.closeDrawers();
});
question.addEventListener("input", grow);
scroll.addEventListener("scroll", () => { latest.hidden = atEnd(); }, { passive: true });
watch("value", () => draw(props.value));

anaphora.on("new", () => { fresh(); document.documentElement.classList.remove("rail-open"); });
anaphora.on("open", ({ id }) => { open(id); document.documentElement.classList.remove("rail-open"); });
anaphora.on("titled", ({ title }) => here(conversation, title));
anaphora.on("collection", ({ name, chosen }) => {
  if (chosen && conversation) { collection = name; fresh(); return; }
  if (!conversation) { collection = name; welcome(); }
});

anaphora.on("elsewhere", ({ conversation: changed }) => { if (changed === conversation) refresh(); });
addEventListener("popstate", () => {
  const wanted = new URLSearchParams(location.search).get("c");
  if (wanted === conversation) return;
  if (wanted) open(wanted);
  else fresh();
});

// The frame loads the page again once a broken connection is back: what was being written, or has not begun, stays.
const unsent = () => question.value || (running && !running.article.dataset.drawn ? running.article.querySelector(".asked").textContent : "");
try {
  const tab = sessionStorage;
  addEventListener("pagehide", () => tab.setItem("anaphora-unsent", unsent()));
  if (performance.getEntriesByType("navigation")[0]?.type === "reload") question.value = tab.getItem("anaphora-unsent") || "";
} catch { /* private windows: nothing is kept */ }
grow();
const asked = new URLSearchParams(location.search);
if (asked.get("c")) open(asked.get("c")).then(() => { settled = true; });
else {
  settled = true;
  question.focus({ preventScroll: true });
}
if (asked.get("document")) {
  const [start, end] = (asked.get("at") || "0-0").split("-").map(Number);
  anaphora.opening = { collection: asked.get("collection") || "", document: asked.get("document"), part: asked.get("part") || "", start, end };
  anaphora.emit("read", anaphora.opening);
}
