// What people ask, what the documents lack, and which gaps are closed. It goes on from workbench_health.js and keeps to its choices.
{
  const { part, element, table, button } = bench;
  const share = (now, before) => (now === before ? "as before" : `${now > before ? "▲" : "▼"} ${before} before`);
  const place = ({ document_id, title, heading }) => [document_id, heading || title].join(": ");
  const lines = (texts) => element("div", null, {}, ...texts.map((text) => element("p", text)));
  const closing = { curated: "closed by a person’s answer", documents: "closed by the documents" };
  const languages = new Intl.DisplayNames(["en"], { type: "language" });
  let drawing = 0, picked = {};
  const address = (more) => `/v1/insights?${new URLSearchParams({ days: days.value, collection: collection.value, where: JSON.stringify(picked), ...more })}`;
  // By which people narrowed their searches: what is shown can keep to that.
  const filters = (found) => bench.redraw(part("insights-filters"), ...Object.entries(found.filters).map(([field, values]) => {
    const select = element("select", null, { class: "field" }, element("option", "all", { value: "" }), ...values.map((value) => element("option", String(value), { value: JSON.stringify(value) })));
    select.value = field in picked ? JSON.stringify(picked[field]) : "";
    select.onchange = () => {
      if (select.value) picked[field] = JSON.parse(select.value);
      else delete picked[field];
      draw();
    };
    return element("label", `${field} `, {}, select);
  }));
  const draw = async (again = false) => {
    const mine = ++drawing, answer = await bench.tried("GET", address(again ? { again } : {}));
    if (!answer || mine !== drawing) return;
    const found = answer.said;
    part("insights-report").href = address({ format: "markdown" });
    part("insights-table").href = address({ format: "csv" });
    const counted = (count, one, many) => `${count.toLocaleString()} ${count === 1 ? one : many}`;
    const counts = [[found.turns, "question", "questions"], [found.people, "person", "people"], [found.topics.length, "topic", "topics"], [found.gaps.length, "gap", "gaps"]].map((parts) => counted(...parts));
    part("insights-sum").textContent = found.turns ? `${counts[0]} by ${counts.slice(1).join(", ")}` : "Nobody asked anything in these days.";
    const outcomes = Object.entries(found.outcomes).filter(([, count]) => count).map(([name, count]) => `${name.replace("_", " ")} ${count.toLocaleString()}`);
    const spoken = Object.entries(found.languages).map(([code, count]) => `${code ? languages.of(code) : "too short to tell"} ${count.toLocaleString()}`);
    part("insights-outcomes").textContent = [outcomes, spoken].filter((parts) => parts.length).map((parts) => parts.join(", ")).join(" · ");
    filters(found);
    const topics = found.topics.map((one) => [
      one.name, lines(one.questions.slice(0, 3)), one.turns, share(one.turns, one.earlier), one.unanswered, `${one.rated_up} / ${one.rated_down}`,
      lines(one.sections.slice(0, 1).map(place)),
    ]);
    part("insights-topics").replaceChildren(topics.length
      ? table(["Topic", "For example", "Questions", "Trend", "Unanswered", "Good / bad", "Read most"], topics, { numbers: [2, 4], label: "Topics" })
      : element("p", "No topics; texts may not be recorded (trace.content, plugins.widget.keep).", { class: "meta" }));
    const gaps = found.gaps.map((one) => [
      one.turns, lines(one.questions), lines(one.sections.slice(0, 1).map(place)),
      closing[one.closed] ?? element("details", null, {}, element("summary", "Draft"), element("pre", one.draft)),
      element("div", null, { class: "acts" },
        !one.closed && button("Copy the draft", () => navigator.clipboard?.writeText(one.draft).then(() => anaphora.toast("Copied.")), { "aria-label": `Copy the draft for ${one.name}` }),
        !one.closed && element("a", "Answer it", { href: `/workbench/review?turn=${encodeURIComponent(one.newest)}`, "aria-label": `Answer ${one.questions[0]}` })),
    ]);
    part("insights-gaps").replaceChildren(gaps.length
      ? table(["Questions", "Asked", "Nearest section", "To write", ""], gaps, { numbers: [0], label: "Gaps" })
      : element("p", "None in these days.", { class: "meta" }));
    const rows = found.disagreements.map(({ first, second, question, turn }) => [
      lines([place(first), first.sentence]), lines([place(second), second.sentence]),
      element("a", question, { href: `/traces/${encodeURIComponent(turn)}` }),
    ]);
    part("insights-disagreements").replaceChildren(...(rows.length
      ? [element("h2", "Disagreements"), table(["One section", "The other", "Cited for"], rows, { label: "Disagreements" })] : []));
    const places = [
      ["Asked from", ["Page", "Questions", "Unanswered"], found.pages.map((one) => [one.page, one.turns, one.unanswered])],
      ["Cited most", ["Document", "Questions"], found.cited.map((one) => [place(one), one.turns])],
    ];
    part("insights-places").replaceChildren(...places.filter(([, , cells]) => cells.length).map(([label, head, cells]) =>
      element("div", null, {}, element("h2", label), table(head, cells, { numbers: [1, 2], label }))));
  };
  part("insights-again").onclick = async ({ target }) => {
    target.disabled = true;
    await draw(true);
    target.disabled = false;
  };
  days.addEventListener("change", () => draw());
  collection.addEventListener("change", () => { picked = {}; draw(); });
  draw();
}
