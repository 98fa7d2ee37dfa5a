// A matrix as a heatmap: labels that stay in sight while its box scrolls, and the cells on a canvas.

const LABEL_LIMIT = 118;
const MIN_LABELLED = 9; // smaller cells have no labels: there the line below the map says what is under the pointer
const BARE = 12; // the edge of a map without labels

const measureContext = document.createElement("canvas").getContext("2d");
function textWidth(text, size) {
  measureContext.font = `${size}px ${cssVariable("--font")}`;
  return measureContext.measureText(text).width;
}

// The size of a cell: as large as the box allows, but never too small to read, unless one asks for the whole.
function cellSize(matrix, width, left, top) {
  const { zoom } = state;
  if (zoom !== "auto" && zoom !== "fit") return Number(zoom);
  const fitting = (aside, above) => {
    const wide = Math.max(80, width - aside) / matrix.cols.length;
    return Math.floor(zoom === "fit" ? Math.min(
      wide,
      (Math.min(0.78 * innerHeight, 860) - above) / matrix.rows.length,
    ) : wide);
  };
  const size = fitting(left, top);
  if (zoom === "auto") return clamp(size, 14, 32);
  return clamp(size < MIN_LABELLED ? Math.min(fitting(BARE, BARE), MIN_LABELLED - 1) : size, 2, 34);
}

const unitClass = (unit) => (unit.kind === "eos" || unit.kind === "bos" ? " special" : "");

class Heatmap {
  constructor() {
    this.cells = el("canvas", { class: "cells", role: "img", tabindex: "-1" });
    this.overlay = el("canvas", { class: "overlay", "aria-hidden": "true" });
    this.rowLabels = el("div", { class: "row-labels" });
    this.colLabels = el("div", { class: "col-labels" });
    this.grid = el(
      "div",
      { class: "heat-grid" },
      el("div", { class: "corner" }),
      this.colLabels,
      this.rowLabels,
      el("div", { class: "plot" }, this.cells, this.overlay),
    );
    this.element = el("div", { class: "heat", tabindex: "0", role: "region", "aria-label": "heatmap" }, this.grid);
    this.overlay.addEventListener("pointermove", (event) => this.pointAt(event, setHover));
    this.overlay.addEventListener("click", (event) => this.pointAt(event, togglePin));
    this.element.addEventListener("pointerleave", () => setHover(null, null));
  }

  // `label` says in words what is drawn.
  draw(matrix, sentence, label) {
    this.matrix = matrix;
    const longest = (units, size) => Math.min(
      LABEL_LIMIT,
      Math.max(...units.map((unit) => textWidth(unit.text, size))),
    );
    const font = 12.5;
    const left = Math.ceil(longest(matrix.rows, font)) + 26;
    const top = Math.ceil(longest(matrix.cols, font)) + 12;
    const size = cellSize(matrix, this.element.clientWidth - 4, left, top);
    this.size = size;
    const text = Math.min(font, size - 2);
    const labelled = size >= MIN_LABELLED;
    this.grid.style.setProperty("--cell", `${size}px`);
    this.grid.style.setProperty("--label", `${text}px`);
    this.grid.style.setProperty("--left", `${labelled ? left : BARE}px`);
    this.grid.style.setProperty("--top", `${labelled ? top : BARE}px`);
    this.grid.classList.toggle("unlabelled", !labelled);
    this.rowLabels.replaceChildren(...matrix.rows.map((unit, place) => this.labelOf(unit, place, "row")));
    this.colLabels.replaceChildren(...matrix.cols.map((unit, place) => this.labelOf(unit, place, "col")));
    drawCells(
      this.cells,
      matrix,
      size,
      state.gold === "on" && state.kind === "cross" ? goldBlocks(matrix, sentence) : [],
    );
    this.cells.setAttribute("aria-label", label);
    fitCanvas(this.overlay, matrix.cols.length * size, matrix.rows.length * size);
    this.highlight();
  }

  labelOf(unit, place, axis) {
    const isNull = axis === "row" && this.matrix.nullRow[place];
    const label = el(
      "span",
      { class: `label ${axis}${unitClass(unit)}${isNull ? " null" : ""}`, "data-place": place, title: unit.text },
      isNull ? el("span", { class: "null-mark" }, "∅") : null,
      bdi(unit.text),
    );
    const act = (how) => (axis === "row" ? how(unit, null) : how(null, unit));
    label.addEventListener("pointerenter", () => act(setHover));
    label.addEventListener("click", () => act(togglePin));
    return label;
  }

  pointAt(event, act) {
    const box = this.overlay.getBoundingClientRect();
    const row = this.matrix.rows[Math.floor((event.clientY - box.top) / this.size)];
    const col = this.matrix.cols[Math.floor((event.clientX - box.left) / this.size)];
    if (row && col) act(row, col);
  }

  // The hovered row and column here, which another view may have named.
  places() {
    return { row: sameUnit(this.matrix.rows, hover.row), col: sameUnit(this.matrix.cols, hover.col) };
  }

  highlight() {
    if (!this.matrix) return;
    const { row, col } = this.places();
    drawCross(this.overlay, this.matrix, this.size, row, col);
    this.paintLabels(
      this.rowLabels,
      row,
      (place) => (col >= 0 && row < 0 ? shownLevel(this.matrix, place, col, state.scale) : 0),
    );
    this.paintLabels(
      this.colLabels,
      col,
      (place) => (row >= 0 && col < 0 ? shownLevel(this.matrix, row, place, state.scale) : 0),
    );
  }

  paintLabels(box, current, level) {
    [...box.children].forEach((label, place) => {
      label.classList.toggle("current", place === current);
      const value = level(place);
      paintByLevel(label, value);
    });
  }
}

// The colour of a weight behind a word; none for zero.
function paintByLevel(element, level) {
  const colour = level ? rampOf(level < 0 ? "negative" : "positive")[Math.round(Math.abs(level) * 255)] : null;
  element.classList.toggle("linked", colour !== null);
  element.style.backgroundColor = colour ? css(colour) : "";
  element.style.color = colour ? inkOn(colour) : "";
}
