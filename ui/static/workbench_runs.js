// Runs of the home: listed with their progress, shown, promoted. The open one stands in the address.
const WORDS = { synth: "synth", adapt: "adaptation", rewriters: "rewriter", eval: "evaluation", diagnose: "diagnosis" };
let runs = [], before = "", opened = "", latest = 0;
const address = (group, name) => `/v1/runs/${group}/${encodeURIComponent(name)}`;
const chosen = () => location.hash.slice(1).split("/").map(decodeURIComponent);
const promote = async (name) => { const answer = await bench.tried("POST", "/v1/runs/promote", { name }); await fresh(); await detail(); return answer; };
const copyable = (label, text) => bench.element("div", null, { class: "tools", "data-key": label },
  bench.element("pre", text, { tabindex: 0, "aria-label": label }),
  bench.button(`Copy ${label}`, async () => { await navigator.clipboard.writeText(text); anaphora.toast("Copied."); }));

const state = (run) => {
  const box = bench.element("span", run.state, { class: `state${run.state === "failed" ? " bad" : ""}` }), now = run.progress;
  if (run.state === "running" && now.stage) box.append(" ", bench.element("progress", null, { "aria-label": now.stage, max: now.total || null, value: now.total ? now.done : null }), ` ${now.stage} ${now.total ? `${now.done.toLocaleString()} of ${now.total.toLocaleString()}` : ""}${now.rate ? `, ${now.rate.toLocaleString(undefined, { maximumFractionDigits: 1 })}/s` : ""}`);
  if (run.promoted) box.append(" · serves");
  return box;
};
function list() {
  bench.part("nothing").hidden = runs.length > 0;
  const rows = runs.map((run) => [
    bench.element("a", run.name, { href: `#${run.group}/${encodeURIComponent(run.name)}`, "data-run": `${run.group}/${run.name}` }),
    WORDS[run.group], state(run), bench.when(run.started),
  ]);
  bench.redraw(bench.part("list"), ...(rows.length ? [bench.table(["Run", "Kind", "State", "Started"], rows, { label: "Runs", keys: runs.map((run) => `${run.group}/${run.name}`) })] : []));
  bench.redraw(bench.part("back"), ...(runs.some((run) => run.promoted) ? [bench.button("Roll back the rewriter", async () => {
    if (!confirm("Bring back the rewriter that served before?")) return;
    const answer = await promote("");
    if (answer) anaphora.toast(`${answer.said.serves} serves now.`);
  })] : []));
}

function acts(run) {
  const box = bench.element("div", null, { class: "acts", "data-key": `${run.group}/${run.name}` });
  if (run.promotable) box.append(bench.button("Promote", async () => {
    if (!confirm(`Let ${run.name} serve? Its figures stand below.`)) return;
    const answer = await promote(run.name);
    if (answer) anaphora.toast(`${run.name} serves now, in place of ${answer.said.instead_of}.`);
  }, { class: "button primary" }));
  if (!run.report) return box;
  box.append(bench.element("a", "Report", { class: "button", href: `/workbench/reports/${run.group}/${encodeURIComponent(run.name)}${before && run.group === "eval" ? `?before=${encodeURIComponent(before)}` : ""}` }));
  const others = run.group === "eval" ? runs.filter((other) => other.group === "eval" && other.report && other.name !== run.name) : [];
  if (others.length) box.append(bench.element("label", "Compare with ", {}, bench.element("select", null, { class: "field", onchange: (event) => { before = event.target.value; detail(); } },
    bench.element("option", "nothing", { value: "" }), ...others.map((other) => bench.element("option", other.name, { value: other.name, selected: other.name === before })))));
  return box;
}
async function detail() {
  const [group, name] = chosen(), box = bench.part("detail"), request = ++latest;
  if (!name) { opened = ""; box.replaceChildren(); return; }
  if (opened !== `${group}/${name}`) { opened = `${group}/${name}`; before = ""; }
  const answer = await bench.tried("GET", address(group, name));
  if (!answer || request !== latest) return; // another one was opened
  const run = answer.said, figures = Object.entries(run.figures);
  bench.redraw(box, bench.element("div", null, { class: "card" },
    bench.element("h1", run.name), bench.element("p", null, {}, `${WORDS[run.group]} · `, state(run), ` · started ${bench.when(run.started)}`),
    run.progress?.error ? bench.element("p", run.progress.error, { class: "bad" }) : null,
    acts(run),
    ...run.tables.map((table) => bench.element("div", null, { "data-key": table.title }, bench.element("h2", table.title), bench.table(table.head, table.rows, { label: table.title }))),
    figures.length ? bench.table(["Figure", ""], figures, { numbers: [1], label: "Figures" }) : null,
    run.progress ? copyable("the command of this run", run.progress.command) : null));
}
async function fresh() {
  const answer = await bench.tried("GET", "/v1/runs");
  if (!answer) return;
  runs = answer.said.data;
  if (!bench.part("commands").children.length) bench.part("commands").append(...Object.entries(answer.said.commands).map(([group, command]) => copyable(`the command of a ${WORDS[group]}`, command)));
  list();
}
bench.every(async () => {
  const running = (some) => some.some((run) => run.state === "running"), was = running(runs);
  await fresh();
  if (was || running(runs) || chosen().join("/") !== opened) await detail();
  return running(runs) ? 1500 : 10000;
});
addEventListener("hashchange", () => { detail(); });
