// Bars: how far a head looks, and after which words it is silent. For the heads of one or two sides.

const barColour = ({ series, pale }) =>
  (pale ? `color-mix(in srgb, ${seriesColour(series)} 58%, var(--page))` : seriesColour(series));

// sets: [{series, pale, values}]; bars of a label stand side by side.
function columnChart({ title, labels, sets, format }) {
  const { left, right, top, bottom } = { left: 34, right: 6, top: 8, bottom: 24 };
  const [width, height] = [340, 120];
  const largest = Math.max(1e-9, ...sets.flatMap((set) => set.values.filter(isNumber)));
  const step = (width - left - right) / labels.length;
  const y = (value) => height - bottom - (value / largest) * (height - top - bottom);
  const described = (label, place) => `${label}: ${sets.map((set) => format(set.values[place])).join(" and ")}`;
  const wide = Math.max(1, (step * 0.8) / sets.length);
  return svg(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `${title}. ${labels.map(described).join(", ")}`,
    },
    [0, largest / 2, largest].map((value) => [
      svg("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      svg("text", { class: "tick", x: left - 5, y: y(value) + 3.5, "text-anchor": "end" }, format(value)),
    ]),
    labels.map((label, place) => {
      const group = svg(
        "g",
        { class: "bar" },
        svg("rect", { class: "catch", x: left + place * step, y: top, width: step, height: height - top - bottom }),
      );
      sets.forEach((set, number) => {
        const value = set.values[place] ?? 0;
        const bar = svg(
          "rect",
          {
            x: left + place * step + step * 0.1 + number * wide,
            y: y(value),
            width: wide,
            height: Math.max(0, height - bottom - y(value)),
          },
        );
        bar.style.fill = barColour(set);
        group.append(bar);
      });
      const isShown = labels.length <= 12 || label.includes("=") || Number(label) % 5 === 0;
      if (isShown) group.append(svg(
        "text",
        { class: "tick", x: left + (place + 0.5) * step, y: height - bottom + 14, "text-anchor": "middle" },
        label.replace("<=-", "≤−").replace(">=", "≥").replace(/^-/, "−"),
      ));
      return withTooltip(
        group,
        () => [
          el("strong", {}, `${title}: ${label}`),
          sets.map((set) => el("div", {}, `${set.name}: ${format(set.values[place])}`)),
          sets.map((set) => signatureLine(set.signature)),
        ],
      );
    }),
  );
}

// rows: [{label, count, values: one for each of sets}]
function rowBars({ title, rows, sets, format }) {
  return el("table", { class: "bars", "aria-label": title }, rows.map((row) =>
    withTooltip(
      el("tr", {},
        el("th", { scope: "row" }, bdi(row.label)),
        el("td", { class: "track" }, sets.map((set, number) => {
          const bar = el("div", { class: "track-bar" });
          bar.style.setProperty("--share", isNumber(row.values[number]) ? row.values[number] : 0);
          bar.style.setProperty("--colour", barColour(set));
          return bar;
        })),
        el("td", { class: "number" }, row.values.map((value) => el("div", {}, format(value)))),
        el("td", { class: "number quiet" }, isNumber(row.count) ? count(row.count) : ""),
      ),
      () => [
        el("strong", {}, row.label),
        sets.map((set, number) => el("div", {}, `${set.name}: ${format(row.values[number])}`)),
        el("div", { class: "quiet" }, isNumber(row.count) ? plural(row.count, "row") : ""),
        sets.map((set) => signatureLine(set.signature)),
      ],
    )));
}
