// Cells on a canvas. What is exactly zero is blank with a tiny dot, a null row is hatched, a forbidden place is grey,
// and any other weight, however small, has a colour.

const DOTTED = 13; // cells from this size on have the dot
const GAPPED = 8; // and from this size on a gap between them

// An empty canvas of this size, sharp on any screen.
function fitCanvas(canvas, width, height) {
  const ratio = Math.min(devicePixelRatio || 1, 16000 / Math.max(1, width, height));
  const size = [width, height].map((length) => Math.max(1, Math.round(length * ratio)));
  const context = canvas.getContext("2d");
  if (canvas.width !== size[0] || canvas.height !== size[1]) {
    [canvas.width, canvas.height] = size; // costly, and it clears
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

function hatch(context, colour) {
  const ratio = Math.max(1, Math.round(devicePixelRatio || 1));
  const tile = el("canvas", { width: 6 * ratio, height: 6 * ratio });
  const pen = tile.getContext("2d");
  pen.scale(ratio, ratio);
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const shift of [-6, 0, 6]) {
    pen.moveTo(shift - 1, 7);
    pen.lineTo(shift + 7, -1);
  }
  pen.stroke();
  const pattern = context.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}

function drawCells(canvas, matrix, size, gold) {
  const [numRows, numCols] = [matrix.rows.length, matrix.cols.length];
  const context = fitCanvas(canvas, numCols * size, numRows * size);
  const names = ["paper", "forbidden", "dot", "hatch"];
  const colours = Object.fromEntries(names.map((name) => [name, cssVariable(`--cell-${name}`)]));
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, numCols * size, numRows * size);
  const pattern = hatch(context, colours.hatch);
  const gap = size >= GAPPED ? 1 : 0;
  for (let i = 0; i < numRows; i += 1) {
    if (matrix.nullRow[i]) {
      context.fillStyle = pattern;
      context.fillRect(0, i * size, numCols * size, size - gap);
    }
    for (let j = 0; j < numCols; j += 1) drawCell(context, matrix, i, j, size, gap, colours);
  }
  if (gold.length) drawGold(context, gold, size);
}

function drawCell(context, matrix, i, j, size, gap, colours) {
  const at = i * matrix.cols.length + j;
  if (!matrix.allowed[at]) {
    context.fillStyle = colours.forbidden;
    context.fillRect(j * size, i * size, size, size);
  } else if (matrix.nonzero[at]) {
    const level = shownLevel(matrix, i, j, state.scale);
    context.fillStyle = colourOf(Math.abs(level), level < 0 ? "negative" : "positive");
    context.fillRect(j * size, i * size, size - gap, size - gap);
    if (level < 0 && size >= DOTTED) {
      context.fillStyle = inkOn(rampOf("negative")[Math.round(-level * 255)]);
      context.fillRect((j + 0.3) * size, (i + 0.5) * size - 1, 0.4 * size, 1.5);
    }
  } else if (size >= DOTTED && !matrix.nullRow[i]) {
    context.fillStyle = colours.dot;
    context.fillRect((j + 0.5) * size - 1.5, (i + 0.5) * size - 1.5, 2, 2);
  }
}

// Sure links have a whole outline, possible ones a dashed one; both with a rim that parts them from any colour.
function drawGold(context, gold, size) {
  const inset = size >= 12 ? 2 : 1;
  for (const [width, colour] of [
    [size >= 12 ? 4 : 2.5, cssVariable("--gold-rim")],
    [size >= 12 ? 2 : 1.25, cssVariable("--gold")],
  ]) {
    for (const { sure, top, left, bottom, right } of gold) {
      context.setLineDash(sure ? [] : [size / 5, size / 6]);
      context.lineWidth = width;
      context.strokeStyle = colour;
      context.strokeRect(
        left * size + inset - 0.5,
        top * size + inset - 0.5,
        (right - left + 1) * size - 2 * inset,
        (bottom - top + 1) * size - 2 * inset,
      );
    }
  }
  context.setLineDash([]);
}

function drawCross(canvas, matrix, size, row, col) {
  const context = fitCanvas(canvas, matrix.cols.length * size, matrix.rows.length * size);
  const [width, height] = [matrix.cols.length * size, matrix.rows.length * size];
  context.fillStyle = cssVariable("--veil");
  if (row >= 0) {
    context.fillRect(0, 0, width, row * size);
    context.fillRect(0, (row + 1) * size, width, height - (row + 1) * size);
  }
  if (col >= 0 && row < 0) {
    context.fillRect(0, 0, col * size, height);
    context.fillRect((col + 1) * size, 0, width - (col + 1) * size, height);
  }
  context.strokeStyle = cssVariable("--ink");
  context.lineWidth = 1;
  if (col >= 0 && row >= 0) context.strokeRect(col * size - 0.5, row * size - 0.5, size, size);
}
