"use strict";
const byId = (id) => document.getElementById(id);
const state = { models: [], limits: {}, token: null };

/** An element with attributes, listeners (onclick ...) and children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

function say(text) {
  byId("alert").textContent = text;
  byId("alert").hidden = !text;
}

/** Ask the service. A full queue is asked once more, when the service says there will be room. */
async function ask(path, body, again = true) {
  const headers = body ? { "content-type": "application/json" } : {};
  if (state.token) headers.authorization = `Bearer ${state.token}`;
  const response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body) });
  if (response.ok) return response.json();
  if (response.status === 401) byId("token-form").hidden = false;
  if (response.status === 503 && again) {
    const seconds = Number(response.headers.get("retry-after")) || 1;
    await new Promise((done) => setTimeout(done, 1000 * Math.min(seconds, 10)));
    return ask(path, body, false);
  }
  const found = await response.json().catch(() => ({}));
  const detail = Array.isArray(found.detail) ? found.detail.map((one) => `${one.loc.join(" ")}: ${one.msg}`).join("; ") : found.detail;
  throw new Error(detail || `the service answered ${response.status}`);
}

/** Run what a form asks for: its button rests meanwhile, and what goes wrong is said. */
async function working(button, status, text, work) {
  button.disabled = true;
  status.textContent = text;
  say("");
  try {
    await work();
    status.textContent = "";
  } catch (error) {
    status.textContent = "";
    say(error instanceof TypeError ? "The service does not answer. Is it still running?" : error.message);
  } finally {
    button.disabled = false;
  }
}

// ---------------------------------------------------------------- models

async function begin() {
  const found = await ask("models");
  state.models = found.models;
  state.limits = found.limits;
  byId("token-form").hidden = true;
  const options = () => state.models.map((one) => make("option", { value: one.name }, `${one.name} (${one.attention})`));
  byId("model").replaceChildren(...options());
  byId("other").replaceChildren(make("option", { value: "" }, "no other"), ...options());
  const beams = [1, 2, 4, 8].filter((beam) => beam <= found.limits.beam);
  byId("beam").replaceChildren(...beams.map((beam) => make("option", { value: beam, selected: beam === 4 }, beam === 1 ? "1, greedy" : beam)));
  showDirection();
}

function modelNamed(name) {
  return state.models.find((one) => one.name === name);
}

function showDirection() {
  const model = modelNamed(byId("model").value);
  if (model) byId("direction").textContent = `${model.source_language} → ${model.target_language}`;
}

// ---------------------------------------------------------------- translations

async function translate() {
  const lines = byId("text").value.split("\n").map((line) => line.trim()).filter(Boolean);
  if (!lines.length) return;
  const names = [byId("model").value, byId("other").value].filter(Boolean);
  const asked = names.map((model) => ask("translate", { text: lines, model, beam: Number(byId("beam").value), alignments: true, heads: true }));
  const answers = await Promise.all(asked);
  byId("results").replaceChildren(...lines.map((line, place) => make(
    "li", { class: "result" },
    make("div", { class: "sides" }, ...answers.map((answer) => side(line, answer.model, answer.translations[place], names.length > 1))),
  )));
}

/** What one model makes of a text. */
function side(text, name, found, several) {
  const model = modelNamed(name);
  const box = make("div", { class: "side" });
  const sources = words(text, found.source_words || [], "source", model.source_language);
  const targets = words(found.text, found.target_words || [], "target", model.target_language);
  connect(sources.spans, targets.spans, found.alignment || []);
  const notes = [several ? name : "", `score ${found.score.toFixed(2)}`, found.finished ? "" : "cut off at its greatest length", found.truncated ? "the text was too long and was cut" : ""];
  box.append(sources.line, targets.line, make("p", { class: "quiet" }, notes.filter(Boolean).join(" · ")));
  if (found.null_rates) {
    const inside = make("div", { hidden: true });
    const button = make("button", { type: "button", class: "look", "aria-expanded": "false", onclick: () => {
      inside.hidden = !inside.hidden;
      button.setAttribute("aria-expanded", String(!inside.hidden));
      if (!inside.hasChildNodes()) microscope(inside, text, model, found);
    } }, "look inside");
    box.append(button, inside);
  }
  return box;
}

/** A text as it is, with each of its words in an element of its own. */
function words(text, list, kind, language) {
  const line = make("p", { class: `words ${kind}`, lang: language });
  let place = 0;
  const spans = list.map((word) => {
    const begin = text.indexOf(word, place);
    const span = make("span", { class: "word", tabindex: 0 }, word);
    line.append(text.slice(place, begin), span);
    place = begin + word.length;
    return span;
  });
  line.append(text.slice(place));
  return { line, spans };
}

/** Words show what they are linked with, under the pointer and under the keyboard's focus. */
function connect(sources, targets, links) {
  const partners = new Map();
  for (const [from, to] of links) {
    if (!sources[from] || !targets[to]) continue;
    partners.set(sources[from], [...(partners.get(sources[from]) || []), targets[to]]);
    partners.set(targets[to], [...(partners.get(targets[to]) || []), sources[from]]);
  }
  for (const span of [...sources, ...targets]) {
    const others = partners.get(span) || [];
    span.setAttribute("aria-label", `${span.textContent}: ${others.length ? `linked with ${others.map((one) => one.textContent).join(", ")}` : "no link"}`);
    const mark = (on) => {
      span.classList.toggle("near", on);
      others.forEach((other) => other.classList.toggle("linked", on));
    };
    for (const name of ["pointerenter", "focus"]) span.addEventListener(name, () => mark(true));
    for (const name of ["pointerleave", "blur"]) span.addEventListener(name, () => mark(false));
  }
}

