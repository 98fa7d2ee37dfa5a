// What the page was given: numbers of models and groups, and example sentences.

const DATA = JSON.parse(find("#data").textContent);
const KINDS = ["encoder", "decoder", "cross"];
const KIND_NAMES = { encoder: "encoder self", decoder: "decoder self", cross: "cross" };

// How statistics of heads are called, what they mean, and whether they are shares.
const STATISTICS = {
  null: { name: "null rate", share: true, what: "share of queries whose weights are all exactly zero" },
  sparsity: {
    name: "sparsity",
    share: true,
    what: "share of weights that are exactly zero, of the places that are allowed",
  },
  entropy: { name: "entropy", share: false, what: "of the weights of a query, in nats" },
  mass: { name: "mass", share: false, what: "sum of the weights of a query" },
  sink_first: { name: "weight on the first", share: true, what: "share of the weight on the first key" },
  sink_last: { name: "weight on the last", share: true, what: "share of the weight on the last key" },
  "aer.normal.merged": {
    name: "AER, normal",
    share: true,
    what: "alignment error rate: low is good. Row of a word: the one that predicts it",
  },
  "aer.shifted.merged": {
    name: "AER, shifted",
    share: true,
    what: "alignment error rate: low is good. Row of a word: the one that has it as input",
  },
  ablation: {
    name: "loss added without it",
    share: false,
    what: "by how much the loss grows when the head is silenced, in nats for each target piece",
  },
};

// How all numbers of a measure are written.
const SHARES = /sparsity|\.null|sink|aer|precision|recall|\.f1|aol|aoh|distance/;
function formatOf(measure) {
  if (/\.(count|pairs)$/.test(measure)) return count;
  if (/\.(ablation|variance)/.test(measure)) return (value) => fixed(value, 4);
  return SHARES.test(measure) ? (value) => percent(value) : (value) => fixed(value);
}

const EXAMPLES = DATA.examples;
const SENTENCES = EXAMPLES?.models.length ? EXAMPLES.sentences : [];
const SENTENCE_BY_ID = new Map(SENTENCES.map((sentence) => [sentence.id, sentence]));

// Models of the results, and after them those that only have examples. `example` is the place in the examples, or -1.
const MODELS = DATA.models.map((model) => ({ ...model, example: EXAMPLES ? EXAMPLES.models.indexOf(model.name) : -1 }));
for (const [place, name] of (EXAMPLES?.models ?? []).entries()) {
  if (!MODELS.some((model) => model.name === name)) MODELS.push({ name, example: place, measures: {}, attention: "?" });
}

const GROUPS = DATA.groups.map((group) => {
  const only = group.measures === null ? MODELS.find((model) => model.name === group.models[0]) : null;
  return { ...group, measures: only ? only.measures : group.measures };
});
const ENTRIES = GROUPS.length ? GROUPS : MODELS;

// How entries look, as in the figures: rela/report/palette.py says so. A series is a place in this list.
const LOOKS = DATA.looks;
const seriesOf = (entry) => LOOKS.findIndex((look) => look.name === entry.name);
const entryOf = (model) =>
  ENTRIES.find((entry) => entry.models?.includes(model.name) ?? entry.name === model.name) ?? model;
const seriesOfModel = (model) => seriesOf(entryOf(model));

const measureOf = (entry, name) => entry.measures[name] ?? null;
// Measures of heads are those of a model: a group of several has none.
const isMeasured = (name) => [...ENTRIES, ...MODELS].some((entry) => measureOf(entry, name) !== null);
const valueAt = (measure, ...places) => (measure ? places.reduce(
  (value, place) => value?.[place],
  measure.value,
) ?? null : null);

// [layers, heads] of a kind of attention: by its numbers, or else by its weights.
function sizeOf(model, kind) {
  for (const statistic of ["null", "sparsity", "entropy"]) {
    const value = measureOf(model, `${kind}.${statistic}`)?.value;
    if (value?.length) return [value.length, value[0].length];
  }
  const carried = SENTENCES.find((sentence) => hasWeights(model, sentence));
  const shape = carried && shapesOf(model, carried)[kind];
  if (shape) return [shape[0], shape[1]];
  return model.layers?.[kind] && model.heads ? [model.layers[kind], model.heads] : [0, 0];
}

const elementOf = (model, sentence) => document.getElementById(`w${model.example}-${sentence.id}`);
const hasWeights = (model, sentence) => model.example >= 0 && elementOf(model, sentence) !== null;

function shapesOf(model, sentence) {
  const text = elementOf(model, sentence)?.dataset.shapes;
  if (!text) return {};
  return Object.fromEntries(
    text.split(" ").map((part) => {
      const [kind, shape] = part.split(":");
      return [kind, shape.split("x").map(Number)];
    }),
  );
}

const carriedBy = (model) => SENTENCES.filter((sentence) => hasWeights(model, sentence)).length;
const factsOf = (model, sentence) => (model.example >= 0 ? sentence.models[model.example] : null) ?? null;
const formOf = (model, sentence) => {
  const facts = factsOf(model, sentence);
  return facts ? sentence.forms[facts.form] : null;
};
const lengthOf = (sentence) => sentence.source_words.length + sentence.target_words.length;
const hasGold = SENTENCES.some((sentence) => sentence.sure !== null || sentence.possible !== null);
const headName = (layer, head) => `layer ${layer + 1} head ${head}`;
