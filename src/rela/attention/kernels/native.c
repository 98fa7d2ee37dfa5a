/* ReLU attention and the gated RMSNorm on the CPU, float32.

   Attention works on tiles: a tile of scores is made, rectified and used while it is in the first-level cache, and the
   weight matrix never exists in memory. ReLU needs neither a row's maximum nor its sum, so tiles just add up. The
   backward pass makes every tile of scores again.

   Compiled on the user's machine at first use (see build.py); the vector width is the machine's own. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__)
#define LANES 16
#define ROWS 12 /* rows of a register tile: ROWS x 2 accumulators, all in registers */
#else
#define LANES 8
#define ROWS 6
#endif
#define COLS (2 * LANES)
#define TILE_Q 192 /* query rows of a tile, a multiple of ROWS: many, since each tile packs the keys again */
#define TILE_Q_BACKWARD 96
#define TILE_K 64 /* a multiple of COLS */
#define MAX_HEAD 128

typedef float vec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE vec splat(float x) { return x - (vec){0}; }

/* a where the mask is all ones, b where it is 0 */
INLINE vec pick(ivec mask, vec a, vec b) { return (vec)((mask & (ivec)a) | (~mask & (ivec)b)); }

/* ------------------------------------------------------------------ small matrix products */

/* C[rows][COLS] (+)= A B for one register tile; element (i, k) of A is a[i * rs + k * cs]. */
INLINE void tile_product(const int rows, int depth, const float *a, int64_t rs, int64_t cs, const float *b,
                         int64_t ldb, float *c, int64_t ldc, int add) {
    vec acc[ROWS][2];
    for (int i = 0; i < rows; i++) acc[i][0] = acc[i][1] = (vec){0};
    for (int k = 0; k < depth; k++) {
        const vec b0 = *(const vec *)(b + k * ldb), b1 = *(const vec *)(b + k * ldb + LANES);
        for (int i = 0; i < rows; i++) {
            const vec x = splat(a[i * rs + k * cs]);
            acc[i][0] += x * b0;
            acc[i][1] += x * b1;
        }
    }
    for (int i = 0; i < rows; i++) {
        vec *left = (vec *)(c + i * ldc), *right = (vec *)(c + i * ldc + LANES);
        if (add) {
            acc[i][0] += *left;
            acc[i][1] += *right;
        }
        *left = acc[i][0];
        *right = acc[i][1];
    }
}

/* The same for the last columns, fewer than COLS. */
static void narrow_product(int rows, int cols, int depth, const float *a, int64_t rs, int64_t cs, const float *b,
                           int64_t ldb, float *c, int64_t ldc, int add) {
    for (int i = 0; i < rows; i++) {
        float acc[COLS] = {0};
        for (int k = 0; k < depth; k++) {
            const float x = a[i * rs + k * cs];
            for (int j = 0; j < cols; j++) acc[j] += x * b[k * ldb + j];
        }
        for (int j = 0; j < cols; j++) c[i * ldc + j] = add ? c[i * ldc + j] + acc[j] : acc[j];
    }
}

/* C[m][n] (+)= A B. */
static void product(int m, int n, int depth, const float *a, int64_t rs, int64_t cs, const float *b, int64_t ldb,
                    float *c, int64_t ldc, int add) {
    int j = 0;
    for (; j + COLS <= n; j += COLS) {
        int i = 0;
        for (; i + ROWS <= m; i += ROWS)
            tile_product(ROWS, depth, a + i * rs, rs, cs, b + j, ldb, c + i * ldc + j, ldc, add);
        const float *ai = a + i * rs;
        float *ci = c + i * ldc + j;
#define REST(count) \
    case count: tile_product(count < ROWS ? count : 1, depth, ai, rs, cs, b + j, ldb, ci, ldc, add); break;
        switch (m - i) { /* each with a constant number of rows, so that they stay in registers */
            REST(1) REST(2) REST(3) REST(4) REST(5) REST(6) REST(7) REST(8) REST(9) REST(10) REST(11)
        default: break;
        }
#undef REST
    }
    if (j < n) narrow_product(m, n - j, depth, a, rs, cs, b + j, ldb, c + j, ldc, add);
}

