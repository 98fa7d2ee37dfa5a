// One side of the viewer: a head of a model, its picture, and what is under the pointer.

const tagOf = (sentence, side, unit) => (unit.kind === "word" ? sentence[`${side}_tags`]?.[unit.words[0]] : null);

class Pane {
  constructor(place) {
    this.place = place;
    this.heatmap = new Heatmap();
    this.links = new Links();
    this.controls = el("div", { class: "pane-controls" });
    this.summary = el("ul", { class: "chips" });
    this.body = el("div", { class: "pane-body" });
    this.readout = el("p", { class: "readout" });
    this.scale = el("div", { class: "scale" });
    this.all = el("div", { class: "all-heads" });
    this.element = el("section", {
      class: "pane",
      "aria-label": place ? "second head" : "first head",
      onpointerdown: () => state.compare && update({ active: place }),
    },
      this.controls, this.summary, this.body, this.readout, this.scale, this.all);
    this.matrix = null;
    this.turn = 0;
  }

  get side() {
    return state.sides[this.place];
  }

  get model() {
    return modelOf(this.side);
  }

  renderControls() {
    const [layers, heads] = sizeOf(this.model, state.kind);
    const select = (label, options, value, change) => {
      const made = el(
        "select",
        { "aria-label": label, onchange: (event) => change(Number(event.target.value)) },
        options.map(([option, text]) => el("option", { value: option }, text)),
      );
      made.value = value;
      return made;
    };
    const numbers = (length, text) => Array.from({ length }, (_, place) => [place, text(place)]);
    const step = (label, sign, by) => el(
      "button",
      { type: "button", class: "step", "aria-label": label, title: label, onclick: () => stepHead(this.place, by) },
      sign,
    );
    this.controls.replaceChildren(
      legendMark(this.model),
      select(
        "model",
        MODELS.map((model, number) => [number, model.name]),
        this.side.model,
        (model) => updateSide(this.place, { model }),
      ),
      el(
        "span",
        { class: "head-controls" },
        select(
          "layer",
          numbers(layers, (place) => `layer ${place + 1}`),
          this.side.layer,
          (layer) => updateSide(this.place, { layer }),
        ),
        select(
          "head",
          numbers(heads, (place) => `head ${place}`),
          this.side.head,
          (head) => updateSide(this.place, { head }),
        ),
        step("previous head (h)", "‹", -1),
        step("next head (l)", "›", 1),
      ),
    );
  }

  async render() {
    this.turn += 1;
    const turn = this.turn;
    this.renderControls();
    const sentence = currentSentence();
    let block = null;
    try {
      block = sentence ? await blockOf(this.model, sentence) : null;
    } catch (error) {
      console.warn("weights could not be unpacked", error);
    }
    if (turn !== this.turn) return; // something else was chosen meanwhile
    const head = block?.[state.kind]?.[this.side.layer]?.[this.side.head];
    if (!head) return this.renderNothing(sentence);
    const causal = state.kind === "decoder";
    this.matrix = makeMatrix(head, axesOf(this.model, sentence, state), causal);
    this.words = state.level === "word" ? this.matrix : makeMatrix(
      head,
      axesOf(this.model, sentence, { ...state, level: "word" }),
      causal,
    );
    const summary = summaryOf(this.matrix);
    const picture = state.view === "links" ? this.links : this.heatmap;
    if (this.body.firstChild !== picture.element) this.body.replaceChildren(picture.element);
    picture.draw(this.matrix, sentence, this.describe(summary));
    this.renderSummary(summary, sentence);
    this.renderScale(summary);
    renderThumbnails(this.all, this.place, block);
    this.highlight();
  }

  renderNothing(sentence) {
    this.matrix = null;
    this.words = null;
    const carried = carriedBy(this.model);
    const why = isDense(this.model) ? ": dense weights need more room" : "";
    const share = `${carried} of ${plural(EXAMPLES.total, "sentence")}${why}`;
    const reason = !CAN_UNPACK
      ? "This browser cannot unpack the weights: it has no DecompressionStream."
      : carried && sentence && hasWeights(this.model, sentence)
        ? `There are no weights of ${KIND_NAMES[state.kind]} attention.`
        : `The page does not have this sentence's weights of ${this.model.name}. It has those of ${share}.`;
    const next = carried ? el(
      "button",
      { type: "button", onclick: () => goToCarried(this.model) },
      "Go to the next that has them",
    ) : null;
    this.body.replaceChildren(el("div", { class: "nothing" }, el("p", {}, reason), next));
    this.all.layers = null;
    for (const part of [this.summary, this.scale, this.all, this.readout]) part.replaceChildren();
  }

