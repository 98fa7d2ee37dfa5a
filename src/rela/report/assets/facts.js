// The head of the page: what was analysed, which models, and what was found.

// Texts, and the paths of files whose names are in them.
function describeData() {
  const { data, names } = DATA;
  const { gold } = data;
  const skipped = Object.entries(data.skipped ?? {}).filter(([, number]) => number);
  const facts = [
    [isNumber(data.pairs) && plural(data.pairs, "sentence pair")],
    [isNumber(data.source_pieces) && `${count(data.source_pieces)} + ${count(data.target_pieces)} pieces`],
    [data.source_language && data.target_language && `${data.source_language} → ${data.target_language}`],
    gold ? [`gold links: ${names.gold ?? gold.name ?? "yes"}`, gold.sure, gold.possible] : ["no gold links"],
    [names.tags && `tags: ${names.tags}`, data.tags],
    [skipped.length && `skipped: ${skipped.map(([reason, number]) => `${count(number)} ${reason}`).join(", ")}`],
  ];
  return facts.filter(([text]) => text);
}

function renderHeader() {
  const { data, names } = DATA;
  const isNamed = !DATA.title && names.source && names.target;
  const sides = [bdi(names.source), el("span", { class: "arrow" }, " → "), bdi(names.target)];
  find("#title").replaceChildren(...(isNamed ? sides : [DATA.title ?? "Attention"]));
  if (isNamed) find("#title").title = `${data.source} → ${data.target}`;
  find("#facts").replaceChildren(...describeData().map(([text, ...paths]) =>
    el("li", { title: paths.filter(Boolean).join(", ") || false }, bdi(text))));
  find("#version").textContent = `rela ${DATA.version}`;
}

// ---------------------------------------------------------------- models

const layerRange = (model) => {
  const layers = [...new Set(Object.values(model.layers ?? {}))].filter(isNumber);
  return layers.length ? `${layers.join("/")} × ${model.heads ?? "?"}` : NOTHING;
};
const overHeads = (model, name) => mean((measureOf(model, name)?.value ?? []).flat());
const bestText = (best) => (best ? `${percent(best.aer)} (L${best.layer} H${best.head})` : NOTHING);

const MODEL_COLUMNS = [
  {
    name: "attention",
    text: (model) => attentionTexts(model).join(""),
    lines: (model) => attentionTexts(model).map((text) => el("div", {}, text)),
  },
  { name: "layers × heads", text: layerRange },
  { name: "parameters", text: (model) => count(model.parameters) },
  {
    name: "loss",
    text: (model) => fixed(valueAt(measureOf(model, "loss"))),
    how: (model) => measureOf(model, "loss")?.signature,
    what: "nats for each target piece",
  },
  {
    name: "cost",
    text: (model) => (isNumber(model.cost?.ratio) ? `${fixed(model.cost.ratio, 2)}×` : NOTHING),
    how: (model) => model.cost?.signature,
    what: "time of the analysis, relative to forced decoding without it",
  },
  {
    name: "cross sparsity",
    text: (model) => percent(overHeads(model, "cross.sparsity")),
    how: (model) => measureOf(model, "cross.sparsity")?.signature,
    what: "mean over layers and heads",
  },
  {
    name: "cross null rate",
    text: (model) => percent(overHeads(model, "cross.null")),
    how: (model) => measureOf(model, "cross.null")?.signature,
    what: "mean over layers and heads",
  },
  ...["normal", "shifted"].map((shift) => ({
    name: `best AER, ${shift} (merged)`,
    text: (model) => bestText(model.best?.[shift]),
    how: (model) => measureOf(model, `cross.aer.${shift}.merged`)?.signature,
    what: "of all heads by the rule merged: weights of pieces are merged into those of words, which are then linked. "
      + "By the rule any, which links pieces, another head may be better",
  })),
  {
    name: "AUC, shuffled targets",
    text: (model) => fixed(valueAt(measureOf(model, "hallucinated.auc.mean"))),
    how: (model) => measureOf(model, "hallucinated.auc.mean")?.signature,
    what: "how well the null rate tells true pairs from shuffled ones; 0.5 is chance",
  },
  {
    name: "sentences here",
    text: (model) => (EXAMPLES ? `${carriedBy(model)} of ${EXAMPLES.total}` : NOTHING),
    what: "whose weights this page carries",
  },
];

// One, or one for each kind of attention if they differ.
function attentionTexts(model) {
  const kinds = model.attentions ?? {};
  const names = [...new Set(Object.values(kinds))];
  if (names.length > 1) return KINDS.map((kind) => `${kind} ${kinds[kind] ?? NOTHING}`);
  return [names[0] ?? model.attention ?? NOTHING];
}