/* Transpose LANES vectors in registers: one step for each bit of a lane's number swaps it with the row's. */
#define LOW(lane, step) ((lane) & (step) ? LANES + (lane) - (step) : (lane))
#define HIGH(lane, step) ((lane) & (step) ? LANES + (lane) : (lane) + (step))
#define FOUR(of, lane, step) of(lane, step), of(lane + 1, step), of(lane + 2, step), of(lane + 3, step)
#if LANES == 16
#define ALL(of, step) FOUR(of, 0, step), FOUR(of, 4, step), FOUR(of, 8, step), FOUR(of, 12, step)
#else
#define ALL(of, step) FOUR(of, 0, step), FOUR(of, 4, step)
#endif
#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (ivec){__VA_ARGS__})
#endif
#define SWAP(step)                                                \
    for (int i = 0; i < LANES; i++)                               \
        if (!(i & (step))) {                                      \
            const vec a = rows[i], b = rows[i + (step)];          \
            rows[i] = SHUFFLE(a, b, ALL(LOW, step));              \
            rows[i + (step)] = SHUFFLE(a, b, ALL(HIGH, step));    \
        }

INLINE void transpose(vec *rows) {
    SWAP(1)
    SWAP(2)
    SWAP(4)
#if LANES == 16
    SWAP(8)
#endif
}

/* packed[k][j] = rows[j][k] (+ shift[k]) for `count` rows, the rest of the TILE_K columns zero. */
static void pack_transposed(int count, int depth, const float *rows, int64_t stride, const float *shift,
                            float *packed) {
    int j = 0;
    for (; j + LANES <= count; j += LANES) {
        int k = 0;
        for (; k + LANES <= depth; k += LANES) {
            const vec add = shift ? *(const vec *)(shift + k) : (vec){0};
            vec block[LANES];
            for (int i = 0; i < LANES; i++) block[i] = *(const vec *)(rows + (j + i) * stride + k) + add;
            transpose(block);
            for (int i = 0; i < LANES; i++) *(vec *)(packed + (k + i) * TILE_K + j) = block[i];
        }
        for (; k < depth; k++) {
            const float add = shift ? shift[k] : 0.0f;
            for (int i = 0; i < LANES; i++) packed[k * TILE_K + j + i] = rows[(j + i) * stride + k] + add;
        }
    }
    for (int k = 0; k < depth; k++) {
        const float add = shift ? shift[k] : 0.0f;
        for (int i = j; i < TILE_K; i++) packed[k * TILE_K + i] = i < count ? rows[i * stride + k] + add : 0.0f;
    }
}

/* Rows (+ shift) one after the other: in the tensors a head's rows lie far apart, and their addresses collide in the
   cache. */
static void pack_rows(int count, int depth, const float *rows, int64_t stride, const float *shift, float *packed) {
    for (int i = 0; i < count; i++) {
        const float *from = rows + i * stride;
        float *to = packed + i * depth;
        int k = 0;
        if (shift) {
            for (; k + LANES <= depth; k += LANES) *(vec *)(to + k) = *(const vec *)(from + k) + *(const vec *)(shift + k);
            for (; k < depth; k++) to[k] = from[k] + shift[k];
        } else {
            for (; k + LANES <= depth; k += LANES) *(vec *)(to + k) = *(const vec *)(from + k);
            for (; k < depth; k++) to[k] = from[k];
        }
    }
}

/* Rows that will be written soon: fetched while products run, they keep nobody waiting. */
INLINE void expect_rows(int count, int depth, const float *rows, int64_t stride) {
    for (int i = 0; i < count; i++)
        for (int k = 0; k < depth; k += 64 / (int)sizeof(float)) __builtin_prefetch(rows + i * stride + k, 1);
}

