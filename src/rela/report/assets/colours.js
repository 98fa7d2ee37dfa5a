// Colours. Ramps have an even rise in lightness, so they can be read in grey and by any eye; zero is in none of them.

const RAMPS = {
  // [lightness, chroma, hue] in OKLCH at the smallest weight and at the largest
  light: {
    positive: [[0.925, 0.032, 228], [0.6, 0.13, 250], [0.27, 0.11, 275]],
    negative: [[0.9, 0.06, 60], [0.66, 0.16, 45], [0.36, 0.13, 25]],
  },
  dark: {
    positive: [[0.36, 0.09, 262], [0.64, 0.115, 215], [0.96, 0.09, 105]],
    negative: [[0.36, 0.08, 25], [0.62, 0.15, 35], [0.9, 0.09, 70]],
  },
};

function oklchToRgb([lightness, chroma, hue]) {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((value) => {
    const bounded = Math.min(1, Math.max(0, value));
    return Math.round(255 * (bounded <= 0.0031308 ? 12.92 * bounded : 1.055 * bounded ** (1 / 2.4) - 0.055));
  });
}

function makeRamp(stops) {
  return Array.from({ length: 256 }, (_, place) => {
    const along = (place / 255) * (stops.length - 1);
    const first = Math.min(Math.floor(along), stops.length - 2);
    return oklchToRgb(stops[first].map((value, part) => value + (along - first) * (stops[first + 1][part] - value)));
  });
}

let ramps = null; // of the theme that is on

// 256 colours [r, g, b] for weights from just above zero to the largest.
function rampOf(sign = "positive") {
  return ramps[sign];
}

const parseHex = (text) => [1, 3, 5].map((place) => parseInt(text.slice(place, place + 2), 16));
const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;
const colourOf = (share, sign = "positive") => css(rampOf(sign)[Math.max(0, Math.min(255, Math.round(share * 255)))]);

// Black or white, whichever can be read on a colour.
function inkOn([r, g, b]) {
  const light = [r, g, b].map((value) => (value <= 10 ? value / 3294 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2] > 0.2 ? "#101418" : "#ffffff";
}

const seriesColour = (place) => `var(--series-${place})`;
const cssVariable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function currentTheme() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

// Called at the start and whenever the theme changes.
function defineColours() {
  ramps = Object.fromEntries(["positive", "negative"].map((sign) => [sign, makeRamp(RAMPS[currentTheme()][sign])]));
  const { style } = document.documentElement;
  LOOKS.forEach((look, place) => style.setProperty(`--series-${place}`, look[currentTheme()]));
}