function renderModels() {
  const columns = MODEL_COLUMNS.filter((column) => MODELS.some((model) => column.text(model) !== NOTHING));
  const head = el(
    "tr",
    {},
    el("th", { scope: "col" }, "model"),
    columns.map((column) => el("th", { scope: "col", title: column.what ?? false }, column.name)),
  );
  const rows = MODELS.map((model) =>
    el("tr", {}, el("th", { scope: "row", class: "named" }, legendMark(model), nameOf(model)), columns.map((column) => {
      const cell = el("td", { class: "number" }, column.lines?.(model) ?? column.text(model));
      const how = column.how?.(model);
      return how ? withTooltip(cell, () => [column.what && el("div", {}, column.what), signatureLine(how)]) : cell;
    })));
  find("#models").replaceChildren(el("table", { class: "models" }, el("thead", {}, head), el("tbody", {}, rows)));
}

// What the page had no room for, and what could not be shown.
function notices() {
  if (!EXAMPLES) {
    const why = DATA.has_examples_file
      ? "attention.npz has none, as after rela analyze --examples 0, or where every pair has a side of over 128 pieces"
      : "attention.npz was not beside results.json";
    return [`There are no example sentences: ${why}.`];
  }
  const found = [];
  const total = plural(EXAMPLES.total, "sentence");
  const partial = [];
  if (SENTENCES.length < EXAMPLES.total) {
    found.push(`Text of ${count(SENTENCES.length)} of ${total}: there was no room for more.`);
  }
  for (const model of MODELS) {
    const carried = carriedBy(model);
    const unusable = EXAMPLES.unusable[model.example] ?? 0;
    if (model.example < 0) found.push(`${model.name}: no example sentences.`);
    else if (carried === 0) found.push(`${model.name}: no weights: no sentence had room, or the file has none.`);
    else if (carried < EXAMPLES.total - unusable) partial.push({ model, carried });
    if (unusable) found.push(`${model.name}: ${plural(unusable, "sentence")} left out: some weights are no numbers.`);
  }
  found.push(...describePartial(partial, total));
  if (!CAN_UNPACK) {
    found.push("This browser cannot unpack the weights (it has no DecompressionStream). Any browser since 2023 can.");
  }
  return found;
}

function describePartial(partial, total) {
  if (partial.length > 3) {
    const numbers = partial.map(({ carried }) => carried);
    const range = `${count(Math.min(...numbers))} to ${count(Math.max(...numbers))}`;
    return [`${partial.length} models: weights of ${range} of ${total} each (there is no room for more).`];
  }
  return partial.map(({ model, carried }) => {
    const reason = isDense(model) ? "dense weights need more room" : "the page has no room for more";
    return `${model.name}: weights of ${count(carried)} of ${total} (${reason}).`;
  });
}

const isDense = (model) => (overHeads(model, "cross.sparsity") ?? 1) < 0.1;

// ---------------------------------------------------------------- findings

const FIRST_FINDINGS = 9;

function findingItem(finding, go) {
  const strength = el("span", { class: "strength", title: `strength ${fixed(finding.strength, 2)}` });
  strength.style.setProperty("--share", clamp(finding.strength ?? 0, 0, 1));
  const who = el("span", { class: "who" }, legendMark(finding.model), nameOf(finding.model));
  const text = el("span", {}, MODELS.length > 1 && who, bdi(finding.text));
  return el("li", {}, el("button", { type: "button", class: "finding", onclick: () => go(finding) }, strength, text));
}

// The strongest first. Those that are seen at once are of many sorts: no second one of a sort for a group of models as
// long as there are others. One about a head that fires or falls silent after words of one category is among them.
function orderFindings(found) {
  const byStrength = (one, other) => (other.strength ?? 0) - (one.strength ?? 0);
  const all = [...found].sort(byStrength);
  const seen = new Map(); // how many there were of a group and sort
  const turns = new Map(all.map((finding) => {
    const name = JSON.stringify([entryOf(finding.model).name, finding.sort]);
    seen.set(name, (seen.get(name) ?? 0) + 1);
    return [finding, finding.sort === "specialist" && seen.get(name) === 1 ? 0 : seen.get(name)];
  }));
  const first = [...all].sort((one, other) => turns.get(one) - turns.get(other)).slice(0, FIRST_FINDINGS);
  return [...first.sort(byStrength), ...all.filter((finding) => !first.includes(finding))];
}

function renderFindings(go) {
  const all = MODELS.flatMap((model) => (model.findings ?? []).map((finding) => ({ ...finding, model })));
  const found = orderFindings(all);
  find("#findings").hidden = !found.length;
  const items = found.map((finding) => findingItem(finding, go));
  find("#findings-list").replaceChildren(...items);
  const more = find("#more-findings");
  const show = (all) => {
    items.slice(FIRST_FINDINGS).forEach((item) => { item.hidden = !all; });
    more.setAttribute("aria-expanded", String(all));
    more.textContent = all ? "show fewer" : `show all ${found.length}`;
  };
  show(false);
  more.hidden = found.length <= FIRST_FINDINGS;
  more.addEventListener("click", () => {
    const all = more.getAttribute("aria-expanded") === "false";
    show(all);
    if (all) find("button", items[FIRST_FINDINGS]).focus();
  });
}