/* ------------------------------------------------------------------ attention */

/* A tensor of four dimensions; a stride of 0 repeats, the last stride of q, k, v and the outputs is 1. */
typedef struct {
    int64_t data; /* address; 0: there is none */
    int64_t batch, head, row, col;
} Strided;

typedef struct {
    int64_t num_batch, num_heads, num_queries, num_keys, key_dim, value_dim;
    Strided query, key, value, output;           /* output is d_output in the backward pass */
    Strided weights;                             /* forward only: where they go, before dropout; or none */
    Strided d_query, d_key, d_value;             /* backward only */
    Strided allowed, bias;                       /* uint8 and float32 */
    int64_t shifts[3];                           /* forward only: addresses of [H][d], added to q, k, v; or 0 */
    int64_t thresholds, d_thresholds;            /* addresses of one float for each head, or 0 */
    int64_t causal_offset, is_causal;
    int64_t dropout_seed, num_threads;
    double scale, threshold, dropout_p;
} Call;

INLINE const float *at(const Strided *t, int64_t b, int64_t h, int64_t row) {
    return (const float *)t->data + b * t->batch + h * t->head + row * t->row;
}

INLINE const float *shift_of(const Call *call, int which, int64_t h, int64_t dim) {
    return call->shifts[which] ? (const float *)call->shifts[which] + h * dim : 0;
}

/* A random number for one place, from its counter alone (the mixing steps of splitmix64). */
INLINE uint32_t random_at(uint64_t seed, uint64_t place) {
    uint64_t x = seed + place * 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return (uint32_t)((x ^ (x >> 31)) >> 32);
}

INLINE int is_kept(const Call *call, int64_t b, int64_t h, int64_t i, int64_t j) {
    const uint64_t row = (uint64_t)((b * call->num_heads + h) * call->num_queries + i);
    const double limit = call->dropout_p * 4294967296.0;
    return random_at((uint64_t)call->dropout_seed, row * (uint64_t)call->num_keys + (uint64_t)j) >= limit;
}

/* Which keys from j0 on any of the rows i0..i0+m may see, by the causal mask alone. */
INLINE int visible(const Call *call, int64_t i0, int m, int64_t j0, int n) {
    if (!call->is_causal) return n;
    const int64_t last = i0 + m - 1 + call->causal_offset - j0 + 1;
    return last < 0 ? 0 : last < n ? (int)last : n;
}

/* Scores of a tile, already products, become weights: bias, threshold, ReLU, masks. Columns n..TILE_K become 0. */
static void rectify(const Call *call, int64_t b, int64_t h, int64_t i0, int m, int64_t j0, int n, float *tile) {
    const float scale = (float)call->scale;
    const float shift =
        call->thresholds ? ((const float *)call->thresholds)[h] : (float)call->threshold;
    for (int i = 0; i < m; i++) {
        float *row = tile + i * TILE_K;
        if (call->bias.data) {
            const float *bias = at(&call->bias, b, h, i0 + i) + j0 * call->bias.col;
            for (int j = 0; j < n; j++) row[j] = row[j] * scale + bias[j * call->bias.col] - shift;
        } else {
            for (int j = 0; j < n; j++) row[j] = row[j] * scale - shift;
        }
        for (int j = 0; j < n; j++) row[j] = row[j] < 0.0f ? 0.0f : row[j]; /* keeps NaN */
        if (call->allowed.data) {
            const uint8_t *allowed = (const uint8_t *)call->allowed.data + b * call->allowed.batch +
                                     h * call->allowed.head + (i0 + i) * call->allowed.row + j0 * call->allowed.col;
            for (int j = 0; j < n; j++) row[j] = allowed[j * call->allowed.col] ? row[j] : 0.0f;
        }
        int seen = visible(call, i0 + i, 1, j0, n);
        for (int j = seen; j < TILE_K; j++) row[j] = 0.0f;
    }
}

