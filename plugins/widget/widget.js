// <script src="https://SERVER/widget.js" data-key="KEY" data-collection="docs" async></script>; the README has all attributes.
(() => {
  const tag = document.currentScript, here = new URL("widget", tag.src);
  // Where a documentation tool allows an address alone, they stand in its query.
  const given = { ...Object.fromEntries(new URL(tag.src).searchParams), ...tag.dataset };
  // A filter that cannot be read must not be left out.
  const filter = (text) => {
    try { if (JSON.parse(text).constructor === Object) return text; } catch { /* told below */ }
    throw new Error(`data-where is no object of JSON: ${text}`);
  };
  const mode = given.target ? "inline" : given.mode === "panel" ? "panel" : "bubble";
  const side = given.position === "left" ? "left" : "right", labels = /* LABELS */ {};
  const color = /^#[0-9a-f]{6}$/i.test(given.color || "") ? given.color : "#1c5d57";
  const light = [0.2126, 0.7152, 0.0722].reduce((sum, share, n) => sum + share * (parseInt(color.slice(1 + 2 * n, 3 + 2 * n), 16) / 255) ** 2.2, 0);
  const frame = document.createElement("iframe"), button = document.createElement("button");
  const lang = given.lang || document.documentElement.lang.split("-")[0], label = given.label || labels[lang] || labels.en;
  if (lang) here.searchParams.set("lang", lang);
  const wanted = { key: given.key, collection: given.collection, name: given.name, logo: given.logo, color: given.color, note: given.disclaimer, where: given.where && filter(given.where), search: given.search === "off" ? "" : "1" };
  const theme = () => given.theme || (document.documentElement.dataset.theme ?? document.body?.dataset.theme ?? document.body?.dataset.mdColorScheme ?? (document.documentElement.classList.contains("dark") ? "dark" : ""));
  // What stands behind # is sent to nobody.
  const load = () => {
    const shown = { ...wanted, inline: mode === "inline" ? "1" : "", theme: { slate: "dark", default: "light" }[theme()] ?? theme() };
    const told = Object.entries(shown).filter(([, value]) => value);
    frame.src = `${here.href}#${new URLSearchParams(told)}`;
  };
  frame.title = label;
  frame.referrerPolicy = "no-referrer";
  frame.allow = "clipboard-write";
  frame.setAttribute("sandbox", "allow-scripts allow-same-origin allow-forms allow-popups allow-popups-to-escape-sandbox");
  const told = (name, detail) => dispatchEvent(new CustomEvent(`anaphora:${name}`, { detail }));
  // The page's address without its query, its title, and the heading above what is in view.
  const read = () => {
    if (given.page === "off") return null;
    const above = [...document.querySelectorAll("h1, h2, h3")].filter((heading) => heading.getBoundingClientRect().top < innerHeight / 3);
    const text = (heading) => heading?.innerText.replace(/[¶#\s\u200b]+$/, "").trim() ?? "";
    const url = new URL(document.querySelector("link[rel=canonical]")?.href || location.href, location.href);
    return { url: url.origin + url.pathname, title: text(document.querySelector("h1")) || document.title, heading: text(above.filter((heading) => heading.localName !== "h1").pop()) };
  };
  const waiting = [];
  let ready = false, open = mode === "inline";
  const post = (message) => (ready ? frame.contentWindow.postMessage(message, here.origin) : waiting.push(message));
  frame.addEventListener("load", () => {
    if (!frame.src) return;
    ready = true;
    for (const message of waiting.splice(0)) post(message);
  });

  const place = () => {
    const narrow = innerWidth < 520;
    Object.assign(frame.style, mode === "inline" ? { width: "100%", height: given.height || "560px", border: "1px solid #8886", borderRadius: "12px" } : {
      position: "fixed", zIndex: 2147483000, background: "Canvas", boxShadow: "0 8px 32px #0004", [side]: narrow ? "0" : mode === "panel" ? "0" : "16px",
      ...(narrow ? { inset: "0", width: "100%", height: "100%", border: "0", borderRadius: "0" }
        : mode === "panel" ? { top: "0", bottom: "0", width: "min(440px, 90vw)", height: "100%", border: "0", borderRadius: "0" }
          : { bottom: "72px", width: "min(400px, calc(100vw - 32px))", height: "min(620px, calc(100vh - 96px))", border: "1px solid #8886", borderRadius: "12px" }),
    });
  };
  Object.assign(button.style, {
    position: "fixed", [side]: "16px", bottom: "16px", padding: "11px 18px", border: "0", borderRadius: "99px", zIndex: 2147482999,
    font: "500 15px system-ui, sans-serif", background: color, color: light > 0.18 ? "#000" : "#fff", cursor: "pointer", boxShadow: "0 4px 16px #0003",
  });
  button.type = "button";
  button.textContent = label;

  const show = (shown) => {
    if (mode === "inline") return;
    if (shown && !frame.src) load();
    if (shown !== open) told(shown ? "open" : "close");
    open = shown;
    frame.hidden = !open;
    frame.style.display = open ? "block" : "none";
    button.setAttribute("aria-expanded", String(open));
    if (open && !matchMedia("(prefers-reduced-motion: reduce)").matches) frame.animate([{ opacity: 0, transform: "translateY(10px)" }, {}], 160);
    if (open) { frame.focus(); post({ anaphora: "open", read: read() }); } else button.focus();
  };
  addEventListener("message", (event) => {
    if (event.source !== frame.contentWindow || event.origin !== here.origin) return;
    const { anaphora, question, status } = event.data ?? {};
    if (anaphora === "close") show(false);
    else if (anaphora === "answer") told("answer", { question, status });
  });
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "i" && mode !== "inline") {
      event.preventDefault();
      show(!open);
    } else if (event.key === "Escape" && open) show(false);
  });
  addEventListener("resize", place);
  // The focus goes into the frame: what is read now may be another page or part than when it was opened.
  addEventListener("blur", () => { if (ready && open) post({ anaphora: "page", read: read() }); });
  button.onclick = () => show(!open);
  window.anaphora = {
    open: () => show(true),
    close: () => show(false),
    ask: (text) => { show(true); post({ anaphora: "ask", text: String(text), read: read() }); },
  };
  const add = () => {
    place();
    if (mode === "inline") {
      load();
      (document.querySelector(given.target) || tag.parentElement).append(frame);
      return post({ anaphora: "hello", read: read() });
    }
    frame.hidden = true;
    frame.style.display = "none";
    button.setAttribute("aria-expanded", "false");
    document.body.append(frame, button);
  };
  if (document.body && (mode !== "inline" || document.querySelector(given.target))) add();
  else addEventListener("DOMContentLoaded", add);
})();
