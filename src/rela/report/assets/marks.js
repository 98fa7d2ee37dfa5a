// The marks of models: each series has its colour, its marker and its dashes, the same as in the figures.

function polygon(corners, radius, turn, inner = radius) {
  const places = inner === radius ? corners : 2 * corners; // a star has a corner between any two
  return Array.from({ length: places }, (_, place) => {
    const angle = ((turn + (360 / places) * place) * Math.PI) / 180;
    const from = places > corners && place % 2 ? inner : radius;
    return [from * Math.cos(angle), from * Math.sin(angle)];
  });
}

const CROSS = [
  [-1.4, -4], [1.4, -4], [1.4, -1.4], [4, -1.4], [4, 1.4], [1.4, 1.4],
  [1.4, 4], [-1.4, 4], [-1.4, 1.4], [-4, 1.4], [-4, -1.4], [-1.4, -1.4],
];
// By the letters that matplotlib has for them: corners around the middle; a circle has none.
const MARKS = {
  s: polygon(4, 4.3, 45),
  "^": polygon(3, 4.6, -90),
  v: polygon(3, 4.6, 90),
  o: null,
  D: polygon(4, 4.4, 0),
  P: CROSS,
  X: CROSS.map(([x, y]) => [(x - y) * Math.SQRT1_2, (x + y) * Math.SQRT1_2]),
  "*": polygon(5, 5, -90, 2.1),
  "<": polygon(3, 4.6, 180),
  ">": polygon(3, 4.6, 0),
  p: polygon(5, 4.2, -90),
  h: polygon(6, 4.2, -90),
};

function markAt(series, x, y) {
  const corners = MARKS[LOOKS[series].marker];
  const mark = corners
    ? svg("polygon", { points: corners.map(([right, down]) => `${x + right},${y + down}`).join(" ") })
    : svg("circle", { cx: x, cy: y, r: 3.5 });
  mark.style.setProperty("--colour", seriesColour(series));
  mark.classList.add("mark");
  return mark;
}

const LINE_WIDTH = 1.9;
// Where each entry has two lines, dashes tell these apart, not the entries.
const SOLID = [];
const DASHED = [3.7, 1.6];

function strokeOf(path, series, dashes = LOOKS[series].dashes) {
  path.style.stroke = seriesColour(series);
  if (dashes.length) path.style.strokeDasharray = dashes.map((length) => length * LINE_WIDTH).join(" ");
  return path;
}

const legendMark = (model) => svg(
  "svg",
  { viewBox: "0 0 12 12", class: "legend-mark", "aria-hidden": "true" },
  markAt(seriesOfModel(model), 6, 6),
);

// A piece of a line of no model.
const plainLine = (dashes) => svg(
  "svg",
  { viewBox: "0 0 24 12", class: "plain-line", "aria-hidden": "true" },
  svg("path", { d: "M0 6H24", "stroke-dasharray": dashes.map((length) => length * LINE_WIDTH).join(" ") }),
);

// The mark on a piece of its line.
const legendLine = (series, dashes) => svg(
  "svg",
  { viewBox: "0 0 34 12", class: "legend-line", "aria-hidden": "true" },
  strokeOf(svg("path", { class: "line", d: "M0 6H34" }), series, dashes),
  markAt(series, 17, 6),
);
