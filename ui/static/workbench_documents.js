// The documents of a collection: what is indexed, what could not be, and what may be done about it.
const PAGE = 50, PREVIEW = 20000;
const [collection, find, files] = ["collection", "find", "files"].map(bench.part);
const leaving = anaphora.leaving(); // documents to be deleted soon, unless that is undone
let collections = [], documents = [], jobs = [], page = 0, target = "", asked = 0;
const additions = []; // what plugins draw beside the documents of a collection
const place = (name = collection.value) => `/v1/collections/${encodeURIComponent(name)}`;
const path = (id) => id.split("/").map(encodeURIComponent).join("/");

async function load(chosen) {
  const answer = await bench.tried("GET", "/v1/collections");
  if (!answer) return;
  collections = answer.said.data;
  // A new one is there once its first file is indexed.
  if (chosen && !collections.some((one) => one.name === chosen)) collections.push({ name: chosen, documents: 0, pending: true });
  const wanted = chosen || collection.value || decodeURIComponent(location.hash.slice(1));
  bench.redraw(collection, ...collections.map(({ name, documents: n }) => bench.element("option", `${name} (${n.toLocaleString()})`, { value: name })));
  if (collections.some((one) => one.name === wanted)) collection.value = wanted;
  await show();
}
async function show() {
  const mine = ++asked;
  const here = collections.find((one) => one.name === collection.value);
  for (const name of ["reindex", "remove", "add"]) bench.part(name).disabled = !here;
  bench.part("problem").textContent = here?.problem || "";
  bench.part("problem").hidden = !here?.problem;
  if (here) history.replaceState(null, "", `#${encodeURIComponent(here.name)}`);
  const answer = !here || here.pending ? null : await bench.tried("GET", `${place()}/documents`);
  if (mine !== asked) return; // somebody has chosen or changed something else
  documents = answer?.said.data || [];
  draw();
  watch();
  for (const redraw of additions) redraw();
}
const busy = () => { jobs = [{ state: "queued", files: [] }]; watch(); };
function draw() {
  const words = find.value.toLowerCase();
  const found = documents.filter((one) => !leaving.has(one.id) && `${one.title} ${one.id}`.toLowerCase().includes(words));
  page = Math.max(0, Math.min(page, Math.ceil(found.length / PAGE) - 1));
  const shown = found.slice(page * PAGE, (page + 1) * PAGE);
  bench.part("count").textContent = collections.length
    ? `${found.length.toLocaleString()} of ${documents.length.toLocaleString()} documents`
    : "There is no collection yet. Make one of your files below “New collection”.";
  const rows = shown.map((one) => {
    const title = bench.element("div", null, {}, bench.element("div", one.title || one.id), bench.element("div", one.id, { class: "meta" }));
    const status = bench.element("span", one.warning || "indexed", { class: one.warning ? "bad" : "meta" });
    const acts = bench.element("div", null, { class: "acts" }, bench.button("Show", () => read(one), { "aria-label": `Show ${one.title || one.id}` }));
    if (one.removable) acts.append(bench.button("Delete", () => remove(one), { "aria-label": `Delete ${one.title || one.id}` }));
    return [title, one.format, status, one.passages.toLocaleString(), acts];
  });
  bench.redraw(bench.part("list"), ...(rows.length ? [bench.table(["Document", "Kind", "Status", "Passages", ""], rows, { numbers: [3], label: "Documents", keys: shown.map((one) => one.id) })] : []));
  turn(bench.part("pages"), page, Math.ceil(found.length / PAGE), (to) => { page = to; draw(); });
}
function turn(box, now, all, go) {
  bench.redraw(box, ...(all > 1 ? [
    bench.button("Earlier", () => go(now - 1), { disabled: now === 0 }),
    bench.element("span", `${now + 1} of ${all}`, { class: "meta" }),
    bench.button("Further", () => go(now + 1), { disabled: now >= all - 1 }),
  ] : []));
}

