// The heads of a model, and the weights of one on a text and the translation that is shown.

const KINDS = {
  cross: { name: "cross-attention", rows: "translation", columns: "source" },
  encoder: { name: "encoder self-attention", rows: "source", columns: "source" },
  decoder: { name: "decoder self-attention", rows: "translation", columns: "translation" },
};

/** All heads. The darker one of cross-attention, the more often it attends to nothing; of others that is not known. */
function microscope(box, text, search, found) {
  const model = modelNamed(search.model);
  const alert = make("p", { class: "alert", role: "alert", hidden: true });
  const caption = make("p", { role: "status" });
  const picture = make("div", { class: "matrix-box", role: "region", tabindex: 0, hidden: true });
  const buttons = [];
  box.append(
    make("p", { class: "quiet" }, `Choose a head to see its weights between whole words; a dot is exactly zero.${found.null_rates ? " Percentages: how often a head attends to nothing, counted in pieces of words." : ""}`),
    make("div", { class: "kinds" }, ...Object.keys(KINDS).map(heads)), alert, caption, picture,
  );

  function heads(kind) {
    const layers = Array.from({ length: kind === "encoder" ? model.encoder_layers : model.decoder_layers }, (_, layer) => (
      Array.from({ length: model.heads }, (_, head) => headButton(kind, layer + 1, head))
    ));
    rove(layers.flat(), model.heads);
    buttons.push(...layers.flat());
    const rows = layers.map((row, layer) => make("tr", {}, make("th", { scope: "row" }, `layer ${layer + 1}`), ...row.map((button) => make("td", {}, button))));
    return make("div", { class: "matrix-box" }, make("table", { class: "heads" }, make("caption", {}, KINDS[kind].name), make("tbody", {}, ...rows)));
  }

  function headButton(kind, layer, head) {
    const name = `${KINDS[kind].name}, layer ${layer}, head ${head}`;
    const rate = kind === "cross" && found.null_rates ? `${Math.round(100 * found.null_rates[layer - 1][head])}%` : "";
    const button = make("button", {
      type: "button", class: "head", style: `--off: ${rate || "0%"}`, "aria-pressed": "false",
      "aria-label": rate ? `${name}, ${rate} of the rows attend to nothing` : name,
      onclick: () => show({ kind, layer, head }, name, button),
    }, `head ${head}`, make("br"), rate);
    return button;
  }

  let latest = null;

  /** Until the weights are here, and if they do not come, the head before stays. */
  async function show(choice, name, button) {
    latest = button;
    alert.hidden = true;
    button.ariaBusy = "true";
    try {
      const [answer] = (await ask("translate", { ...search, text, attention: [choice] })).translations;
      if (answer.text !== found.text) throw new Problem("the service translates this text differently by now. Please translate it again");
      if (latest !== button) return;
      const [weights] = answer.attention;
      const { rows, columns } = KINDS[choice.kind];
      const nothing = weights.null.filter(Boolean).length;
      picture.replaceChildren(matrix(weights));
      picture.ariaLabel = `weights of ${name}`;
      picture.hidden = false;
      caption.textContent = `${name}: a row for each word of the ${rows}, a column for each of the ${columns}. Rows that attend to nothing: ${nothing} of ${weights.null.length}.`;
      buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
    } catch (error) {
      alert.hidden = false;
      alert.textContent = `The weights of ${name} cannot be shown: ${error.message}`;
      if (error.status === 401) complain(byId("token-form"), error);
    } finally {
      button.ariaBusy = "false";
    }
  }
}

/** The weights between words: a dot is exactly zero. */
function matrix(found) {
  const most = Math.max(1e-9, ...found.weights.flat().map(Math.abs));
  const label = (word) => make("span", { dir: "auto", title: word }, word);
  const rows = found.queries.map((query, row) => make(
    "tr", { class: found.null[row] ? "null" : null },
    make("th", { scope: "row", "aria-label": found.null[row] ? `${query}: attends to nothing` : null }, label(query)),
    ...found.weights[row].map((weight) => make(
      "td", { style: `--share: ${Math.round(100 * Math.abs(weight) / most)}`, class: weight === 0 ? "zero" : null, title: weight.toPrecision(3) },
      weight === 0 ? "·" : weight.toFixed(2),
    )),
  ));
  const columns = found.keys.map((key) => make("th", { scope: "col" }, label(key)));
  return make("table", { class: "matrix" }, make("thead", {}, make("tr", {}, make("td"), ...columns)), make("tbody", {}, ...rows));
}
