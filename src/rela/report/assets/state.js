// What is being looked at. It is kept in the address, so that a link leads to a place.

const SORTS = { file: "order of the file", null: "null rate", aer: "AER", length: "length", loss: "loss" };
const CHOICES = {
  kind: KINDS,
  level: ["piece", "word"],
  shift: ["normal", "shifted"],
  view: ["heatmap", "links"],
  scale: ["head", "row"],
  gold: ["on", "off"],
  zoom: ["auto", "fit", "10", "14", "18", "24", "32", "44"],
  sort: Object.keys(SORTS),
  order: ["up", "down"],
  colour: Object.keys(STATISTICS),
};

const state = {
  sentence: 0,
  kind: "cross",
  level: "word",
  shift: "normal",
  view: "heatmap",
  scale: "head",
  gold: "on",
  zoom: "auto",
  sort: "file",
  order: "up",
  colour: "null",
  search: "",
  compare: false,
  active: 0,
  sides: [{ model: 0, layer: 0, head: 0 }, { model: 0, layer: 0, head: 0 }],
};
const listeners = [];
const onChange = (listener) => listeners.push(listener);

const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

// Keeps every side inside its model.
function settle(side) {
  const model = MODELS[clamp(side.model, 0, MODELS.length - 1)];
  const [layers, heads] = model ? sizeOf(model, state.kind) : [0, 0];
  return {
    model: MODELS.indexOf(model),
    layer: clamp(side.layer, 0, Math.max(0, layers - 1)),
    head: clamp(side.head, 0, Math.max(0, heads - 1)),
  };
}

// Changes what is looked at; listeners get the names of what changed.
function update(patch) {
  const before = JSON.stringify(state.sides);
  const changed = new Set();
  for (const [name, value] of Object.entries(patch)) {
    if (name in CHOICES && !CHOICES[name].includes(value)) continue;
    if (state[name] !== value) changed.add(name);
    state[name] = value;
  }
  if (MODELS.length) state.sides = state.sides.map(settle);
  if (!state.compare && state.active !== 0) {
    state.active = 0;
    changed.add("active");
  }
  if (JSON.stringify(state.sides) !== before) changed.add("sides");
  else changed.delete("sides");
  if (!changed.size) return;
  for (const listener of listeners) listener(changed);
  saveHash();
}

const updateSide = (place, patch) =>
  update({
    active: place,
    sides: state.sides.map((side, number) => (number === place ? { ...side, ...patch } : side)),
  });

const activeSide = () => state.sides[state.active];
const modelOf = (side) => MODELS[side.model];

// ---------------------------------------------------------------- the address

const KEPT = ["kind", "level", "shift", "view", "scale", "gold", "zoom", "sort", "order", "colour"];

function hashOf() {
  const side = ({ model, layer, head }) => `${model}.${layer + 1}.${head}`;
  const parts = [["s", state.sentence], ["a", side(state.sides[0])]];
  if (state.compare) parts.push(["b", side(state.sides[1])], ["active", "ab"[state.active]]);
  for (const name of KEPT) parts.push([name, state[name]]);
  if (state.search) parts.push(["search", state.search]);
  return `#${new URLSearchParams(parts)}`;
}

let saving = 0;
function saveHash() {
  clearTimeout(saving);
  saving = setTimeout(() => history.replaceState(null, "", hashOf()), 120);
}

function readHash() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const patch = {};
  for (const name of KEPT) if (parts.has(name)) patch[name] = parts.get(name);
  if (parts.has("search")) patch.search = parts.get("search");
  if (SENTENCE_BY_ID.has(Number(parts.get("s") ?? NaN))) patch.sentence = Number(parts.get("s"));
  const sides = state.sides.map((side, place) => {
    const found = /^(\d+)\.(\d+)\.(\d+)$/.exec(parts.get("ab"[place]) ?? "");
    return found ? { model: Number(found[1]), layer: Number(found[2]) - 1, head: Number(found[3]) } : side;
  });
  if (parts.has("a")) Object.assign(patch, {
    sides,
    compare: parts.has("b"),
    active: parts.has("b") && parts.get("active") === "b" ? 1 : 0,
  });
  return patch;
}
