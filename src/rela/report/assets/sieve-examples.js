// Examples of each decile of quality, with the line that the threshold draws.

// The target with its suspicious words marked. Places count characters, of which some are two units of a string here.
function markedText(text, spans) {
  const characters = [...text];
  const parts = [];
  let end = 0;
  for (const [first, last] of spans.map((span) => span.characters).sort((one, other) => one[0] - other[0])) {
    if (first < end || last <= first || last > characters.length) continue;
    const marked = el("mark", { class: "suspicious" }, characters.slice(first, last).join(""));
    parts.push(characters.slice(end, first).join(""), marked);
    end = last;
  }
  return [...parts, characters.slice(end).join("")];
}

const scoreText = (value) => (Number.isInteger(value) ? count(value) : decimal(value));

function exampleItem(example) {
  const { quality, ...others } = example.scores;
  const verdict = el("span", { class: "verdict" });
  const numbers = Object.entries(others).filter(([, value]) => isNumber(value)).map(([name, value]) =>
    el("li", {}, `${name} `, el("b", { class: isBad(name, value) ? "bad" : false }, scoreText(value))));
  const item = el(
    "li",
    { class: "example" },
    el(
      "p",
      { class: "example-head" },
      verdict,
      el("b", {}, `quality ${qualityText(quality)}`),
      el("span", { class: "quiet" }, `line ${count(example.line)}`),
    ),
    el("p", { class: "side", dir: "auto" }, example.source),
    el("p", { class: "side", dir: "auto" }, markedText(example.target, example.suspicious ?? [])),
    el("ul", { class: "example-scores" }, numbers),
  );
  return { item, verdict, quality };
}

const tabs = [];
function setUpExamples() {
  find("#examples").hidden = !EXAMPLES.length;
  for (const decile of DECILES) {
    const [low, high] = [QUANTILES[100 * (decile - 1)], QUANTILES[100 * decile]];
    const items = EXAMPLES.filter((example) => example.decile === decile).map(exampleItem);
    const cut = el("li", { class: "cut" });
    const name = `Decile ${decile}${{ 1: ", the worst", 10: ", the best" }[decile] ?? ""}`;
    const verdict = el("span", {});
    const button = el(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${decile}`,
        "aria-controls": `decile-${decile}`,
        onclick: () => showDecile(decile),
      },
      el("span", { "aria-hidden": "true" }, String(decile)),
      el("span", { class: "tab-bar", "aria-hidden": "true" }),
    );
    const range = ` quality ${qualityText(low)} to ${qualityText(high)}, `;
    const head = el("h3", {}, name, el("span", { class: "quiet" }, range, verdict));
    const list = el("ol", {}, items.map(({ item }) => item));
    const lacking = items.length ? null : el("p", { class: "quiet" }, "There are no examples of this decile.");
    const panel = el(
      "div",
      { class: "panel", role: "tabpanel", id: `decile-${decile}`, "aria-labelledby": `tab-${decile}` },
      head,
      lacking,
      list,
    );
    tabs.push({ decile, name, button, panel, list, items, cut, verdict });
  }
  find("#deciles").append(...tabs.map(({ button }) => button));
  find("#panels").append(...tabs.map(({ panel }) => panel));
  find("#deciles").addEventListener("keydown", (event) => {
    const steps = { ArrowRight: state.decile + 1, ArrowLeft: state.decile - 1, Home: 1, End: 10 };
    if (!(event.key in steps)) return;
    event.preventDefault();
    showDecile(clamp(steps[event.key], 1, 10));
    tabs[state.decile - 1].button.focus();
  });
  find("#to-threshold").addEventListener("click", () => {
    showDecile(decileOf(underNow().number));
    find(".cut", tabs[state.decile - 1].panel)?.scrollIntoView({ behavior: SCROLLING, block: "center" });
  });
}

const decileOf = (under) => clamp(Math.floor((10 * under) / SCORED) + 1, 1, 10);

function showDecile(decile) {
  state.decile = decile;
  for (const { decile: other, button, panel } of tabs) {
    button.setAttribute("aria-selected", String(other === decile));
    button.tabIndex = other === decile ? 0 : -1;
    panel.classList.toggle("shown", other === decile);
  }
}

// Which examples are kept, and the line between them and the others.
function markExamples(under) {
  for (const { decile, name, button, list, items, cut, verdict } of tabs) {
    const kept = clamp(decile - (10 * under) / SCORED, 0, 1);
    const text = kept === 1 ? "all kept" : kept === 0 ? "all rejected" : `${percent(kept, 0)} kept`;
    verdict.textContent = text;
    button.setAttribute("aria-label", `${name}: ${text}`);
    button.style.setProperty("--kept-share", kept);
    for (const example of items) {
      const isKept = example.quality >= state.threshold;
      example.item.classList.toggle("kept", isKept);
      const verdict = isKept ? "kept" : "rejected";
      example.verdict.textContent = BY_QUALITY ? verdict : `${verdict} by quality`;
    }
    cut.textContent = `threshold ${plainNumber(rounded(state.threshold, 4))}: rejected above, kept below`;
    if (decile !== decileOf(under)) cut.remove();
    else list.insertBefore(cut, items.find((example) => example.quality >= state.threshold)?.item ?? null);
  }
  find("#to-threshold").textContent = `show where the threshold cuts: decile ${decileOf(under)}`;
}
