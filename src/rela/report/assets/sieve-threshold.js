// Quality, and the threshold or the share to keep that is tried out.

const state = { threshold: 0, share: 0, origin: "run", axis: "log-odds", bars: "count", decile: 1, score: null };

function ofThisRun() {
  const share = SCORED ? COUNTS.kept / SCORED : 0;
  if (!BY_QUALITY) return { threshold: thresholdFor(COUNTS.kept), share, origin: "share" };
  const limit = isNumber(RULE.threshold) ? RULE.threshold : (DATA.limit ?? thresholdFor(COUNTS.kept));
  return { threshold: clamp(limit, 0, 1), share, origin: "run" };
}

// Rows under the threshold. Of this run they were counted.
function underNow() {
  const counted = BY_QUALITY && (state.origin === "run" || state.threshold === RULE.threshold);
  const { rejected } = COUNTS;
  return counted ? { low: rejected, number: rejected, high: rejected } : rowsUnder(state.threshold);
}

function setThreshold(value) {
  const threshold = clamp(value, 0, 1);
  Object.assign(state, { threshold, origin: "threshold" });
  state.share = (SCORED - underNow().number) / SCORED;
  renderChoice();
}

function setShare(value) {
  const share = clamp(value, 0, 1);
  Object.assign(state, { threshold: thresholdFor(Math.round(share * SCORED)), share, origin: "share" });
  renderChoice();
}

function ruleOptions() {
  if (state.origin !== "run") return `--threshold ${plainNumber(state.threshold)}`;
  const how = ["threshold", "keep", "top"].find((name) => isNumber(RULE[name]));
  return how ? `--${how} ${RULE[how]}` : "";
}
const commandLine = () => `${DATA.command} ${ruleOptions()}`.trim();

// ---------------------------------------------------------------- the chart

let drawn = null;
function renderQuality() {
  const axis = AXES[state.axis];
  const box = find("#quality-chart");
  const { edges, shares, counts } = axis.bars(widthOf(box));
  const [tenth, half, nine] = [100, 500, 900].map((place) => qualityText(QUANTILES[place]));
  drawn = drawHistogram(box, {
    edges,
    counts,
    marks: axis.marks.map((mark) => ({ at: axis.to(mark), text: String(mark) })),
    label:
      `Histogram of quality, ${plural(SCORED, "pair")}: ` +
      `a tenth is under ${tenth}, half under ${half}, nine tenths under ${nine}`,
    layers: [
      { class: "rejected-bars", "clip-path": "url(#rejected-side)" },
      { class: "kept-bars", "clip-path": "url(#kept-side)" },
    ],
    barText: (bar) => `quality ${qualityText(shares[bar])} to ${qualityText(shares[bar + 1])}`,
  });
  const side = (name) => {
    const area = svg("rect", { y: 0, height: FRAME.height });
    drawn.picture.append(svg("clipPath", { id: `${name}-side` }, area));
    return area;
  };
  Object.assign(drawn, { rejectedSide: side("rejected"), keptSide: side("kept") });
  drawn.line = svg("line", { class: "threshold-line", y1: 6, y2: FRAME.height - FRAME.bottom });
  drawn.rejectedText = svg("text", { class: "side-text", y: 16, "text-anchor": "end" });
  drawn.keptText = svg("text", { class: "side-text", y: 16 });
  drawn.picture.append(drawn.line, drawn.rejectedText, drawn.keptText);
  const follow = (event) => event.buttons === 1 && setThreshold(axis.from(drawn.valueAt(event)));
  drawn.picture.addEventListener("pointerdown", (event) => {
    drawn.picture.setPointerCapture(event.pointerId);
    follow(event);
  });
  drawn.picture.addEventListener("pointermove", follow);
  Object.assign(find("#threshold"), { min: axis.low, max: axis.high, step: axis.step });
  find("#axis-note").textContent = axis.note;
}

