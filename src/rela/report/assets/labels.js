// Where words inside a chart have room: on no mark, on no line to compare with, and on no other word.

const LETTERS = { size: 10.5, above: 8.5, below: 2.5 }; // of .tick: its size, and how far it reaches from its baseline
const MARK = 5; // half of a mark

const boxAround = (x, y, half) => ({ left: x - half, right: x + half, top: y - half, bottom: y + half });
const marksOf = (frame, points) => points.map(([x, y]) => boxAround(frame.x(x), frame.y(y), MARK));
const lineBox = (frame, value) => ({
  left: FRAME.left,
  right: FRAME.width - FRAME.right,
  top: frame.y(value) - 0.5,
  bottom: frame.y(value) + 0.5,
});

const isApart = (one, other) =>
  one.right <= other.left || other.right <= one.left || one.bottom <= other.top || other.bottom <= one.top;
const isFree = (box, taken) => taken.every((other) => isApart(box, other));
const isInside = (box) =>
  box.left >= FRAME.left && box.right <= FRAME.width && box.top >= 0 && box.bottom <= FRAME.height - FRAME.bottom;

// A text that begins at `left` and whose middle is at the height `y`.
function textBox(text, left, y) {
  const half = (LETTERS.above + LETTERS.below) / 2;
  return { left, right: left + textWidth(text, LETTERS.size), top: y - half, bottom: y + half };
}
const attributesOf = (box) => ({ x: box.left, y: box.bottom - LETTERS.below });

// For the name of a value to compare with: at one of the line's ends or between them, above or below, on no mark of the
// points [x, y] if that can be.
function referenceSpot(frame, { value, name }, points) {
  const wide = textWidth(name, LETTERS.size);
  const [first, last] = [FRAME.left + 3, FRAME.width - FRAME.right - wide];
  const between = Array.from({ length: 19 }, (_, place) => last - ((place + 1) / 20) * (last - first));
  const boxes = [[-7.5, 7.5], [-18, 18]].flatMap((heights) => [last, first, ...between].flatMap(
    (left) => heights.map((away) => textBox(name, left, frame.y(value) + away)),
  )).filter(isInside);
  const marks = marksOf(frame, points);
  const box = boxes.find((found) => isFree(found, marks)) ?? boxes[0];
  return { box, ...attributesOf(box) };
}

// A value to compare with: a dashed line, with what it means.
const referenceLine = (frame, { value, name }, { x, y }) => [
  across(frame, value, "reference"),
  svg("text", { class: "tick", x, y }, name),
];

// For the labels of points [x, y, label]: beside its mark, where nothing is. One without room is left out, as its
// tooltip has it.
function labelSpots(frame, points, others) {
  const taken = [...others, ...marksOf(frame, points)];
  const spots = new Map();
  for (const point of points) {
    const [x, y, label] = [frame.x(point[0]), frame.y(point[1]), point[2]];
    const wide = textWidth(label, LETTERS.size);
    const [right, left, middle] = [x + MARK, x - MARK - wide, x - wide / 2];
    const candidates = [
      [right, y - 7], [left, y - 7], [right, y + 7], [left, y + 7],
      [middle, y - 11], [middle, y + 11], [right + 1, y], [left - 1, y],
    ].map((place) => textBox(label, ...place));
    const box = candidates.find((found) => isInside(found) && isFree(found, taken));
    if (!box) continue;
    taken.push(box);
    spots.set(point, attributesOf(box));
  }
  return spots;
}