  describe(summary) {
    const name = `${this.model.name}, ${KIND_NAMES[state.kind]}, ${headName(this.side.layer, this.side.head)}`;
    const rows = `${summary.rows} rows, ${summary.nullRows} of them null`;
    return `${name}: ${rows}, ${percent(summary.zeros)} of weights exactly zero, the largest ${decimal(summary.max)}`;
  }

  renderSummary(summary, sentence) {
    const links = state.kind === "cross" ? bestLinks(this.words) : [];
    const error = state.kind === "cross" ? errorRate(links, sentence) : null;
    const chips = [
      [`${summary.nullRows} of ${summary.rows}`, "rows null"],
      [percent(summary.zeros), "exact zeros"],
      [decimal(summary.max), "largest weight"],
      error === null ? null : [percent(error), "AER of this head here"],
    ].filter(Boolean);
    this.summary.replaceChildren(...chips.map(([value, name]) => el("li", {}, el("b", {}, value), ` ${name}`)));
    this.facts = { ...summary, error };
  }

  renderScale(summary) {
    const bar = el("span", { class: "ramp" });
    const stops = [0, 0.2, 0.4, 0.6, 0.8, 1].map((share) => colourOf(share));
    bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
    const entry = (kind, text) => el(
      "span",
      { class: "scale-entry" },
      el("span", { class: `swatch-cell ${kind}`, "aria-hidden": "true" }),
      text,
    );
    const largest = state.scale === "row" ? "row's largest" : decimal(summary.max);
    this.scale.replaceChildren(
      entry("zero", "exactly 0"),
      el(
        "span",
        { class: "scale-entry", title: "colours go by the square root of the weight, each head on its own scale" },
        "> 0",
        bar,
        largest,
      ),
      entry("null", "null row ∅"),
      ...(state.kind === "decoder" ? [entry("forbidden", "not allowed")] : []),
      ...(state.kind === "cross" && hasGold && state.gold === "on" ? [
        entry("sure", "sure"),
        entry("possible", "possible"),
      ] : []),
      ...(this.matrix.value.some((value) => value < 0) ? [entry("negative", "below 0")] : []),
    );
  }

  highlight() {
    if (!this.matrix) return;
    (state.view === "links" ? this.links : this.heatmap).highlight();
    this.readout.replaceChildren(...this.readoutParts());
  }

  readoutParts() {
    const { matrix } = this;
    const sentence = currentSentence();
    const row = sameUnit(matrix.rows, hover.row);
    const col = sameUnit(matrix.cols, hover.col);
    const [rowSide, colSide] = [
      state.kind === "encoder" ? "source" : "target",
      state.kind === "decoder" ? "target" : "source",
    ];
    const name = (unit, side) => {
      const tag = tagOf(sentence, side, unit);
      return [bdi(unit.text, { class: "unit" }), tag && el("span", { class: "tag" }, tag)];
    };
    const at = (i, j) => matrix.value[i * matrix.cols.length + j];
    if (row >= 0 && col >= 0) {
      const place = row * matrix.cols.length + col;
      const known = matrix.nonzero[place] ? decimal(at(row, col)) : "exactly 0";
      const value = matrix.allowed[place] ? known : "not allowed";
      return [
        ...name(matrix.rows[row], rowSide),
        " → ",
        ...name(matrix.cols[col], colSide),
        el("b", {}, value),
      ].filter(Boolean);
    }
    if (row < 0 && col < 0) return [el("span", { class: "quiet" }, "Point at a word or a cell; click to hold it.")];
    const own = row >= 0 ? name(matrix.rows[row], rowSide) : name(matrix.cols[col], colSide);
    const units = row >= 0 ? matrix.cols : matrix.rows;
    const others = units.map((unit, place) => [unit, row >= 0 ? at(row, place) : at(place, col)]);
    const linked = others.filter(([, value]) => value !== 0);
    linked.sort((one, other) => Math.abs(other[1]) - Math.abs(one[1]));
    if (!linked.length) return [...own, row >= 0 ? " attends to nothing: null row" : " gets no weight"].filter(Boolean);
    const list = linked.slice(0, 4).map(([unit, value]) => [
      " ",
      bdi(unit.text, { class: "unit" }),
      " ",
      decimal(value, 2),
    ]);
    return [
      ...own,
      row >= 0 ? " →" : " ←",
      ...list.flat(),
      el("span", { class: "quiet" }, ` (${linked.length} of ${others.length} non-zero)`),
    ].filter(Boolean);
  }
}

// Heads in order, from the last of a layer to the first of the next.
function stepHead(place, by) {
  const side = state.sides[place];
  const [layers, heads] = sizeOf(modelOf(side), state.kind);
  if (!layers) return;
  const number = (side.layer * heads + side.head + by + layers * heads) % (layers * heads);
  updateSide(place, { layer: Math.floor(number / heads), head: number % heads });
}
