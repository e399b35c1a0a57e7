// Every text is written with textContent: nothing in a trace becomes markup.
const found = JSON.parse(document.getElementById("data").textContent);
const element = (name, text, kind) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
};
const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const body = document.getElementById("rows");
const detail = document.getElementById("detail");
const ids = new Map();
const rows = found.map((row, order) => {
  const call = row.left || row.right;
  const made = { ...row, call, order, children: [], open: true, depth: 0, text: JSON.stringify(row).toLowerCase() };
  made.above = ids.get(call.parent);
  if (made.above) {
    made.above.children.push(made);
    made.depth = made.above.depth + 1;
  }
  if (row.left) ids.set(row.left.id, made);
  if (row.right) ids.set(row.right.id, made);
  return made;
});
// In order of execution, also what only the second trace has.
const walked = (row) => [row, ...row.children.flatMap(walked)];
const ordered = rows.filter((row) => !row.above).flatMap(walked);
const begun = rows.length ? rows[0].call.started : 0;
let key = "", down = false, chosen = null, columns = [];

const value = (row, name) => {
  if (name === "seconds") return row.call.seconds;
  if (name === "started") return row.call.started - begun;
  return row.call.values[name];
};

const draw = () => {
  const filter = document.getElementById("filter").value.toLowerCase();
  const wanted = document.getElementById("function").value;
  const flat = key || filter;
  let list = ordered.filter((row) => !filter || row.text.includes(filter));
  if (wanted && flat) list = list.filter((row) => row.call.name === wanted);
  if (key) {
    list = [...list].sort((a, b) => {
      const one = value(a, key), two = value(b, key);
      if (one === undefined || two === undefined) return (one === undefined) - (two === undefined);
      const less = typeof one === "number" && typeof two === "number" ? one - two : shown(one).localeCompare(shown(two));
      return down ? -less : less;
    });
  } else if (!filter) {
    list = list.filter((row) => { for (let up = row.above; up; up = up.above) if (!up.open) return false; return true; });
  }
  const focused = document.activeElement.dataset.at;
  body.replaceChildren(...list.map((row) => line(row, flat, wanted)));
  if (focused) body.querySelector(`[data-at="${focused}"]`)?.focus();
};

const line = (row, flat, wanted) => {
  const made = element("tr", undefined, [row.call.error && "bad", wanted && row.call.name === wanted && "lit"].filter(Boolean).join(" "));
  made.setAttribute("aria-selected", row === chosen);
  const first = element("td");
  if (!flat) {
    first.style.paddingLeft = `${8 + 18 * row.depth}px`;
    if (row.children.length) {
      const fold = element("button", row.open ? "▾" : "▸");
      fold.setAttribute("aria-label", `${row.open ? "Fold" : "Unfold"} ${row.call.name}`);
      fold.setAttribute("aria-expanded", row.open);
      fold.dataset.at = `fold ${row.order}`;
      fold.onclick = () => { row.open = !row.open; draw(); };
      first.append(fold);
    }
  }
  const name = element("button", row.call.name, `name ${row.status.split(" ")[0]}`);
  name.dataset.at = `name ${row.order}`;
  name.onclick = () => { tell(row); draw(); };
  first.append(name);
  if (row.status && row.status !== "same") first.append(element("span", ` ${row.status}`, "meta"));
  made.append(first, element("td", row.call.seconds.toFixed(4)), element("td", `+${(row.call.started - begun).toFixed(4)}`));
  for (const column of columns) made.append(element("td", row.call.values[column] === undefined ? "" : shown(row.call.values[column])));
  return made;
};

const told = (call) => {
  const made = element("div");
  if (!call) return element("p", "Not there.", "meta");
  made.append(element("h2", call.name), element("p", `${call.seconds.toFixed(4)} s${call.source ? ` · ${call.source}` : ""}`, "meta"));
  if (call.error) made.append(element("p", `${call.error} ${call.message}`, "bad"));
  if (call.prompt.length) {
    let message = -1, text = null, other = false;
    for (const part of call.prompt) {
      if (part.message !== message) {
        message = part.message;
        text = element("pre", undefined, "sent");
        made.append(element("p", part.role, "meta"), text);
      }
      if (part.expression === undefined) { text.append(part.literal); continue; }
      const mark = element("mark", part.value, other ? "two" : "");
      mark.title = part.expression;
      other = !other;
      text.append(mark);
    }
  }
  for (const name of ["inputs", "values", "output"]) {
    const said = call[name];
    if (said === null || (typeof said === "object" && !Object.keys(said).length)) continue;
    const folded = element("details");
    // A prompt says most of its call; the rest, lengths of its pieces among it, is there to unfold.
    folded.open = !call.prompt.length;
    folded.append(element("summary", name), element("pre", JSON.stringify(said, null, 2)));
    made.append(folded);
  }
  return made;
};

const tell = (row) => {
  chosen = row;
  const sides = element("div", undefined, row.status ? "sides" : "");
  sides.append(told(row.left), ...(row.status ? [told(row.right)] : []));
  detail.replaceChildren(sides);
};

const head = () => {
  const wanted = document.getElementById("function").value;
  columns = wanted ? [...new Set(rows.filter((row) => row.call.name === wanted).flatMap((row) => Object.keys(row.call.values)))] : [];
  const line = document.getElementById("columns");
  while (line.children.length > 3) line.lastChild.remove();
  for (const column of columns) {
    const cell = element("th"), button = element("button", column);
    cell.scope = "col";
    button.type = "button";
    button.dataset.key = column;
    cell.append(button);
    line.append(cell);
  }
};

const counts = new Map();
for (const row of rows) counts.set(row.call.name, (counts.get(row.call.name) || 0) + 1);
for (const [name, count] of counts) {
  const option = element("option", `${name} (${count})`);
  option.value = name;
  document.getElementById("function").append(option);
}
document.getElementById("columns").onclick = (event) => {
  const pressed = event.target.dataset.key;
  if (pressed === undefined) return;
  down = pressed === key ? !down : true;
  key = pressed;
  draw();
};
document.getElementById("filter").oninput = draw;
document.getElementById("function").onchange = () => { head(); draw(); };
document.getElementById("fold").onclick = () => {
  const open = rows.some((row) => row.children.length && !row.open);
  for (const row of rows) row.open = open || !row.above;
  document.getElementById("fold").textContent = open ? "Fold all" : "Unfold all";
  draw();
};
const asked = ordered.find((row) => row.call.prompt.length);
if (asked) tell(asked);
draw();
