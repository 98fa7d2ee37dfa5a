// Puts the page together.

function readTheme() {
  try {
    return localStorage.getItem("rela-theme");
  } catch {
    return null; // some browsers keep nothing for files
  }
}

function toggleTheme() {
  const theme = currentTheme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("rela-theme", theme);
  } catch {
    // then the choice lasts as long as the page
  }
  renderTheme();
}

function renderTheme() {
  defineColours();
  renderGrids();
  renderPanes();
}

// The first look: the head that aligns best, or the first finding's, and the second model beside it.
function firstLook() {
  const models = MODELS.map((_, place) => place).filter((place) => carriedBy(MODELS[place]));
  const order = models.length ? models : MODELS.map((_, place) => place);
  const { normal, shifted } = MODELS[order[0]]?.best ?? {};
  const shift = shifted && (!normal || shifted.aer <= normal.aer) ? "shifted" : "normal";
  const sides = [order[0] ?? 0, order[1] ?? order[0] ?? 0].map((model) => {
    const best = MODELS[model]?.best?.[shift];
    const found = best ?? MODELS[model]?.findings?.find((finding) => finding.kind === "cross");
    return { model, layer: (found?.layer ?? 1) - 1, head: found?.head ?? 0 };
  });
  const first = SENTENCES.find((sentence) => hasWeights(MODELS[order[0]], sentence)) ?? SENTENCES[0];
  return { sides, shift, sentence: first?.id ?? 0, compare: order.length > 1 && innerWidth >= 1000 };
}

// Not links: the address keeps what is looked at.
function renderJumps() {
  const parts = [...document.querySelectorAll("main > section:not([hidden])")];
  find("#jumps").replaceChildren(...parts.map((part) => el(
    "button",
    { type: "button", onclick: () => part.scrollIntoView({ behavior: SCROLLING }) },
    find("h2", part).textContent,
  )));
}

function onStateChange(changed) {
  const has = (...names) => names.some((name) => changed.has(name));
  if (has("colour")) renderGrids();
  if (has("sides", "kind", "compare", "active")) markChosen();
  if (has("sides", "kind", "compare")) renderChosenHead();
  if (!SENTENCES.length) return;
  if (has("sort", "order", "search", "kind") || listed !== state.sides[0].model) renderSentences();
  else if (has("sentence")) markSentence();
  if (has("sentence", "kind", "level", "shift", "sides")) clearHover();
  if (has("sentence", "kind", "sides", "active")) renderText();
  markSwitches();
  // A pane becomes the active one by a press on it: drawn anew, it would lose what is being pressed.
  if (changed.size > 1 || !changed.has("active")) renderPanes();
  else markActive();
  const { layer, head } = activeSide();
  const said = [lineName(currentSentence()), modelOf(activeSide()).name, KIND_NAMES[state.kind], headName(layer, head)];
  find("#said").textContent = said.join(", ");
}

function start() {
  const theme = readTheme();
  if (theme) document.documentElement.dataset.theme = theme;
  document.body.append(tooltip);
  defineColours();
  setUpViewer();
  Object.assign(state, firstLook());
  update(readHash());
  state.sides = MODELS.length ? state.sides.map(settle) : state.sides;
  renderHeader();
  renderModels();
  find("#notices").replaceChildren(...notices().map((text) => el("li", {}, text)));
  renderFindings(goToFinding);
  renderOverview();
  setUpExplorer();
  renderGrids();
  renderChosenHead();
  find("#colour").addEventListener("change", (event) => update({ colour: event.target.value }));
  find("#theme-button").addEventListener("click", toggleTheme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", renderTheme);
  setUpKeyboard();
  find("#sentences").hidden = !SENTENCES.length;
  if (SENTENCES.length) {
    setUpSentences();
    renderToolbar();
    renderSentences();
    renderText();
    renderPanes();
  }
  renderJumps();
  onChange(onStateChange);
  addEventListener("hashchange", () => update(readHash()));
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) renderOverview();
    width = innerWidth;
  });
  addEventListener("scroll", hideTooltip, { passive: true });
}

// What is shown, for tests and for the curious: `await relaSettled()` first, then `relaState` and `relaMatrix(0)`.
window.relaSettled = () => viewer.pending;
window.relaMatrix = (place) => {
  const { matrix } = viewer.panes[place];
  return matrix && { values: [...matrix.value], nullRows: [...matrix.nullRow], allowed: [...matrix.allowed] };
};
Object.defineProperty(window, "relaState", {
  get: () => ({
    ...state,
    found: foundSentences().map((sentence) => sentence.id),
    hover: { row: hover.row?.text ?? null, col: hover.col?.text ?? null, pinned: hover.pinned },
    theme: currentTheme(),
    panes: (state.compare ? viewer.panes : viewer.panes.slice(0, 1)).map(({ matrix, facts, heatmap }) => matrix && {
      rows: matrix.rows.map((unit) => unit.text),
      cols: matrix.cols.map((unit) => unit.text),
      cell: heatmap.size,
      facts,
    }),
  }),
});

start();
