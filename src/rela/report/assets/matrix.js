// A head's weights for a sentence, between the units that are shown.

// Weights are summed over a key's pieces and averaged over a query's. Null, zero and forbidden are exact at both.
function makeMatrix(head, axes, causal) {
  const { rows, cols } = axes;
  const size = rows.length * cols.length;
  const matrix = {
    ...axes,
    value: new Float32Array(size),
    nonzero: new Uint8Array(size),
    allowed: new Uint8Array(size),
    nullRow: new Uint8Array(rows.length),
    rowMax: new Float32Array(rows.length),
    max: 0,
  };
  rows.forEach((row, i) => {
    let any = false;
    cols.forEach((col, j) => {
      const at = i * cols.length + j;
      let sum = 0;
      for (const query of row.places) {
        for (const key of col.places) {
          if (causal && key > query) continue;
          matrix.allowed[at] = 1;
          const place = query * head.keys + key;
          if (head.bytes[place] === 0) continue;
          matrix.nonzero[at] = 1;
          sum += weightAt(head, place);
        }
      }
      matrix.value[at] = row.places.length ? sum / row.places.length : 0;
      any ||= matrix.nonzero[at] === 1;
      matrix.rowMax[i] = Math.max(matrix.rowMax[i], Math.abs(matrix.value[at]));
    });
    matrix.nullRow[i] = row.places.length && !any ? 1 : 0;
    matrix.max = Math.max(matrix.max, matrix.rowMax[i]);
  });
  return matrix;
}

// From -1 to 1, for colours: the root of a weight's share of the largest in its head, or in its row.
function shownLevel(matrix, i, j, scale) {
  const value = matrix.value[i * matrix.cols.length + j];
  const largest = scale === "row" ? matrix.rowMax[i] : matrix.max;
  return largest > 0 ? Math.sign(value) * Math.sqrt(Math.min(1, Math.abs(value) / largest)) : 0;
}

function summaryOf(matrix) {
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const places = sum(matrix.allowed);
  return {
    nullRows: sum(matrix.nullRow),
    rows: matrix.rows.length,
    zeros: places ? 1 - sum(matrix.nonzero) / places : null,
    places,
    max: matrix.max,
  };
}

// Gold links as blocks of cells [top, left, bottom, right], both ends inside; sure ones are possible too.
function goldBlocks(matrix, sentence) {
  const range = (units, word) => {
    const places = units.flatMap((unit, place) => (unit.words.includes(word) ? [place] : []));
    return places.length ? [Math.min(...places), Math.max(...places)] : null;
  };
  const key = (link) => link.join("-");
  const sure = new Set((sentence.sure ?? []).map(key));
  const links = new Map([...(sentence.sure ?? []), ...(sentence.possible ?? [])].map((link) => [key(link), link]));
  return [...links].flatMap(([name, [source, target]]) => {
    const [row, col] = [range(matrix.rows, target), range(matrix.cols, source)];
    return row && col ? [{ sure: sure.has(name), top: row[0], bottom: row[1], left: col[0], right: col[1] }] : [];
  });
}

// The link of each target word: its source word of largest weight; null rows link nothing, and EOS is no word.
function bestLinks(matrix) {
  return matrix.rows.flatMap((row, i) => {
    if (row.kind !== "word" || matrix.nullRow[i]) return [];
    let best = -1;
    matrix.cols.forEach((col, j) => {
      const value = matrix.value[i * matrix.cols.length + j];
      const isLarger = best < 0 || value > matrix.value[i * matrix.cols.length + best];
      if (col.kind === "word" && value > 0 && isLarger) best = j;
    });
    return best < 0 ? [] : [[matrix.cols[best].words[0], row.words[0]]];
  });
}

// Alignment error rate of these links; null without gold links.
function errorRate(links, sentence) {
  if (!sentence.sure && !sentence.possible) return null;
  const key = (link) => link.join("-");
  const sure = new Set((sentence.sure ?? []).map(key));
  const possible = new Set([...sure, ...(sentence.possible ?? []).map(key)]);
  const hits = (gold) => links.filter((link) => gold.has(key(link))).length;
  const total = links.length + sure.size;
  return total ? 1 - (hits(sure) + hits(possible)) / total : null;
}
