// Lines over layers and points, as SVG. Each series has a colour and a mark; a second line of the same one is dashed.

const MARKS = [
  (x, y) => svg("circle", { cx: x, cy: y, r: 3.2 }),
  (x, y) => svg("rect", { x: x - 3, y: y - 3, width: 6, height: 6 }),
  (x, y) => svg("path", { d: `M${x} ${y - 4}L${x + 4} ${y + 3}H${x - 4}Z` }),
  (x, y) => svg("path", { d: `M${x} ${y - 4.2}L${x + 4.2} ${y}L${x} ${y + 4.2}L${x - 4.2} ${y}Z` }),
  (x, y) => svg("path", { d: `M${x} ${y + 4}L${x + 4} ${y - 3}H${x - 4}Z` }),
  (x, y) => svg("path", { d: `M${x - 3.5} ${y}H${x + 3.5}M${x} ${y - 3.5}V${y + 3.5}`, class: "stroke-mark" }),
];
const markAt = (series, x, y) => {
  const mark = MARKS[series % MARKS.length](x, y);
  mark.style.setProperty("--colour", seriesColour(series));
  mark.classList.add("mark");
  return mark;
};

// The width is set to that of a column before charts are drawn, so that text has its own size.
const FRAME = { width: 340, height: 150, left: 38, right: 12, top: 8, bottom: 20 };

function frameOf([lowX, highX], [lowY, highY]) {
  const spanX = highX - lowX || 1;
  const spanY = highY - lowY || 1;
  return {
    x: (value) => FRAME.left + ((value - lowX) / spanX) * (FRAME.width - FRAME.left - FRAME.right),
    y: (value) => FRAME.height - FRAME.bottom - ((value - lowY) / spanY) * (FRAME.height - FRAME.top - FRAME.bottom),
  };
}

// The range of all values; from zero unless they are far from it, with some air above.
function rangeOf(values, { low = 0, high = null } = {}) {
  const known = values.filter(isNumber);
  if (!known.length) return null;
  const top = high ?? Math.max(...known);
  const bottom = Math.min(low, ...known);
  return top - bottom < 1e-9 ? [bottom, bottom + 1] : [bottom, top + (high === null ? 0.06 * (top - bottom) : 0)];
}

// A line across the whole frame.
const across = (frame, value, name) => svg(
  "line",
  { class: name, x1: FRAME.left, x2: FRAME.width - FRAME.right, y1: frame.y(value), y2: frame.y(value) },
);


function axisY(frame, range, format) {
  return ticks(...range).map((value) => [
    across(frame, value, "grid"),
    svg("text", { class: "tick", x: FRAME.left - 6, y: frame.y(value) + 3.5, "text-anchor": "end" }, format(value)),
  ]);
}


// What is counted along the axis, at its left end.
const axisName = (text) =>
  svg("text", { class: "tick", x: FRAME.left - 9, y: FRAME.height - FRAME.bottom + 14, "text-anchor": "end" }, text);

function linePath(points) {
  let path = "";
  let pen = "M";
  for (const point of points) {
    path += point ? `${pen}${point[0].toFixed(1)} ${point[1].toFixed(1)}` : "";
    pen = point ? "L" : "M";
  }
  return path;
}

function bandPath(frame, { values, spread }) {
  const places = values.flatMap((value, place) => (isNumber(value) && isNumber(spread[place]) ? [place] : []));
  const above = places.map((place) => [frame.x(place), frame.y(values[place] + spread[place])]);
  const below = places.map((place) => [frame.x(place), frame.y(values[place] - spread[place])]).reverse();
  return `${linePath([...above, ...below])}Z`;
}