/* Multiply a tile by the dropout factors, 0 or 1/(1-p); random numbers are drawn for non-zeros only. */
static void drop(const Call *call, int64_t b, int64_t h, int64_t i0, int m, int64_t j0, int n, float *tile) {
    const float gain = call->dropout_p < 1.0 ? (float)(1.0 / (1.0 - call->dropout_p)) : 0.0f;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float *x = tile + i * TILE_K + j;
            if (*x != 0.0f) *x = is_kept(call, b, h, i0 + i, j0 + j) ? *x * gain : 0.0f;
        }
}

/* Give a tile's weights to the caller; without a tile, zeros. */
static void write_weights(const Call *call, int64_t b, int64_t h, int64_t i0, int m, int64_t j0, int64_t n,
                          const float *tile) {
    for (int i = 0; i < m; i++) {
        float *row = (float *)at(&call->weights, b, h, i0 + i) + j0;
        if (tile)
            memcpy(row, tile + i * TILE_K, sizeof(float) * (size_t)n);
        else
            memset(row, 0, sizeof(float) * (size_t)n);
    }
}

INLINE int smaller(int64_t a, int64_t b) { return (int)(a < b ? a : b); }

/* Query rows in a tile: as even as can be, so that no thread gets a small rest. */
INLINE int64_t tile_rows(const Call *call, int64_t most) {
    const int64_t tiles = (call->num_queries + most - 1) / most;
    const int64_t rows = (call->num_queries + tiles - 1) / tiles;
    return (rows + ROWS - 1) / ROWS * ROWS;
}

/* Scratch memory is on the heap: a thread's stack may be small. */
typedef struct {
    float keys[MAX_HEAD * TILE_K], values[TILE_K * MAX_HEAD];
    float query[TILE_Q * MAX_HEAD], tile[TILE_Q * TILE_K], sums[TILE_Q * MAX_HEAD];
} ForwardRoom;

typedef struct {
    float keys_across[MAX_HEAD * TILE_K], values_across[MAX_HEAD * TILE_K], keys[TILE_K * MAX_HEAD];
    float query[TILE_Q_BACKWARD * MAX_HEAD], d_out[TILE_Q_BACKWARD * MAX_HEAD];
    float tile[TILE_Q_BACKWARD * TILE_K], d_tile[TILE_Q_BACKWARD * TILE_K];
    float d_keys[TILE_K * MAX_HEAD], d_values[TILE_K * MAX_HEAD];
} BackwardRoom;

static void forward_tiles(const Call *call, int64_t b, int64_t h, int64_t i0, int64_t rows, ForwardRoom *room) {
    float *keys = room->keys, *values = room->values, *query = room->query, *tile = room->tile, *sums = room->sums;
    const int m = smaller(rows, call->num_queries - i0);
    const int key_dim = (int)call->key_dim, value_dim = (int)call->value_dim;
    pack_rows(m, key_dim, at(&call->query, b, h, i0), call->query.row, shift_of(call, 0, h, key_dim), query);
    memset(sums, 0, sizeof(float) * (size_t)(m * value_dim));
    for (int64_t j0 = 0; j0 < call->num_keys; j0 += TILE_K) {
        const int n = smaller(TILE_K, call->num_keys - j0), wide = (n + COLS - 1) / COLS * COLS;
        if (visible(call, i0, m, j0, n) == 0) {
            if (call->weights.data) write_weights(call, b, h, i0, m, j0, call->num_keys - j0, NULL);
            break;
        }
        pack_transposed(n, key_dim, at(&call->key, b, h, j0), call->key.row, shift_of(call, 1, h, key_dim), keys);
        pack_rows(n, value_dim, at(&call->value, b, h, j0), call->value.row, shift_of(call, 2, h, value_dim), values);
        product(m, wide, key_dim, query, key_dim, 1, keys, TILE_K, tile, TILE_K, 0);
        if (j0 + n == call->num_keys) expect_rows(m, value_dim, at(&call->output, b, h, i0), call->output.row);
        rectify(call, b, h, i0, m, j0, n, tile);
        if (call->weights.data) write_weights(call, b, h, i0, m, j0, n, tile);
        if (call->dropout_p > 0) drop(call, b, h, i0, m, j0, n, tile);
        product(m, value_dim, n, tile, TILE_K, 1, values, value_dim, sums, value_dim, 1);
    }
    for (int i = 0; i < m; i++)
        memcpy((float *)at(&call->output, b, h, i0 + i), sums + i * value_dim, sizeof(float) * (size_t)value_dim);
}

