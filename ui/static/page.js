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
  addEventListener("storage", ({ key }) => key === "anaphora-theme" && applyTheme(storedTheme()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => applyTheme(storedTheme()));

  function parse(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content;
  }

  // `make("p", "text", {class: "note", title: "…", onclick: f}, child, …)`; a text is never markup.
  function make(name, text, more = {}, ...children) {
    const made = document.createElement(name);
    if (text !== undefined && text !== null) made.textContent = text;
    for (const [key, value] of Object.entries(more)) {
      if (key.startsWith("on")) made[key] = value;
      else if (value === true) made.setAttribute(key, "");
      else if (value !== false && value !== undefined && value !== null) made.setAttribute(key, value);
    }
    made.append(...children.filter((one) => one !== null && one !== undefined));
    return made;
  }

  // Make `old` look like `fresh` with the fewest changes, so that open disclosures, the selection, the focus, a press of
  // the mouse and what is being typed survive. What has a `data-key` is looked for among its siblings and never becomes
  // another; `data-keep` names attributes that belong to the reader.
  const keyOf = (node) => node?.dataset?.key;
  function morphChildren(old, fresh) {
    const news = [...fresh.childNodes], wanted = new Set(news.map(keyOf)), keyed = new Map();
    for (const node of [...old.children].filter(keyOf))
      if (wanted.has(keyOf(node)) && !keyed.has(keyOf(node))) keyed.set(keyOf(node), node);
      else node.remove();
    news.forEach((node, i) => {
      const same = keyed.get(keyOf(node)), there = () => old.childNodes[i] ?? null;
      while (same && there() !== same && !keyOf(there())) there().remove();
      if (same && there() !== same) old.insertBefore(same, there());
      keyed.delete(keyOf(node));
      if (same || (there() && !keyOf(node) && !keyOf(there()))) morph(there(), node);
      else old.insertBefore(node, there());
    });
    while (old.childNodes.length > news.length) old.lastChild.remove();
  }
  function redraw(element, ...children) {
    const fresh = document.createDocumentFragment(), focused = document.activeElement;
    fresh.append(...children);
    morphChildren(element, fresh);
    if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true }); // it was moved
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
    for (const name of ["onclick", "onchange"]) if (fresh[name]) old[name] = fresh[name];
    if (old.type === "checkbox") old.checked = fresh.checked;
    if (old.nodeName === "TEXTAREA") return;
    morphChildren(old, fresh);
  }

  // The page's words: English stands in the scripts, and `locale.js` brings the others. `%(name)s` stands for a value.
  const words = window.anaphoraWords || {}, language = window.anaphoraLanguage || "en";
  // The frame's program has its own idea of the language.
  const named = () => { if (root.lang !== language) root.lang = language; };
  named();
  new MutationObserver(named).observe(root, { attributeFilter: ["lang"] });
  const fill = (text, values) => text.replace(/%\((\w+)\)s/g, (_, name) => values[name]);
  const t = (text, values = {}) => fill(words[text] || text, values);
  const order = ["zero", "one", "two", "few", "many", "other"];
  function tn(one, many, num, values = {}) {
    const forms = words[one] || [one, many], kind = new Intl.PluralRules(language).select(num);
    const form = forms.length === 6 ? order.indexOf(kind) : kind === "one" ? 0 : forms.length - 1;
    return fill(forms[Math.min(form, forms.length - 1)], { num: num.toLocaleString(language), ...values });
  }
  // The frame of each part is the same for everybody, and English until it is here.
  function translate(node) {
    if (node.nodeType === Node.TEXT_NODE) {
      const text = node.nodeValue.trim();
      if (words[text]) node.nodeValue = node.nodeValue.replace(text, words[text]);
      return;
    }
    for (const name of ["aria-label", "title", "placeholder"])
      if (node.getAttribute?.(name)) node.setAttribute(name, t(node.getAttribute(name)));
    for (const child of (node.content || node).childNodes) translate(child);
  }

  // The other tabs of this browser hear what has changed: ids, never texts.
  const tabs = new BroadcastChannel("anaphora");
  tabs.onmessage = ({ data }) => window.anaphora.emit("elsewhere", data);
  window.anaphora = {
    redraw,
    patch: (element, html) => redraw(element, parse(html)),
    element: (html) => parse(html).firstElementChild,
    emit: (name, detail) => document.dispatchEvent(new CustomEvent("anaphora:" + name, { detail })),
    on: (name, handler) => document.addEventListener("anaphora:" + name, (event) => handler(event.detail || {})),
    language, make, t, tn, translate,
    // The language that somebody chose stays chosen in this browser.
    speak(language) {
      document.cookie = `anaphora-language=${language}; path=/; max-age=31536000; samesite=lax`;
      location.reload();
    },
    share: (detail) => tabs.postMessage(detail),
    // Whether the server can be reached at all; `patience` in milliseconds.
    async reached(patience = 5000) {
      try {
        return (await fetch(new URL("health", document.baseURI), { cache: "no-store", signal: AbortSignal.timeout(patience) })).ok;
      } catch {
        return false;
      }
    },
    // What scrolls in itself can be reached by keyboard, what does not is no stop.
    reachable(element) {
      for (const box of element.querySelectorAll("pre, .table, .passage")) {
        const scrolls = box.scrollWidth > box.clientWidth + 1 || (box.scrollHeight > box.clientHeight + 1 && getComputedStyle(box).overflowY !== "hidden");
        if (scrolls) box.tabIndex = 0;
        else box.removeAttribute("tabindex");
      }
    },
    // Ask the server; a refusal is shown and gives null.
    async call(server, name, data) {
      let answer;
      try {
        answer = await server[name](data);
      } catch {
        answer = { error: t("The server did not answer. Check that it is running, then try again.") };
      }
      if (!answer || answer.error) {
        this.toast((answer && answer.error) || t("The server did not answer. Try again."));
        return null;
      }
      return answer;
    },
    // Each message stands for a while, below those before it; `undo` is offered as a button. Gives what takes it away.
    toast(text, undo) {
      const toasts = document.querySelector(".toasts") || document.body.appendChild(make("section", null, { class: "toasts", "aria-label": t("Messages") }));
      [...toasts.children].filter((old) => !undo && old.textContent === text).forEach((old) => old.remove());
      const toast = toasts.appendChild(make("div", text, { class: "toast", role: undo ? "status" : "alert" }));
      if (undo) toast.append(" ", make("button", t("Undo"), { type: "button", onclick: () => { toast.remove(); undo(); } }));
      setTimeout(() => toast.remove(), 8000);
      return () => toast.remove();
    },
    // What is gone from a list at once, and from the server when nobody has undone that for a while: `remove` does it,
    // and for who leaves the page a request to `address`. `undone` is called for what stays, `gone` for what does not.
    leaving() {
      const waiting = new Map();
      const taken = (id) => {
        const one = waiting.get(id);
        clearTimeout(one?.timer);
        waiting.delete(id);
        return one;
      };
      addEventListener("pagehide", () => [...waiting.keys()].forEach((id) => fetch(taken(id).address, { method: "DELETE", keepalive: true })));
      return {
        has: (id) => waiting.has(id),
        add(id, address, text, remove, undone, gone) {
          waiting.set(id, { address, timer: setTimeout(() => remove().then(() => { waiting.delete(id); gone(); }), 8000) });
          anaphora.toast(text, () => taken(id) && undone());
        },
      };
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

  const ready = () => {
    applyTheme(storedTheme());
    // The frame's own landmark would stand around ours.
    const tame = () => document.querySelectorAll("main:not(.chat, .tab, .failed)").forEach((one) => one.setAttribute("role", "presentation"));
    tame();
    new MutationObserver(tame).observe(document.body, { childList: true, subtree: true });
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", ready);
  else ready();
  document.addEventListener("click", (event) => {
    const action = event.target.closest?.("[data-action]")?.dataset.action;
    if (action === "copy-code") {
      const button = event.target.closest("button"), code = button.nextElementSibling.textContent.replace(/\n$/, "");
      const done = (word) => { button.textContent = word; setTimeout(() => { button.textContent = t("Copy"); }, 1500); };
      navigator.clipboard.writeText(code).then(() => done(t("Copied")), () => done(t("Not allowed")));
    } else if (action === "skip") {
      event.preventDefault(); // the page's base address would make another page of it
      document.getElementById("question").focus();
    } else if (action === "toggle-rail") anaphora.drawer("rail");
    else if (action === "toggle-panel") anaphora.drawer("panel");
    else if (action === "close-drawers") anaphora.closeDrawers();
    else if (action === "theme") anaphora.toggleTheme();
  });
})();
