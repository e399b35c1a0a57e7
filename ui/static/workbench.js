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
  // `element("p", "text", {class: "note", title: "…", onclick: f}, child, …)`; a text is never markup.
  element(name, text, more = {}, ...children) {
    const made = document.createElement(name);
    if (text !== undefined && text !== null) made.textContent = text;
    for (const [key, value] of Object.entries(more)) {
      if (key.startsWith("on")) made[key] = value;
      else if (value === true) made.setAttribute(key, "");
      else if (value !== false && value !== undefined && value !== null) made.setAttribute(key, value);
    }
    made.append(...children.filter((one) => one !== null && one !== undefined));
    return made;
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
