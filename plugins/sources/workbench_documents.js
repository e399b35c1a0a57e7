// Sources of the collection: how the last run ended, and what it changed. It goes on from workbench_documents.js.
async function sources() {
  const name = collection.value, answer = name ? await bench.tried("GET", "/v1/sources") : null;
  if (name !== collection.value) return;
  const found = (answer?.said.data || []).filter((one) => one.source.collection === name);
  const rows = found.map(({ source, last, due, documents: held, failed }) => {
    const title = bench.element("div", null, {}, bench.element("div", source.name), bench.element("div", `${source.kind} ${source.location}`, { class: "meta" }));
    const counts = Object.entries(last?.counts || {}).map(([outcome, n]) => `${n.toLocaleString()} ${outcome}`).join(", ");
    const run = bench.element("div", null, {}, bench.element("div", last ? `${bench.when(last.began)}: ${counts || "nothing"}` : "not yet"));
    if (last?.problem) run.append(bench.element("div", last.problem, { class: "bad" }));
    if (last?.changes?.length) run.append(bench.element("details", null, { "data-keep": "open" }, bench.element("summary", "What changed"),
      bench.table(["", "Document", ""], last.changes.map((one) => [one.outcome, one.key, one.message]), { label: `What changed in ${source.name}` })));
    const act = (words, method, path) => bench.button(words, async () => { if (await bench.tried(method, `/v1/sources/${source.name}${path}`)) busy(); }, { "aria-label": `${words} ${source.name}` });
    const acts = bench.element("div", null, { class: "acts" });
    if (source.kind !== "push") acts.append(act("Read now", "POST", "/sync"), act("Dry run", "POST", "/sync?dry_run=true"));
    acts.append(bench.button("Documents", () => items(source), { "aria-label": `Documents of ${source.name}` }),
      bench.button("Remove", async () => {
        if (confirm(`Remove the source ${source.name} and its documents?`) && await bench.tried("DELETE", `/v1/sources/${source.name}`)) busy();
      }, { "aria-label": `Remove ${source.name}` }));
    return [title, source.every ? `every ${source.every}${due ? `, next ${bench.when(due)}` : ""}` : source.watch ? "watched" : "by hand", run,
      bench.element("span", failed ? `${held.toLocaleString()}, ${failed.toLocaleString()} failed` : held.toLocaleString(), { class: failed ? "bad" : "" }), acts];
  });
  bench.redraw(bench.part("sources"), ...(rows.length ? [bench.element("h2", "Sources"), bench.table(["Source", "Schedule", "Last run", "Documents", ""], rows, { label: "Sources", keys: found.map(({ source }) => source.name) })] : []));
}
async function items(source) {
  const answer = await bench.tried("GET", `/v1/sources/${source.name}`);
  if (!answer) return;
  const rows = Object.entries(answer.said.items).sort((a, b) => Boolean(b[1].problem) - Boolean(a[1].problem)).slice(0, 500)
    .map(([key, one]) => [key, one.changed ? bench.when(one.changed) : "", bench.element("span", one.problem || "read", { class: one.problem ? "bad" : "meta" })]);
  const box = bench.part("reader");
  box.replaceChildren(bench.element("h1", source.name, { id: "reader-title" }),
    bench.element("div", null, { class: "acts" }, bench.button("Close", () => box.close())),
    bench.table(["Document", "Changed", "Status"], rows, { label: `Documents of ${source.name}` }));
  box.showModal();
}
bench.part("source").addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = Object.fromEntries(new FormData(event.target));
  if (!await bench.tried("POST", "/v1/sources", { ...given, collection: collection.value })) return;
  event.target.reset();
  busy();
  sources();
});
additions.push(sources);
