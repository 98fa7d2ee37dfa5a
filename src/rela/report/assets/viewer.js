// The sentence under the microscope: its text, and one or two heads.

const viewer = { panes: [], pending: Promise.resolve() };

function textLine(words, axis, label) {
  const line = el("p", { class: `strip ${axis}`, dir: "auto" });
  line.append(el("span", { class: "strip-label" }, label));
  words.forEach((text, place) => {
    const unit = { text, kind: "word", words: [place], key: `w${place}` };
    const act = (how) => {
      if (state.kind === "cross") return axis === "target" ? how(unit, null) : how(null, unit);
      return (state.kind === "encoder") === (axis === "source") ? how(unit, null) : null;
    };
    const word = el("span", { class: "strip-word", "data-place": place, "data-side": axis }, bdi(text));
    word.addEventListener("pointerenter", () => act(setHover));
    word.addEventListener("click", () => act(togglePin));
    line.append(word, " ");
  });
  line.addEventListener("pointerleave", () => setHover(null, null));
  return line;
}

function renderText() {
  const sentence = currentSentence();
  if (!sentence) return;
  const facts = factsOf(modelOf(activeSide()), sentence);
  const chips = [
    sentence.role && sentence.role !== "pair" ? sentence.role : null,
    isNumber(facts?.loss) && `loss ${fixed(facts.loss)}`,
    isNumber(facts?.null?.[state.kind]) && `null ${percent(facts.null[state.kind])}`,
    isNumber(facts?.aer) && `best head's AER ${percent(facts.aer)}`,
  ].filter(Boolean);
  find("#sentence-title").replaceChildren(
    lineName(sentence),
    el("span", { class: "quiet" }, chips.length ? ` ${modelOf(activeSide()).name}: ${chips.join(", ")}` : ""),
  );
  find("#strips").replaceChildren(
    textLine(sentence.source_words, "source", "source"),
    textLine(sentence.target_words, "target", "target"),
  );
}

// The words that are linked with the hovered one, in the text above the pictures: by the active side's head.
function paintText() {
  const matrix = viewer.panes[state.active]?.words;
  const isWord = (other, unit) => other.kind === "word" && unit.words.includes(other.words[0]);
  const place = (units, unit) => (unit ? units.findIndex((other) => isWord(other, unit)) : -1);
  const row = matrix ? place(matrix.rows, hover.row) : -1;
  const col = matrix ? place(matrix.cols, hover.col) : -1;
  const [rowSide, colSide] = [
    state.kind === "encoder" ? "source" : "target",
    state.kind === "decoder" ? "target" : "source",
  ];
  for (const word of document.querySelectorAll(".strip-word")) {
    const number = Number(word.dataset.place);
    const find_ = (units) => units.findIndex((unit) => unit.kind === "word" && unit.words[0] === number);
    let level = 0;
    if (matrix && row >= 0 && word.dataset.side === colSide) level = shownLevel(
      matrix,
      row,
      find_(matrix.cols),
      state.scale,
    );
    if (matrix && col >= 0 && row < 0 && word.dataset.side === rowSide) level = shownLevel(
      matrix,
      find_(matrix.rows),
      col,
      state.scale,
    );
    paintByLevel(word, level || 0);
    const isRow = row >= 0 && word.dataset.side === rowSide && matrix.rows[row].words[0] === number;
    const isCol = col >= 0 && word.dataset.side === colSide && matrix.cols[col].words[0] === number;
    const isOwn = isRow || isCol;
    word.classList.toggle("current", isOwn);
    word.classList.toggle("null", Boolean(isOwn && row >= 0 && matrix.nullRow[row]));
  }
}

function markActive() {
  for (const pane of viewer.panes) pane.element.classList.toggle(
    "active",
    state.compare && state.active === pane.place,
  );
  paintText();
}

function renderPanes() {
  if (!SENTENCES.length) return;
  const places = state.compare ? [0, 1] : [0];
  const box = find("#panes");
  box.classList.toggle("two", state.compare);
  if (box.children.length !== places.length) box.replaceChildren(...places.map((place) => viewer.panes[place].element));
  viewer.pending = Promise.all(places.map((place) => viewer.panes[place].render())).then(markActive);
}

const revealViewer = () => {
  const box = find("#viewer").getBoundingClientRect();
  const isSeen = box.top >= 0 && box.top < innerHeight * 0.4;
  if (!isSeen) find("#viewer").scrollIntoView({ behavior: SCROLLING, block: "start" });
};

// From a finding to its head and sentence.
function goToFinding(finding) {
  const model = MODELS.indexOf(finding.model);
  const sentence = SENTENCE_BY_ID.has(finding.sentence) ? finding.sentence : state.sentence;
  const taken = state.compare && state.sides[1].model === model && state.sides[0].model !== model ? 1 : 0;
  const { layer, head } = state.sides[taken];
  const isOfHead = isNumber(finding.layer) && isNumber(finding.head);
  const side = isOfHead ? { model, layer: finding.layer - 1, head: finding.head } : { model, layer, head };
  update({
    kind: finding.kind ?? state.kind,
    sentence,
    search: "",
    active: taken,
    sides: state.sides.map((old, place) => (place === taken ? side : old)),
  });
  revealViewer();
}

function setUpViewer() {
  viewer.panes = [new Pane(0), new Pane(1)];
  onHover(() => {
    for (const place of state.compare ? [0, 1] : [0]) viewer.panes[place].highlight();
    paintText();
  });
  let width = 0;
  new ResizeObserver(([entry]) => {
    if (Math.abs(entry.contentRect.width - width) < 2) return;
    width = entry.contentRect.width;
    renderPanes();
  }).observe(find("#panes"));
}
