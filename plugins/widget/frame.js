// The page in the frame of a web site: whatever is said is written as text alone.
const given = new URLSearchParams(location.hash.slice(1));
const t = (text) => words[text] || text;
const turns = document.getElementById("turns"), form = document.getElementById("form");
const question = document.getElementById("question"), button = form.querySelector("button");
const history = []; // what was said, for follow-ups; it lives as long as the frame
let settle = () => {};

function add(parent, name, kind, text = "") {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  made.textContent = text;
  parent.append(made);
  return made;
}
function sources(parent, done) {
  if (!done.citations.length) return;
  const box = add(parent, "details");
  add(box, "summary", "", `${t("Sources")}: ${done.citations.length}`);
  for (const one of done.citations) {
    add(box, "p", "", `[${one.n}] ${[one.title, ...one.heading].filter(Boolean).join(" › ")}`);
    // Links as their words; the quote itself is the source's, with its marks.
    add(box, "blockquote", "", one.quote.replace(/!?\[([^[\]]{0,300})\]\([^()\s]{0,1000}\)/g, "$1"));
  }
}
// What may be meant, as buttons below a question back; whatever is asked next, they become a list again.
function choices(turn, answer, done) {
  if (!done.alternatives.length) return;
  answer.textContent = done.answer.split("\n\n")[0];
  const group = add(turn, "div", "choices");
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", t("What may be meant"));
  for (const { text } of done.alternatives) {
    const choice = add(group, "button", "", text);
    choice.type = "button";
    choice.addEventListener("click", () => send(text));
  }
  settle = () => { group.remove(); answer.textContent = done.answer; };
}
async function ask(text) {
  settle();
  settle = () => {};
  const turn = add(turns, "article");
  add(turn, "p", "asked", text);
  const answer = add(turn, "p", "answer", "…");
  let said = "", done = null, failed = "";
  try {
    const response = await fetch("v1/widget/turns", {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${given.get("key")}` },
      body: JSON.stringify({ question: text, collection: given.get("collection") || "", history: history.slice(-12) }),
      credentials: "omit",
    });
    if (!response.ok) throw new Error((await response.json()).error.message);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = "", { value, done: over } = await reader.read(); !over; { value, done: over } = await reader.read()) {
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const line of blocks.flatMap((block) => block.split("\n")).filter((line) => line.startsWith("data: "))) {
        const event = JSON.parse(line.slice(6));
        if (event.type === "token") answer.textContent = said += event.text;
        else if (event.type === "fold") answer.textContent = said = Array.from(said).slice(0, event.start).join("");
        else if (event.type === "done") done = event;
        else if (event.type === "error") failed = event.message;
      }
      turns.scrollTop = turns.scrollHeight;
    }
  } catch (error) {
    failed = error.message;
  }
  if (done) {
    answer.textContent = done.answer;
    history.push({ role: "user", text }, { role: "assistant", text: done.answer });
    sources(turn, done);
    choices(turn, answer, done);
  } else {
    answer.classList.add("failed");
    answer.textContent = failed || t("The connection was lost. Ask again.");
  }
  turn.dataset.state = done ? done.status : "failed";
  turns.scrollTop = turns.scrollHeight;
}
async function send(text) {
  if (!text || button.disabled) return;
  button.disabled = true;
  question.focus();
  await ask(text);
  button.disabled = false;
  question.focus();
}
form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (button.disabled) return;
  const text = question.value.trim();
  question.value = "";
  send(text);
});
question.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    form.requestSubmit();
  }
});
