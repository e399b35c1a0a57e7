// The sources of the turn that is looked at, and the reader of whole documents.
const { t } = anaphora;
anaphora.translate(element);
const part = (name) => element.querySelector(`[data-part="${name}"]`);
const body = part("sources"), reader = part("reader");
const empty = body.innerHTML;
const calm = () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");

function select({ n, key }) {
  body.querySelectorAll(".selected, mark.selected").forEach((old) => old.classList.remove("selected"));
  const source = body.querySelector(`[data-source="${CSS.escape(n)}"]`);
  if (!source) return;
  source.classList.add("selected");
  const marks = source.querySelectorAll(`mark[data-citation="${CSS.escape(key)}"]`);
  marks.forEach((mark) => mark.classList.add("selected"));
  source.focus({ preventScroll: true });
  // Long passages scroll in themselves: the sentence comes into their view, the source into the panel's.
  const passage = source.querySelector(".passage");
  if (marks[0]) passage.scrollTop += marks[0].getBoundingClientRect().top - passage.getBoundingClientRect().top - 24;
  source.scrollIntoView({ behavior: calm(), block: "start" });
}
anaphora.on("sources", ({ html, about, cite, open }) => {
  const changed = part("about").textContent !== about;
  part("about").textContent = about;
  anaphora.patch(body, html || empty);
  body.querySelectorAll(".readable").forEach((one) => {
    const button = one.querySelector('[data-action="readable"]');
    button.hidden = false;
    button.setAttribute("aria-expanded", "false");
    showReadable(one.querySelector(".readable-body"));
  });
  anaphora.reachable(body);
  if (changed) {
    body.scrollTop = 0;
    body.querySelectorAll(".selected").forEach((old) => old.classList.remove("selected"));
  }
  if (open) anaphora.drawer("panel", true);
  if (cite) requestAnimationFrame(() => select(cite));
});

// The places that links were followed from, the present one last.
let trail = [];
async function read(place, onward) {
  const answer = await anaphora.call(server, "read_document", place);
  if (!answer) return;
  trail = onward ? [...trail, place] : [place];
  anaphora.patch(reader, answer.html);
  readerPart("note").hidden = true;
  reader.querySelector('[data-action="reader-back"]').hidden = trail.length < 2;
  reader.querySelectorAll(".reader-text .prose-text a.inside").forEach((link) => part("why-link") && link.after(part("why-link").content.cloneNode(true)));
  if (!reader.open) reader.showModal();
  anaphora.reachable(reader);
  const mark = reader.querySelector("mark");
  if (mark) mark.scrollIntoView({ block: "center" });
  else reader.querySelector(".reader-body").scrollTop = 0;
}
const readerPart = (name) => reader.querySelector(`[data-part="${name}"]`);
function linked(link) {
  const asked = new URL(link.href).searchParams, [start, end] = (asked.get("at") || "0-0").split("-").map(Number);
  return { collection: asked.get("collection"), document: asked.get("document"), part: asked.get("part") || "", start, end };
}
// Below the document: the entry that a marker names, and what the linked document says of the sentence around `mark`.
async function explain(mark, link, entry) {
  const box = readerPart("note"), told = readerPart("linked");
  readerPart("entry").replaceChildren(...(entry ? entry.cloneNode(true).childNodes : []));
  told.replaceChildren();
  box.hidden = false;
  if (!link) return;
  const block = mark.closest("p, li, td, th, .plain, .prose-text"), before = document.createRange();
  before.setStart(block, 0);
  before.setEndBefore(mark);
  const at = before.toString().length, first = Math.max(0, at - 2500);
  const { collection, document: id } = linked(link);
  const text = block.textContent.slice(first, at + 2500);
  told.setAttribute("aria-busy", "true");
  const answer = await anaphora.call(server, "why_linked", { collection, document: id, text, at: at - first });
  told.removeAttribute("aria-busy");
  if (answer) anaphora.patch(told, answer.html);
}
// A quote made readable, or why it is cited, below its source; it stays while the sources are drawn anew.
const readable = new Map();
async function makeReadable(button) {
  const box = button.parentElement.querySelector(".readable-body"), place = box.dataset.place;
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  const answer = await anaphora.call(server, button.dataset.call, JSON.parse(button.dataset.asked));
  button.disabled = false;
  button.removeAttribute("aria-busy");
  if (!answer) return;
  readable.set(place, answer.html);
  const now = body.querySelector(`[data-place="${CSS.escape(place)}"]`);
  if (now) showReadable(now);
}
function showReadable(box) {
  const html = readable.get(box.dataset.place);
  if (!html) return;
  anaphora.patch(box, html);
  const button = box.parentElement.querySelector('[data-action="readable"]');
  button.hidden = true;
  button.setAttribute("aria-expanded", "true");
}
element.addEventListener("click", (event) => {
  const target = event.target.closest("[data-action]");
  if (target?.dataset.action === "readable") return makeReadable(target);
  const source = event.target.closest("a.open")?.closest(".source");
  if (source) anaphora.emit("opened", { turn: source.parentElement.dataset.kept, source: source.dataset.source });
  if (target?.dataset.action === "copy-readable")
    return navigator.clipboard.writeText(target.dataset.text).then(() => anaphora.toast(t("Copied.")), () => anaphora.toast(t("The browser does not let this page copy.")));
  if (target?.dataset.action === "original") {
    const box = target.closest(".readable-body"), shown = target.getAttribute("aria-pressed") === "true";
    target.setAttribute("aria-pressed", String(!shown));
    box.querySelector('[data-part="original"]').hidden = shown;
    box.querySelector('[data-part="readable"]').hidden = !shown;
    return;
  }
  if (target?.dataset.action === "reference") {
    const entry = reader.querySelector(`[data-entry="${CSS.escape(target.dataset.reference)}"]`);
    return explain(target, entry.querySelector("a.inside"), entry);
  }
  if (target?.dataset.action === "why-linked") return explain(target, target.previousElementSibling);
  if (target?.dataset.action === "close-note") return void (readerPart("note").hidden = true);
  if (target?.dataset.action === "reader-back") {
    trail.pop();
    return read(trail.pop(), true);
  }
  if (event.target === reader || target?.dataset.action === "close-reader") return reader.close();
  const link = event.target.closest("a.inside");
  if (!(link || target?.dataset.action === "read") || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  if (link) return read(linked(link), true);
  const { collection, document: id, start, end } = target.dataset;
  read({ collection, document: id, start: Number(start), end: Number(end) }, reader.contains(target));
});
anaphora.on("read", read);
if (anaphora.opening) read(anaphora.opening);
