// Curated answers of a collection: how often each was given, and the form to write one. It goes on from workbench_review.js.
{
  const chosen = part("curated-collection"), box = part("curated-box"), form = part("curated-form"), fields = form.elements;
  const address = (id = "") => `/v1/collections/${encodeURIComponent(chosen.value)}/curated${id && `/${encodeURIComponent(id)}`}`;
  const day = (seconds) => (seconds ? new Date(1000 * seconds).toISOString().slice(0, 10) : "");
  let sent = {}; // what the form changes: the answer's id, or the turn that it comes from, and its passages
  const fill = (one, more) => {
    sent = { passages: one.passages ?? [], ...more };
    fields.questions.value = (one.questions ?? []).join("\n");
    fields.answer.value = one.answer ?? "";
    fields.refuses.checked = Boolean(one.refuses);
    fields.keeper.value = one.keeper ?? "";
    fields.expires.value = day(one.expires);
    fields.scope.value = Object.keys(one.scope ?? {}).length ? JSON.stringify(one.scope) : "";
    part("curated-passages").textContent = sent.passages.map(({ quote }, n) => `[${n + 1}] ${quote}`).join("\n");
    box.showModal();
  };
  const drawn = async () => {
    const found = await bench.api("GET", address()).catch(() => null);
    part("curated").hidden = !found;
    if (!found) return;
    const rows = found.data.map((one) => [
      element("div", undefined, {}, ...one.questions.map((text) => element("div", text))),
      element("div", undefined, {}, element("div", one.answer), element("div", [one.refuses && "sends people elsewhere", Object.keys(one.scope).length && JSON.stringify(one.scope)].filter(Boolean).join(", "), { class: "meta" })),
      element("span", one.expires ? `${one.keeper}, until ${day(one.expires)}` : one.keeper, { class: one.expires && 1000 * one.expires < Date.now() ? "bad" : "" }),
      element("span", one.lost ? `${one.lost} changed` : one.passages.length, { class: one.lost ? "bad" : "" }),
      one.hits,
      element("div", undefined, { class: "acts" },
        bench.button("Edit", () => fill(one, { id: one.id }), { "aria-label": `Edit ${one.questions[0]}` }),
        bench.button("Delete", async () => {
          if (confirm(`Delete the answer to “${one.questions[0]}”?`) && await bench.tried("DELETE", address(one.id))) drawn();
        }, { "aria-label": `Delete ${one.questions[0]}` })),
    ]);
    bench.redraw(part("curated-list"), rows.length
      ? bench.table(["Questions", "Answer", "Kept by", "Passages", "Given", ""], rows, { numbers: [4], label: "Curated answers", keys: found.data.map(({ id }) => id) })
      : element("p", "None yet.", { class: "meta" }));
  };
  form.onsubmit = async (event) => {
    event.preventDefault();
    let scope = {};
    try {
      scope = JSON.parse(fields.scope.value || "{}");
    } catch {
      return anaphora.toast('The filter is no JSON: write it as {"version": "2"}.');
    }
    const body = {
      questions: fields.questions.value.split("\n").map((line) => line.trim()).filter(Boolean),
      answer: fields.answer.value, refuses: fields.refuses.checked, keeper: fields.keeper.value, scope,
      expires: fields.expires.value ? new Date(`${fields.expires.value}T23:59:59Z`) / 1000 : null,
      id: sent.id ?? "", passages: sent.passages.map(({ document_id, start, end }) => ({ document_id, start, end })),
    };
    if (!await bench.tried("POST", address(), body)) return;
    box.close();
    drawn();
  };
  part("curated-close").onclick = () => box.close();
  part("curated-new").onclick = () => fill({});
  part("curated-turn").onclick = async () => {
    if (!shown) return anaphora.toast("Open a turn first.");
    const { turn, current } = shown;
    if (chosen.value !== turn.collection) { chosen.value = turn.collection; await drawn(); }
    fill({ questions: [current?.rewrite || turn.question], answer: current?.answer || turn.answer.replace(/ ?\[\d+\]/g, ""), passages: current?.passages });
  };
  chosen.onchange = drawn;
  bench.tried("GET", "/v1/collections").then((known) => {
    for (const one of known?.said.data ?? []) chosen.add(new Option(one.name, one.name));
    if (chosen.value) drawn();
  });
}