/* Both return 0, or 1 if there was no memory. */
int rela_relu_forward(const Call *call) {
    const int64_t rows = tile_rows(call, TILE_Q), tiles = (call->num_queries + rows - 1) / rows;
    const int64_t tasks = call->num_batch * call->num_heads * tiles;
    int failed = 0;
#pragma omp parallel num_threads((int)call->num_threads) reduction(| : failed)
    {
        ForwardRoom *room = malloc(sizeof *room);
        failed |= room == NULL;
#pragma omp for schedule(static)
        for (int64_t task = 0; task < tasks; task++) {
            const int64_t matrix = task / tiles;
            if (room)
                forward_tiles(call, matrix / call->num_heads, matrix % call->num_heads, task % tiles * rows, rows, room);
        }
        free(room);
    }
    return failed;
}

/* All of one head's gradients: d_query adds up over the tiles of keys, d_key and d_value over those of queries. */
static void backward_head(const Call *call, int64_t b, int64_t h, double *d_threshold, BackwardRoom *room) {
    float *keys_across = room->keys_across, *values_across = room->values_across, *keys = room->keys;
    float *query = room->query, *d_out = room->d_out, *tile = room->tile, *d_tile = room->d_tile;
    float *d_keys = room->d_keys, *d_values = room->d_values;
    const int key_dim = (int)call->key_dim, value_dim = (int)call->value_dim;
    const int64_t rows = tile_rows(call, TILE_Q_BACKWARD);
    const float fold = d_threshold ? 1.0f : (float)call->scale; /* the threshold's gradient is not scaled */
    for (int64_t i = 0; i < call->num_queries; i++)
        memset((float *)at(&call->d_query, b, h, i), 0, sizeof(float) * (size_t)key_dim);
    for (int64_t j0 = 0; j0 < call->num_keys; j0 += TILE_K) {
        const int n = smaller(TILE_K, call->num_keys - j0), wide = (n + COLS - 1) / COLS * COLS;
        memset(d_keys, 0, sizeof(float) * (size_t)(n * key_dim));
        memset(d_values, 0, sizeof(float) * (size_t)(n * value_dim));
        pack_transposed(n, key_dim, at(&call->key, b, h, j0), call->key.row, 0, keys_across);
        pack_transposed(n, value_dim, at(&call->value, b, h, j0), call->value.row, 0, values_across);
        pack_rows(n, key_dim, at(&call->key, b, h, j0), call->key.row, 0, keys);
        for (int64_t i0 = 0; i0 < call->num_queries; i0 += rows) {
            const int m = smaller(rows, call->num_queries - i0);
            if (visible(call, i0, m, j0, n) == 0) continue;
            pack_rows(m, key_dim, at(&call->query, b, h, i0), call->query.row, 0, query);
            pack_rows(m, value_dim, at(&call->output, b, h, i0), call->output.row, 0, d_out);
            product(m, wide, key_dim, query, key_dim, 1, keys_across, TILE_K, tile, TILE_K, 0);
            rectify(call, b, h, i0, m, j0, n, tile);
            product(m, wide, value_dim, d_out, value_dim, 1, values_across, TILE_K, d_tile, TILE_K, 0);
            /* A weight of 0 is a score at or below the threshold, or a masked place: no gradient either way. */
            for (int i = 0; i < m; i++) {
                float *w = tile + i * TILE_K, *d = d_tile + i * TILE_K;
                for (int j = 0; j < n; j++) d[j] = w[j] == 0.0f ? 0.0f : d[j] * fold;
            }
            if (call->dropout_p > 0) {
                drop(call, b, h, i0, m, j0, n, tile);
                drop(call, b, h, i0, m, j0, n, d_tile);
            }
            if (d_threshold)
                for (int i = 0; i < m; i++)
                    for (int j = 0; j < n; j++) {
                        *d_threshold -= d_tile[i * TILE_K + j];
                        d_tile[i * TILE_K + j] *= (float)call->scale;
                    }
            product(n, value_dim, m, tile, 1, TILE_K, d_out, value_dim, d_values, value_dim, 1);
            product(n, key_dim, m, d_tile, 1, TILE_K, query, key_dim, d_keys, key_dim, 1);
            product(m, key_dim, n, d_tile, TILE_K, 1, keys, key_dim, (float *)at(&call->d_query, b, h, i0),
                    call->d_query.row, 1);
        }
        for (int j = 0; j < n; j++) {
            memcpy((float *)at(&call->d_key, b, h, j0 + j), d_keys + j * key_dim, sizeof(float) * (size_t)key_dim);
            memcpy((float *)at(&call->d_value, b, h, j0 + j), d_values + j * value_dim,
                   sizeof(float) * (size_t)value_dim);
        }
    }
}