// lines: [{name, series, values, spread?, dashed?, signature}], all over the same `labels`.
function lineChart({ title, lines, labels, share = true, high = null, along = "layer", reference = null }) {
  const values = lines.flatMap((line) => line.values.flatMap((value, place) => [
    value,
    isNumber(value) ? value + (line.spread?.[place] ?? 0) : null,
  ]));
  const range = rangeOf([...values, reference], { high });
  const format = share ? (value) => percent(value, range[1] - range[0] < 0.05 ? 1 : 0) : (value) => decimal(value, 2);
  const frame = frameOf([0, Math.max(1, labels.length - 1)], range);
  const cursor = svg("line", { class: "cursor", y1: FRAME.top, y2: FRAME.height - FRAME.bottom, visibility: "hidden" });
  const drawn = lines.map((line) => {
    const points = line.values.map((value, place) => (isNumber(value) ? [frame.x(place), frame.y(value)] : null));
    const path = svg("path", { class: `line${line.dashed ? " dashed" : ""}`, d: linePath(points) });
    path.style.stroke = seriesColour(line.series);
    const band = line.spread ? svg("path", { class: "band", d: bandPath(frame, line) }) : null;
    if (band) band.style.fill = seriesColour(line.series);
    return [band, path, points.map((point) => point && markAt(line.series, ...point))];
  });
  const step = Math.ceil(labels.length / 12);
  const picture = svg(
    "svg",
    {
      viewBox: `0 0 ${FRAME.width} ${FRAME.height}`,
      role: "img",
      "aria-label": describeLines(title, lines, labels, share),
    },
    axisY(frame, range, format),
    labels.map((label, place) => (place % step ? null : svg(
      "text",
      {
        class: "tick",
        x: frame.x(place),
        y: FRAME.height - FRAME.bottom + 14,
        "text-anchor": "middle",
      },
      label,
    ))),
    reference === null ? null : across(frame, reference, "reference"),
    axisName(along),
    cursor,
    drawn,
  );
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * FRAME.width;
    const place = clamp(
      Math.round(((x - FRAME.left) / (FRAME.width - FRAME.left - FRAME.right)) * Math.max(1, labels.length - 1)),
      0,
      labels.length - 1,
    );
    cursor.setAttribute("visibility", "visible");
    cursor.setAttribute("x1", frame.x(place));
    cursor.setAttribute("x2", frame.x(place));
    showTooltip(event, lineTable(`${along} ${labels[place]}`, lines, place, share));
  });
  picture.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    hideTooltip();
  });
  return picture;
}

const shown = (value, share) => (share ? percent(value) : decimal(value));

function lineTable(title, lines, place, share) {
  const known = lines.filter((line) => isNumber(line.values[place]));
  return [
    el("strong", {}, title),
    el("table", {}, known.map((line) => {
      const swatch = el("span", { class: `swatch${line.dashed ? " dashed" : ""}` });
      swatch.style.setProperty("--colour", seriesColour(line.series));
      const spread = isNumber(line.spread?.[place]) ? ` ± ${shown(line.spread[place], share)}` : "";
      return el(
        "tr",
        {},
        el("td", {}, swatch, line.name),
        el("td", { class: "number" }, shown(line.values[place], share) + spread),
      );
    })),
    [...new Set(known.map((line) => line.signature))].map(signatureLine),
  ];
}

function describeLines(title, lines, labels, share) {
  const values = (line) => line.values.map((value, place) => `${labels[place]} ${shown(value, share)}`).join(", ");
  return `${title}. ${lines.map((line) => `${line.name}: ${values(line)}`).join("; ")}`;
}

function describePaths(title, paths) {
  const values = (path) => path.points.map(([x, y, label]) => `layer ${label} ${percent(x)}, ${decimal(y)}`).join("; ");
  return `${title}. ${paths.map((path) => `${path.name}: ${values(path)}`).join(". ")}`;
}

// paths: [{name, series, points: [[x, y, label], ...], signature}]
function pathChart({ title, paths, nameX, nameY, reference }) {
  const all = paths.flatMap((path) => path.points);
  const rangeX = rangeOf(all.map(([x]) => x));
  const rangeY = rangeOf([...all.map(([, y]) => y), reference], { low: 0.5, high: 1 });
  const frame = frameOf(rangeX, rangeY);
  const picture = svg(
    "svg",
    {
      viewBox: `0 0 ${FRAME.width} ${FRAME.height}`,
      role: "img",
      "aria-label": describePaths(title, paths),
    },
    axisY(frame, rangeY, (value) => decimal(value, 2)),
    ticks(...rangeX).map((value) => svg(
      "text",
      { class: "tick", x: frame.x(value), y: FRAME.height - FRAME.bottom + 14, "text-anchor": "middle" },
      percent(value, 0),
    )),
    across(frame, reference, "reference"),
    paths.map((path) => {
      const line = svg(
        "path",
        { class: "line thin", d: linePath(path.points.map(([x, y]) => [frame.x(x), frame.y(y)])) },
      );
      line.style.stroke = seriesColour(path.series);
      return [line, path.points.map(([x, y, label]) => {
        const dot = svg(
          "g",
          { class: "point" },
          markAt(path.series, frame.x(x), frame.y(y)),
          svg("text", { class: "tick", x: frame.x(x) + 6, y: frame.y(y) - 5 }, label),
        );
        return withTooltip(
          dot,
          () => [
            el("strong", {}, `${path.name}, layer ${label}`),
            el("div", {}, `${nameX} ${percent(x)}, ${nameY} ${decimal(y)}`),
            signatureLine(path.signature),
          ],
        );
      })];
    }),
  );
  return picture;
}
