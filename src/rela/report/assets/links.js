// Words above and below (or left and right, when there are many), with a line for each weight of the head.

const STRENGTHS = 24;
const LETTER_SIZES = [14, 13, 12, 11, 10.5];

class Links {
  constructor() {
    this.canvas = el("canvas", { class: "lines", role: "img" });
    this.keys = el("div", { class: "words keys" });
    this.queries = el("div", { class: "words queries" });
    this.picked = el("canvas", { class: "lines", "aria-hidden": "true" });
    this.inner = el("div", { class: "links-inner" }, this.keys, this.queries, this.canvas, this.picked);
    this.element = el(
      "div",
      { class: "links", tabindex: "0", role: "region", "aria-label": "words and their links" },
      this.inner,
    );
    this.element.addEventListener("pointerleave", () => setHover(null, null));
  }

  draw(matrix, sentence, label) {
    this.matrix = matrix;
    const word = (unit, place, axis) => {
      const isNull = axis === "row" && matrix.nullRow[place];
      const made = el(
        "span",
        { class: `word${unitClass(unit)}${isNull ? " null" : ""}`, "data-place": place },
        isNull ? el("span", { class: "null-mark" }, "∅") : null,
        bdi(unit.text),
      );
      const act = (how) => (axis === "row" ? how(unit, null) : how(null, unit));
      made.addEventListener("pointerenter", () => act(setHover));
      made.addEventListener("click", () => act(togglePin));
      return made;
    };
    this.keys.replaceChildren(...matrix.cols.map((unit, place) => word(unit, place, "col")));
    this.queries.replaceChildren(...matrix.rows.map((unit, place) => word(unit, place, "row")));
    // What was drawn before must not count as content, or the box would never get smaller.
    const canvases = [this.canvas, this.picked];
    for (const canvas of canvases) canvas.hidden = true;
    this.fit();
    this.canvas.setAttribute("aria-label", label);
    this.gold = state.gold === "on" && state.kind === "cross" ? goldBlocks(matrix, sentence) : [];
    this.place();
    for (const canvas of canvases) canvas.hidden = false;
    this.drawLines(this.canvas, () => true);
    this.highlight();
  }

  // Words across, smaller if that makes them fit; down, if they would get too small to read.
  fit() {
    const isFitting = (letters) => {
      this.inner.style.setProperty("--letters", `${letters}px`);
      return this.element.scrollWidth <= this.element.clientWidth;
    };
    this.inner.className = "links-inner across";
    if (LETTER_SIZES.some(isFitting)) return;
    this.inner.className = "links-inner down";
    this.inner.style.setProperty("--letters", `${LETTER_SIZES[0]}px`);
  }

  // Where lines begin and end: the inner edges of the words.
  place() {
    const box = this.inner.getBoundingClientRect();
    const across = this.inner.classList.contains("across");
    const anchors = (words, first) => [...words.children].map((word) => {
      const rect = word.getBoundingClientRect();
      return across
        ? [rect.left + rect.width / 2 - box.left, (first ? rect.bottom : rect.top) - box.top]
        : [(first ? rect.right : rect.left) - box.left, rect.top + rect.height / 2 - box.top];
    });
    this.from = anchors(this.keys, true);
    this.to = anchors(this.queries, false);
    this.across = across;
    this.area = [Math.ceil(this.inner.scrollWidth), Math.ceil(this.inner.scrollHeight)];
  }

  places() {
    return { row: sameUnit(this.matrix.rows, hover.row), col: sameUnit(this.matrix.cols, hover.col) };
  }

  // All lines are drawn once; those of a hovered word lie above them, and the others fade.
  highlight() {
    if (!this.matrix) return;
    const { row, col } = this.places();
    const isPicked = (i, j) => (row < 0 || i === row) && (col < 0 || j === col);
    const isAny = row >= 0 || col >= 0;
    this.canvas.style.opacity = isAny ? 0.12 : 1;
    this.drawLines(this.picked, isAny ? isPicked : () => false);
    const paint = (box, current, level) => [...box.children].forEach((word, place) => {
      word.classList.toggle("current", place === current);
      paintByLevel(word, level(place));
    });
    paint(this.queries, row, (place) => (col >= 0 && row < 0 ? shownLevel(this.matrix, place, col, state.scale) : 0));
    paint(this.keys, col, (place) => (row >= 0 && col < 0 ? shownLevel(this.matrix, row, place, state.scale) : 0));
  }

  curve(context, [x, y], [u, v]) {
    context.moveTo(x, y);
    if (this.across) context.bezierCurveTo(x, (y + v) / 2, u, (y + v) / 2, u, v);
    else context.bezierCurveTo((x + u) / 2, y, (x + u) / 2, v, u, v);
  }

  // Weak lines first. Lines of about the same strength are one path: a dense head has thousands.
  drawLines(canvas, isPicked) {
    const { matrix } = this;
    const context = fitCanvas(canvas, ...this.area);
    this.drawGold(context, isPicked);
    const paths = new Map();
    matrix.rows.forEach((_, i) => matrix.cols.forEach((__, j) => {
      if (!matrix.nonzero[i * matrix.cols.length + j] || !isPicked(i, j)) return;
      const step = Math.round(STRENGTHS * shownLevel(matrix, i, j, state.scale));
      if (!paths.has(step)) paths.set(step, []);
      paths.get(step).push([i, j]);
    }));
    for (const step of [...paths.keys()].sort((one, other) => Math.abs(one) - Math.abs(other))) {
      const strong = Math.abs(step) / STRENGTHS;
      context.globalAlpha = 0.15 + 0.85 * strong;
      context.lineWidth = 0.5 + 3.5 * strong * strong;
      context.strokeStyle = colourOf(0.35 + 0.65 * strong, step < 0 ? "negative" : "positive");
      context.beginPath();
      for (const [i, j] of paths.get(step)) this.curve(context, this.from[j], this.to[i]);
      context.stroke();
    }
  }

  drawGold(context, isPicked) {
    const move = ([x, y]) => (this.across ? [x - 4, y] : [x, y - 4]); // beside the line of the weight
    context.strokeStyle = cssVariable("--gold");
    context.globalAlpha = 0.7;
    for (const isSure of [true, false]) {
      context.lineWidth = isSure ? 1.2 : 1;
      context.setLineDash(isSure ? [] : [4, 4]);
      context.beginPath();
      for (const { sure, top, left, bottom, right } of this.gold) {
        if (sure !== isSure) continue;
        for (let i = top; i <= bottom; i += 1) for (let j = left; j <= right; j += 1) if (isPicked(i, j)) this.curve(
          context,
          move(this.from[j]),
          move(this.to[i]),
        );
      }
      context.stroke();
    }
    context.setLineDash([]);
  }
}