/* d_thresholds has one double for each (batch, head): the caller adds up the batch. */
int rela_relu_backward(const Call *call) {
    const int64_t tasks = call->num_batch * call->num_heads;
    int failed = 0;
#pragma omp parallel num_threads((int)call->num_threads) reduction(| : failed)
    {
        BackwardRoom *room = malloc(sizeof *room);
        failed |= room == NULL;
#pragma omp for schedule(static)
        for (int64_t task = 0; task < tasks; task++) {
            double sum = 0;
            const int64_t b = task / call->num_heads, h = task % call->num_heads;
            if (room) backward_head(call, b, h, call->d_thresholds ? &sum : 0, room);
            if (call->d_thresholds) ((double *)call->d_thresholds)[task] = sum;
        }
        free(room);
    }
    return failed;
}

/* The dropout factors of all places, as the two passes above draw them: output is [B, H, Tq, Tk]. */
void rela_dropout_factors(const Call *call) {
    const float gain = call->dropout_p < 1.0 ? (float)(1.0 / (1.0 - call->dropout_p)) : 0.0f;
    for (int64_t b = 0; b < call->num_batch; b++)
        for (int64_t h = 0; h < call->num_heads; h++)
            for (int64_t i = 0; i < call->num_queries; i++)
                for (int64_t j = 0; j < call->num_keys; j++)
                    ((float *)at(&call->output, b, h, i))[j] = is_kept(call, b, h, i, j) ? gain : 0.0f;
}

/* ------------------------------------------------------------------ RMSNorm, plain (no gate: a null address) and gated */

/* exp(x) to about 1e-7: 2^n times a polynomial; infinite above float32's range, at its lower end below it. */
INLINE vec exp_of(vec x) {
    const vec top = splat(88.3f), bottom = splat(-87.3f);
    const ivec too_large = x > top;
    x = pick(too_large, top, x);
    x = pick(x < bottom, bottom, x);
    const vec shifter = splat(12582912.0f); /* 1.5 * 2^23: adding it rounds to a whole number */
    const vec whole = (x * 1.44269504f + shifter) - shifter;
    const vec r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    vec p = splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const ivec power = (__builtin_convertvector(whole, ivec) + 127) << 23;
    return pick(too_large, splat(INFINITY), p * (vec)power);
}

