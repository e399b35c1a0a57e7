// <script src="https://SERVER/widget.js" data-key="KEY" data-collection="docs" async></script>
(() => {
  const tag = document.currentScript, { key = "", collection = "", label = "Ask the documentation" } = tag.dataset;
  const frame = document.createElement("iframe"), button = document.createElement("button");
  // What stands behind # is sent to nobody.
  frame.src = `${new URL("widget", tag.src).href}#${new URLSearchParams({ key, collection })}`;
  frame.title = label;
  frame.loading = "lazy";
  frame.hidden = true;
  frame.referrerPolicy = "no-referrer";
  frame.setAttribute("sandbox", "allow-scripts allow-same-origin allow-forms");
  Object.assign(frame.style, {
    position: "fixed", right: "16px", bottom: "72px", width: "min(400px, calc(100vw - 32px))",
    height: "min(560px, calc(100vh - 96px))", border: "1px solid #8886", borderRadius: "12px", zIndex: 2147483000,
    background: "Canvas", boxShadow: "0 8px 32px #0004",
  });
  Object.assign(button.style, {
    position: "fixed", right: "16px", bottom: "16px", padding: "10px 16px", border: 0, borderRadius: "99px",
    font: "15px system-ui, sans-serif", background: "#1c5d57", color: "#fff", cursor: "pointer", zIndex: 2147483000,
  });
  button.type = "button";
  button.textContent = label;
  button.setAttribute("aria-expanded", "false");
  button.onclick = () => {
    frame.hidden = !frame.hidden;
    button.setAttribute("aria-expanded", String(!frame.hidden));
    if (!frame.hidden) frame.focus();
  };
  const add = () => document.body.append(frame, button);
  if (document.body) add();
  else addEventListener("DOMContentLoaded", add);
})();
