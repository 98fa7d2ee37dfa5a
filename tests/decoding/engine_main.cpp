/* Runs the native decoder on random models of odd sizes, in both precisions, for sanitizers, and compares its products of
   8-bit weights with plain ones: whole numbers are the same with any instructions. */

#include "engine.cpp"

static uint64_t state = 1;

static float number() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)((int64_t)(state >> 40) - (1 << 23)) / (1 << 23);
}

static void *kept[4096];
static int num_kept;

static void *remember(void *memory) { return kept[num_kept++] = memory; }

static float *numbers(int64_t count, float factor, float shift) {
    float *made = (float *)remember(malloc(count * sizeof(float)));
    for (int64_t i = 0; i < count; i++) made[i] = number() * factor + shift;
    return made;
}

static Matrix matrix(int64_t outputs, int64_t inputs, bool is_int8, bool has_bias) {
    float *plain = numbers(outputs * inputs, 0.5f, 0);
    void *data = remember(malloc(rela_packed_bytes(outputs, inputs, is_int8)));
    float *scales = numbers(outputs + 64, 0, 0);
    if (is_int8) rela_pack_int8(plain, outputs, inputs, (int8_t *)data, scales, 2);
    else rela_pack(plain, outputs, inputs, (float *)data, 2);
    return {outputs, inputs, data, scales, has_bias ? numbers(outputs, 0.1f, 0) : nullptr};
}

static Attention attention(int64_t dim, int64_t heads, int64_t num_inputs, bool is_int8, int64_t map, int64_t norm) {
    return {matrix(num_inputs * dim, dim, is_int8, true), matrix(dim, dim, is_int8, true), map, norm, 0.3, 0.2, 1e-6, 0.5,
            numbers(heads, 0.1f, 0), numbers(dim, 0.1f, 1), norm == LAYER_NORM ? numbers(dim, 0.1f, 0) : nullptr,
            numbers(dim, 0.5f, 0)};
}

static LayerNorm layer_norm(int64_t dim) { return {numbers(dim, 0.1f, 1), numbers(dim, 0.1f, 0), 1e-5}; }

static int run(int64_t dim, int64_t heads, int64_t hidden, int64_t vocabulary, int64_t beam, bool is_int8, int64_t map) {
    Layer layers[2];
    for (Layer &layer : layers) {
        layer.self = attention(dim, heads, 3, is_int8, map, RMS_NORM);
        layer.cross = attention(dim, heads, 1, is_int8, map, LAYER_NORM);
        layer.memory = matrix(2 * dim, dim, is_int8, true);
        layer.expand = matrix(hidden, dim, is_int8, true), layer.contract = matrix(dim, hidden, is_int8, true);
        layer.self_norm = layer_norm(dim), layer.cross_norm = layer_norm(dim), layer.feed_norm = layer_norm(dim);
    }
    float *table = numbers(vocabulary * dim, 0.3f, 0);
    const Model model = {dim, heads, hidden, is_int8, 2, 2, layers, layers, matrix(vocabulary, dim, is_int8, false), table, table};
    const int64_t batch = 3, width = 5, longest[batch] = {9, 4, 12};
    int64_t source[batch * width] = {3, 4, 3, 4, 2, 3, 2, 0, 0, 0, 4, 0, 3, 2, 0};
    Job job = {batch, width, beam, 2, 2, 0, 1, 2, source, longest, numbers(13 * dim, 1, 0), nullptr};
    job.logits = numbers(batch * beam * vocabulary, 0, 0);
    Search *search = rela_search_begin(&model, &job);
    if (!search) return 1;
    int64_t left = batch, steps = 0;
    while (left > 0) left = rela_search_step(search), steps++;
    const Found *found;
    const int32_t *pieces;
    int64_t stride;
    const int64_t count = rela_search_found(search, &found, &pieces, &stride);
    int64_t total = 0;
    for (int64_t i = 0; i < count; i++)
        for (int64_t p = 0; p < found[i].length; p++) total += pieces[i * stride + p] < 0 || pieces[i * stride + p] >= vocabulary;
    rela_search_end(search);
    while (num_kept > 0) free(kept[--num_kept]);
    return left < 0 || steps > 12 || count < batch || total != 0;
}

/* The largest numbers among the weights and activations too: in 16 bits a pair of their products would not fit. */
static int whole_products(int64_t rows, int64_t inputs) {
    enum { C = Int8::cols };
    const int64_t stride = inputs + 3, limit = INT32_MAX / (127 * inputs) < 32767 ? INT32_MAX / (127 * inputs) : 32767;
    int16_t *x = (int16_t *)remember(malloc(rows * stride * sizeof(int16_t)));
    int8_t *panel = (int8_t *)remember(malloc(inputs * C));
    int32_t *sums = (int32_t *)remember(malloc(rows * C * sizeof(int32_t)));
    for (int64_t i = 0; i < rows * stride; i++) x[i] = (int16_t)(i % 5 ? number() * limit : i % 2 ? limit : -limit);
    for (int64_t i = 0; i < inputs * C; i++) panel[i] = (int8_t)(i % 7 ? number() * 127 : i % 2 ? 127 : -127);
    panel_product<Int8>(x, stride, rows, panel, inputs, sums);
    int64_t wrong = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < C; c++) {
            int64_t sum = 0;
            for (int64_t k = 0; k < inputs; k++) sum += x[r * stride + k] * panel[k / 2 * 2 * C + 2 * c + k % 2];
            wrong += sum != sums[r * C + c];
        }
    while (num_kept > 0) free(kept[--num_kept]);
    return wrong != 0;
}

int main() {
    for (int64_t rows = 1; rows <= 2 * Int8::rows + 1; rows++)
        if (whole_products(rows, 2) || whole_products(rows, 18) || whole_products(rows, 2 * Int8::depth + 6)) return 5;
    for (int is_int8 = 0; is_int8 < 2; is_int8++)
        for (int map = SOFTMAX; map <= SIGMOID; map++) {
            if (run(18, 3, 25, 33, 3, is_int8, map)) return 1;
            if (run(64, 1, 7, 700, 5, is_int8, map)) return 2;
            if (run(10, 5, 1, 5, 6, is_int8, map)) return 3;
            if (run(128, 2, 130, 385, 1, is_int8, map)) return 4;
        }
    return 0;
}