INLINE vec sigmoid_of(vec x) { return 1.0f / (1.0f + exp_of(-x)); }

INLINE float sum_of(vec x) {
    float total = 0;
    for (int i = 0; i < LANES; i++) total += x[i];
    return total;
}

/* The first `count` lanes of a vector; a constant LANES makes these plain moves. */
INLINE vec load(const float *p, const int64_t count) {
    if (count >= LANES) return *(const vec *)p;
    vec x = {0};
    for (int64_t i = 0; i < count; i++) x[i] = p[i];
    return x;
}

INLINE void store(float *p, vec x, const int64_t count) {
    if (count >= LANES) *(vec *)p = x;
    else
        for (int64_t i = 0; i < count; i++) p[i] = x[i];
}

/* Run a step on each whole vector of a row, then on what is left. */
#define FOR_ROW(step)                                   \
    {                                                   \
        int64_t k = 0;                                  \
        for (; k + LANES <= dim; k += LANES) step(k, LANES); \
        if (k < dim) step(k, dim - k);                  \
    }

/* The sum of the squares of a row; in double if float32 would overflow. */
INLINE double sum_of_squares(const float *x, int64_t dim) {
    vec squares = {0};
#define STEP(k, count)                          \
    {                                           \
        const vec v = load(x + (k), count);     \
        squares += v * v;                       \
    }
    FOR_ROW(STEP)
#undef STEP
    double total = sum_of(squares);
    if (!(total < 1e30)) {
        total = 0;
        for (int64_t k = 0; k < dim; k++) total += (double)x[k] * x[k];
    }
    return total;
}

INLINE void normalise_row(const float *in, const float *weight, const float *gate, float *out, float inv, int64_t dim,
                          const int gated) {
#define STEP(k, count)                                                                          \
    {                                                                                           \
        const vec v = load(in + (k), count);                                                    \
        vec y = (v * inv) * load(weight + (k), count);                                          \
        if (gated) y *= sigmoid_of(v * load(gate + (k), count));                                \
        store(out + (k), y, count);                                                             \
    }
    FOR_ROW(STEP)
#undef STEP
}

/* y = sigmoid(gate x) x inverse weight, inverse = 1 / sqrt(mean x^2 + eps), which the backward pass wants too; y may
   be x. */
void rela_rms_norm_forward(const float *x, const float *weight, const float *gate, float *y, float *inverse,
                           int64_t rows, int64_t dim, double eps, int64_t num_threads) {
#pragma omp parallel for num_threads((int)num_threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const float *in = x + r * dim;
        const float inv = inverse[r] = (float)(1.0 / sqrt(sum_of_squares(in, dim) / (double)dim + eps));
        if (gate) normalise_row(in, weight, gate, y + r * dim, inv, dim, 1);
        else normalise_row(in, weight, gate, y + r * dim, inv, dim, 0);
    }
}

/* One row of the backward pass; see below. */
INLINE void d_row(const float *dy, const float *in, const float *weight, const float *gate, float inv, float *out,
                  float *d_weight, float *d_gate, int64_t dim, const int gated) {
    vec total = {0};
#define STEP(k, count)                                                                          \
    {                                                                                           \
        const vec v = load(in + (k), count), w = load(weight + (k), count);                     \
        const vec g = gated ? load(gate + (k), count) : splat(0.0f);                            \
        const vec s = gated ? sigmoid_of(v * g) : splat(1.0f);                                  \
        const vec ds = load(dy + (k), count) * s; /* grad s */                                  \
        const vec u = ds * (v * inv);             /* grad s x inverse */                        \
        const vec t = u * w, open = t * (1.0f - s);                                             \
        total += t;                                                                             \
        store(d_weight + (k), load(d_weight + (k), count) + u, count);                          \
        if (gated) store(d_gate + (k), load(d_gate + (k), count) + open * v, count);            \
        store(out + (k), ds * w * inv + open * g, count);                                       \
    }
    FOR_ROW(STEP)
#undef STEP
    const float pull = inv * (sum_of(total) / (float)dim);
#define STEP(k, count) store(out + (k), load(out + (k), count) - (load(in + (k), count) * inv) * pull, count);
    FOR_ROW(STEP)
#undef STEP
}

