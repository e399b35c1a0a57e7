// The conversations on the left, the choice of collection, and uploads.
const { t } = anaphora;
anaphora.translate(element);
const part = (name) => element.querySelector(`[data-part="${name}"]`);
const find = element.querySelector("#find");
const collection = element.querySelector("#collection");
const files = element.querySelector("#files");
let current = null;
let jobs = {};
let watching = false;
let listing = 0;
const SHOWN = 50; // as many jobs as one call may name
const leaving = anaphora.leaving(); // conversations to be deleted soon, unless that is undone
let adding = false; // whether the role allows files to be added

async function list() {
  const mine = ++listing;
  const answer = await anaphora.call(server, "list_conversations", { query: find.value });
  // What was asked for last is shown, and a title that is being written stays.
  if (!answer || mine !== listing || element.querySelector(".rename")) return;
  anaphora.patch(part("list"), answer.html);
  const clock = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
  element.querySelectorAll(".conversation time").forEach((time) => { time.textContent = clock.format(1000 * time.dataset.seconds); });
  mark();
}
// One stop for the whole list: the arrow keys lead from one conversation to the next.
function mark() {
  const rows = [...element.querySelectorAll(".conversation")];
  const stop = rows.find((row) => row.dataset.conversation === current) || rows[0];
  for (const row of rows) {
    const here = row.dataset.conversation === current;
    row.classList.toggle("current", here);
    row.hidden = leaving.has(row.dataset.conversation);
    const link = row.querySelector("a");
    link.tabIndex = row === stop ? 0 : -1;
    if (here) link?.setAttribute("aria-current", "page");
    else link?.removeAttribute("aria-current");
  }
}
async function collections(chosen) {
  const answer = await anaphora.call(server, "list_collections", {});
  if (!answer) return;
  element.querySelector('[data-action="choose-files"]').hidden = !answer.adding;
  adding = answer.adding;
  anaphora.emit("models", { names: answer.models, sharing: answer.sharing });
  const wanted = chosen || collection.value || answer.chosen;
  anaphora.redraw(collection, ...answer.collections.map(({ name, documents, problem }) => {
    const option = new Option(`${name} (${documents.toLocaleString(anaphora.language)})`, name);
    option.dataset.problem = problem;
    return option;
  }));
  if (!answer.collections.length && answer.chosen) collection.add(new Option(answer.chosen, answer.chosen));
  if ([...collection.options].some((option) => option.value === wanted)) collection.value = wanted;
  part("workbench").hidden = !answer.workbench;
  part("person").hidden = !answer.person;
  part("person").firstElementChild.textContent = answer.person;
  warn();
  anaphora.emit("collection", { name: collection.value });
}
function warn() {
  const note = part("problem");
  note.textContent = collection.selectedOptions[0]?.dataset.problem ?? "";
  note.hidden = !note.textContent;
}

function rename(row) {
  const link = row.querySelector("a");
  const input = anaphora.make("input", null, { class: "field rename", maxlength: 200, "aria-label": t("New title") });
  input.value = link.querySelector(".title").textContent;
  link.hidden = true;
  row.prepend(input);
  input.select();
  let over = false;
  const end = async (keep) => {
    if (over) return;
    over = true;
    const title = input.value.trim();
    input.remove();
    link.hidden = false;
    if (!keep || !title) return list();
    const answer = await anaphora.call(server, "rename_conversation", { id: row.dataset.conversation, title });
    if (answer && row.dataset.conversation === current) anaphora.emit("titled", { title: answer.title });
    list();
  };
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing) end(true);
    else if (event.key === "Escape") end(false);
  });
  input.addEventListener("blur", () => end(true));
  input.focus();
}
function remove(row) {
  const id = row.dataset.conversation, here = id === current;
  const address = new URL(`v1/conversations/${encodeURIComponent(id)}`, document.baseURI);
  const undone = () => { mark(); if (here) anaphora.emit("open", { id }); };
  const gone = () => { anaphora.share({ conversation: id }); list(); };
  leaving.add(id, address, t("The conversation is deleted."), () => anaphora.call(server, "delete_conversation", { id }), undone, gone);
  if (here) anaphora.emit("new");
  mark();
}
// Several at once: boxes appear while `choosing`; what they mark is asked about once and deleted.
const picks = () => [...element.querySelectorAll(".conversation:not([hidden]) .pick:checked")];
function choose(on) {
  element.classList.toggle("choosing", on);
  element.querySelector('[data-action="choose"]').setAttribute("aria-pressed", String(on));
  if (!on) for (const box of picks()) box.checked = false;
  count();
}
function count() {
  const button = element.querySelector('[data-action="delete-chosen"]'), many = picks().length;
  button.hidden = !many;
  button.textContent = t("Delete (%(count)s)", { count: many });
}
async function removeChosen() {
  const rows = picks().map((box) => box.closest(".conversation"));
  if (!confirm(t("Delete the selected conversations? This cannot be undone."))) return;
  for (const { dataset: { conversation: id } } of rows) {
    if (!(await anaphora.call(server, "delete_conversation", { id }))) break;
    anaphora.share({ conversation: id });
    if (id === current) anaphora.emit("new");
  }
  choose(false);
  list();
}

