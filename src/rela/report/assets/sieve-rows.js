// What the page was given, and how many rows a threshold keeps.

const DATA = JSON.parse(find("#data").textContent);
const { counts: COUNTS, rule: RULE, quantiles: QUANTILES, histograms: HISTOGRAMS } = DATA;
const SCORED = COUNTS.kept + COUNTS.rejected;
const BY_QUALITY = RULE.by === "quality";
const LOW_SCORE = "low-score"; // the one reason of rows that were scored
const EXAMPLES = [...DATA.examples].sort((one, other) => one.scores.quality - other.scores.quality);
const DECILES = Array.from({ length: 10 }, (_, place) => place + 1);

const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
const sumOf = (values) => values.reduce((sum, value) => sum + value, 0);
const plainNumber = (value) => value.toFixed(8).replace(/\.?0+$/, "");

// A share of rows. What is some looks like some, and what is not all does not look like all.
function shareText(rows, whole, digits = 1) {
  const text = percent(whole ? rows / whole : 0, digits);
  const step = 10 ** -(digits + 2);
  if (rows > 0 && rows < 0.5 * step * whole) return `<${percent(step, digits)}`;
  return rows < whole && parseFloat(text) === 100 ? `>${percent(1 - step, digits)}` : text;
}
const isSame = (one, other) => Math.abs(one - other) < 1e-9;

const QUALITY = HISTOGRAMS.quality ?? { edges: [0, 1], counts: [0] };
const UNDER_EDGE = QUALITY.counts.reduce((sums, value) => [...sums, sums.at(-1) + value], [0]);

// What the histogram says of the rows under a threshold: at an edge their number, elsewhere two bounds.
function boundsByHistogram(threshold) {
  const after = QUALITY.edges.findIndex((edge) => edge > threshold && !isSame(edge, threshold));
  const bar = clamp((after < 0 ? QUALITY.edges.length : after) - 1, 0, QUALITY.counts.length - 1);
  if (isSame(QUALITY.edges[bar], threshold)) return [UNDER_EDGE[bar], UNDER_EDGE[bar]];
  return [UNDER_EDGE[bar], UNDER_EDGE[bar + 1]];
}

// Rows under a threshold: the number that quantiles and histogram suggest, and the bounds that they leave.
// A quantile at a share of p is the value at place p * (rows - 1), between the rows before and after that place.
function rowsUnder(threshold) {
  const found = QUANTILES.findIndex((value) => value >= threshold);
  const placeOf = (quantile) => (quantile / (QUANTILES.length - 1)) * (SCORED - 1);
  let [low, guess, high] = [0, 0, 0];
  if (found < 0) [low, guess, high] = [SCORED, SCORED, SCORED];
  else if (found > 0) {
    const [before, after] = [QUANTILES[found - 1], QUANTILES[found]];
    low = Math.floor(placeOf(found - 1) + 1e-9) + 1;
    guess = Math.ceil(placeOf(found - 1 + (threshold - before) / (after - before)) - 1e-9);
    high = Math.ceil(placeOf(found) - 1e-9);
  }
  const [least, most] = boundsByHistogram(threshold);
  const bound = (value) => clamp(value, least, most);
  return { low: bound(low), number: bound(clamp(guess, low, high)), high: bound(high) };
}

// The threshold that keeps so many rows, rounded down so that the last of them stays.
function thresholdFor(rows) {
  if (rows <= 0) return 1;
  if (rows >= SCORED) return 0;
  const along = ((SCORED - rows) / (SCORED - 1)) * (QUANTILES.length - 1);
  const before = Math.floor(along);
  const after = Math.min(before + 1, QUANTILES.length - 1);
  const value = QUANTILES[before] + (along - before) * (QUANTILES[after] - QUANTILES[before]);
  const scale = 10 ** decimalsOf(value, 4);
  return clamp(Math.floor(value * scale + 1e-6) / scale, 0, 1);
}

// So many that the distance to the nearer end, 0 or 1, keeps its first digits.
function decimalsOf(threshold, digits = 3) {
  const distance = Math.min(threshold, 1 - threshold);
  return distance > 0 ? clamp(digits - 1 - Math.floor(Math.log10(distance)), digits, 8) : digits;
}
const rounded = (threshold, digits) => Number(threshold.toFixed(decimalsOf(threshold, digits)));
const qualityText = (value) => (isNumber(value) ? plainNumber(rounded(value)) : NOTHING);