/* With s = sigmoid(gate x), t = grad s x inverse weight:
     d_x = (grad s weight - x inverse mean(t)) inverse + t (1 - s) gate
     d_weight = sum of grad s x inverse,  d_gate = sum of t (1 - s) x
   Each thread adds up rows of its own; partial is [num_threads][2][dim], zeroed by the caller, who adds them. */
void rela_rms_norm_backward(const float *grad, const float *x, const float *weight, const float *gate,
                            const float *inverse, float *d_x, float *partial, int64_t rows, int64_t dim,
                            int64_t num_threads) {
#pragma omp parallel for num_threads((int)num_threads) schedule(static)
    for (int64_t part = 0; part < num_threads; part++) {
        float *d_weight = partial + part * 2 * dim, *d_gate = d_weight + dim;
        for (int64_t r = rows * part / num_threads; r < rows * (part + 1) / num_threads; r++) {
            const float *dy = grad + r * dim, *in = x + r * dim;
            float *out = d_x + r * dim;
            if (gate) d_row(dy, in, weight, gate, inverse[r], out, d_weight, d_gate, dim, 1);
            else d_row(dy, in, weight, gate, inverse[r], out, d_weight, d_gate, dim, 0);
        }
    }
}

/* ------------------------------------------------------------------ dropout on residual connections */

typedef uint32_t uvec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

/* Two rounds of a 32-bit mixing function (Wellons' lowbias32), each with a key of its own. */
INLINE uvec random_lanes(uint64_t first, uint32_t key, uint32_t other) {
    uvec x;
    for (int i = 0; i < LANES; i++) x[i] = (uint32_t)i;
    x = (x + (uint32_t)first) ^ key;
    for (int round = 0; round < 2; round++) {
        x ^= x >> 16;
        x *= 0x21F0AAADu;
        x ^= x >> 15;
        x *= 0xD35A2D97u;
        x ^= x >> 15;
        x ^= round ? 0u : other;
    }
    return x;
}

#define DROPOUT_BLOCK 4096 /* numbers that share their keys; far fewer than a 32-bit counter can tell apart */

/* out = x + y / (1 - p) where y is kept, x where it is not; without x (NULL), 0 for it. The same seed keeps the same
   places, so this is the backward pass as well. */
void rela_dropout_add(const float *x, const float *y, float *out, int64_t count, uint64_t seed, double p,
                      int64_t num_threads) {
    const uint32_t limit = (uint32_t)(p * 4294967296.0);
    const float gain = (float)(1.0 / (1.0 - p));
    const int64_t blocks = (count + DROPOUT_BLOCK - 1) / DROPOUT_BLOCK;
#pragma omp parallel for num_threads((int)num_threads) schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
        const uint32_t key = random_at(seed, 2 * (uint64_t)block), other = random_at(seed, 2 * (uint64_t)block + 1);
        const int64_t start = block * DROPOUT_BLOCK;
        const int64_t end = start + DROPOUT_BLOCK < count ? start + DROPOUT_BLOCK : count;
        for (int64_t k = start; k < end; k += LANES) {
            const int64_t left = end - k < LANES ? end - k : LANES;
            const ivec kept = (ivec)(random_lanes((uint64_t)(k - start), key, other) >= limit);
            vec sum = pick(kept, load(y + k, left) * gain, (vec){0});
            if (x) sum += load(x + k, left);
            store(out + k, sum, left);
        }
    }
}