// Jobs, and what the last ones could not index.
const watch = bench.every(async () => {
  const name = collection.value;
  const answer = name ? await bench.tried("GET", `/v1/jobs?collection=${encodeURIComponent(name)}`) : null;
  if (name && !answer) return 4000; // a server that is away comes back
  if (!answer || name !== collection.value) return 0;
  const before = jobs.filter(running).length;
  jobs = answer.said.data;
  const last = new Map(); // the newest word on each file
  for (const job of [...jobs].reverse()) for (const file of job.files) last.set(file.document_id, file);
  const failed = [...last.values()].filter((file) => file.status === "failed").slice(0, 100);
  const work = jobs.filter((job) => running(job) || job === jobs[0]);
  bench.redraw(bench.part("jobs"), ...work.map(told), ...(failed.length ? [
    bench.element("h2", "Could not be indexed"),
    bench.table(["File", "Why"], failed.map((file) => [file.document_id, bench.element("span", file.message, { class: "bad" })]), { label: "Could not be indexed" }),
  ] : []));
  if (jobs.filter(running).length) return 1000;
  if (before) load(name);
  return 0;
});
const running = (job) => job.state === "queued" || job.state === "running";
function told(job) {
  const line = bench.element("p", `${job.kind}: ${running(job) ? job.stage || job.state : job.state} `, { class: job.state === "failed" ? "bad" : "meta", "data-key": job.id });
  if (running(job)) {
    line.append(bench.element("progress", null, { "aria-label": job.kind, max: job.total || null, value: job.total ? job.done : null }), " ",
      bench.button("Cancel", async () => { await bench.tried("POST", `/v1/jobs/${job.id}/cancel`); watch(); }));
  } else line.append(`${bench.when(job.updated)} ${job.message}`);
  return line;
}

async function send(chosen, name) {
  for (const file of chosen) {
    const form = new FormData();
    form.append("file", file);
    try {
      await bench.api("POST", `${place(name)}/documents`, form);
    } catch (error) {
      anaphora.toast(`${file.name}: ${error.message}`);
    }
  }
  jobs = [{ state: "queued", files: [] }];
  await load(name);
}
function remove(one) {
  const name = collection.value, address = `${place(name)}/documents/${path(one.id)}`;
  leaving.add(one.id, address, "The document is deleted.", () => bench.tried("DELETE", address), draw, () => name === collection.value && show());
  draw();
}

async function read(one) {
  const box = bench.part("reader"), body = bench.element("div");
  const passages = async (offset) => {
    const answer = await bench.tried("GET", `${place()}/passages/${path(one.id)}?offset=${offset}&limit=${PAGE}`);
    if (!answer) return;
    const { data, total } = answer.said, pages = bench.element("div", null, { class: "acts", "data-key": "pages" });
    turn(pages, offset / PAGE, Math.ceil(total / PAGE), (to) => passages(to * PAGE));
    bench.redraw(body, bench.element("p", `${total.toLocaleString()} passages`, { class: "meta" }), ...data.map((passage) => bench.element("div", null, {},
      bench.element("h2", [...passage.heading, passage.page && `p. ${passage.page}`].filter(Boolean).join(" › ")), bench.element("pre", passage.text, { tabindex: 0 }))), pages);
  };
  const text = async () => {
    const answer = await bench.tried("GET", `${place()}/documents/${path(one.id)}`);
    if (!answer) return;
    const whole = answer.said.text;
    body.replaceChildren(bench.element("pre", whole.slice(0, PREVIEW), { tabindex: 0 }),
      whole.length > PREVIEW ? bench.element("p", `${(whole.length - PREVIEW).toLocaleString()} further characters are not shown.`, { class: "meta" }) : "");
  };
  box.replaceChildren(bench.element("h1", one.title || one.id, { id: "reader-title" }), bench.element("p", one.source, { class: "meta" }),
    bench.element("div", null, { class: "acts" }, bench.button("Passages", () => passages(0)), bench.button("Text", text), bench.button("Close", () => box.close())), body);
  box.showModal();
  await passages(0);
}

collection.addEventListener("change", () => { page = 0; jobs = []; bench.part("jobs").replaceChildren(); show(); });
find.addEventListener("input", () => { page = 0; draw(); });
bench.part("add").addEventListener("click", () => { target = collection.value; files.click(); });
bench.part("create").addEventListener("submit", (event) => { event.preventDefault(); target = event.target.elements.name.value.trim(); files.click(); });
files.addEventListener("change", () => { const chosen = [...files.files]; files.value = ""; send(chosen, target); });
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => { event.preventDefault(); if (collection.value) send([...event.dataTransfer.files], collection.value); });
bench.part("reindex").addEventListener("click", async () => { await bench.tried("POST", `${place()}/reindex`); busy(); });
bench.part("remove").addEventListener("click", async () => {
  if (!confirm(`Delete the collection ${collection.value} with its uploads? Folders it was made from are left alone.`)) return;
  if (await bench.tried("DELETE", place())) { history.replaceState(null, "", "#"); collection.value = ""; load(); }
});
load();
