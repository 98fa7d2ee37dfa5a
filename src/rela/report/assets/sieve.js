// Puts the page of the corpus filter together: its head, the threshold, examples, other scores.

// ---------------------------------------------------------------- the head of the page

function ruleInWords() {
  const { by, threshold, keep, top } = RULE;
  const isLow = DATA.scores[by]?.good === "low";
  if (isNumber(threshold)) return `kept: ${by} ${isLow ? "up to" : "from"} ${threshold}`;
  const limit = isNumber(DATA.limit) ? `, ${isLow ? "up to" : "from"} ${decimal(DATA.limit)}` : "";
  return `kept: the best ${isNumber(keep) ? percent(keep) : count(top)} by ${by}${limit}`;
}

function renderHeader() {
  const { model, speed, names, input } = DATA;
  const workers = speed?.workers ? ` by ${plural(speed.workers, "worker")}` : "";
  find("#version").textContent = `rela ${DATA.version}`;
  find("#title").replaceChildren(...names.flatMap((name, place) => [place ? ", " : "", breakable(name)]));
  const facts = [
    plural(input.rows, "row"),
    ["model ", breakable(model.path), model.attention ? ` (${model.attention})` : ""],
    ruleInWords(),
    isNumber(speed?.pairs_per_second) && `${plural(Math.round(speed.pairs_per_second), "pair")} a second${workers}`,
  ];
  find("#facts").replaceChildren(...facts.filter(Boolean).map((fact) => el("li", {}, fact)));
}

function renderResult() {
  const names = ["input", "kept", "rejected", "malformed"];
  const unit = COUNTS.input === 1 ? "row" : "rows";
  const share = (name) => (name === "input" ? unit : shareText(COUNTS[name], COUNTS.input));
  find("#totals").replaceChildren(...names.map((name) => el(
    "div",
    { class: `total ${name}` },
    el("dt", {}, name),
    el("dd", {}, count(COUNTS[name]), el("span", { class: "quiet" }, ` ${share(name)}`)),
  )));
  find("#proportions").replaceChildren(...names.slice(1).map((name) => {
    const part = el("span", { class: name });
    part.style.flexGrow = COUNTS[name];
    return part;
  }));
  const reasons = Object.entries(DATA.reasons).sort((one, other) => other[1] - one[1]);
  find("#reasons").hidden = !reasons.length;
  find("#reasons").replaceChildren(
    el("caption", {}, "Why rows were not kept"),
    el("tbody", {}, reasons.map(([name, rows]) => el(
      "tr",
      {},
      el("th", { scope: "row" }, name),
      el("td", { class: "number" }, count(rows)),
      el("td", { class: "number quiet" }, shareText(rows, COUNTS.input, 2)),
      el("td", { class: "quiet" }, name === LOW_SCORE ? "rejected" : "malformed"),
    ))),
  );
  const { kept = [], rejected = [] } = DATA.files ?? {};
  const listed = (files) => files.flatMap((file, place) => [place ? ", " : "", breakable(file)]);
  if (kept.length) find("#places").append("Kept rows are in ", ...listed(kept), ". ");
  if (rejected.length) find("#places").append("All others are, with their reason, in ", ...listed(rejected), ".");
}

function renderCalibration() {
  const { pairs, share, noises = [], matching_heads: heads = [] } = DATA.calibration ?? {};
  const { meaning } = DATA.scores.quality ?? {};
  const among = isNumber(share) ? `, ${percent(share)} of which have a quality of 0.5 or more` : "";
  const headName = ([layer, head]) => `layer ${layer} head ${head}`;
  const lines = [
    meaning && `Quality: ${meaning}.`,
    isNumber(pairs) && `Learned from ${plural(pairs, "pair")}${among}.`,
    noises.length > 0 && `Ways to spoil a pair: ${noises.join(", ")}.`,
    heads.length > 0 && `Heads that tell whether a pair matches: ${heads.map(headName).join(", ")}.`,
  ];
  find("#learned").hidden = !DATA.calibration;
  find("#calibration").replaceChildren(...lines.filter(Boolean).map((line) => el("li", {}, line)));
}

// ---------------------------------------------------------------- other scores

const OTHERS = Object.keys(HISTOGRAMS).filter((name) => name !== "quality" && sumOf(HISTOGRAMS[name].counts) > 0);
const GOOD_ENDS = { low: "Low is good.", high: "High is good.", middle: "Good pairs are far from both ends." };

