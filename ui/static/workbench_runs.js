// Runs of the home: watched, compared and promoted. The address names the open run.
const WORDS = { synth: "synth", adapt: "adaptation", rewriters: "rewriter", rerankers: "cross-encoder", eval: "evaluation", diagnose: "diagnosis" };
const TRAINED = ["rewriters", "rerankers"];
let runs = [], before = "", opened = "", asked = 0;
const address = (group, name) => `/v1/runs/${group}/${encodeURIComponent(name)}`;
const chosen = () => location.hash.slice(1).split("/").map(decodeURIComponent);
const post = async (path) => { const answer = await bench.tried("POST", path); await fresh(); await detail(); watch(); return answer; };

const state = (run) => {
  const box = bench.element("span", run.state, { class: `state${run.state === "failed" ? " bad" : ""}` });
  if (run.state === "running") box.append(" ", bench.element("progress", null, { "aria-label": run.stage || run.name, max: run.total || null, value: run.total ? run.done : null }), ` ${run.stage} ${run.total ? `${run.done.toLocaleString()} of ${run.total.toLocaleString()}` : ""}`);
  if (run.promoted) box.append(" · serves");
  return box;
};
function list() {
  bench.part("nothing").hidden = runs.length > 0;
  const rows = runs.map((run) => [
    bench.element("a", run.name, { href: `#${run.group}/${encodeURIComponent(run.name)}`, "data-run": `${run.group}/${run.name}` }),
    WORDS[run.group], state(run), bench.when(run.started),
  ]);
  bench.redraw(bench.part("list"), ...(rows.length ? [bench.table(["Run", "Kind", "State", "Begun"], rows, { label: "Runs", keys: runs.map((run) => `${run.group}/${run.name}`) })] : []));
  bench.redraw(bench.part("back"), ...TRAINED.filter((group) => runs.some((run) => run.group === group && run.promoted)).map((group) =>
    bench.button(`Roll back the ${WORDS[group]}`, async () => {
      if (!confirm(`Bring back the ${WORDS[group]} that served before?`)) return;
      const answer = await post(`/v1/runs/${group}/rollback`);
      if (answer) anaphora.toast(`${answer.said.serves} serves now.`);
    })));
}

const figures = (run) => bench.table(["Figure", ""], Object.entries(run.figures), { numbers: [1], label: "Figures" });
const plots = (found) => bench.element("div", null, { class: "plots", "data-key": "plots" }, ...[...new Set(found.map((one) => one.name.split(": ")[0]))].map((stage) =>
  bench.plot(`Loss by step, ${stage}`, found.filter((one) => one.name.startsWith(`${stage}: `)).map((one) => ({ ...one, name: one.name.slice(stage.length + 2) })))));
function acts(run) {
  const box = bench.element("div", null, { class: "acts", "data-key": `${run.group}/${run.name}` }), path = address(run.group, run.name);
  const add = (text, act, more) => box.append(bench.button(text, act, more));
  if (run.promotable) add("Promote", async () => {
    if (!confirm(`Let ${run.name} serve? Its figures stand below.`)) return;
    const answer = await post(`${path}/promote`);
    if (answer) anaphora.toast(`${run.name} serves now, in place of ${answer.said.instead_of}.`);
  }, { class: "button primary" });
  if (run.report) box.append(bench.element("a", "Report", { class: "button", href: `/workbench/reports/${run.group}/${encodeURIComponent(run.name)}${before && run.group === "eval" ? `?before=${encodeURIComponent(before)}` : ""}` }));
  if (run.state !== "running" && !run.promoted) add("Delete", async () => {
    if (!confirm(`Delete ${run.name} with all its files?`)) return;
    if (await bench.tried("DELETE", path)) { location.hash = ""; watch(); }
  });
  const others = runs.filter((one) => one.group === run.group && one.name !== run.name);
  if (others.length) box.append(bench.element("label", "Beside ", {}, bench.element("select", null, { class: "field", onchange: (event) => { before = event.target.value; detail(); } },
    bench.element("option", "nothing", { value: "" }), ...others.map((one) => bench.element("option", `${one.name}${one.promoted ? " (serves)" : ""}`, { value: one.name, selected: one.name === before })))));
  return box;
}
async function detail() {
  const [group, name] = chosen(), box = bench.part("detail"), mine = ++asked;
  if (!name) { opened = ""; box.replaceChildren(); return; }
  if (opened !== `${group}/${name}`) {
    opened = `${group}/${name}`;
    // Who promotes compares with what serves.
    before = (TRAINED.includes(group) && runs.find((run) => run.group === group && run.promoted && run.name !== name)?.name) || "";
  }
  const [answer, other] = await Promise.all([name, before].map((one) => (one ? bench.tried("GET", address(group, one)) : null)));
  if (!answer || mine !== asked) return; // another one was opened
  const run = answer.said, beside = other?.said;
  const fold = (title, ...children) => bench.element("details", null, { "data-key": title, "data-keep": "open" }, bench.element("summary", title), ...children);
  const curves = [...run.curves, ...(beside ? beside.curves.map((one) => ({ ...one, name: `${one.name} of ${before}` })) : [])];
  bench.redraw(box, bench.element("div", null, { class: "card" },
    bench.element("h1", run.name), bench.element("p", null, {}, `${WORDS[run.group]} · `, state(run), ` · begun ${bench.when(run.started)}`),
    run.problem ? bench.element("p", run.problem, { class: "bad" }) : null,
    acts(run),
    ...run.tables.map((one) => bench.element("div", null, { "data-key": one.title }, bench.element("h2", one.title), bench.table(one.head, one.rows, { label: one.title }))),
    curves.length ? plots(curves) : null,
    beside ? bench.table(["Figure", beside.name, run.name], [...new Set([...Object.keys(beside.figures), ...Object.keys(run.figures)])].map((one) => [one, beside.figures[one] ?? "", run.figures[one] ?? ""]), { numbers: [1, 2], label: "Figures of both" }) : !Object.keys(run.figures).length ? null : run.promotable ? figures(run) : fold("Figures", figures(run)),
    run.command ? fold("Command", bench.element("pre", run.command, { tabindex: 0 })) : null));
}
async function fresh() {
  const answer = await bench.tried("GET", "/v1/runs");
  runs = answer?.said.data || runs;
  list();
}
const watch = bench.every(async () => {
  const was = runs.some((run) => run.state === "running");
  await fresh();
  const running = runs.some((run) => run.state === "running");
  if (running || was || `${chosen().join("/")}` !== opened) await detail();
  return running ? 1500 : 10000;
});
addEventListener("hashchange", () => { detail(); });
