// How the server fares: turns a day, refusals, support, and time by stage.
const [days, collection] = ["days", "collection"].map(bench.part);
const duration = (seconds) => (seconds < 0.0995 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`);
const share = (part, whole) => (whole ? `${Math.round((100 * part) / whole)} %` : "–");

let asked = 0;
async function show() {
  const mine = ++asked, answer = await bench.tried("GET", `/v1/statistics?days=${days.value}${collection.value ? `&collection=${encodeURIComponent(collection.value)}` : ""}`);
  if (!answer || mine !== asked) return;
  const found = answer.said, day = (text) => Date.parse(`${text}T00:00:00Z`) / 86400000;
  const named = (number) => new Date(number * 86400000).toLocaleDateString([], { timeZone: "UTC", day: "numeric", month: "short" });
  const known = new Map(found.days.map((one) => [day(one.day), one])), first = Math.floor(found.since / 86400);
  const all = Array.from({ length: Number(days.value) }, (_, n) => first + n);
  const points = (value) => all.map((n) => [n, known.has(n) ? value(known.get(n)) : 0]);
  const sum = (name) => found.days.reduce((total, one) => total + one[name], 0);
  const turns = sum("turns");
  bench.part("sum").textContent = turns
    ? `${turns === 1 ? "1 turn" : `${turns.toLocaleString()} turns`}, ${share(sum("asked"), turns)} asked back, ${share(sum("refused"), turns)} refused, ${share(sum("doubted"), turns)} doubted, ${share(sum("folded"), turns)} with a model's text folded away, ${share(sum("failed"), turns)} failed, ${sum("rated_down")} rated down; of ${sum("sentences").toLocaleString()} sentences ${share(sum("unsupported"), sum("sentences"))} unsupported, ${share(sum("contradicted"), sum("sentences"))} contradicted (days are UTC)`
    : "There was no turn in these days.";
  const stages = bench.element("div", null, {}, bench.element("h2", "Time by stage, newest traces"),
    bench.table(["Stage", "Median", "95 %", "Turns"], found.stages.map((one) => [one.stage, duration(one.p50), duration(one.p95), one.turns]), { numbers: [1, 2, 3], label: "Time by stage" }));
  bench.part("plots").replaceChildren(...(turns ? [
    bench.plot("Turns a day", [
      { name: "answered", points: points((one) => one.turns - one.asked - one.refused - one.failed - one.doubted) },
      { name: "doubted", points: points((one) => one.doubted) },
      { name: "asked back", points: points((one) => one.asked), colour: 4 },
      { name: "refused", points: points((one) => one.refused) },
      { name: "failed", points: points((one) => one.failed), colour: 2 },
    ], named),
    bench.plot("Sentences of answers", [
      { name: "supported", points: points((one) => one.sentences - one.unsupported) },
      { name: "unsupported", points: points((one) => one.unsupported) },
    ], named),
    bench.plot("Seconds by stage, 95 % within", [{ name: "seconds", points: found.stages.map((one, n) => [n, one.p95]) }], (n) => found.stages[n].stage),
    stages,
  ] : []));
}
async function begin() {
  const answer = await bench.tried("GET", "/v1/collections");
  for (const { name } of answer?.said.data || []) collection.append(bench.element("option", name, { value: name }));
  show();
}
for (const one of [days, collection]) one.addEventListener("change", show);
begin();
