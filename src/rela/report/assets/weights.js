// Weights, unpacked when a sentence is looked at: rela/report/encoding.py says how they are packed.

const CAN_UNPACK = typeof DecompressionStream === "function";
const MAX_BLOCKS = 24;
const blocks = new Map(); // "model-sentence" -> promise of a block; the last used ones

async function inflate(base64) {
  const packed = Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function unpackBlock(model, sentence) {
  const content = await inflate(elementOf(model, sentence).textContent);
  const shapes = shapesOf(model, sentence);
  const view = new DataView(content.buffer);
  const block = {};
  let scalePlace = 0;
  let place = 4 * Object.values(shapes).reduce((sum, [layers, heads]) => sum + layers * heads, 0);
  for (const [kind, [layers, heads, queries, keys]] of Object.entries(shapes)) {
    block[kind] = Array.from({ length: layers }, () =>
      Array.from({ length: heads }, () => {
        const scale = view.getFloat32(scalePlace, true);
        const bytes = content.subarray(place, place + queries * keys);
        scalePlace += 4;
        place += queries * keys;
        return { scale: Math.abs(scale), signed: scale < 0, bytes, queries, keys };
      }),
    );
  }
  return block;
}

// The weights of a model for a sentence, by kind, layer and head; null if the page has none.
function blockOf(model, sentence) {
  if (!CAN_UNPACK || !hasWeights(model, sentence)) return Promise.resolve(null);
  const key = `${model.example}-${sentence.id}`;
  const found = blocks.get(key) ?? unpackBlock(model, sentence);
  blocks.delete(key);
  blocks.set(key, found);
  if (blocks.size > MAX_BLOCKS) blocks.delete(blocks.keys().next().value);
  return found;
}

// From -1 to 1: the square root of the weight's share of the head's largest. 0 is exactly zero.
function levelAt(head, place) {
  const byte = head.bytes[place];
  if (!head.signed) return byte / 255;
  return (byte < 128 ? byte : byte - 256) / 127;
}

const weightAt = (head, place) => {
  const level = levelAt(head, place);
  return Math.sign(level) * level * level * head.scale;
};
