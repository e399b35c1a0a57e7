// What the tabs of the workbench share. Nothing here builds HTML: texts of people, documents and models stay text.
const bench = {
  // Ask the HTTP API; gives what it answers, or throws an Error with its words.
  async api(method, path, body) {
    const json = body !== undefined && !(body instanceof FormData);
    let answer, said = null;
    try {
      answer = await fetch(path, {
        method,
        headers: json ? { "Content-Type": "application/json" } : {},
        body: json ? JSON.stringify(body) : body,
      });
      said = answer.status === 204 ? null : await answer.json();
    } catch {
      throw new Error("The server did not answer. Check that it is running, then try again.");
    }
    if (answer.status === 401) throw new Error("You are signed out. Reload the page to sign in.");
    if (!answer.ok) throw new Error(said?.error?.message || "The server could not do that; its log says why.");
    return said;
  },
  // The same, with a refusal shown and null given instead.
  async tried(method, path, body) {
    try {
      return { said: await bench.api(method, path, body) };
    } catch (error) {
      anaphora.toast(error.message);
      return null;
    }
  },
  element: anaphora.make,
  // Whatever a job, a clock or an answer of the server draws anew, somebody may be using.
  redraw: anaphora.redraw,
  // A table of texts and elements; columns of numbers stand to the right. `keys` tell the rows apart.
  table(head, rows, { numbers = [], label, keys = [] } = {}) {
    const cell = (kind, value, n, more = {}) =>
      value instanceof Node ? bench.element(kind, null, { ...more, class: numbers.includes(n) && "number" }, value)
        : bench.element(kind, String(value), { ...more, class: numbers.includes(n) && "number" });
    const made = bench.element("table", null, { "aria-label": label });
    made.append(
      bench.element("thead", null, {}, bench.element("tr", null, {}, ...head.map((one, n) => cell("th", one, n, { scope: "col" })))),
      bench.element("tbody", null, {}, ...rows.map((row, at) => bench.element("tr", null, { "data-key": keys[at] }, ...row.map((one, n) => cell("td", one, n))))),
    );
    return bench.element("div", null, { class: "scrolls", tabindex: 0, role: "region", "aria-label": label, "data-key": label }, made);
  },
  button: (text, onclick, more = {}) => bench.element("button", text, { type: "button", class: "button", "data-key": text, onclick, ...more }),
  // Stacked bars: `series` is [{name, points: [[x, y], …], colour}], the colour its place unless given, `named(x)` what stands below. The numbers are told in a table, too.
  plot(title, series, named) {
    const svg = (name, more, ...children) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(more)) made.setAttribute(key, value);
      made.append(...children);
      return made;
    };
    const xs = [...new Set(series.flatMap((one) => one.points.map(([x]) => x)))].sort((a, b) => a - b);
    const at = series.map((one) => new Map(one.points));
    const colour = (which) => series[which].colour ?? which % 5;
    const top = Math.max(1e-9, ...xs.map((x) => at.reduce((sum, one) => sum + (one.get(x) ?? 0), 0)));
    const wide = 640, high = 200, left = 48, foot = 22, step = (wide - left - 12) / Math.max(1, xs.length);
    const x = (n) => left + step * n;
    const y = (value) => 8 + (high - foot - 8) * (1 - value / top);
    const drawn = svg("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": title });
    for (const share of [0, 0.5, 1]) {
      const value = top * share;
      drawn.append(
        svg("line", { x1: left, x2: wide - 12, y1: y(value), y2: y(value), class: "grid" }),
        svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, Number(value.toPrecision(3)).toLocaleString()),
      );
    }
    const every = Math.max(1, Math.ceil(xs.length / 8));
    xs.forEach((value, n) => {
      if (n % every === 0) drawn.append(svg("text", { x: x(n), y: high - 6 }, named(value)));
      let below = 0;
      at.forEach((one, which) => {
        const amount = one.get(value) ?? 0;
        const mark = svg("rect", { x: x(n), y: y(below + amount), width: Math.max(1, Math.min(48, step - 2)), height: Math.max(0, y(below) - y(below + amount)), class: `fill${colour(which)}` });
        mark.append(svg("title", {}, `${named(value)}: ${series[which].name} ${amount}`));
        drawn.append(mark);
        below += amount;
      });
    });
    const key = bench.element("p", null, { class: "key" }, ...series.map((one, which) => bench.element("span", one.name, { class: `key${colour(which)}` })));
    const numbers = bench.element("details", null, { "data-keep": "open" }, bench.element("summary", "As numbers"),
      bench.table(["", ...series.map((one) => one.name)], xs.map((value) => [named(value), ...at.map((one) => (one.has(value) ? Number(one.get(value).toPrecision(4)) : ""))]), { label: title }));
    return bench.element("figure", null, { class: "plot", "data-key": title }, bench.element("figcaption", title), drawn, key, numbers);
  },
  // Do something now, and again while it says how soon (milliseconds) or was asked for meanwhile; one at a time, and not
  // while nobody looks.
  every(work) {
    let timer = 0, running = false, again = false, soon = 0;
    const go = async () => {
      clearTimeout(timer);
      again = running;
      if (running) return;
      running = true;
      do {
        again = false;
        soon = document.hidden ? 3000 : await work();
      } while (again);
      running = false;
      if (soon) timer = setTimeout(go, soon);
    };
    go();
    return go;
  },
  part: (name) => document.querySelector(`[data-part="${name}"]`),
  // Seconds since the epoch as people read them.
  when: (seconds) => new Date(1000 * seconds).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }),
  // `keys({a: f})`: one key each, wherever nothing is being typed.
  keys(table) {
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, [contenteditable]")) return;
      const act = Object.hasOwn(table, event.key) ? table[event.key] : null;
      if (!act) return;
      event.preventDefault();
      act(event);
    });
  },
};
