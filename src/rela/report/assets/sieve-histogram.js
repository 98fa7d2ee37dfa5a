// Histograms, and the axes that quality may have.

const logOdds = (share) => Math.log(share / (1 - share));

// From 0.1 to 0.9 at least, and as far as all but a few rows are. What is beyond is in the first and the last bar.
function logOddsAxis() {
  const at = (place) => logOdds(clamp(QUANTILES[place] ?? 0.5, 1e-4, 1 - 1e-4));
  const low = Math.floor(4 * Math.min(at(5), -2.25)) / 4;
  const high = Math.ceil(4 * Math.max(at(995), 2.25)) / 4;
  const from = (value) => (value <= low ? 0 : value >= high ? 1 : rounded(1 / (1 + Math.exp(-value))));
  const marks = [0.5, 0.1, 0.9, 0.01, 0.99, 0.001, 0.999, 0.0001, 0.9999, 0.3, 0.7];
  return {
    low,
    high,
    step: 0.05,
    to: (share) => (share <= 0 ? low : share >= 1 ? high : clamp(logOdds(share), low, high)),
    from,
    marks: marks.filter((mark) => logOdds(mark) > low && logOdds(mark) < high),
    bars(width) {
      const number = Math.min(Math.round((high - low) / 0.25), Math.floor((width - FRAME.left - FRAME.right) / 8));
      const edges = Array.from({ length: number + 1 }, (_, place) => low + ((high - low) * place) / number);
      const shares = edges.map((edge, place) => (place === number ? 1 : place ? 1 / (1 + Math.exp(-edge)) : 0));
      const under = shares.map((share, place) => (place === number ? SCORED : rowsUnder(share).number));
      return { edges, shares, counts: under.slice(1).map((rows, place) => Math.max(0, rows - under[place])) };
    },
    note:
      "Both ends are stretched: from 0.9 to 0.99 is about as far as from 0.5 to 0.9. What lies beyond the axis is in " +
      "the outermost bars.",
  };
}

// Marks in the order of their importance: where there is no room for all, the first ones stay.
const AXES = {
  "log-odds": logOddsAxis(),
  linear: {
    low: 0,
    high: 1,
    step: 0.01,
    to: (share) => share,
    from: (value) => Number(value.toFixed(2)),
    marks: [0, 1, 0.2, 0.4, 0.6, 0.8, 0.1, 0.3, 0.5, 0.7, 0.9],
    bars: () => ({ edges: QUALITY.edges, shares: QUALITY.edges, counts: QUALITY.counts }),
    note: "Bars are those of the summary. At their edges, the number of kept pairs is exact.",
  },
};

// ---------------------------------------------------------------- pictures

const FRAME = { left: 48, right: 12, top: 26, bottom: 22, height: 250 };
const HEIGHTS = { count: (value) => value, log: (value) => Math.log10(1 + value) };

function heightTicks(most) {
  if (state.bars === "log") return [0, 1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9].filter((value) => value <= most);
  return ticks(0, most, 4).filter((value) => Number.isInteger(value) && value <= 1.05 * most);
}

// Those that are far enough from all before them.
function withRoom(marks, x) {
  const taken = [];
  for (const mark of marks) if (taken.every((other) => Math.abs(x(other.at) - x(mark.at)) >= 36)) taken.push(mark);
  return taken;
}
const shortCount = (value) => (value >= 1e6 ? `${value / 1e6}M` : value >= 1e4 ? `${value / 1e3}k` : count(value));

// A box that is not shown has no width.
const widthOf = (box) => Math.max(280, box.clientWidth);

// A histogram in a box, as wide as the box is. `layers` are groups that each get a copy of the bars.
function drawHistogram(box, { edges, counts, marks, label, layers, barText }) {
  const width = widthOf(box);
  const height = FRAME.height;
  const [low, high] = [edges[0], edges.at(-1)];
  const x = (value) => FRAME.left + ((value - low) / (high - low || 1)) * (width - FRAME.left - FRAME.right);
  const most = Math.max(1, ...counts);
  const total = sumOf(counts);
  const scale = HEIGHTS[state.bars];
  const y = (value) => height - FRAME.bottom - (scale(value) / scale(most)) * (height - FRAME.top - FRAME.bottom);
  const bars = counts.map((value, place) => {
    const [left, right] = [x(edges[place]), x(edges[place + 1])];
    const gap = right - left > 4 ? 1 : 0;
    const top = value ? Math.min(y(value), height - FRAME.bottom - 1.5) : y(0); // a few rows can be seen too
    return `M${left.toFixed(1)} ${y(0)}V${top.toFixed(1)}H${(right - gap).toFixed(1)}V${y(0)}Z`;
  }).join("");
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    heightTicks(most).map((value) => [
      svg("line", { class: "grid", x1: FRAME.left, x2: width - FRAME.right, y1: y(value), y2: y(value) }),
      svg("text", { class: "tick", x: FRAME.left - 6, y: y(value) + 3.5, "text-anchor": "end" }, shortCount(value)),
    ]),
    svg("text", { class: "tick", x: FRAME.left - 6, y: 12, "text-anchor": "end" }, "pairs"),
    layers.map((attributes) => svg("path", { ...attributes, d: bars })),
    withRoom(marks, x).map(({ at, text }) => [
      svg("line", { class: "grid", x1: x(at), x2: x(at), y1: height - FRAME.bottom, y2: height - FRAME.bottom + 4 }),
      svg("text", { class: "tick", x: x(at), y: height - FRAME.bottom + 16, "text-anchor": "middle" }, text),
    ]),
  );
  const valueAt = (event) => {
    const bounds = picture.getBoundingClientRect();
    const along = ((event.clientX - bounds.left) / bounds.width) * width;
    return low + clamp((along - FRAME.left) / (width - FRAME.left - FRAME.right), 0, 1) * (high - low);
  };
  picture.addEventListener("pointermove", (event) => {
    const value = valueAt(event);
    const after = edges.findIndex((edge) => edge > value);
    const bar = (after < 0 ? edges.length - 1 : after) - 1;
    const rows = `${plural(counts[bar], "pair")}, ${shareText(counts[bar], total)}`;
    showTooltip(event, el("strong", {}, barText(bar)), el("div", {}, rows));
  });
  picture.addEventListener("pointerleave", hideTooltip);
  box.replaceChildren(picture);
  return { picture, x, valueAt, width, counts };
}