function renderScore() {
  if (!OTHERS.length) return;
  const name = state.score;
  const { edges, counts } = HISTOGRAMS[name];
  const { meaning = "", good } = DATA.scores[name] ?? {};
  const sentence = meaning && `${meaning[0].toUpperCase()}${meaning.slice(1)}. `;
  find("#score-meaning").replaceChildren(sentence, GOOD_ENDS[good] ?? "");
  const marks = ticks(edges[0], edges.at(-1), 6).filter((value) => value >= edges[0] && value <= edges.at(-1));
  const { picture, x } = drawHistogram(find("#score-chart"), {
    edges,
    counts,
    marks: marks.map((value) => ({ at: value, text: String(Number(value.toPrecision(6))) })),
    label: `Histogram of ${name}, ${plural(sumOf(counts), "pair")}`,
    layers: [{ class: "score-bars" }],
    barText: (bar) => `${name} ${decimal(edges[bar])} to ${decimal(edges[bar + 1])}`,
  });
  if (RULE.by !== name || !isNumber(DATA.limit)) return;
  const end = good === "low" ? "up to" : "from";
  const at = x(clamp(DATA.limit, edges[0], edges.at(-1)));
  picture.append(
    svg("line", { class: "threshold-line", x1: at, x2: at, y1: 6, y2: FRAME.height - FRAME.bottom }),
    svg("text", { class: "side-text", x: at + 7, y: 16 }, `kept ${end} ${decimal(DATA.limit)}`),
  );
}

function setUpScores() {
  find("#scores").hidden = !OTHERS.length;
  state.score = OTHERS.includes(RULE.by) ? RULE.by : OTHERS[0];
  find("#score").append(...OTHERS.map((name) => el("option", { value: name, selected: name === state.score }, name)));
  find("#score").addEventListener("change", (event) => {
    state.score = event.target.value;
    renderScore();
  });
}

// Whether a value is among the worst tenth of the corpus, as far as a histogram tells.
function isBad(name, value) {
  const { edges = [], counts = [] } = HISTOGRAMS[name] ?? {};
  const total = sumOf(counts);
  if (!isNumber(value) || !total) return false;
  const after = edges.findIndex((edge) => edge > value);
  const bar = clamp((after < 0 ? edges.length : after) - 1, 0, counts.length - 1);
  const upTo = sumOf(counts.slice(0, bar + 1)) / total;
  const from = sumOf(counts.slice(bar)) / total;
  const good = DATA.scores[name]?.good;
  if (good === "middle") return Math.min(upTo, from) <= 0.05;
  return (good === "high" && upTo <= 0.1) || (good === "low" && from <= 0.1);
}

// ---------------------------------------------------------------- the whole page

function addSwitch(name, label, options) {
  const buttons = Object.entries(options).map(([value, text]) => el(
    "button",
    {
      type: "button",
      "data-value": value,
      "aria-pressed": String(state[name] === value),
      onclick: () => choose(value),
    },
    text,
  ));
  const choose = (value) => {
    state[name] = value;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === value));
    renderCharts();
  };
  find("#switches").append(el(
    "span",
    { class: "switch", role: "group", "aria-label": label, "data-switch": name },
    el("span", { class: "switch-label" }, label),
    el("span", { class: "buttons" }, buttons),
  ));
}

function renderCharts() {
  if (SCORED) {
    renderQuality();
    renderChoice();
  }
  renderScore();
}

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const currentTheme = () => document.documentElement.dataset.theme ?? (prefersDark.matches ? "dark" : "light");

// Browsers may keep nothing for files; a choice then lasts as long as the page.
function setUpTheme() {
  const kept = (act) => {
    try {
      return act();
    } catch {
      return null;
    }
  };
  const theme = kept(() => localStorage.getItem("rela-theme"));
  if (theme) document.documentElement.dataset.theme = theme;
  find("#theme-button").addEventListener("click", () => {
    const other = currentTheme() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = other;
    kept(() => localStorage.setItem("rela-theme", other));
  });
}

function start() {
  setUpTheme();
  document.body.append(tooltip);
  renderHeader();
  renderResult();
  renderCalibration();
  addSwitch("axis", "axis", { "log-odds": "log-odds", linear: "linear" });
  addSwitch("bars", "bars", { count: "counts", log: "log of counts" });
  find("#no-scores").hidden = SCORED > 0;
  if (!COUNTS.input) find("#no-scores").textContent = "The input has no rows.";
  for (const selector of ["#threshold-layout", "#switches"]) find(selector).hidden = !SCORED;
  if (!BY_QUALITY && SCORED) find("#threshold-part .section-head").after(el(
    "p",
    { class: "note" },
    `This run chose by ${RULE.by}. Here is what a threshold of quality would keep.`,
  ));
  setUpScores();
  setUpExamples();
  setUpChoice();
  Object.assign(state, ofThisRun());
  if (SCORED) showDecile(decileOf(underNow().number));
  renderCharts();
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) renderCharts();
    width = innerWidth;
  });
  addEventListener("scroll", hideTooltip, { passive: true });
}

// What is shown, for tests and for the curious.
window.relaSettled = () => Promise.resolve();
Object.defineProperty(window, "relaState", {
  get: () => {
    const { low, number, high } = SCORED ? underNow() : { low: 0, number: 0, high: 0 };
    const [kept, least, most] = [number, high, low].map((rows) => SCORED - rows);
    return { ...state, kept, least, most, counts: drawn?.counts, command: commandLine(), theme: currentTheme() };
  },
});

start();
