// Every head of a kind for this sentence, small: a click makes it the one that is shown.

function drawThumbnail(canvas, head, causal) {
  const { queries, keys } = head;
  canvas.width = keys;
  canvas.height = queries;
  const context = canvas.getContext("2d");
  const image = context.createImageData(keys, queries);
  const [paper, forbidden, nothing] = [
    "--cell-paper",
    "--cell-forbidden",
    "--cell-null",
  ].map((name) => parseHex(cssVariable(name)));
  for (let i = 0; i < queries; i += 1) {
    const isNull = head.bytes.subarray(i * keys, (i + 1) * keys).every((byte) => byte === 0);
    for (let j = 0; j < keys; j += 1) {
      const level = levelAt(head, i * keys + j);
      let colour = rampOf(level < 0 ? "negative" : "positive")[Math.round(Math.abs(level) * 255)];
      if (level === 0) colour = isNull ? nothing : paper;
      if (causal && j > i) colour = forbidden;
      image.data.set([colour[0], colour[1], colour[2], 255], 4 * (i * keys + j));
    }
  }
  context.putImageData(image, 0, 0);
}

// Drawn anew for another sentence, kind, model or theme; another head is only marked.
function renderThumbnails(box, place, block) {
  const layers = block[state.kind];
  const key = `${currentTheme()} ${place} ${state.sides[place].model}`;
  if (box.layers !== layers || box.key !== key) box.replaceChildren(thumbnailGrid(place, layers));
  Object.assign(box, { layers, key });
  const { layer, head } = state.sides[place];
  for (const button of box.querySelectorAll(".thumbnail")) button.setAttribute(
    "aria-pressed",
    String(button.dataset.head === `${layer}.${head}`),
  );
}

function thumbnailGrid(place, layers) {
  const side = state.sides[place];
  const grid = el(
    "div",
    { class: "thumbnails", role: "group", "aria-label": `all heads of ${modelOf(side).name} for this sentence` },
  );
  grid.style.setProperty("--heads", layers[0].length);
  layers.forEach((heads, layer) => heads.forEach((head, number) => {
    const canvas = el("canvas", { "aria-hidden": "true" });
    drawThumbnail(canvas, head, state.kind === "decoder");
    grid.append(el(
      "button",
      {
        type: "button",
        class: "thumbnail",
        "data-head": `${layer}.${number}`,
        "aria-label": headName(layer, number),
        onclick: () => updateSide(place, { layer, head: number }),
      },
      canvas,
      el("span", {}, `L${layer + 1} H${number}`),
    ));
  }));
  return grid;
}
