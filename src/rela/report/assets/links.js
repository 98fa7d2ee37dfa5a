// Words above and below (or left and right, when there are many), with a line for each weight of the head.

class Links {
  constructor() {
    this.canvas = el("canvas", { class: "lines", role: "img" });
    this.keys = el("div", { class: "words keys" });
    this.queries = el("div", { class: "words queries" });
    this.inner = el("div", { class: "links-inner" }, this.keys, this.queries, this.canvas);
    this.element = el("div", { class: "links", tabindex: "0", role: "region", "aria-label": "words and their links" }, this.inner);
    this.element.addEventListener("pointerleave", () => setHover(null, null));
  }

  draw(matrix, sentence, label) {
    this.matrix = matrix;
    const word = (unit, place, axis) => {
      const isNull = axis === "row" && matrix.nullRow[place];
      const made = el("span", { class: `word${unitClass(unit)}${isNull ? " null" : ""}`, "data-place": place }, isNull ? el("span", { class: "null-mark" }, "∅") : null, bdi(unit.text));
      const act = (how) => (axis === "row" ? how(unit, null) : how(null, unit));
      made.addEventListener("pointerenter", () => act(setHover));
      made.addEventListener("click", () => act(togglePin));
      return made;
    };
    this.keys.replaceChildren(...matrix.cols.map((unit, place) => word(unit, place, "col")));
    this.queries.replaceChildren(...matrix.rows.map((unit, place) => word(unit, place, "row")));
    const wide = (units) => units.reduce((sum, unit) => sum + textWidth(unit.text, 14) + 18, 0);
    const across = Math.max(wide(matrix.rows), wide(matrix.cols)) < this.element.clientWidth * 1.5;
    this.inner.className = `links-inner ${across ? "across" : "down"}`;
    this.canvas.setAttribute("aria-label", label);
    const gold = state.gold === "on" && state.kind === "cross" ? goldBlocks(matrix, sentence) : [];
    this.gold = gold;
    this.place();
    this.highlight();
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

  highlight() {
    if (!this.matrix) return;
    const { row, col } = this.places();
    this.drawLines(row, col);
    const paint = (box, current, level) => [...box.children].forEach((word, place) => {
      word.classList.toggle("current", place === current);
      paintByLevel(word, level(place));
    });
    paint(this.queries, row, (place) => (col >= 0 && row < 0 ? shownLevel(this.matrix, place, col, state.scale) : 0));
    paint(this.keys, col, (place) => (row >= 0 && col < 0 ? shownLevel(this.matrix, row, place, state.scale) : 0));
  }

  curve(context, [x, y], [u, v]) {
    context.beginPath();
    context.moveTo(x, y);
    if (this.across) context.bezierCurveTo(x, (y + v) / 2, u, (y + v) / 2, u, v);
    else context.bezierCurveTo((x + u) / 2, y, (x + u) / 2, v, u, v);
    context.stroke();
  }

  drawLines(row, col) {
    const { matrix } = this;
    const context = fitCanvas(this.canvas, ...this.area);
    const isPicked = (i, j) => (row < 0 || i === row) && (col < 0 || j === col);
    const lines = [];
    matrix.rows.forEach((_, i) => matrix.cols.forEach((__, j) => {
      if (matrix.nonzero[i * matrix.cols.length + j]) lines.push({ i, j, level: shownLevel(matrix, i, j, state.scale) });
    }));
    lines.sort((one, other) => Math.abs(one.level) - Math.abs(other.level));
    context.lineCap = "round";
    this.drawGold(context, isPicked);
    for (const { i, j, level } of lines) {
      const strong = Math.abs(level);
      context.globalAlpha = isPicked(i, j) ? 0.15 + 0.85 * strong : 0.05;
      context.lineWidth = 0.5 + 3.5 * strong * strong;
      context.strokeStyle = colourOf(0.35 + 0.65 * strong, level < 0 ? "negative" : "positive");
      this.curve(context, this.from[j], this.to[i]);
    }
    context.globalAlpha = 1;
  }

  drawGold(context, isPicked) {
    context.strokeStyle = cssVariable("--gold");
    for (const { sure, top, left, bottom, right } of this.gold) {
      for (let i = top; i <= bottom; i += 1) for (let j = left; j <= right; j += 1) {
        context.globalAlpha = isPicked(i, j) ? 0.7 : 0.1;
        context.lineWidth = sure ? 1.2 : 1;
        context.setLineDash(sure ? [] : [4, 4]);
        const shift = this.across ? [[-4, 0], [-4, 0]] : [[0, -4], [0, -4]];
        const move = ([x, y], [a, b]) => [x + a, y + b];
        this.curve(context, move(this.from[j], shift[0]), move(this.to[i], shift[1]));
      }
    }
    context.setLineDash([]);
  }
}
