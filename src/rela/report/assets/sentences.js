// The list of sentences: searched, sorted, and one of them chosen.

const currentSentence = () => SENTENCE_BY_ID.get(state.sentence) ?? SENTENCES[0] ?? null;

const lineName = (sentence) => `Line ${sentence.line ?? sentence.id + 1}`;

const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLocaleLowerCase();
const searchable = new Map(SENTENCES.map((sentence) => [
  sentence.id,
  fold([sentence.source_words.join(" "), sentence.target_words.join(" "), sentence.role, sentence.line].join(" \n ")),
]));

function sortValue(sentence) {
  const facts = factsOf(modelOf(state.sides[0]), sentence);
  return {
    file: sentence.id,
    null: facts?.null?.[state.kind] ?? null,
    aer: facts?.aer ?? null,
    length: lengthOf(sentence),
    loss: facts?.loss ?? null,
  }[state.sort];
}

// Sentences that have every word that is searched for, in the chosen order; those without the number come last.
function foundSentences() {
  const terms = fold(state.search).split(/\s+/).filter(Boolean);
  const found = SENTENCES.filter((sentence) => terms.every((term) => searchable.get(sentence.id).includes(term)));
  const sign = state.order === "down" ? -1 : 1;
  const values = new Map(found.map((sentence) => [sentence, sortValue(sentence)]));
  return found.sort((one, other) => {
    const [first, second] = [values.get(one), values.get(other)];
    if (isNumber(first) !== isNumber(second)) return isNumber(first) ? -1 : 1;
    return sign * ((first ?? 0) - (second ?? 0)) || one.id - other.id;
  });
}

function marked(text, terms) {
  const parts = [];
  let rest = text;
  const plain = fold(text);
  if (plain.length !== text.length) return [text]; // letters that fold to more than one: not worth the trouble
  let from = 0;
  while (rest) {
    const hits = terms.map((term) => [plain.indexOf(term, from), term.length]).filter(([place]) => place >= 0);
    hits.sort((one, other) => one[0] - other[0]);
    if (!hits.length) break;
    const [place, length] = hits[0];
    parts.push(text.slice(from, place), el("mark", {}, text.slice(place, place + length)));
    from = place + length;
    rest = text.slice(from);
  }
  return [...parts, text.slice(from)];
}

function sentenceItem(sentence, terms) {
  const side = state.sides[0];
  const model = modelOf(side);
  const facts = factsOf(model, sentence);
  const rate = facts?.null?.[state.kind];
  const meter = el("span", { class: "meter", "aria-hidden": "true" });
  meter.style.setProperty("--share", isNumber(rate) ? rate : 0);
  const numbers = [
    isNumber(rate) && el("span", {}, meter, `∅ ${percent(rate, 0)}`),
    isNumber(facts?.aer) && el("span", {}, `AER ${percent(facts.aer, 0)}`),
    el(
      "span",
      { title: "words of source and target" },
      `${sentence.source_words.length} + ${sentence.target_words.length}`,
    ),
    !hasWeights(model, sentence) && el("span", { class: "absent" }, "no weights"),
  ];
  const line = (words) => el("span", { class: "text", dir: "auto" }, marked(words.join(" "), terms));
  return el("li", {}, el("button", {
    type: "button",
    class: "sentence",
    "data-id": sentence.id,
    onclick: () => update({ sentence: sentence.id }),
  },
    el(
      "span",
      { class: "line-number" },
      String(sentence.line ?? sentence.id + 1),
      sentence.role && sentence.role !== "pair" ? el("span", { class: `role ${sentence.role}` }, sentence.role) : null,
    ),
    line(sentence.source_words), el(
      "span",
      { class: "target" },
      line(sentence.target_words),
    ), el("span", { class: "sentence-numbers" }, numbers)));
}

let listed = null; // what the list shows the numbers of

function renderSentences() {
  listed = state.sides[0].model;
  const found = foundSentences();
  const terms = fold(state.search).split(/\s+/).filter(Boolean);
  find("#sentence-list").replaceChildren(...found.map((sentence) => sentenceItem(sentence, terms)));
  const all = plural(SENTENCES.length, "sentence");
  find("#sentence-count").textContent = found.length === SENTENCES.length ? all : `${count(found.length)} of ${all}`;
  find("#sort").value = state.sort;
  const order = find("#order");
  order.textContent = state.order === "up" ? "↑" : "↓";
  order.setAttribute("aria-label", state.order === "up" ? "rising; make it falling" : "falling; make it rising");
  if (find("#search").value !== state.search) find("#search").value = state.search;
  markSentence();
}

function markSentence() {
  for (const item of document.querySelectorAll(".sentence")) item.setAttribute(
    "aria-current",
    String(Number(item.dataset.id) === state.sentence),
  );
  Object.assign(following, { isOn: true, isFar: false });
  revealSentence(4);
}

// The list follows the current sentence until one scrolls it oneself. `isFar`: the row was out of sight.
const following = { isOn: false, isFar: false };

// Scrolls the list, not the page: just enough if a part of the row is seen, or else with other rows above it. Rows out of
// sight have heights that are only estimated until they are drawn, so it looks again in the next frames, and whenever some
// are drawn.
function revealSentence(frames = 0) {
  if (!following.isOn) return;
  const list = find("#sentence-list");
  const row = find('.sentence[aria-current="true"]')?.closest("li");
  if (!row) return;
  const top = list.getBoundingClientRect().top + list.clientTop;
  const box = row.getBoundingClientRect();
  const [above, below] = [box.top - top, box.bottom - top - list.clientHeight];
  following.isFar ||= above <= -box.height || below >= box.height;
  if (following.isFar) list.scrollTop += above - Math.max(0, list.clientHeight - box.height) / 3;
  else if (above < 0) list.scrollTop += above;
  else if (below > 0) list.scrollTop += Math.min(above, below);
  if (frames) requestAnimationFrame(() => revealSentence(frames - 1));
}

function followSentence() {
  const list = find("#sentence-list");
  const letGo = () => { following.isOn = false; };
  for (const event of ["wheel", "touchmove", "pointerdown", "keydown"]) {
    list.addEventListener(event, letGo, { passive: true });
  }
  list.addEventListener("contentvisibilityautostatechange", () => revealSentence());
}

function stepSentence(by) {
  const found = foundSentences();
  if (!found.length) return;
  const place = found.findIndex((sentence) => sentence.id === state.sentence);
  update({ sentence: found[clamp(place < 0 ? 0 : place + by, 0, found.length - 1)].id });
}

function goToCarried(model) {
  const found = foundSentences().filter((sentence) => hasWeights(model, sentence));
  const all = found.length ? found : SENTENCES.filter((sentence) => hasWeights(model, sentence));
  if (all.length) update({ sentence: (all.find((sentence) => sentence.id > state.sentence) ?? all[0]).id });
}

function setUpSentences() {
  followSentence();
  const hasRates = SENTENCES.some((sentence) => sentence.models.some((model) => isNumber(model.aer)));
  const available = Object.entries(SORTS).filter(([name]) => name !== "aer" || hasRates);
  find("#sort").replaceChildren(...available.map(([name, text]) => el("option", { value: name }, text)));
  find("#sort").addEventListener(
    "change",
    (event) => update({
      sort: event.target.value,
      order: event.target.value === "null" || event.target.value === "aer" ? "down" : "up",
    }),
  );
  find("#order").addEventListener("click", () => update({ order: state.order === "up" ? "down" : "up" }));
  find("#search").addEventListener("input", (event) => update({ search: event.target.value }));
}
