// Every number there is, with the signature that says how it was made.

function allMeasures() {
  return [...new Set(ENTRIES.concat(MODELS).flatMap((entry) => Object.keys(entry.measures)))].sort();
}

function openExplorer(name) {
  const details = find("#explorer");
  details.open = true;
  fillExplorer(name);
  details.scrollIntoView({ block: "nearest", behavior: SCROLLING });
}

function labelsAlong(measure, axis, length) {
  if (measure.labels[axis]) return measure.labels[axis];
  const names = { layer: (place) => `layer ${place + 1}`, head: (place) => `head ${place}` };
  return Array.from({ length }, (_, place) => names[axis]?.(place) ?? String(place));
}

// All numbers as rows [label, label, ..., number], the last axis as columns.
function measureTable(measure, format) {
  const cell = (value, spread) => el(
    "td",
    { class: "number" },
    format(value) + (isNumber(spread) ? ` ± ${format(spread)}` : ""),
  );
  if (!measure.axes.length) return el(
    "table",
    { class: "plain" },
    el("tbody", {}, el("tr", {}, cell(measure.value, measure.spread))),
  );
  const rows = [];
  const walk = (value, spread, depth, names) => {
    if (depth === measure.axes.length - 1) rows.push(el(
      "tr",
      {},
      el("th", { scope: "row" }, names.join(", ")),
      value.map((part, place) => cell(part, spread?.[place])),
    ));
    else value.forEach((part, place) => walk(
      part,
      spread?.[place],
      depth + 1,
      [...names, labelsAlong(measure, measure.axes[depth], value.length)[place]],
    ));
  };
  walk(measure.value, measure.spread, 0, []);
  let inner = measure.value;
  for (let depth = 1; depth < measure.axes.length; depth += 1) inner = inner?.[0] ?? [];
  const columns = labelsAlong(measure, measure.axes.at(-1), inner.length);
  return el(
    "table",
    { class: "plain" },
    el("thead", {}, el("tr", {}, el("th", {}), columns.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, rows),
  );
}

function fillExplorer(name) {
  const select = find("#explorer-measure");
  if (!select.options.length) select.append(...allMeasures().map((found) => el("option", { value: found }, found)));
  if (name) select.value = name;
  const chosen = select.value;
  const seen = new Set();
  const entries = GROUPS.filter((group) => group.models?.length !== 1)
    .concat(MODELS)
    .filter((entry) => measureOf(entry, chosen) && !seen.has(entry.name) && seen.add(entry.name));
  find("#explorer-numbers").replaceChildren(...entries.map((entry) => {
    const measure = measureOf(entry, chosen);
    return el(
      "section",
      { class: "explored" },
      el("h3", {}, nameOf(entry)),
      signatureLine(measure.signature),
      el("div", { class: "scroll" }, measureTable(measure, formatOf(chosen))),
    );
  }));
}

function setUpExplorer() {
  find("#explorer").addEventListener("toggle", () => find("#explorer").open && fillExplorer());
  find("#explorer-measure").addEventListener("change", () => fillExplorer());
  find("#explorer").hidden = !allMeasures().length;
}
