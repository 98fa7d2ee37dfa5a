// The page: its models, its forms.

async function begin() {
  const found = await ask("models");
  state.models = found.models;
  state.limits = found.limits;
  byId("token-form").hidden = true;
  const options = (models) => models.map((one) => make("option", { value: one.name }, `${one.name} (${one.attention})`));
  const scoring = state.models.filter((one) => one.scores);
  byId("model").replaceChildren(...options(state.models));
  byId("other").replaceChildren(make("option", { value: "" }, "no other"), ...options(state.models));
  byId("score-model").replaceChildren(...options(scoring));
  byId("score-form").hidden = !scoring.length;
  byId("no-scores").hidden = scoring.length > 0;
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

async function useToken() {
  state.token = byId("token").value.trim();
  await begin();
  byId("text").focus();
  return "";
}

for (const [name, doing, work] of [["token-form", "asking", useToken], ["translate-form", "translating", translate], ["score-form", "scoring", score]]) {
  byId(name).addEventListener("submit", (event) => {
    event.preventDefault();
    working(byId(name), doing, work);
  });
}
for (const name of ["text", "score-source", "score-target"]) {
  byId(name).addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId(name).form.requestSubmit();
  });
}
byId("model").addEventListener("change", showDirection);
byId("theme-button").addEventListener("click", () => {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
});
begin().catch((error) => complain(byId("translate-form"), error));