// ---------------------------------------------------------------- the microscope

/** All heads of cross-attention, and the weights of one. The darker a head, the more often it attends to nothing. */
function microscope(box, text, model, found) {
  const picture = make("div", { class: "matrix-box", tabindex: 0, "aria-live": "polite" });
  const buttons = [];
  const rows = found.null_rates.map((rates, layer) => make("tr", {}, make("th", { scope: "row" }, `layer ${layer + 1}`), ...rates.map((rate, head) => {
    const percent = Math.round(100 * rate);
    const button = make("button", {
      type: "button", class: "head", style: `--off: ${percent}`, "aria-pressed": "false",
      "aria-label": `layer ${layer + 1}, head ${head}: attends to nothing in ${percent} percent of the rows`,
      onclick: () => show(layer + 1, head, button),
    }, `${percent}%`);
    buttons.push(button);
    return make("td", {}, button);
  })));
  const heads = found.null_rates[0].map((_, head) => make("th", { scope: "col" }, `head ${head}`));
  box.append(
    make("p", { class: "quiet" }, "Heads of cross-attention, and how often each attends to nothing in this sentence. Choose one to see its weights."),
    make("div", { class: "matrix-box" }, make("table", { class: "heads" }, make("thead", {}, make("tr", {}, make("td"), ...heads)), make("tbody", {}, ...rows))),
    picture,
  );

  async function show(layer, head, button) {
    buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
    try {
      const answer = await ask("translate", { text, model: model.name, beam: Number(byId("beam").value), attention: [{ kind: "cross", layer, head }] });
      picture.replaceChildren(matrix(answer.translations[0].attention[0]));
    } catch (error) {
      say(error.message);
    }
  }
}

function matrix(found) {
  const most = Math.max(1e-9, ...found.weights.flat().map(Math.abs));
  const columns = found.keys.map((key) => make("th", { scope: "col" }, key));
  const rows = found.queries.map((query, row) => make(
    "tr", { class: found.null[row] ? "null" : null },
    make("th", { scope: "row", "aria-label": found.null[row] ? `${query}: attends to nothing` : query }, query),
    ...found.weights[row].map((weight) => {
      const share = Math.round(100 * Math.abs(weight) / most);
      const kind = weight === 0 ? "zero" : share > 55 ? "strong" : null;
      return make("td", { style: `--share: ${share}`, class: kind, title: weight.toPrecision(3) }, weight === 0 ? "·" : weight.toFixed(2));
    }),
  ));
  const caption = `Layer ${found.layer}, head ${found.head}: rows are words of the translation; · is exactly zero`;
  return make("table", { class: "matrix" }, make("caption", { class: "quiet" }, caption), make("thead", {}, make("tr", {}, make("td"), ...columns)), make("tbody", {}, ...rows));
}

// ---------------------------------------------------------------- scores

const SCORES = {
  null_rate: "rows of cross-attention that attend to nothing", cross_entropy: "loss of a target piece, in nats", surprise: "the greatest loss of four pieces side by side",
  coverage: "weight that source pieces get", null_run: "null words side by side", length_ratio: "characters for each character of the source",
};

async function score() {
  const source = byId("score-source").value.trim();
  const target = byId("score-target").value.trim();
  const answer = await ask("score", { pairs: [{ source, target }], model: byId("model").value });
  const [found] = answer.scores;
  const box = byId("score-result");
  if (found.problem) {
    box.replaceChildren(make("p", {}, `This pair cannot be scored: ${found.problem}.`));
    return;
  }
  const text = make("p", { class: "words", lang: modelNamed(answer.model).target_language });
  let place = 0;
  const letters = Array.from(target); // characters are counted as Python does
  for (const span of found.suspicious || []) {
    text.append(letters.slice(place, span.characters[0]).join(""), make("mark", { class: "suspicious" }, letters.slice(...span.characters).join("")));
    place = span.characters[1];
  }
  text.append(letters.slice(place).join(""));
  const count = (found.suspicious || []).length;
  const rows = Object.entries(SCORES).map(([name, meaning]) => make("tr", {}, make("th", { scope: "row" }, name.replaceAll("_", " ")), make("td", {}, found[name].toPrecision(3)), make("td", { class: "quiet" }, meaning)));
  box.replaceChildren(
    make("div", { class: "quality" }, make("strong", {}, found.quality.toFixed(2)), make("meter", { min: 0, max: 1, low: 0.3, high: 0.7, optimum: 1, value: found.quality, "aria-label": "quality" }), make("span", {}, found.quality >= 0.5 ? "looks like a translation" : "does not look like a translation")),
    text,
    make("p", { class: "quiet" }, count ? `${count} suspicious ${count === 1 ? "place is" : "places are"} marked` : "no suspicious words"),
    make("table", { class: "scores" }, make("tbody", {}, ...rows)),
  );
}

// ---------------------------------------------------------------- the page

byId("translate-form").addEventListener("submit", (event) => {
  event.preventDefault();
  working(byId("translate-button"), byId("translate-state"), "translating", translate);
});
byId("score-form").addEventListener("submit", (event) => {
  event.preventDefault();
  working(byId("score-button"), byId("score-state"), "scoring", score);
});
byId("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("translate-form").requestSubmit();
});
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  state.token = byId("token").value;
  begin().then(() => say("")).catch((error) => say(error.message));
});
byId("model").addEventListener("change", showDirection);
byId("theme-button").addEventListener("click", () => {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
});
begin().catch((error) => say(error.message));
