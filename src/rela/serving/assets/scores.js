// The scores of a pair.

const SCORES = {
  null_rate: "rows of cross-attention that attend to nothing", cross_entropy: "loss of a target piece, in nats", surprise: "the greatest loss of four pieces side by side",
  coverage: "weight that source pieces get", null_run: "null words side by side", length_ratio: "characters for each character of the source",
};
const PROBLEMS = { "too-many-pieces": "one of its sides is longer than the model can read. Please score it in shorter parts" };

async function score() {
  const [source, target] = ["source", "target"].map((name) => linesOf(byId(`score-${name}`), name).join(" "));
  if (!state.models.length) await begin();
  const answer = await ask("score", { pairs: [{ source, target }], model: byId("score-model").value });
  const [found] = answer.scores;
  if (found.problem) throw new Problem(`This pair cannot be scored: ${PROBLEMS[found.problem] || found.problem}.`);
  const spans = found.suspicious || [];
  const rows = Object.entries(SCORES).map(([name, meaning]) => make("tr", {}, make("th", { scope: "row" }, name.replaceAll("_", " ")), make("td", {}, found[name].toPrecision(3)), make("td", { class: "quiet" }, meaning)));
  const places = spans.length ? `${counted(spans.length, "suspicious place")} marked` : "no suspicious words";
  byId("score-result").replaceChildren(
    make("div", { class: "quality" }, make("strong", {}, found.quality.toFixed(2)), make("meter", { min: 0, max: 1, low: 0.3, high: 0.7, optimum: 1, value: found.quality, "aria-label": "quality" }), make("span", {}, found.quality >= 0.5 ? "looks like a translation" : "does not look like a translation")),
    marked(target, spans, modelNamed(answer.model).target_language),
    make("p", { class: "quiet" }, `scored by ${answer.model} · ${places}`),
    make("table", { class: "scores" }, make("tbody", {}, ...rows)),
  );
  return `quality ${found.quality.toFixed(2)}, ${places}`;
}

/** A text, its suspicious places marked. */
function marked(text, spans, lang) {
  const line = make("p", { class: "words", lang, dir: "auto" });
  const letters = Array.from(text); // characters are counted as Python does
  let place = 0;
  for (const { characters: [start, end] } of spans) {
    line.append(letters.slice(place, start).join(""), make("mark", { class: "suspicious" }, letters.slice(start, end).join("")));
    place = end;
  }
  line.append(letters.slice(place).join(""));
  return line;
}
