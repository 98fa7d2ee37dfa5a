// Lines over layers, and points, as SVG.

// The width is set to that of a column before charts are drawn, so that text has its own size.
const FRAME = { width: 340, height: 150, left: 38, right: 12, top: 8, bottom: 20 };

function frameOf(rangeX, rangeY) {
  const [wide, high] = [FRAME.width - FRAME.left - FRAME.right, FRAME.height - FRAME.top - FRAME.bottom];
  const along = (value, { low, high }) => (value - low) / (high - low || 1);
  return {
    x: (value) => FRAME.left + along(value, rangeX) * wide,
    y: (value) => FRAME.height - FRAME.bottom - clamp(along(value, rangeY), 0, 1) * high,
  };
}

// The range of all values, which begins and ends at a tick: from `least`, or lower, and never over `most`.
function rangeOf(values, { least = 0, most = Infinity, steps = 4 } = {}) {
  const known = values.filter(isNumber);
  const low = Math.min(least, ...known);
  const high = Math.min(most, Math.max(least, ...known));
  const found = ticks(low, high - low < 1e-9 ? low + 1 : high, steps);
  return { low: found[0], high: found.at(-1), ticks: found };
}

// What a line of a chart needs room for: its values, and the deviation above them.
const topsOf = ({ values, spread }) => values.flatMap((value, place) => (isNumber(value) ? [
  value,
  value + (spread?.[place] ?? 0),
] : []));

// A line across the whole frame.
const across = (frame, value, name) => svg(
  "line",
  { class: name, x1: FRAME.left, x2: FRAME.width - FRAME.right, y1: frame.y(value), y2: frame.y(value) },
);

function axisY(frame, range, format) {
  return range.ticks.map((value) => [
    across(frame, value, "grid"),
    svg("text", { class: "tick", x: FRAME.left - 6, y: frame.y(value) + 3.5, "text-anchor": "end" }, format(value)),
  ]);
}

// Ticks with as many digits as it takes to tell them right, all with the same.
function tickFormat({ ticks: found }, share) {
  const scale = share ? 100 : 1;
  const rest = (value, digits) => Math.abs(Number((scale * value).toFixed(digits)) - scale * value);
  const isExact = (digits) => found.every((value) => rest(value, digits) < 1e-6);
  const digits = [0, 1, 2].find(isExact) ?? 3;
  return (value) => (share ? percent(value, digits) : fixed(value, digits));
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

const mostOf = (share) => (share ? 1 : Infinity);

// lines: [{name, series, values, spread?, dashes?, signature}], all over the same `labels`.
function lineChart({ title, lines, labels, share = true, range = null, along = "layer", reference = null }) {
  range ??= rangeOf([...lines.flatMap(topsOf), reference?.value], { most: mostOf(share) });
  const frame = frameOf({ low: 0, high: Math.max(1, labels.length - 1) }, range);
  const places = lines.flatMap(({ values }) => values.flatMap((value, place) => (isNumber(value) ? [[place, value]] : [])));
  const cursor = svg("line", { class: "cursor", y1: FRAME.top, y2: FRAME.height - FRAME.bottom, visibility: "hidden" });
  const drawn = lines.map((line) => {
    const points = line.values.map((value, place) => (isNumber(value) ? [frame.x(place), frame.y(value)] : null));
    const path = strokeOf(svg("path", { class: "line", d: linePath(points) }), line.series, line.dashes);
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
    axisY(frame, range, tickFormat(range, share)),
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
    reference && referenceLine(frame, reference, referenceSpot(frame, reference, places)),
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

const shown = (value, share) => (share ? percent(value) : fixed(value));

function lineTable(title, lines, place, share) {
  const known = lines.filter((line) => isNumber(line.values[place]));
  return [
    el("strong", {}, title),
    el("table", {}, known.map((line) => {
      const spread = isNumber(line.spread?.[place]) ? ` ± ${shown(line.spread[place], share)}` : "";
      return el(
        "tr",
        {},
        el("td", {}, legendLine(line.series, line.dashes), breakable(line.name)),
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
  const values = (path) => path.points.map(([x, y, label]) => `layer ${label} ${percent(x)}, ${fixed(y)}`).join("; ");
  return `${title}. ${paths.map((path) => `${path.name}: ${values(path)}`).join(". ")}`;
}

// paths: [{name, series, points: [[x, y, label], ...], signature}]
function pathChart({ title, paths, nameX, nameY, reference }) {
  const all = paths.flatMap((path) => path.points);
  const rangeX = rangeOf(all.map(([x]) => x), { most: 1 });
  const rangeY = rangeOf([...all.map(([, y]) => y), 1], { least: reference.value, steps: 5 });
  const frame = frameOf(rangeX, rangeY);
  const spot = referenceSpot(frame, reference, all);
  const spots = labelSpots(frame, all, [spot.box, lineBox(frame, reference.value)]);
  const picture = svg(
    "svg",
    {
      viewBox: `0 0 ${FRAME.width} ${FRAME.height}`,
      role: "img",
      "aria-label": describePaths(title, paths),
    },
    axisY(frame, rangeY, tickFormat(rangeY, false)),
    rangeX.ticks.map((value) => svg(
      "text",
      { class: "tick", x: frame.x(value), y: FRAME.height - FRAME.bottom + 14, "text-anchor": "middle" },
      tickFormat(rangeX, true)(value),
    )),
    referenceLine(frame, reference, spot),
    paths.map((path) => {
      const line = svg(
        "path",
        { class: "line thin", d: linePath(path.points.map(([x, y]) => [frame.x(x), frame.y(y)])) },
      );
      return [strokeOf(line, path.series), path.points.map((point) => {
        const [x, y, label] = point;
        const at = spots.get(point);
        const dot = svg(
          "g",
          { class: "point" },
          markAt(path.series, frame.x(x), frame.y(y)),
          at && svg("text", { class: "tick", ...at }, label),
        );
        return withTooltip(
          dot,
          () => [
            el("strong", {}, nameOf(path), `, layer ${label}`),
            el("div", {}, `${nameX} ${percent(x)}, ${nameY} ${fixed(y)}`),
            signatureLine(path.signature),
          ],
        );
      })];
    }),
  );
  return picture;
}
