// What stands along the rows and columns of a matrix: pieces or words of a sentence, with BOS and EOS as themselves.
// A unit has its text, the places in the weights that it stands for, and the words that it belongs to.

const pieceText = (text) => text.trim() || "␣";

function tokensOf(pieces, owners) {
  return pieces.map((piece, place) => {
    const words = owners[place] ?? [];
    const isLast = place === pieces.length - 1;
    const continues = place > 0 && words.some((word) => (owners[place - 1] ?? []).includes(word));
    return { text: (continues ? "·" : "") + pieceText(piece), kind: isLast && !words.length ? "eos" : "piece", words };
  });
}

const sourceTokens = (form) => tokensOf(form.source_pieces, form.source_piece_words);
const targetTokens = (form) => tokensOf(form.target_pieces, form.target_piece_words);
const BOS_TOKEN = { text: "BOS", kind: "bos", words: [] };
// The decoder's input: BOS, then all pieces but the last, which is EOS and never read.
const inputTokens = (form) => [BOS_TOKEN, ...targetTokens(form).slice(0, -1)];

function pieceUnits(tokens) {
  return tokens.map((token, place) => ({
    text: token.kind === "eos" ? "EOS" : token.text,
    kind: token.kind,
    words: token.words,
    places: [place],
    key: token.kind === "piece" ? `p${place - (tokens[0].kind === "bos" ? 1 : 0)}` : token.kind,
  }));
}

// The units of the measures between words: BOS, the words that have pieces, EOS. A piece of no word, such as a lone
// blank, is in none of them.
function wordUnits(tokens, words) {
  const special = (kind) => tokens.flatMap((token, place) => (token.kind === kind ? [
    { text: kind.toUpperCase(), kind, words: [], places: [place], key: kind },
  ] : []));
  const placesOf = (word) => tokens.flatMap((token, place) => (token.words.includes(word) ? [place] : []));
  const ofWords = words.map((text, word) => ({
    text,
    kind: "word",
    words: [word],
    places: placesOf(word),
    key: `w${word}`,
  }));
  return [...special("bos"), ...ofWords.filter((unit) => unit.places.length), ...special("eos")];
}

// Rows (queries) and columns (keys) of a kind of attention.
// Normal: a row has the name of what it predicts. Shifted: of what it has as its input.
function axesOf(model, sentence, { kind, level, shift }) {
  const form = formOf(model, sentence);
  const units = (tokens, words) => (level === "word" ? wordUnits(tokens, words) : pieceUnits(tokens));
  const source = units(sourceTokens(form), sentence.source_words);
  if (kind === "encoder") return { rows: source, cols: source };
  const input = units(inputTokens(form), sentence.target_words);
  const rows = shift === "shifted" ? input : units(targetTokens(form), sentence.target_words);
  return { rows, cols: kind === "decoder" ? input : source };
}

// The unit of another axis that means the same: the same piece or word, or one that shares a word with it.
function sameUnit(units, unit) {
  if (!unit) return -1;
  const exact = units.findIndex((other) => other.key === unit.key && other.text === unit.text);
  return exact >= 0 ? exact : units.findIndex((other) => other.words.some((word) => unit.words.includes(word)));
}
