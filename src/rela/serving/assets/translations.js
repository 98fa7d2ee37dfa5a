// Translations, by one model or by two side by side.

async function translate() {
  const lines = linesOf(byId("text"), "text");
  if (!state.models.length) await begin();
  const names = [byId("model").value, byId("other").value].filter(Boolean);
  const searches = names.map((model) => ({ model, beam: Number(byId("beam").value) }));
  const answers = await Promise.all(searches.map((search) => translations(lines, search)));
  byId("results").replaceChildren(...lines.map((line, place) => make(
    "li", { class: "result" },
    make("div", { class: "sides" }, ...searches.map((search, one) => side(line, search, answers[one][place], names.length > 1))),
  )));
  return counted(lines.length, "translation") + (names.length > 1 ? " by each model" : "");
}

/** Of all lines. What is too much for a request is asked for in halves, and for one line without the rates of heads. */
async function translations(text, search) {
  if (text.length <= state.limits.sentences) {
    const request = { ...search, text, alignments: true };
    try {
      return (await ask("translate", { ...request, heads: true })).translations;
    } catch (error) {
      if (error.status !== 413) throw error;
      if (text.length === 1) return (await ask("translate", request)).translations;
    }
  }
  const middle = Math.ceil(text.length / 2);
  return [...await translations(text.slice(0, middle), search), ...await translations(text.slice(middle), search)];
}

/** What one search makes of a text. */
function side(text, search, found, several) {
  const model = modelNamed(search.model);
  const box = make("div", { class: "side" });
  const sources = words(text, found.source_words, "source", model.source_language);
  const targets = words(found.text, found.target_words, "translation", model.target_language);
  connect(sources.spans, targets.spans, found.alignment || []);
  const notes = [
    several && model.name,
    `score ${found.score.toFixed(2)}`,
    !found.finished && "cut off at its greatest length",
    found.truncated && "the text was too long and was cut",
    found.text && !found.null_rates && "too long to count how often its heads attend to nothing",
  ];
  box.append(...sources.lines, ...targets.lines, make("p", { class: "quiet" }, notes.filter(Boolean).join(" · ")));
  if (found.text) {
    const inside = make("div", { hidden: true });
    const button = make("button", { type: "button", class: "look", "aria-expanded": "false", onclick: () => {
      inside.hidden = !inside.hidden;
      button.setAttribute("aria-expanded", String(!inside.hidden));
      if (!inside.hasChildNodes()) microscope(inside, text, search, found);
    } }, "look inside");
    box.append(button, inside);
  }
  return box;
}

/** A text as it is, with each of its words in an element of its own; and for screen readers the same in one piece. */
function words(text, list, kind, lang) {
  const line = make("div", { class: `words ${kind}`, role: "listbox", "aria-orientation": "horizontal", "aria-label": `words of the ${kind}`, lang, dir: "auto" });
  let place = 0;
  const spans = list.map((word) => {
    const begin = text.indexOf(word, place);
    const span = make("span", { class: "word", role: "option" }, word);
    line.append(text.slice(place, begin), span);
    place = begin + word.length;
    return span;
  });
  line.append(text.slice(place));
  rove(spans);
  return { lines: [make("p", { class: "unseen", lang }, text), line], spans };
}

/** Words show what they are linked with, under the pointer and under the keyboard's focus. */
function connect(sources, targets, links) {
  const partners = new Map();
  for (const [from, to] of links) {
    if (!sources[from] || !targets[to]) continue;
    partners.set(sources[from], [...(partners.get(sources[from]) || []), targets[to]]);
    partners.set(targets[to], [...(partners.get(targets[to]) || []), sources[from]]);
  }
  for (const span of [...sources, ...targets]) {
    const others = partners.get(span) || [];
    span.setAttribute("aria-label", `${span.textContent}: ${others.length ? `linked with ${others.map((one) => one.textContent).join(", ")}` : "no link"}`);
    const mark = (on) => {
      span.ariaSelected = String(on);
      span.classList.toggle("near", on);
      others.forEach((other) => other.classList.toggle("linked", on));
    };
    mark(false);
    for (const name of ["pointerenter", "focus"]) span.addEventListener(name, () => mark(true));
    for (const name of ["pointerleave", "blur"]) span.addEventListener(name, () => mark(false));
  }
}
