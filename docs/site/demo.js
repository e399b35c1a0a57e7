// What the chat's page asks a server is answered from the record, piece by piece; then its next question stands ready.
const recorded = {{ turns|tojson }};
const other = {
  shown: { html: "<p>This chat is a recording. It answers the question that it begins with, and the two that follow.</p>", sources: [], notices: [] },
  done: { answer: "", status: "quoted", alternatives: [] },
};
sites.push(location.origin);
async function* pieces({ shown, done }) {
  for (const text of done.answer.match(/\S+\s*/g) ?? []) {
    await new Promise((go) => setTimeout(go, 15));
    yield { type: "token", text };
  }
  yield { type: "shown", ...shown };
  yield { type: "done", ...done };
}
window.fetch = async (path, { body } = {}) => {
  if (path.includes("/welcome?")) return Response.json({ filters: {}, questions: [recorded[0].question] });
  if (!path.endsWith("/turns")) return new Response("", { status: 404 });
  const { question: asked, history } = JSON.parse(body), before = history.at(-2)?.text;
  const at = recorded.findIndex((turn, n) => turn.question === asked && (!n || recorded[n - 1].question === before));
  const events = pieces(recorded[at] ?? other), encoder = new TextEncoder();
  setTimeout(() => { part("question").value = recorded[at + 1]?.question ?? ""; });
  return new Response(new ReadableStream({
    async pull(into) {
      const { value, done } = await events.next();
      if (done) into.close();
      else into.enqueue(encoder.encode(`data: ${JSON.stringify(value)}\n\n`));
    },
  }));
};
{{ script }}
