// All heads at a glance: for each model and kind a grid of layers by heads, coloured by a statistic.
// Below it, the numbers of the chosen heads.

function gridRange(statistic) {
  const { share } = STATISTICS[statistic];
  const valuesOf = (model, kind) => (measureOf(model, `${kind}.${statistic}`)?.value ?? []).flat();
  const values = MODELS.flatMap((model) => KINDS.flatMap((kind) => valuesOf(model, kind))).filter(isNumber);
  if (share) return [0, 1];
  return values.length ? [Math.min(0, ...values), Math.max(...values)] : [0, 1];
}

// A colour for a value: of the ramp above zero; zero itself is blank, below zero the other ramp.
function fillOf(value, [low, high]) {
  if (!isNumber(value) || value === 0) return null;
  const ramp = rampOf(value < 0 ? "negative" : "positive");
  const share = value < 0 ? value / low : value / (high || 1);
  return ramp[clamp(Math.round(share * 255), 0, 255)];
}

// Short, and all with the same decimals; a cell's own tooltip has more of them.
function cellText(value, share, [low, high]) {
  if (!isNumber(value)) return NOTHING;
  if (share) return String(Math.round(100 * value));
  const largest = Math.max(high, -low);
  const text = value.toFixed(largest >= 100 ? 0 : largest >= 10 ? 1 : 2);
  return Number(text) === 0 ? text.replace("-", "") : text;
}

function headCell(model, kind, layer, head, range) {
  const statistic = STATISTICS[state.colour];
  const measure = measureOf(model, `${kind}.${state.colour}`);
  const value = valueAt(measure, layer, head);
  const colour = fillOf(value, range);
  const number = MODELS.indexOf(model);
  const name = `${model.name}, ${KIND_NAMES[kind]}, ${headName(layer, head)}`;
  const told = formatOf(`${kind}.${state.colour}`)(value);
  const cell = el("button", {
    type: "button",
    class: "head-cell",
    "aria-label": `${name}: ${statistic.name} ${told}`,
    "data-head": `${number}.${kind}.${layer}.${head}`,
    onclick: () => chooseHead(number, kind, layer, head),
  }, cellText(value, statistic.share, range));
  if (colour) {
    cell.style.backgroundColor = css(colour);
    cell.style.color = inkOn(colour);
  }
  return withTooltip(
    cell,
    () => [
      el("strong", {}, name),
      el("div", {}, `${statistic.name}: ${told}`),
      signatureLine(measure?.signature),
    ],
  );
}

function headGrid(model, kind) {
  const [layers, heads] = sizeOf(model, kind);
  const isMeasured = layers > 0 && measureOf(model, `${kind}.${state.colour}`) !== null;
  if (!isMeasured) return el("div", { class: "head-grid empty" }, "not measured");
  const range = gridRange(state.colour);
  const cells = [el("span", {}), Array.from({ length: heads }, (_, head) => el("span", { class: "axis" }, `H${head}`))];
  for (let layer = 0; layer < layers; layer += 1) {
    cells.push(
      el("span", { class: "axis" }, `L${layer + 1}`),
      Array.from({ length: heads }, (_, head) => headCell(model, kind, layer, head, range)),
    );
  }
  const grid = el(
    "div",
    { class: "head-grid", role: "group", "aria-label": `heads of ${model.name}, ${KIND_NAMES[kind]}` },
    cells,
  );
  grid.style.setProperty("--heads", heads);
  return grid;
}

// A click on a head shows it: on the side that has its model, or else on the active side.
function chooseHead(model, kind, layer, head) {
  const other = 1 - state.active;
  const isOther = state.compare && activeSide().model !== model && state.sides[other].model === model;
  const place = isOther ? other : state.active;
  update({
    kind,
    active: place,
    sides: state.sides.map((side, number) => (number === place ? { model, layer, head } : side)),
  });
  revealViewer();
}

function renderGrids() {
  const isAnywhere = (name) => KINDS.some((kind) => MODELS.some((model) => measureOf(model, `${kind}.${name}`)));
  const available = Object.keys(STATISTICS).filter(isAnywhere);
  const select = find("#colour");
  select.replaceChildren(...available.map((name) => el("option", { value: name }, STATISTICS[name].name)));
  if (!available.includes(state.colour) && available.length) state.colour = available[0];
  select.value = state.colour;
  const { what, share } = STATISTICS[state.colour];
  find("#colour-note").textContent = share ? `${what}, in %` : what;
  find("#heads").hidden = !available.length;
  find("#grids").replaceChildren(
    ...MODELS.map((model) => el("div", { class: "grid-row" },
      el("h3", {}, legendMark(model), nameOf(model)),
      el(
        "div",
        { class: "grid-kinds" },
        KINDS.map((kind) => el("div", { class: "grid-kind" }, el("h4", {}, KIND_NAMES[kind]), headGrid(model, kind))),
      ))));
  markChosen();
}

