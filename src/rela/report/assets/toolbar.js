// The switches above the pictures.

const SWITCHES = [
  { name: "kind", label: "attention", options: { encoder: "encoder", decoder: "decoder", cross: "cross" } },
  { name: "level", label: "level", options: { piece: "pieces", word: "words" }, key: "w" },
  {
    name: "shift",
    label: "rows",
    options: { normal: "normal", shifted: "shifted" },
    key: "n",
    what: "normal: the row that predicts a word. shifted: the row that has the word as its input",
  },
  { name: "view", label: "view", options: { heatmap: "heatmap", links: "links" }, key: "v" },
  {
    name: "scale",
    label: "scale",
    options: { head: "head", row: "row" },
    key: "s",
    what: "colours up to the head's largest weight, or to each row's",
  },
  { name: "gold", label: "gold", options: { on: "on", off: "off" }, key: "g" },
];

function makeSwitch({ name, label, options, key, what }) {
  const buttons = Object.entries(options).map(([value, text]) =>
    el("button", { type: "button", "data-value": value, onclick: () => update({ [name]: value }) }, text));
  const title = [what, key && `key: ${key}`].filter(Boolean).join("; ");
  return el(
    "div",
    { class: "switch", role: "group", "aria-label": label, "data-switch": name, title: title || false },
    el("span", { class: "switch-label" }, label),
    el("span", { class: "buttons" }, buttons),
  );
}

function stepZoom(by) {
  const sizes = CHOICES.zoom.slice(2);
  const current = sizes.includes(state.zoom) ? Number(state.zoom) : (viewer.panes[0].heatmap.size ?? 14);
  const place = sizes.findIndex((size) => Number(size) >= current);
  update({ zoom: sizes[clamp((place < 0 ? sizes.length - 1 : place) + by, 0, sizes.length - 1)] });
}

function renderToolbar() {
  const zoom = (text, label, act, value) => el(
    "button",
    { type: "button", "aria-label": label, title: label, "data-value": value ?? false, onclick: act },
    text,
  );
  find("#toolbar").replaceChildren(
    ...SWITCHES.filter(({ name }) => name !== "gold" || hasGold).map(makeSwitch),
    el("div", {
      class: "switch",
      role: "group",
      "aria-label": "size of cells",
      "data-switch": "zoom",
    }, el("span", { class: "switch-label" }, "size"), el("span", { class: "buttons" },
      zoom("−", "smaller cells (−)", () => stepZoom(-1)), zoom(
        "fit",
        "all in sight (0)",
        () => update({ zoom: state.zoom === "fit" ? "auto" : "fit" }),
        "fit",
      ), zoom("+", "larger cells (+)", () => stepZoom(1)))),
    el("div", {
      class: "switch",
      role: "group",
      "aria-label": "side by side",
      "data-switch": "compare",
    }, el("span", { class: "switch-label" }, "side by side"), el("span", { class: "buttons" },
      el("button", { type: "button", "data-value": "true", onclick: () => update({ compare: true }) }, "on"), el(
        "button",
        { type: "button", "data-value": "false", onclick: () => update({ compare: false }) },
        "off",
      ))),
  );
  markSwitches();
}

function markSwitches() {
  for (const box of document.querySelectorAll("[data-switch]")) {
    for (const button of box.querySelectorAll("[data-value]")) button.setAttribute(
      "aria-pressed",
      String(String(state[box.dataset.switch]) === button.dataset.value),
    );
  }
  const shift = find('[data-switch="shift"]');
  if (shift) for (const button of shift.querySelectorAll("button")) button.disabled = state.kind === "encoder";
}
