// Shared by the three parts of the page: patching HTML, messages between parts, theme, drawers.
// All HTML comes ready from the server; nothing here builds HTML from text.
(() => {
  const root = document.documentElement;

  function applyTheme(choice) {
    const dark = choice ? choice === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "dark" : "light";
    if (document.body) document.body.classList.toggle("dark", dark);
  }
  function storedTheme() {
    try { return localStorage.getItem("anaphora-theme"); } catch { return null; }
  }
  applyTheme(storedTheme());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => applyTheme(storedTheme()));

  function parse(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content;
  }

  // Make `old` look like `fresh` with the fewest changes, so that open disclosures, the selection
  // and what is being typed survive. `data-keep` names attributes that belong to the reader.
  function morphChildren(old, fresh) {
    const olds = [...old.childNodes], news = [...fresh.childNodes];
    news.forEach((node, i) => {
      const before = olds[i];
      if (!before) old.appendChild(node);
      else morph(before, node);
    });
    olds.slice(news.length).forEach((node) => node.remove());
  }
  function morph(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    const kept = (fresh.dataset.keep || "").split(" ");
    for (const { name } of [...old.attributes])
      if (!fresh.hasAttribute(name) && !kept.includes(name)) old.removeAttribute(name);
    for (const { name, value } of [...fresh.attributes])
      if (old.getAttribute(name) !== value && !(kept.includes(name) && old.dataset.keep)) old.setAttribute(name, value);
    if (old.nodeName === "TEXTAREA") return;
    morphChildren(old, fresh);
  }

  let announcing = null;
  window.anaphora = {
    patch: (element, html) => morphChildren(element, parse(html)),
    element: (html) => parse(html).firstElementChild,
    emit: (name, detail) => document.dispatchEvent(new CustomEvent("anaphora:" + name, { detail })),
    on: (name, handler) => document.addEventListener("anaphora:" + name, (event) => handler(event.detail || {})),
    // Ask the server; a refusal is shown and gives null.
    async call(server, name, data) {
      let answer;
      try {
        answer = await server[name](data);
      } catch {
        answer = { error: "The server did not answer. Check that it is running, then try again." };
      }
      if (!answer || answer.error) {
        this.toast((answer && answer.error) || "The server did not answer. Try again.");
        return null;
      }
      return answer;
    },
    toast(text) {
      document.querySelector(".toast")?.remove();
      const toast = document.createElement("div");
      toast.className = "toast";
      toast.setAttribute("role", "alert");
      toast.textContent = text;
      document.body.appendChild(toast);
      clearTimeout(announcing);
      announcing = setTimeout(() => toast.remove(), 7000);
    },
    toggleTheme() {
      const next = root.dataset.theme === "dark" ? "light" : "dark";
      try { localStorage.setItem("anaphora-theme", next); } catch { /* private windows: for this page only */ }
      applyTheme(next);
    },
    // Drawers exist on narrow windows only; on wide ones the panel can be folded away.
    drawer(name, open) {
      const wide = matchMedia(name === "panel" ? "(min-width: 1100px)" : "(min-width: 820px)").matches;
      if (wide && name === "panel") root.classList.toggle("panel-folded", open === undefined ? undefined : !open);
      else root.classList.toggle(name + "-open", open);
    },
    closeDrawers() {
      root.classList.remove("rail-open", "panel-open");
      if (matchMedia("(min-width: 1100px)").matches) root.classList.add("panel-folded");
    },
    narrow: () => !matchMedia("(min-width: 1100px)").matches,
  };

  document.addEventListener("DOMContentLoaded", () => applyTheme(storedTheme()));
  document.addEventListener("click", (event) => {
    const action = event.target.closest?.("[data-action]")?.dataset.action;
    if (action === "toggle-rail") anaphora.drawer("rail");
    else if (action === "toggle-panel") anaphora.drawer("panel");
    else if (action === "close-drawers") anaphora.closeDrawers();
    else if (action === "theme") anaphora.toggleTheme();
  });
})();