function markChosen() {
  const sides = state.compare ? state.sides : [state.sides[0]];
  const chosen = sides.map((side) => `${side.model}.${state.kind}.${side.layer}.${side.head}`);
  for (const cell of document.querySelectorAll("#grids .head-cell")) {
    const place = chosen.indexOf(cell.dataset.head);
    cell.setAttribute("aria-pressed", String(place >= 0));
    cell.classList.toggle("active", place === state.active);
  }
}

// ---------------------------------------------------------------- the chosen heads

const shownSides = () => (state.compare ? state.sides : [state.sides[0]]);
const seriesOfSide = (side) => seriesOfModel(modelOf(side));
// Two models of a group have one colour: that of the second side is paler.
const isPale = (side) => side !== state.sides[0] && seriesOfSide(side) === seriesOfSide(state.sides[0]);
const sideMark = (side) => {
  const mark = legendMark(modelOf(side));
  mark.classList.toggle("pale", isPale(side));
  return mark;
};

function headSets(name, pick) {
  return shownSides().flatMap((side) => {
    const measure = measureOf(modelOf(side), `${state.kind}.${name}`);
    if (!measure) return [];
    const title = `${modelOf(side).name} ${headName(side.layer, side.head)}`;
    return [{
      series: seriesOfSide(side),
      pale: isPale(side),
      name: title,
      values: pick(measure, side),
      signature: measure.signature,
      measure,
    }];
  });
}

function numbersOf() {
  const sides = shownSides();
  const rows = Object.entries(STATISTICS).flatMap(([name, statistic]) => {
    const measures = sides.map((side) => measureOf(modelOf(side), `${state.kind}.${name}`));
    if (!measures.some(Boolean)) return [];
    const format = formatOf(`${state.kind}.${name}`);
    return [el("tr", {}, el("th", { scope: "row", title: statistic.what }, statistic.name), sides.map((side, place) =>
      withTooltip(
        el("td", { class: "number" }, format(valueAt(measures[place], side.layer, side.head))),
        () => [el("div", {}, statistic.what), signatureLine(measures[place]?.signature)],
      )))];
  });
  const head = el(
    "tr",
    {},
    el("th", {}),
    sides.map((side) => el(
      "th",
      { scope: "col", class: "number" },
      sideMark(side),
      ` L${side.layer + 1} H${side.head}`,
    )),
  );
  return el("table", { class: "plain" }, el("thead", {}, head), el("tbody", {}, rows));
}

function tagBars() {
  const found = headSets("null.tag", (measure, side) => measure.value.map((tag) => tag[side.layer]?.[side.head]));
  if (!found.length) return null;
  const sets = found.filter((set) => set.values.some((value) => value > 0));
  const never = found.filter((set) => !sets.includes(set)).map((set) => `${set.name}: never null`);
  const caption = el(
    "figcaption",
    {},
    "Null rate after a word, by its tag",
    el("span", { class: "quiet" }, [sets.length && "and how often", ...never].filter(Boolean).join("; ")),
  );
  if (!sets.length) return el("figure", { class: "chart" }, caption);
  const tags = sets[0].measure.labels.tag ?? [];
  const counts = measureOf(modelOf(shownSides()[0]), `${state.kind}.null.tag.count`);
  const countOf = (tag) => valueAt(counts, (counts?.labels.tag ?? []).indexOf(tag));
  const rows = tags.map((tag) => ({
    label: tag,
    count: countOf(tag),
    values: sets.map((set) => set.values[(set.measure.labels.tag ?? []).indexOf(tag)] ?? null),
  }));
  rows.sort((one, other) => (one.values[0] ?? 2) - (other.values[0] ?? 2));
  return el(
    "figure",
    { class: "chart" },
    caption,
    rowBars({ title: "null rate by tag", rows, sets, format: percent }),
  );
}

function distanceColumns() {
  const sets = headSets("distance", (measure, side) => measure.value[side.layer]?.[side.head] ?? []);
  if (!sets.length) return null;
  return el("figure", { class: "chart" }, el(
    "figcaption",
    {},
    "Where the weight lies",
    el("span", { class: "quiet" }, "key minus query, in places"),
  ),
    columnChart({
      title: "distance",
      labels: sets[0].measure.labels.distance ?? [],
      sets,
      format: (value) => percent(value, 0),
    }));
}

function renderChosenHead() {
  if (!MODELS.length) return;
  const sides = shownSides();
  const title = sides.map((side) => [
    el("span", { class: "who" }, sideMark(side), nameOf(modelOf(side))),
    ` ${headName(side.layer, side.head)}`,
  ]);
  find("#chosen").replaceChildren(
    el(
      "h3",
      {},
      `${KIND_NAMES[state.kind]}: `,
      title[0],
      title[1] ? [el("span", { class: "quiet" }, " beside "), title[1]] : null,
    ),
    el("div", { class: "chosen-parts" }, numbersOf(), distanceColumns(), tagBars()),
  );
}
