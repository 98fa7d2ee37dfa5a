// Charts over all sentences: by layer, one line for each group of models.

const layerLabels = (lines) => Array.from(
  { length: Math.max(...lines.map((line) => line.values.length)) },
  (_, place) => String(place + 1),
);

// One line for each entry that has the measure; with the entry's own dashes if none are given.
function linesOf(name, { dashes, suffix = "" } = {}) {
  return ENTRIES.flatMap((entry) => {
    const measure = measureOf(entry, name);
    if (!measure || !measure.value.some(isNumber)) return [];
    return [{
      name: entry.name + suffix,
      series: seriesOf(entry),
      dashes,
      values: measure.value,
      spread: measure.spread ?? null,
      signature: measure.signature,
    }];
  });
}

function chartBox(title, note, measure, picture) {
  return el("figure", { class: "chart" },
    el(
      "figcaption",
      {},
      el(
        "button",
        {
          type: "button",
          class: "chart-title",
          title: "all numbers of this chart",
          onclick: () => openExplorer(measure),
        },
        title,
      ),
      note && el("span", { class: "quiet" }, note),
    ),
    picture);
}

// Where dashes do not mean the model, as they do in the legend.
const lineNote = (solid, dashed) => [
  el("span", { class: "whole" }, plainLine(SOLID), `${solid},`),
  " ",
  el("span", { class: "whole" }, plainLine(DASHED), `${dashed};`),
  " models by colour and mark",
];

function layerChart(title, note, parts, options = {}) {
  const lines = parts.flatMap(({ name, ...how }) => linesOf(name, how));
  if (!lines.length) return null;
  return chartBox(title, note, parts[0].name, lineChart({ title, lines, labels: layerLabels(lines), ...options }));
}

// A chart for each kind of attention in a row, on the same scale, so that they can be compared.
function kindRow(title, statistic, note, options) {
  const values = KINDS.flatMap((kind) => linesOf(`${kind}.${statistic}`).flatMap(topsOf));
  const range = rangeOf(values, { most: mostOf(options.share ?? true) });
  const charts = KINDS.map((kind) => layerChart(
    `${title}, ${KIND_NAMES[kind]}`,
    note,
    [{ name: `${kind}.${statistic}` }],
    { ...options, range },
  ));
  return charts.some(Boolean) ? charts : [];
}

function aucChart() {
  const paths = ENTRIES.flatMap((entry) => {
    const [null_, auc] = ["hallucinated.null.real", "hallucinated.auc"].map((name) => measureOf(entry, name));
    if (!null_ || !auc || !null_.value.some((value) => value > 0)) return []; // without nulls it is 0.5 anyway
    const points = auc.value.map((value, layer) => [
      null_.value[layer],
      value,
      String(layer + 1),
    ]).filter(([x, y]) => isNumber(x) && isNumber(y));
    return points.length ? [{ name: entry.name, series: seriesOf(entry), points, signature: auc.signature }] : [];
  });
  if (!paths.length) return null;
  const title = "AUC of the null rate";
  return chartBox(
    title,
    "each layer at its null rate",
    "hallucinated.auc",
    pathChart({ title, paths, nameX: "null rate", nameY: "AUC", reference: { value: 0.5, name: "chance" } }),
  );
}

function methodTable() {
  const entries = ENTRIES.filter((entry) => measureOf(entry, "symmetrised.aer"));
  if (!entries.length) return null;
  const methods = measureOf(entries[0], "symmetrised.aer").labels.method ?? [];
  const cell = (entry, place) => {
    const measure = measureOf(entry, "symmetrised.aer");
    const made = el("td", { class: "number" }, percent(valueAt(measure, place)));
    return withTooltip(made, () => signatureLine(measure.signature));
  };
  const row = (method, place) =>
    el("tr", {}, el("th", { scope: "row" }, method), entries.map((entry) => cell(entry, place)));
  const head = el("tr", {}, el("th", {}), entries.map((entry) => el("th", { scope: "col", class: "named" }, nameOf(entry))));
  const table = el("table", { class: "plain" }, el("thead", {}, head), el("tbody", {}, methods.map(row)));
  const box = el("div", { class: "scroll" }, table);
  const made = chartBox("Both directions together", "AER by method", "symmetrised.aer", box);
  made.classList.add("wide");
  return made;
}

function speedChart() {
  const lines = linesOf("decode.speed");
  if (!lines.length) return null;
  const named = ENTRIES.map((entry) => measureOf(entry, "decode.speed")?.labels.length).find(Boolean);
  const labels = named ?? layerLabels(lines);
  const title = "Decoding speed";
  return chartBox(
    title,
    "relative to softmax, by source length",
    "decode.speed",
    lineChart({ title, lines, labels, share: false, along: "length", reference: { value: 1, name: "softmax" } }),
  );
}

// As many columns as have room; three or six, so that the kinds of attention stay in a row.
function setColumns(box) {
  const width = box.clientWidth || innerWidth;
  const columns = width >= 1260 ? 6 : width >= 700 ? 3 : width >= 330 ? 2 : 1;
  box.style.setProperty("--columns", columns);
  FRAME.width = Math.floor((width - 24 * (columns - 1)) / columns);
  FRAME.height = FRAME.width < 190 ? 120 : 150;
}

function renderOverview() {
  find("#overview").hidden = !ENTRIES.length;
  setColumns(find("#charts"));
  const charts = [
    kindRow("Sparsity", "sparsity.layer", "", {}),
    kindRow("Null rate", "null.layer", "", {}),
    kindRow("Diversity", "diversity", "nats", { share: false }),
    layerChart(
      "Null rate, cross",
      lineNote("true pairs", "shuffled"),
      [
        { name: "hallucinated.null.real", dashes: SOLID },
        { name: "hallucinated.null.shuffled", dashes: DASHED, suffix: ", shuffled" },
      ],
    ),
    aucChart(),
    layerChart(
      "AER by layer",
      lineNote("normal", "shifted"),
      [
        { name: "cross.aer.normal.merged.layer_attention", dashes: SOLID },
        { name: "cross.aer.shifted.merged.layer_attention", dashes: DASHED, suffix: ", shifted" },
      ],
    ),
    speedChart(),
    methodTable(),
  ].flat().filter(Boolean);
  find("#charts").replaceChildren(...charts);
  find("#legend").replaceChildren(...ENTRIES.map((entry) => {
    const seeds = entry.models?.length > 1 ? `, ${entry.models.length} seeds ± deviation` : "";
    return el("li", {}, legendLine(seriesOf(entry)), nameOf(entry), el("span", { class: "quiet" }, seeds));
  }));
  const lacking = [
    ["alignment error rates (no gold links)", "cross.aer.normal.merged"],
    ["shuffled targets", "hallucinated.auc"],
    ["null rate by tag", "cross.null.tag"],
    ["ablation of heads", "cross.ablation"],
  ].filter(([, name]) => !isMeasured(name));
  find("#lacking").textContent = lacking.length ? `Not measured: ${lacking.map(([what]) => what).join("; ")}.` : "";
}