// Texts beside the line, where there is room for them.
function renderSides(under) {
  const place = drawn.x(AXES[state.axis].to(state.threshold));
  const set = (element, attributes) => build(element, attributes, []);
  set(drawn.rejectedSide, { x: 0, width: place });
  set(drawn.keptSide, { x: place, width: Math.max(0, drawn.width - place) });
  set(drawn.line, { x1: place, x2: place });
  const write = (element, text, x, room) => {
    element.textContent = text;
    set(element, { x, visibility: room < 8 * text.length ? "hidden" : "visible" });
  };
  write(drawn.rejectedText, `${count(under)} rejected`, place - 7, place);
  write(drawn.keptText, `kept ${count(SCORED - under)}`, place + 7, drawn.width - place);
}

// All that follows from the threshold.
function renderChoice() {
  const { low, number, high } = underNow();
  const kept = SCORED - number;
  const isExact = low === high;
  const about = isExact ? "" : "≈\u2009";
  renderSides(number);
  find("#kept").replaceChildren(
    el("b", {}, about + count(kept)),
    ` ${kept === 1 ? "pair" : "pairs"} kept, `,
    el("b", {}, about + shareText(kept, SCORED)),
  );
  const more = kept - COUNTS.kept;
  const difference = `${about}${count(Math.abs(more))} ${more > 0 ? "more" : "fewer"} than this run kept`;
  const run = more === 0 ? "as many as this run kept" : difference;
  const bounds = isExact ? "" : `; between ${count(SCORED - high)} and ${count(SCORED - low)}`;
  find("#kept-note").textContent = `of ${plural(SCORED, "scored pair")}; ${run}${bounds}`;
  const slider = find("#threshold");
  const axis = AXES[state.axis];
  fillSlider(slider, axis.to(state.threshold), (axis.to(state.threshold) - axis.low) / (axis.high - axis.low));
  const shown = plainNumber(state.origin === "run" ? rounded(state.threshold, 4) : state.threshold);
  slider.setAttribute("aria-valuetext", `${shown}, keeps ${shareText(kept, SCORED)}`);
  fillSlider(find("#share"), 100 * state.share, state.share);
  find("#share").setAttribute("aria-valuetext", `${plainNumber(Number((100 * state.share).toFixed(1)))} percent`);
  fillField(find("#threshold-number"), shown);
  fillField(find("#share-number"), plainNumber(Number((100 * state.share).toFixed(1))));
  renderCommand();
  find("#reset").hidden = state.origin === "run" || (!BY_QUALITY && state.origin === "share" && more === 0);
  find("#copied").textContent = "";
  markExamples(number);
}

// Its lines end between words alone, not after the hyphens of an option.
function renderCommand() {
  const words = commandLine().split(" ");
  find("#command").replaceChildren(...words.flatMap((word, place) => [place ? " " : "", el("span", {}, word)]));
}

function fillSlider(slider, value, along) {
  slider.value = value;
  slider.style.setProperty("--along", `${100 * along}%`);
}

// A field that is being typed into keeps what was typed.
function fillField(field, text) {
  if (document.activeElement !== field || Number(field.value) !== Number(text)) field.value = text;
}

async function copyCommand() {
  try {
    await navigator.clipboard.writeText(commandLine());
    find("#copied").textContent = "copied";
  } catch {
    getSelection().selectAllChildren(find("#command"));
    find("#copied").textContent = "selected: copy it with Ctrl+C";
  }
}

function setUpChoice() {
  const onSlide = (event) => setThreshold(AXES[state.axis].from(event.target.valueAsNumber));
  find("#threshold").addEventListener("input", onSlide);
  find("#share").addEventListener("input", (event) => setShare(event.target.valueAsNumber / 100));
  const typed = (selector, set) => {
    const field = find(selector);
    field.addEventListener("input", () => isNumber(field.valueAsNumber) && set(field.valueAsNumber));
    field.addEventListener("blur", renderChoice);
  };
  typed("#threshold-number", setThreshold);
  typed("#share-number", (value) => setShare(value / 100));
  find("#copy").addEventListener("click", copyCommand);
  find("#reset").addEventListener("click", () => {
    Object.assign(state, ofThisRun());
    renderChoice();
    find("#threshold").focus({ preventScroll: true });
  });
}
