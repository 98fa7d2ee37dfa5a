// Keys. They do nothing while one types into a field.

const flip = (name) => update({ [name]: CHOICES[name][(CHOICES[name].indexOf(state[name]) + 1) % 2] });

const KEYS = [
  { keys: ["j", "ArrowDown"], text: "j ↓", what: "next sentence", act: () => stepSentence(1) },
  { keys: ["k", "ArrowUp"], text: "k ↑", what: "previous sentence", act: () => stepSentence(-1) },
  { keys: ["l", "]", "ArrowRight"], text: "l ] →", what: "next head", act: () => stepHead(state.active, 1) },
  { keys: ["h", "[", "ArrowLeft"], text: "h [ ←", what: "previous head", act: () => stepHead(state.active, -1) },
  {
    keys: ["1", "2", "3", "4", "5", "6", "7", "8", "9"],
    text: "1 – 9",
    what: "layer",
    act: (key) => updateSide(state.active, { layer: Number(key) - 1 }),
  },
  {
    keys: ["e", "d", "c"],
    text: "e d c",
    what: "encoder, decoder, cross",
    act: (key) => update({ kind: { e: "encoder", d: "decoder", c: "cross" }[key] }),
  },
  { keys: ["n"], text: "n", what: "normal or shifted rows", act: () => state.kind !== "encoder" && flip("shift") },
  { keys: ["w"], text: "w", what: "words or pieces", act: () => flip("level") },
  { keys: ["v"], text: "v", what: "heatmap or links", act: () => flip("view") },
  { keys: ["s"], text: "s", what: "scale of the head or the row", act: () => flip("scale") },
  { keys: ["g"], text: "g", what: "gold links", act: () => hasGold && flip("gold") },
  { keys: ["b"], text: "b", what: "two heads side by side", act: () => update({ compare: !state.compare }) },
  { keys: ["x"], text: "x", what: "the other side", act: () => state.compare && update({ active: 1 - state.active }) },
  { keys: ["+", "="], text: "+", what: "larger cells", act: () => stepZoom(1) },
  { keys: ["-"], text: "−", what: "smaller cells", act: () => stepZoom(-1) },
  {
    keys: ["0"],
    text: "0",
    what: "all cells in sight",
    act: () => update({ zoom: state.zoom === "fit" ? "auto" : "fit" }),
  },
  { keys: ["t"], text: "t", what: "dark or light", act: () => toggleTheme() },
  { keys: ["/"], text: "/", what: "search", act: () => find("#search").focus() },
  { keys: ["?"], text: "?", what: "this help", act: () => find("#help").showModal() },
  { keys: ["Escape"], text: "Esc", what: "let go of a held word", act: () => clearHover() },
];

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || find("#help").open) return;
  const isField = event.target.closest?.("input, select, textarea");
  if (isField) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  // A box that scrolls keeps its arrows, when it was chosen with the keyboard.
  if (event.key.startsWith("Arrow") && event.target.closest?.(".heat, .links, .scroll")) return;
  const found = KEYS.find(({ keys }) => keys.includes(event.key));
  if (!found || (!SENTENCES.length && !["t", "?"].includes(event.key))) return;
  event.preventDefault();
  found.act(event.key);
}

function setUpKeyboard() {
  document.addEventListener("keydown", onKey);
  find("#keys").replaceChildren(...KEYS.flatMap(({ text, what }) => [
    el("dt", {}, text.split(" ").map((key) => (key === "–" ? " – " : el("kbd", {}, key)))),
    el("dd", {}, what),
  ]));
  find("#help-button").addEventListener("click", () => find("#help").showModal());
  find("#help").addEventListener("click", (event) => event.target === find("#help") && find("#help").close());
}
