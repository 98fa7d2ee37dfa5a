// Numbers as people read them.

const NOTHING = "–";
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

const percent = (value, digits = 1) => (isNumber(value) ? `${(100 * value).toFixed(digits)}%` : NOTHING);
const count = (value) => (isNumber(value) ? value.toLocaleString("en") : NOTHING);
const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

// With so many digits that count: for numbers that stand alone, such as weights.
function decimal(value, digits = 3) {
  if (!isNumber(value)) return NOTHING;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(Math.max(0, digits - 2));
  return size >= 10 ** digits ? value.toFixed(0) : value.toPrecision(digits);
}

// With so many decimals, as all numbers of a measure have them: they stand below each other. What would look like zero
// and is not has a power of ten instead.
function fixed(value, digits = 3) {
  if (!isNumber(value)) return NOTHING;
  const text = value.toFixed(digits);
  return value !== 0 && Number(text) === 0 ? value.toExponential(1) : text;
}

const mean = (values) => {
  const known = values.filter(isNumber);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
};

// Round numbers in even steps, for an axis: from one that is at most `low` to one that is at least `high`.
function ticks(low, high, about = 4) {
  const span = high - low || 1;
  const raw = span / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= raw * 0.999);
  const found = [];
  const last = Math.ceil(high / step - 1e-9);
  for (let place = Math.floor(low / step + 1e-9); place <= last; place += 1) found.push(place * step);
  return found;
}