// One file into a collection by the server's API; `told` hears which share has been sent. Gives the job, or why not.
function transfer(file, told) {
  return new Promise((resolve, reject) => {
    const form = new FormData();
    form.append("file", file);
    const request = new XMLHttpRequest();
    const place = `v1/collections/${encodeURIComponent(collection.value)}/documents`;
    request.open("POST", new URL(place, document.baseURI));
    request.responseType = "json";
    request.upload.onprogress = ({ loaded, total }) => total && told(loaded / total);
    const refused = () => reject(new Error(request.response?.error?.message || t("It may be larger than this server accepts.")));
    request.onload = () => (request.status === 202 ? resolve(request.response.id) : refused());
    request.onerror = request.onabort = refused;
    request.send(form);
  });
}
async function send(chosen) {
  for (const file of chosen) {
    const sent = anaphora.make("span", t("sending"), { class: "meta" }), name = anaphora.make("span", file.name, { class: "name" });
    const bar = anaphora.make("progress", null, { max: 1, "aria-label": t("Sending %(name)s", { name: file.name }) });
    const row = anaphora.make("div", null, { class: "job sending" }, anaphora.make("p", null, {}, name, sent), bar);
    part("jobs").before(row);
    try {
      const job = await transfer(file, (share) => {
        bar.value = share;
        sent.textContent = t("sending, %(percent)s", { percent: `${Math.floor(100 * share)} %` });
      });
      jobs[job] = file.name;
    } catch (error) {
      anaphora.toast(t("%(name)s could not be sent.", { name: file.name }) + " " + error.message);
    }
    row.remove();
  }
  if (!watching) watch();
}
async function watch() {
  watching = true;
  for (;;) {
    const all = Object.entries(jobs);
    if (!all.length) break;
    const answer = await server.watch_jobs({ jobs: Object.fromEntries(all.slice(0, SHOWN)) }).catch(() => null);
    if (answer?.error) anaphora.toast(answer.error);
    else if (answer) anaphora.patch(part("jobs"), answer.html);
    // Of more than are shown, those that are done make room; what failed stays to be read.
    if (answer?.done && all.length > SHOWN) for (const id of answer.done) delete jobs[id];
    if (answer && !answer.running && Object.keys(jobs).length === all.length) break;
    await new Promise((later) => setTimeout(later, answer ? 400 : 4000)); // a server that is away comes back
  }
  jobs = {};
  watching = false;
  collections();
}

element.addEventListener("click", (event) => {
  const target = event.target.closest("[data-action]");
  if (!target) return;
  const row = target.closest(".conversation");
  const action = target.dataset.action;
  if (action === "new") anaphora.emit("new");
  else if (action === "choose-files") files.click();
  else if (action === "choose") choose(!element.classList.contains("choosing"));
  else if (action === "delete-chosen") removeChosen();
  else if (action === "rename") rename(row);
  else if (action === "delete") remove(row);
  else if (action === "open-conversation") {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    anaphora.emit("open", { id: row.dataset.conversation });
  }
});
part("list").addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || !event.target.matches("a")) return;
  event.preventDefault();
  const links = [...element.querySelectorAll(".conversation:not([hidden]) a")];
  links[links.indexOf(event.target) + step]?.focus();
});
part("list").addEventListener("change", count);
let typing = null;
find.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(list, 200);
});
files.addEventListener("change", () => {
  send([...files.files]);
  files.value = "";
});
const language = element.querySelector("#language");
language.value = anaphora.language;
language.addEventListener("change", () => anaphora.speak(language.value));
collection.addEventListener("change", () => {
  warn();
  anaphora.emit("collection", { name: collection.value, chosen: true });
});
// Files may be dropped anywhere: a browser would leave the page for one.
const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
document.addEventListener("dragover", (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  if (adding) element.classList.add("dropping");
});
document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) element.classList.remove("dropping"); });
document.addEventListener("drop", (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  element.classList.remove("dropping");
  if (adding) send([...event.dataTransfer.files]);
});

anaphora.on("changed", list);
anaphora.on("elsewhere", list);
anaphora.on("current", ({ id, collection: name }) => {
  current = id;
  if (name && [...collection.options].some((option) => option.value === name)) collection.value = name;
  warn();
  mark();
});
list();
collections();
