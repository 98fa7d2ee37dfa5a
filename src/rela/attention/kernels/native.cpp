/* ReLU attention, RMSNorm (plain and gated) and residual dropout on the CPU, as operators of PyTorch.

   Attention works on tiles of 64 keys: a tile of scores is made, rectified and used while it is in the first-level
   cache, and the weight matrix never exists in memory. ReLU needs neither a row's maximum nor its sum, so tiles just
   add up. Half of the weights or more are exactly zero: what is multiplied with a weight is multiplied for the
   non-zeros only, unless a tile has so few zeros that the dense product is faster. The backward pass makes the scores
   again and runs over the non-zeros as well, in all of its five products where the forward pass has noted, one bit a
   place, which weights are not zero.

   Three parts: what the other two share; the kernels, which know nothing of PyTorch; and the operators. The last two
   are compiled side by side (RELA_WITHOUT_TORCH leaves out the operators, RELA_ONLY_OPERATORS the kernels), on the
   user's machine at first use (see build.py); the vector width is the machine's own. */

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rela_native {

constexpr int MAX_HEAD = 128;

/* Keys of a tile: as many as a word has bits. In the backward pass also its queries. */
constexpr int TILE = 64;

/* Keys, from the first on, of which the forward pass notes the signs: at most 1 KiB a query, so that memory grows with
   the length and not with its square. */
constexpr int64_t NOTED_KEYS = 128 * TILE;

/* Multiply-adds below which a second thread costs more than it brings. */
constexpr int64_t SMALL_WORK = 1 << 17;

/* A tensor of four dimensions; a stride of 0 repeats, the last stride of q, k, v and the outputs is 1. */
struct Strided {
    void *data = nullptr; /* none: there is no such tensor */
    int64_t batch = 0, head = 0, row = 0, col = 0;

    template <typename T> T *at(int64_t b, int64_t h, int64_t i) const {
        return (T *)data + b * batch + h * head + i * row;
    }
};

struct Call {
    int64_t num_batch, num_heads, num_key_heads, num_queries, num_keys;
    int key_dim, value_dim;
    bool half = false;                  /* query, key, value and their gradients are bfloat16 */
    Strided query, key, value;
    Strided output, weights;            /* forward; weights: where they go, before dropout */
    Strided grad, d_query, d_key, d_value; /* backward */
    Strided allowed, bias;              /* uint8 and float32 */
    const float *shifts[3] = {};        /* forward: [H][d], added to q, k, v */
    uint64_t *signs = nullptr;          /* [B][H][tile of keys][Tq]: which weights are not zero; none: not noted */
    const float *thresholds = nullptr;  /* one for each head, or `threshold` for all */
    double *d_thresholds = nullptr;     /* [B][H] */
    bool is_causal = false;
    int64_t causal_offset = 0;
    uint64_t seed = 0;
    double scale, threshold = 0, dropout_p = 0;
    int num_threads = 1;

    int wide_key() const;
    int wide_value() const;
    float threshold_of(int64_t h) const { return thresholds ? thresholds[h] : (float)threshold; }
    float gain() const { return dropout_p < 1 ? (float)(1 / (1 - dropout_p)) : 0.0f; }
    int64_t key_head(int64_t h) const { return h / (num_heads / num_key_heads); }
    /* Tiles of keys whose signs are noted, and the words of one of them: a word for each query from i on. */
    int64_t noted_tiles() const { return (std::min(num_keys, NOTED_KEYS) + TILE - 1) / TILE; }
    uint64_t *signs_at(int64_t b, int64_t h, int64_t i, int64_t j) const {
        if (!signs || j >= NOTED_KEYS) return nullptr;
        return signs + ((b * num_heads + h) * noted_tiles() + j / TILE) * num_queries + i;
    }
    /* How many of the keys from j on row i sees, by the causal mask alone. */
    int64_t seen(int64_t i, int64_t j) const { return is_causal ? i + causal_offset - j + 1 : num_keys - j; }
};

/* These two return false if there was no memory. */
bool relu_forward(const Call &call);
bool relu_backward(const Call &call);
void dropout_factors(const Call &call);
void rms_norm_forward(const float *x, const float *weight, const float *gate, float *y, float *inverse, int64_t rows,
                      int64_t dim, double eps, int num_threads);
void rms_norm_backward(const float *grad, const float *x, const float *weight, const float *gate, const float *inverse,
                       float *d_x, float *partial, int64_t rows, int64_t dim, int64_t parts, int num_threads);
void dropout_add(const float *x, const float *y, float *out, int64_t count, uint64_t seed, double p, int num_threads);

} // namespace rela_native

#ifndef RELA_ONLY_OPERATORS

extern "C" int omp_get_thread_num(void); /* its header may be missing where the library is not */

namespace rela_native {


#if defined(__AVX512F__)
constexpr int LANES = 16;
constexpr int ROWS = 12; /* rows of a register tile: ROWS x 2 accumulators, all in registers */
#else
constexpr int LANES = 8;
constexpr int ROWS = 6;
#endif
constexpr int COLS = 2 * LANES;
constexpr int SPAN = 4;      /* tiles of keys that the backward pass holds at once, in the second-level cache */
constexpr int CHUNK = 512;   /* query rows of one task of the forward pass: each packs the keys again */

/* Shares of non-zeros above which a tile's products are dense. With vectors of 16 the dense ones gain more: the others
   wait for what they load. */
constexpr double DENSE_FORWARD = LANES == 16 ? 0.60 : 0.80;
constexpr double DENSE_BACKWARD = LANES == 16 ? 0.60 : 0.85;
/* And those above which the backward pass makes all scores of a tile again, and all products of gradients and values:
   adding up the lanes of each does not get faster with wider vectors. */
constexpr double DENSE_DOTS = LANES == 16 ? 0.35 : 0.60;

typedef float vec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint32_t uvec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint16_t svec __attribute__((vector_size(LANES * 2), aligned(2), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE vec splat(float x) { return x - vec{}; }

/* a where the mask is all ones, b where it is 0 */
INLINE vec pick(ivec mask, vec a, vec b) { return (vec)((mask & (ivec)a) | (~mask & (ivec)b)); }

INLINE int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

/* ------------------------------------------------------------------ numbers in memory: float32, and bfloat16 */

struct BFloat {
    uint16_t bits;
};

INLINE float to_float(float x) { return x; }
INLINE float to_float(BFloat x) {
    const uint32_t bits = (uint32_t)x.bits << 16;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}

INLINE vec load(const float *p) { return *(const vec *)p; }
INLINE vec load(const BFloat *p) { return (vec)(__builtin_convertvector(*(const svec *)p, uvec) << 16); }

INLINE void put(float *p, float x) { *p = x; }
INLINE void put(BFloat *p, float x) { /* to the nearest, ties to even; a NaN stays one */
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    p->bits = x != x ? 0x7FC0 : (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

/* ------------------------------------------------------------------ small matrix products */

/* C[R][COLS] (+)= A B for one register tile; element (i, k) of A is a[i * rs + k * cs]. */
template <int R>
INLINE void tile_product(int depth, const float *a, int64_t rs, int64_t cs, const float *b, int64_t ldb, float *c,
                         int64_t ldc, bool add) {
    vec acc[R][2];
    for (int i = 0; i < R; i++) acc[i][0] = acc[i][1] = vec{};
    for (int k = 0; k < depth; k++) {
        const vec b0 = load(b + k * ldb), b1 = load(b + k * ldb + LANES);
        for (int i = 0; i < R; i++) {
            const vec x = splat(a[i * rs + k * cs]);
            acc[i][0] += x * b0;
            acc[i][1] += x * b1;
        }
    }
    for (int i = 0; i < R; i++) {
        vec *left = (vec *)(c + i * ldc), *right = (vec *)(c + i * ldc + LANES);
        if (add) {
            acc[i][0] += *left;
            acc[i][1] += *right;
        }
        *left = acc[i][0];
        *right = acc[i][1];
    }
}

/* B as panels of COLS columns: element (k, j) of panel p is b[p * panel + k * ldb + j]. */
struct Panels {
    const float *b;
    int64_t ldb, panel;
};

template <int R>
INLINE void row_product(int n, int depth, const float *a, int64_t rs, int64_t cs, Panels b, float *c, int64_t ldc,
                        bool add) {
    for (int p = 0; p * COLS < n; p++)
        tile_product<R>(depth, a, rs, cs, b.b + p * b.panel, b.ldb, c + p * COLS, ldc, add);
}

/* The last rows, each count with a loop of its own, so that they stay in registers. */
template <int R>
static void rest_product(int rows, int n, int depth, const float *a, int64_t rs, int64_t cs, Panels b, float *c, int64_t ldc,
                  bool add) {
    if constexpr (R > 0) {
        if (rows == R) row_product<R>(n, depth, a, rs, cs, b, c, ldc, add);
        else rest_product<R - 1>(rows, n, depth, a, rs, cs, b, c, ldc, add);
    }
}

/* C[m][n] (+)= A B; n is a multiple of COLS, as all our buffers are. */
static void product(int m, int n, int depth, const float *a, int64_t rs, int64_t cs, Panels b, float *c, int64_t ldc,
             bool add) {
    int i = 0;
    for (; i + ROWS <= m; i += ROWS) row_product<ROWS>(n, depth, a + i * rs, rs, cs, b, c + i * ldc, ldc, add);
    rest_product<ROWS - 1>(m - i, n, depth, a + i * rs, rs, cs, b, c + i * ldc, ldc, add);
}

/* Transpose LANES vectors in registers: one step for each bit of a lane's number swaps it with the row's. */
#define LOW(lane, step) ((lane) & (step) ? LANES + (lane) - (step) : (lane))
#define HIGH(lane, step) ((lane) & (step) ? LANES + (lane) : (lane) + (step))
#define OTHER(lane, step) ((lane) ^ (step))
#define FOUR(of, lane, step) of(lane, step), of(lane + 1, step), of(lane + 2, step), of(lane + 3, step)
#if defined(__AVX512F__)
#define ALL(of, step) FOUR(of, 0, step), FOUR(of, 4, step), FOUR(of, 8, step), FOUR(of, 12, step)
#else
#define ALL(of, step) FOUR(of, 0, step), FOUR(of, 4, step)
#endif
#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, ivec{__VA_ARGS__})
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
#if defined(__AVX512F__)
    SWAP(8)
#endif
}

/* Of each four lanes: the first two of a and of b in turn; and the last two. Then the first pairs, and the last. */
#define FIRST(lane, unused) (((lane) & ~3) + ((lane) & 2) / 2 + ((lane) & 1) * LANES)
#define LAST(lane, unused) (FIRST(lane, unused) + 2)
#define FIRST_PAIR(lane, unused) ((lane) & 2 ? LANES + (lane) - 2 : (lane))
#define LAST_PAIR(lane, unused) (FIRST_PAIR(lane, unused) + 2)

/* The sums of four vectors, in the first four lanes. */
INLINE vec four_sums(vec a, vec b, vec c, vec d) {
    const vec ab = SHUFFLE(a, b, ALL(FIRST, 0)) + SHUFFLE(a, b, ALL(LAST, 0));
    const vec cd = SHUFFLE(c, d, ALL(FIRST, 0)) + SHUFFLE(c, d, ALL(LAST, 0));
    vec sums = SHUFFLE(ab, cd, ALL(FIRST_PAIR, 0)) + SHUFFLE(ab, cd, ALL(LAST_PAIR, 0));
    sums += SHUFFLE(sums, sums, ALL(OTHER, 4));
#if defined(__AVX512F__)
    sums += SHUFFLE(sums, sums, ALL(OTHER, 8));
#endif
    return sums;
}

/* ------------------------------------------------------------------ packing: a head's rows lie far apart in memory */

/* Element (k, j) = rows[j][k] (+ shift[k]) in panels of COLS columns; columns from `count` on are zero. */
template <typename T>
static void pack_across(int count, int depth, const T *rows, int64_t stride, const float *shift, float *packed) {
    for (int j = 0; j < count; j += LANES) {
        float *to = packed + (int64_t)(j / COLS) * depth * COLS + j % COLS;
        const int some = std::min(LANES, count - j);
        int k = 0;
        for (; k + LANES <= depth; k += LANES) {
            const vec add = shift ? load(shift + k) : vec{};
            vec block[LANES];
            for (int i = 0; i < LANES; i++) block[i] = i < some ? load(rows + (j + i) * stride + k) + add : vec{};
            transpose(block);
            for (int i = 0; i < LANES; i++) *(vec *)(to + (k + i) * COLS) = block[i];
        }
        for (; k < depth; k++) {
            const float add = shift ? shift[k] : 0.0f;
            for (int i = 0; i < LANES; i++) to[k * COLS + i] = i < some ? to_float(rows[(j + i) * stride + k]) + add : 0;
        }
    }
    if ((count + LANES - 1) / LANES % 2) { /* the right half of the last panel */
        float *to = packed + (int64_t)(count / COLS) * depth * COLS + LANES;
        for (int k = 0; k < depth; k++) *(vec *)(to + k * COLS) = vec{};
    }
}

/* (rows + shift) * factor one after the other, each `wide` numbers: the last ones zero. */
template <typename T>
static void pack_rows(int64_t count, int dim, int wide, const T *rows, int64_t stride, const float *shift, float factor,
               float *packed) {
    for (int64_t i = 0; i < count; i++) {
        const T *from = rows + i * stride;
        float *to = packed + i * wide;
        int k = 0;
        for (; k + LANES <= dim; k += LANES) {
            const vec x = shift ? load(from + k) + load(shift + k) : load(from + k);
            *(vec *)(to + k) = x * factor;
        }
        for (; k < dim; k++) to[k] = (to_float(from[k]) + (shift ? shift[k] : 0.0f)) * factor;
        for (; k < wide; k++) to[k] = 0.0f;
    }
}

template <typename T>
static void unpack_rows(int64_t count, int dim, int wide, const float *packed, float factor, T *rows, int64_t stride) {
    for (int64_t i = 0; i < count; i++)
        for (int k = 0; k < dim; k++) put(rows + i * stride + k, packed[i * wide + k] * factor);
}

/* ------------------------------------------------------------------ sets of places in a tile, one word a row */

INLINE uint64_t first_bits(int64_t count) {
    return count <= 0 ? 0 : count >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1;
}

INLINE uint64_t bits_of(ivec mask) {
#if defined(__AVX512F__)
    return _mm512_cmplt_epi32_mask((__m512i)mask, _mm512_setzero_si512());
#elif defined(__AVX__)
    return (uint64_t)(uint32_t)_mm256_movemask_ps((__m256)mask);
#else
    uint64_t bits = 0;
    for (int i = 0; i < LANES; i++) bits |= (uint64_t)(mask[i] & 1) << i;
    return bits;
#endif
}

INLINE ivec lane_numbers() {
    ivec x = {};
    for (int i = 0; i < LANES; i++) x[i] = i;
    return x;
}

/* All ones in the lanes whose bits are set. */
INLINE ivec mask_of(uint64_t bits) {
    const ivec place = 1 << lane_numbers();
    return ((int32_t)(bits & first_bits(LANES)) & place) != 0;
}

/* Bit i of word j becomes bit j of word i: blocks of half the size change places, from 32 x 32 down to single bits. */
template <int HALF> INLINE void swap_blocks(uint64_t *word, uint64_t mask) {
    for (int first = 0; first < 64; first += 2 * HALF)
        for (int k = first; k < first + HALF; k++) {
            const uint64_t swap = ((word[k] >> HALF) ^ word[k + HALF]) & mask;
            word[k] ^= swap << HALF;
            word[k + HALF] ^= swap;
        }
}

static void transpose_bits(uint64_t *word) {
    swap_blocks<32>(word, 0x00000000FFFFFFFFull);
    swap_blocks<16>(word, 0x0000FFFF0000FFFFull);
    swap_blocks<8>(word, 0x00FF00FF00FF00FFull);
    swap_blocks<4>(word, 0x0F0F0F0F0F0F0F0Full);
    swap_blocks<2>(word, 0x3333333333333333ull);
    swap_blocks<1>(word, 0x5555555555555555ull);
}

/* ------------------------------------------------------------------ products over non-zeros */

/* The number of the lowest bit, which is taken away. */
INLINE int64_t next_of(uint64_t &bits) {
    const int64_t place = __builtin_ctzll(bits);
    bits &= bits - 1;
    return place;
}

/* The non-zeros of a matrix: a word for each of its rows, and the values. */
struct Sparse {
    int count;
    const uint64_t *bits;
    const float *values;
    int64_t row, step; /* value (i, j) is values[i * row + j * step] */
};

/* One non-zero's share of a row of sums, NV vectors. */
template <int NV>
INLINE void add_one(uint64_t &bits, const float *values, int64_t step, const float *rows, int64_t stride, vec *sums) {
    const int64_t j = next_of(bits);
    const vec x = splat(values[j * step]);
    for (int v = 0; v < NV; v++) sums[v] += x * load(rows + j * stride + v * LANES);
}

/* Added at the end: `out` may be far, and nothing waits for it here. A row's sum is taken in the order of its keys, as
   the dense product takes it, so that the choice between the two, which other rows decide too, changes no bit. */
template <int NV> INLINE void add_sums(const vec *sums, float *out) {
    for (int v = 0; v < NV; v++) *(vec *)(out + v * LANES) += sums[v];
}

template <int NV> static void add_part(Sparse a, const float *rows, int64_t stride, float *out, int64_t out_stride) {
    int i = 0;
    if constexpr (NV <= 4) /* two rows at a time: sums enough to hide the latency of an addition */
        for (; i + 1 < a.count; i += 2) {
            uint64_t one = a.bits[i], other = a.bits[i + 1];
            const float *values = a.values + i * a.row;
            vec first[NV] = {}, second[NV] = {};
            while (one && other) {
                add_one<NV>(one, values, a.step, rows, stride, first);
                add_one<NV>(other, values + a.row, a.step, rows, stride, second);
            }
            while (one) add_one<NV>(one, values, a.step, rows, stride, first);
            while (other) add_one<NV>(other, values + a.row, a.step, rows, stride, second);
            add_sums<NV>(first, out + i * out_stride);
            add_sums<NV>(second, out + (i + 1) * out_stride);
        }
    for (; i < a.count; i++) {
        uint64_t bits = a.bits[i];
        if (!bits) continue;
        vec sums[NV] = {};
        while (bits) add_one<NV>(bits, a.values + i * a.row, a.step, rows, stride, sums);
        add_sums<NV>(sums, out + i * out_stride);
    }
}

/* out += A rows, `wide` numbers of each row (a multiple of COLS), by as many as the registers hold at once. */
static void add_product(Sparse a, int wide, const float *rows, int64_t stride, float *out, int64_t out_stride) {
    for (int k = 0; k < wide;) {
        const int left = std::min(8, (wide - k) / LANES);
        switch (left) {
        case 2: add_part<2>(a, rows + k, stride, out + k, out_stride); break;
        case 4: add_part<4>(a, rows + k, stride, out + k, out_stride); break;
        case 6: add_part<6>(a, rows + k, stride, out + k, out_stride); break;
        default: add_part<8>(a, rows + k, stride, out + k, out_stride);
        }
        k += left * LANES;
    }
}

/* products (i, j) = gain x[j] . y[i], but not less than `least`, for the non-zeros (i, j) of A, four at a time; rows of
   NV vectors, or of any number of them if NV is 0. */
template <int NV>
static void dot_part(Sparse a, int any, const float *x, const float *y, float gain, float least, float *products) {
    const int64_t vectors = NV ? NV : any / LANES, wide = vectors * LANES;
    for (int i = 0; i < a.count; i++) {
        uint64_t bits = a.bits[i];
        const float *own = y + i * wide;
        float *to = products + i * TILE;
        vec kept[NV ? NV : 1];
        for (int v = 0; v < NV; v++) kept[v] = load(own + v * LANES);
        while (bits) {
            const int64_t j0 = next_of(bits); /* the last ones of a row are fewer than four: the first again */
            const int64_t j1 = bits ? next_of(bits) : j0, j2 = bits ? next_of(bits) : j0, j3 = bits ? next_of(bits) : j0;
            const float *x0 = x + j0 * wide, *x1 = x + j1 * wide, *x2 = x + j2 * wide, *x3 = x + j3 * wide;
            vec d0 = {}, d1 = {}, d2 = {}, d3 = {};
            for (int64_t v = 0; v < vectors; v++) {
                const vec left = NV ? kept[NV ? v : 0] : load(own + v * LANES);
                d0 += left * load(x0 + v * LANES);
                d1 += left * load(x1 + v * LANES);
                d2 += left * load(x2 + v * LANES);
                d3 += left * load(x3 + v * LANES);
            }
            vec sums = four_sums(d0, d1, d2, d3) * gain;
            sums = pick(sums < least, splat(least), sums); /* a NaN is kept */
            to[j3] = sums[3];
            to[j2] = sums[2];
            to[j1] = sums[1];
            to[j0] = sums[0];
        }
    }
}

static void dot_product(Sparse a, int wide, const float *x, const float *y, float gain, float least, float *products) {
    switch (wide / LANES) {
    case 2: dot_part<2>(a, wide, x, y, gain, least, products); break;
    case 4: dot_part<4>(a, wide, x, y, gain, least, products); break;
    case 8: dot_part<8>(a, wide, x, y, gain, least, products); break;
    default: dot_part<0>(a, wide, x, y, gain, least, products);
    }
}

/* ------------------------------------------------------------------ random numbers from counters */

/* 64 random bits for one place, from its counter alone (the mixing steps of splitmix64). */
INLINE uint64_t random_at(uint64_t seed, uint64_t place) {
    uint64_t x = seed + place * 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

/* Two rounds of a 32-bit mixing function (Wellons' lowbias32), each with a key of its own. */
INLINE uvec random_lanes(uvec counter, uvec key, uvec other) {
    uvec x = counter ^ key;
    for (int round = 0; round < 2; round++) {
        x ^= x >> 16;
        x *= 0x21F0AAADu;
        x ^= x >> 15;
        x *= 0xD35A2D97u;
        x ^= x >> 15;
        if (round == 0) x ^= other;
    }
    return x;
}

INLINE uvec counters(uint32_t first) { return (uvec)lane_numbers() + first; }
INLINE uvec splat(uint32_t x) { return x - uvec{}; }

/* ------------------------------------------------------------------ attention */

int Call::wide_key() const { return (int)round_up(key_dim, COLS); }
int Call::wide_value() const { return (int)round_up(value_dim, COLS); }

/* One (sentence, head): where a tile's masks and random numbers come from. */
struct Place {
    const Call &call;
    int64_t b, h;
};

/* What a row of a boolean mask says of keys j..j+n. */
INLINE uint64_t allowed_bits(const Place &at, int64_t i, int64_t j, int n) {
    const Strided &mask = at.call.allowed;
    const uint8_t *row = mask.at<const uint8_t>(at.b, at.h, i) + j * mask.col;
    uint64_t bits = 0;
    if (mask.col == 1 && n == TILE) {
        for (int byte = 0; byte < 8; byte++) {
            uint64_t eight;
            memcpy(&eight, row + 8 * byte, sizeof eight);
            bits |= ((eight * 0x0102040810204080ull) >> 56) << (8 * byte);
        }
        return bits;
    }
    for (int k = 0; k < n; k++) bits |= (uint64_t)(row[k * mask.col] != 0) << k;
    return bits;
}

/* The keys of a tile that some query may see, but for the causal mask; and the mask that looks at queries too. */
INLINE uint64_t tile_keys(const Place &at, int64_t j, int n) {
    const Call &call = at.call;
    return call.allowed.data && call.allowed.row == 0 ? allowed_bits(at, 0, j, n) : first_bits(n);
}
INLINE bool masks_places(const Call &call) { return call.allowed.data && call.allowed.row != 0; }

/* True if nothing hides a key of the tile from a query of it: only then may a product be dense, since it multiplies the
   zeros too, and what is behind a mask may be infinite or no number. */
INLINE bool nothing_hidden(const Call &call, int64_t i, int64_t j, int n, uint64_t keys) {
    return keys == first_bits(n) && !masks_places(call) && !call.bias.data && call.seen(i, j) >= n;
}

/* A row of scores becomes weights, and a word that says where they are not zero. */
template <bool BIAS, bool ALL_KEPT>
INLINE uint64_t rectify_part(float *row, int count, float shift, const float *bias, int64_t step, uint64_t keep) {
    uint64_t bits = 0;
    for (int k = 0; k < count; k += LANES) {
        vec x = load(row + k) - shift;
        if (BIAS) {
            vec add = {};
            if (step == 1 && k + LANES <= count) add = load(bias + k);
            else
                for (int l = 0; l < LANES && k + l < count; l++) add[l] = bias[(k + l) * step];
            x += add;
        }
        ivec kept = ~(ivec)(x <= 0.0f); /* a NaN is kept */
        if (!ALL_KEPT) kept &= mask_of(keep >> k);
        *(vec *)(row + k) = (vec)(kept & (ivec)x);
        bits |= bits_of(kept) << k;
    }
    return bits;
}

INLINE uint64_t rectify_row(float *row, int count, float shift, const float *bias, int64_t step, uint64_t keep) {
    if (bias) return rectify_part<true, false>(row, count, shift, bias, step, keep);
    if (keep == first_bits(count) && count % LANES == 0)
        return rectify_part<false, true>(row, count, shift, bias, step, keep);
    return rectify_part<false, false>(row, count, shift, bias, step, keep);
}

/* Dropout of a row of weights: those that fall out become zero, the others grow. Random numbers are drawn where
   there is a non-zero. */
template <typename Random>
INLINE uint64_t drop_row(const Call &call, float *row, uint64_t bits, Random random) {
    if (call.dropout_p >= 1) {
        std::fill(row, row + TILE, 0.0f);
        return 0;
    }
    const uint32_t limit = (uint32_t)(call.dropout_p * 4294967296.0);
    uint64_t left = 0;
    for (int k = 0; k < TILE; k += LANES) {
        const uint64_t some = bits >> k & first_bits(LANES);
        if (!some) continue;
        const ivec kept = (ivec)(random(k) >= limit);
        *(vec *)(row + k) = pick(kept, load(row + k) * call.gain(), vec{});
        left |= (some & bits_of(kept)) << k;
    }
    return left;
}

/* The keys of one query's random numbers; the counter is the number of the key. */
INLINE uint64_t random_keys(const Place &at, int64_t i) {
    return random_at(at.call.seed, (uint64_t)((at.b * at.call.num_heads + at.h) * at.call.num_queries + i));
}

INLINE uint64_t drop_queries_row(const Place &at, int64_t i, int64_t j, float *row, uint64_t bits) {
    const uint64_t keys = random_keys(at, i);
    const uvec key = splat((uint32_t)keys), other = splat((uint32_t)(keys >> 32));
    return drop_row(at.call, row, bits, [&](int k) { return random_lanes(counters((uint32_t)(j + k)), key, other); });
}

/* Scores of m queries (rows) and n keys become weights. Returns how many are not zero; `shown` gets a look at each row
   before dropout. */
template <typename Shown>
static int64_t rectify(const Place &at, int64_t i, int m, int64_t j, int n, uint64_t keys, float *tile, uint64_t *bits,
                Shown shown) {
    const Call &call = at.call;
    const float shift = call.threshold_of(at.h);
    int64_t total = 0;
    for (int r = 0; r < m; r++) {
        float *row = tile + r * TILE;
        uint64_t keep = keys & first_bits(call.seen(i + r, j));
        if (masks_places(call) && keep) keep &= allowed_bits(at, i + r, j, n);
        const float *bias = call.bias.data ? call.bias.at<const float>(at.b, at.h, i + r) + j * call.bias.col : nullptr;
        bits[r] = rectify_row(row, n, shift, bias, call.bias.col, keep);
        shown(r, row);
        if (call.dropout_p > 0) bits[r] = drop_queries_row(at, i + r, j, row, bits[r]);
        total += __builtin_popcountll(bits[r]);
    }
    return total;
}

/* The same for a tile whose rows are the keys, as the backward pass wants it. */
static int64_t rectify_across(const Place &at, int64_t i, int m, int64_t j, int n, uint64_t keys, float *tile,
                       uint64_t *bits) {
    const Call &call = at.call;
    const float shift = call.threshold_of(at.h);
    uint64_t allowed[TILE];
    if (masks_places(call)) {
        for (int c = 0; c < TILE; c++) allowed[c] = c < m ? allowed_bits(at, i + c, j, n) : 0;
        transpose_bits(allowed);
    }
    uint32_t key[TILE], other[TILE];
    for (int c = 0; call.dropout_p > 0 && c < TILE; c++) {
        const uint64_t both = random_keys(at, i + c);
        key[c] = (uint32_t)both, other[c] = (uint32_t)(both >> 32);
    }
    int64_t total = 0;
    for (int r = 0; r < n; r++) {
        float *row = tile + r * TILE;
        uint64_t keep = keys >> r & 1 ? first_bits(m) : 0;
        if (call.is_causal) keep &= ~first_bits(j + r - call.causal_offset - i);
        if (masks_places(call)) keep &= allowed[r];
        const float *bias = call.bias.data ? call.bias.at<const float>(at.b, at.h, i) + (j + r) * call.bias.col : nullptr;
        bits[r] = rectify_row(row, m, shift, bias, call.bias.row, keep);
        if (call.dropout_p > 0)
            bits[r] = drop_row(call, row, bits[r], [&](int k) {
                return random_lanes(splat((uint32_t)(j + r)), *(const uvec *)(key + k), *(const uvec *)(other + k));
            });
        total += __builtin_popcountll(bits[r]);
    }
    return total;
}

/* Scratch memory of a thread: kept for the next call if it is small, so that most calls ask for none. */
class Room {
public:
    static constexpr size_t KEPT = (size_t)4 << 20;

    explicit Room(size_t bytes) {
        if (bytes > KEPT) {
            own_.reset(allocate(bytes));
            memory_ = own_.get();
            return;
        }
        thread_local std::unique_ptr<char, Free> kept;
        thread_local size_t size = 0;
        if (size < bytes) {
            kept.reset();
            size = 0;
            kept.reset(allocate(bytes));
            size = kept ? bytes : 0;
        }
        memory_ = kept.get();
    }

    explicit operator bool() const { return memory_ != nullptr; }

    template <typename T> T *take(size_t count) {
        T *part = (T *)memory_;
        memory_ += bytes<T>(count);
        return part;
    }

    template <typename T> static size_t bytes(size_t count) { return (count * sizeof(T) + 63) / 64 * 64; }

private:
    struct Free {
        void operator()(char *memory) const { free(memory); }
    };
    static char *allocate(size_t bytes) { return (char *)aligned_alloc(64, (bytes + 63) / 64 * 64); }
    std::unique_ptr<char, Free> own_;
    char *memory_ = nullptr;
};

/* Tasks in equal shares, one for each thread, so that from call to call a thread finds in its cache what it had there; a
   thread that is done with its own helps the others. */
class Shares {
public:
    Shares(int64_t tasks, int threads) : tasks_(tasks), count_(std::min(threads, MOST)) {
        for (int s = 0; s < count_; s++) next_[s].task = begin(s);
    }

    template <typename Task> void work(int thread, Task task) {
        int64_t done = 0;
        for (int k = 0; k < count_; k++) {
            const int s = (thread + k) % count_;
            for (int64_t t = next_[s].task++; t < begin(s + 1); t = next_[s].task++, done++) task(t);
        }
        done_ += done;
    }

    bool all_done() const { return done_ == tasks_; }

private:
    static constexpr int MOST = 64;
    struct alignas(64) Next {
        std::atomic<int64_t> task;
    };
    int64_t begin(int s) const { return tasks_ * s / count_; }
    const int64_t tasks_;
    const int count_;
    Next next_[MOST];
    std::atomic<int64_t> done_{0};
};

constexpr int BLOCK = 96; /* query rows whose tile of scores is made at once; a multiple of ROWS */

struct ForwardRoom {
    float *keys, *values, *query, *sums, *tile;
    uint64_t *bits;

    static size_t bytes() {
        return Room::bytes<float>(MAX_HEAD * TILE) * 2 + Room::bytes<float>(CHUNK * MAX_HEAD) * 2 +
               Room::bytes<float>(BLOCK * TILE) + Room::bytes<uint64_t>(BLOCK);
    }
    explicit ForwardRoom(Room &room)
        : keys(room.take<float>(MAX_HEAD * TILE)), values(room.take<float>(MAX_HEAD * TILE)),
          query(room.take<float>(CHUNK * MAX_HEAD)), sums(room.take<float>(CHUNK * MAX_HEAD)),
          tile(room.take<float>(BLOCK * TILE)), bits(room.take<uint64_t>(BLOCK)) {}
};

/* What is shown and noted of a part that no query sees. */
INLINE void show_nothing(const Place &at, int64_t i, int64_t m, int64_t j, int64_t n) {
    for (int64_t r = 0; at.call.weights.data && r < m; r++)
        memset(at.call.weights.at<float>(at.b, at.h, i + r) + j, 0, sizeof(float) * (size_t)n);
    if (uint64_t *signs = at.call.signs_at(at.b, at.h, i, j)) std::fill(signs, signs + m, 0);
}

static const float *shift_of(const Call &call, int which, int64_t h, int dim) {
    return call.shifts[which] ? call.shifts[which] + h * dim : nullptr;
}

/* Rows i..i+m of one head. */
template <typename T> static void forward_chunk(const Place &at, int64_t i, int m, ForwardRoom &room) {
    const Call &call = at.call;
    const int kd = call.key_dim, vd = call.value_dim, wide_value = call.wide_value();
    const int64_t key_head = call.key_head(at.h);
    const bool shows = call.weights.data != nullptr;
    pack_rows(m, kd, kd, call.query.at<const T>(at.b, at.h, i), call.query.row, shift_of(call, 0, at.h, kd),
              (float)call.scale, room.query);
    memset(room.sums, 0, sizeof(float) * (size_t)(m * wide_value));
    for (int64_t j = 0; j < call.num_keys; j += TILE) {
        const int n = (int)std::min<int64_t>(TILE, call.num_keys - j);
        const uint64_t keys = tile_keys(at, j, n);
        if (!keys || call.seen(i + m - 1, j) <= 0) {
            show_nothing(at, i, m, j, n);
            continue;
        }
        pack_across(n, kd, call.key.at<const T>(at.b, key_head, j), call.key.row, shift_of(call, 1, key_head, kd),
                    room.keys);
        pack_rows(n, vd, wide_value, call.value.at<const T>(at.b, key_head, j), call.value.row,
                  shift_of(call, 2, key_head, vd), 1.0f, room.values);
        const int wide = (int)round_up(n, COLS);
        const int blocks = (m + BLOCK - 1) / BLOCK, even = (int)round_up((m + blocks - 1) / blocks, ROWS);
        for (int r = 0; r < m; r += even) {
            const int rows = std::min(even, m - r);
            if (call.seen(i + r + rows - 1, j) <= 0) {
                show_nothing(at, i + r, rows, j, n);
                continue;
            }
            product(rows, wide, kd, room.query + r * kd, kd, 1, {room.keys, COLS, (int64_t)kd * COLS}, room.tile, TILE,
                    false);
            const int64_t total = rectify(at, i + r, rows, j, n, keys, room.tile, room.bits, [&](int row, float *x) {
                if (shows) memcpy(call.weights.at<float>(at.b, at.h, i + r + row) + j, x, sizeof(float) * (size_t)n);
            });
            if (uint64_t *signs = call.signs_at(at.b, at.h, i + r, j)) std::copy(room.bits, room.bits + rows, signs);
            float *sums = room.sums + r * wide_value;
            if (total > DENSE_FORWARD * rows * n && nothing_hidden(call, i + r, j, n, keys)) {
                product(rows, wide_value, n, room.tile, TILE, 1, {room.values, wide_value, COLS}, sums, wide_value,
                        true);
            } else if (total) {
                add_product({rows, room.bits, room.tile, TILE, 1}, wide_value, room.values, wide_value, sums, wide_value);
            }
        }
    }
    unpack_rows(m, vd, wide_value, room.sums, 1.0f, call.output.at<float>(at.b, at.h, i), call.output.row);
}

bool relu_forward(const Call &call) {
    const int64_t chunks = (call.num_queries + CHUNK - 1) / CHUNK;
    const int64_t rows = (call.num_queries + chunks - 1) / chunks;
    const int64_t tasks = call.num_batch * call.num_heads * chunks;
    const int64_t work = call.num_batch * call.num_heads * call.num_queries * call.num_keys * call.key_dim;
    const int threads = work < SMALL_WORK ? 1 : (int)std::min<int64_t>(call.num_threads, tasks);
    Shares shares(tasks, threads);
#pragma omp parallel num_threads(threads)
    {
        Room room(ForwardRoom::bytes());
        if (room) {
            ForwardRoom parts(room);
            shares.work(omp_get_thread_num(), [&](int64_t task) {
                const int64_t matrix = task / chunks, i = task % chunks * rows;
                const Place at = {call, matrix / call.num_heads, matrix % call.num_heads};
                const int m = (int)std::min(rows, call.num_queries - i);
                if (call.half) forward_chunk<BFloat>(at, i, m, parts);
                else forward_chunk<float>(at, i, m, parts);
            });
        }
    }
    return shares.all_done(); /* a thread without memory leaves its work to the others */
}

struct BackwardRoom {
    float *keys, *values, *d_keys, *d_values; /* of SPAN tiles */
    float *tile, *d_tile;                     /* with a row for each key */
    uint64_t *bits, *columns;
    bool *query_packed, *grad_packed; /* for each tile of queries, whether it is across too: dense products want it */
    /* All rows of the query heads that share a key head; those across in panels, one tile of rows after the other. */
    float *query, *query_across, *grad, *grad_across, *d_query;

    static size_t rows_of(const Call &call) {
        return (size_t)(call.num_heads / call.num_key_heads * round_up(call.num_queries, TILE));
    }
    static size_t bytes(const Call &call) {
        const size_t wide_key = (size_t)call.wide_key(), wide_value = (size_t)call.wide_value(), rows = rows_of(call);
        return Room::bytes<float>(SPAN * MAX_HEAD * TILE) * 4 + Room::bytes<float>(TILE * TILE) * 2 +
               Room::bytes<uint64_t>(TILE) * 2 + Room::bytes<bool>(rows / TILE) * 2 +
               Room::bytes<float>(rows * wide_key) * 3 + Room::bytes<float>(rows * wide_value) * 2;
    }
    BackwardRoom(Room &room, const Call &call)
        : keys(room.take<float>(SPAN * MAX_HEAD * TILE)), values(room.take<float>(SPAN * MAX_HEAD * TILE)),
          d_keys(room.take<float>(SPAN * MAX_HEAD * TILE)), d_values(room.take<float>(SPAN * MAX_HEAD * TILE)),
          tile(room.take<float>(TILE * TILE)), d_tile(room.take<float>(TILE * TILE)), bits(room.take<uint64_t>(TILE)),
          columns(room.take<uint64_t>(TILE)), query_packed(room.take<bool>(rows_of(call) / TILE)),
          grad_packed(room.take<bool>(rows_of(call) / TILE)),
          query(room.take<float>(rows_of(call) * (size_t)call.wide_key())),
          query_across(room.take<float>(rows_of(call) * (size_t)call.wide_key())),
          grad(room.take<float>(rows_of(call) * (size_t)call.wide_value())),
          grad_across(room.take<float>(rows_of(call) * (size_t)call.wide_value())),
          d_query(room.take<float>(rows_of(call) * (size_t)call.wide_key())) {}
};

/* Where a tile of queries and a tile of keys begin in the room, and how many they are. */
struct Pair {
    const float *query, *grad, *keys, *values;
    float *query_across, *grad_across, *d_query, *d_keys, *d_values;
    bool *query_packed, *grad_packed;
    int m, n;
};

/* The dense product of a tile's keys, or values, with its queries, or gradients. */
static void product_with_queries(int m, int n, int dim, const float *of_keys, const float *of_queries, float *across,
                                 bool *packed, int wide, float *tile) {
    if (!*packed) pack_across(m, dim, of_queries, wide, nullptr, across);
    *packed = true;
    product(n, (int)round_up(m, COLS), dim, of_keys, wide, 1, {across, COLS, (int64_t)dim * COLS}, tile, TILE, false);
}

/* The weights of a tile from all its scores: how many are not zero, and which, for each key. */
static int64_t all_weights(const Place &at, const Pair &pair, int64_t i, int64_t j, uint64_t keys, BackwardRoom &room) {
    const Call &call = at.call;
    product_with_queries(pair.m, pair.n, call.key_dim, pair.keys, pair.query, pair.query_across, pair.query_packed,
                         call.wide_key(), room.tile);
    return rectify_across(at, i, pair.m, j, pair.n, keys, room.tile, room.bits);
}

/* The weights that the forward pass has noted, and where they are. Their sums are taken in another order than there: what
   was just above zero stays at or above it. */
static void noted_weights(const Place &at, const Pair &pair, int64_t i, int64_t j, const uint64_t *signs,
                          BackwardRoom &room) {
    const Call &call = at.call;
    std::copy(signs, signs + pair.m, room.columns);
    std::fill(room.columns + pair.m, room.columns + TILE, 0);
    std::copy(room.columns, room.columns + TILE, room.bits);
    transpose_bits(room.bits);
    const float shift = call.threshold_of(at.h);
    const bool moved = shift != 0 || call.bias.data;
    const Sparse places = {pair.n, room.bits, room.tile, TILE, 1};
    dot_product(places, call.wide_key(), pair.query, pair.keys, moved ? 1.0f : call.gain(), moved ? -INFINITY : 0.0f,
                room.tile);
    if (!moved) return;
    const float *bias = call.bias.data ? call.bias.at<const float>(at.b, at.h, i) + j * call.bias.col : nullptr;
    for (int r = 0; r < pair.n; r++)
        for (uint64_t left = room.bits[r]; left;) {
            const int64_t c = next_of(left);
            float &x = room.tile[r * TILE + c];
            x = ((x - shift) + (bias ? bias[c * call.bias.row + r * call.bias.col] : 0.0f)) * call.gain();
            if (x < 0) x = 0;
        }
}

static void grad_product(const Call &call, const Pair &at, BackwardRoom &room) {
    product_with_queries(at.m, at.n, call.value_dim, at.values, at.grad, at.grad_across, at.grad_packed, call.wide_value(),
                         room.d_tile);
}

/* The four products of one tile, with all its weights. */
static void dense_backward(const Call &call, const Pair &at, BackwardRoom &room) {
    const int wide_key = call.wide_key(), wide_value = call.wide_value(), wide = (int)round_up(at.m, COLS);
    grad_product(call, at, room);
    for (int r = 0; r < at.n; r++)
        for (int k = 0; k < wide; k += LANES) {
            vec *d = (vec *)(room.d_tile + r * TILE + k);
            *d = (vec)(mask_of(room.bits[r] >> k) & (ivec)(*d * call.gain()));
        }
    product(at.n, wide_value, at.m, room.tile, TILE, 1, {at.grad, wide_value, COLS}, at.d_values, wide_value, true);
    product(at.n, wide_key, at.m, room.d_tile, TILE, 1, {at.query, wide_key, COLS}, at.d_keys, wide_key, true);
    product(at.m, wide_key, at.n, room.d_tile, 1, TILE, {at.keys, wide_key, COLS}, at.d_query, wide_key, true);
}

/* The same over the non-zeros, in passes: what each reads over and over then stays in the first-level cache. `columns`
   must say for each query where they are, as `bits` does for each key. With `all_dots`, the first product is dense; what
   it has where weights are zero is not looked at. */
static void sparse_backward(const Call &call, const Pair &at, BackwardRoom &room, bool all_dots) {
    const int wide_key = call.wide_key(), wide_value = call.wide_value();
    const Sparse weights = {at.n, room.bits, room.tile, TILE, 1}, d_scores = {at.n, room.bits, room.d_tile, TILE, 1};
    if (all_dots) {
        grad_product(call, at, room);
        for (int k = 0; call.dropout_p > 0 && k < TILE * at.n; k += LANES) *(vec *)(room.d_tile + k) *= call.gain();
    } else {
        dot_product(weights, wide_value, at.grad, at.values, call.gain(), -INFINITY, room.d_tile);
    }
    add_product(weights, wide_value, at.grad, wide_value, at.d_values, wide_value);
    add_product(d_scores, wide_key, at.query, wide_key, at.d_keys, wide_key);
    add_product({at.m, room.columns, room.d_tile, 1, TILE}, wide_key, at.keys, wide_key, at.d_query, wide_key);
}

/* What one tile adds to all gradients; false if it has no weight but zeros. */
static bool backward_tile(const Place &at, const Pair &pair, int64_t i, int64_t j, uint64_t keys, BackwardRoom &room) {
    const uint64_t *signs = at.call.signs_at(at.b, at.h, i, j);
    const int64_t places = pair.m * pair.n;
    int64_t total = signs ? 0 : places;
    for (int c = 0; signs && c < pair.m; c++) total += __builtin_popcountll(signs[c]);
    if (total <= DENSE_DOTS * places) {
        if (!total) return false;
        noted_weights(at, pair, i, j, signs, room);
        sparse_backward(at.call, pair, room, false);
        return true;
    }
    total = all_weights(at, pair, i, j, keys, room);
    if (!total) return false;
    if (total > DENSE_BACKWARD * places && nothing_hidden(at.call, i, j, pair.n, keys)) {
        dense_backward(at.call, pair, room);
        return true;
    }
    std::copy(room.bits, room.bits + pair.n, room.columns);
    std::fill(room.columns + pair.n, room.columns + TILE, 0);
    transpose_bits(room.columns);
    sparse_backward(at.call, pair, room, total > DENSE_DOTS * places);
    return true;
}

static double sum_of_listed(int n, const uint64_t *bits, const float *tile) {
    double sum = 0;
    for (int r = 0; r < n; r++)
        for (uint64_t left = bits[r]; left;) sum += tile[r * TILE + next_of(left)];
    return sum;
}

/* The gradients of keys j0..j1 of one key head, and what they add to those of its queries (all of it, if the keys are
   all), which stays in the room. */
template <typename T>
static void backward_keys(const Call &call, int64_t b, int64_t key_head, int64_t j0, int64_t j1, double *d_thresholds,
                   BackwardRoom &room) {
    const int kd = call.key_dim, vd = call.value_dim, wide_key = call.wide_key(), wide_value = call.wide_value();
    const int64_t group = call.num_heads / call.num_key_heads, tq = call.num_queries, head_rows = round_up(tq, TILE);
    for (int64_t g = 0; g < group; g++) {
        const int64_t h = key_head * group + g;
        const float *grad = call.grad.at<const float>(b, h, 0);
        pack_rows(tq, kd, wide_key, call.query.at<const T>(b, h, 0), call.query.row, nullptr, (float)call.scale,
                  room.query + g * head_rows * wide_key);
        pack_rows(tq, vd, wide_value, grad, call.grad.row, nullptr, 1.0f, room.grad + g * head_rows * wide_value);
    }
    memset(room.d_query, 0, sizeof(float) * (size_t)(group * head_rows * wide_key));
    std::fill(room.query_packed, room.query_packed + group * head_rows / TILE, false);
    std::fill(room.grad_packed, room.grad_packed + group * head_rows / TILE, false);
    for (int64_t j = j0; j < j1; j += SPAN * TILE) {
        const int64_t span = std::min<int64_t>(SPAN * TILE, j1 - j);
        memset(room.d_keys, 0, sizeof(float) * (size_t)(span * wide_key));
        memset(room.d_values, 0, sizeof(float) * (size_t)(span * wide_value));
        pack_rows(span, kd, wide_key, call.key.at<const T>(b, key_head, j), call.key.row, nullptr, 1.0f, room.keys);
        pack_rows(span, vd, wide_value, call.value.at<const T>(b, key_head, j), call.value.row, nullptr, 1.0f,
                  room.values);
        for (int64_t g = 0; g < group; g++) {
            const Place at = {call, b, key_head * group + g};
            uint64_t keys[SPAN];
            for (int64_t k = 0; k < span; k += TILE)
                keys[k / TILE] = tile_keys(at, j + k, (int)std::min<int64_t>(TILE, span - k));
            for (int64_t i = 0; i < tq; i += TILE)
                for (int64_t k = 0; k < span; k += TILE) {
                    const int m = (int)std::min<int64_t>(TILE, tq - i), n = (int)std::min<int64_t>(TILE, span - k);
                    if (!keys[k / TILE] || call.seen(i + m - 1, j + k) <= 0) continue;
                    const int64_t row = g * head_rows + i;
                    const Pair pair = {room.query + row * wide_key,         room.grad + row * wide_value,
                                       room.keys + k * wide_key,            room.values + k * wide_value,
                                       room.query_across + row * wide_key,  room.grad_across + row * wide_value,
                                       room.d_query + row * wide_key,       room.d_keys + k * wide_key,
                                       room.d_values + k * wide_value,      room.query_packed + row / TILE,
                                       room.grad_packed + row / TILE,       m, n};
                    if (!backward_tile(at, pair, i, j + k, keys[k / TILE], room)) continue;
                    if (d_thresholds) d_thresholds[g] -= sum_of_listed(n, room.bits, room.d_tile);
                }
        }
        unpack_rows(span, kd, wide_key, room.d_keys, 1.0f, call.d_key.at<T>(b, key_head, j), call.d_key.row);
        unpack_rows(span, vd, wide_value, room.d_values, 1.0f, call.d_value.at<T>(b, key_head, j), call.d_value.row);
    }
}

template <typename T>
static void write_d_query(const Call &call, int64_t b, int64_t key_head, const float *d_query) {
    const int64_t group = call.num_heads / call.num_key_heads, tq = call.num_queries, rows = round_up(tq, TILE);
    for (int64_t g = 0; g < group; g++)
        unpack_rows(tq, call.key_dim, call.wide_key(), d_query + g * rows * call.wide_key(), (float)call.scale,
                    call.d_query.at<T>(b, key_head * group + g, 0), call.d_query.row);
}

/* Into how many parts the keys of a head are cut, so that each thread finds work: by the sizes alone, not by the
   threads there are, so that their number does not change the result. */
INLINE int64_t key_parts(const Call &call) {
    constexpr int64_t MANY_HEADS = 8, LONG = 8 * TILE;
    const int64_t heads = call.num_batch * call.num_key_heads, most = call.num_keys / LONG;
    return std::max<int64_t>(1, std::min((MANY_HEADS + heads - 1) / heads, most));
}

bool relu_backward(const Call &call) {
    const int64_t heads = call.num_batch * call.num_key_heads, parts = key_parts(call), tasks = heads * parts;
    const int64_t group = call.num_heads / call.num_key_heads;
    const int64_t part_keys = round_up((call.num_keys + parts - 1) / parts, TILE);
    const size_t shared = BackwardRoom::rows_of(call) * (size_t)call.wide_key(); /* numbers of a head's d_query */
    const int64_t work = call.num_batch * call.num_heads * call.num_queries * call.num_keys * call.key_dim;
    const int threads = work < SMALL_WORK / 2 ? 1 : (int)std::min<int64_t>(call.num_threads, tasks);
    std::unique_ptr<float[]> partial(parts > 1 ? new (std::nothrow) float[(size_t)tasks * shared] : nullptr);
    std::unique_ptr<double[]> d_thresholds(
        call.d_thresholds ? new (std::nothrow) double[(size_t)(tasks * group)]() : nullptr);
    if ((parts > 1 && !partial) || (call.d_thresholds && !d_thresholds)) return false;
    Shares shares(tasks, threads);
#pragma omp parallel num_threads(threads)
    {
        Room memory(BackwardRoom::bytes(call));
        if (memory) {
            BackwardRoom room(memory, call);
            shares.work(omp_get_thread_num(), [&](int64_t task) {
                const int64_t head = task / parts, b = head / call.num_key_heads, key_head = head % call.num_key_heads;
                const int64_t j0 = task % parts * part_keys, j1 = std::min(call.num_keys, j0 + part_keys);
                double *d_threshold = d_thresholds ? d_thresholds.get() + task * group : nullptr;
                if (call.half) backward_keys<BFloat>(call, b, key_head, j0, j1, d_threshold, room);
                else backward_keys<float>(call, b, key_head, j0, j1, d_threshold, room);
                if (parts > 1) memcpy(partial.get() + (size_t)task * shared, room.d_query, sizeof(float) * shared);
                else if (call.half) write_d_query<BFloat>(call, b, key_head, room.d_query);
                else write_d_query<float>(call, b, key_head, room.d_query);
            });
        }
    }
    if (!shares.all_done()) return false;
    if (parts > 1) {
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int64_t head = 0; head < heads; head++) {
            float *sum = partial.get() + (size_t)(head * parts) * shared;
            for (int64_t part = 1; part < parts; part++)
                for (size_t k = 0; k < shared; k++) sum[k] += sum[(size_t)part * shared + k];
            const int64_t b = head / call.num_key_heads, key_head = head % call.num_key_heads;
            if (call.half) write_d_query<BFloat>(call, b, key_head, sum);
            else write_d_query<float>(call, b, key_head, sum);
        }
    }
    if (d_thresholds)
        for (int64_t head = 0; head < heads; head++)
            for (int64_t g = 0; g < group; g++) {
                const int64_t b = head / call.num_key_heads, h = head % call.num_key_heads * group + g;
                double &sum = call.d_thresholds[b * call.num_heads + h];
                for (int64_t part = 0; part < parts; part++)
                    sum += d_thresholds[(size_t)((head * parts + part) * group + g)];
            }
    return true;
}

/* The dropout factors of all places, as the two passes above draw them: output is [B, H, Tq, Tk]. */
void dropout_factors(const Call &call) {
    for (int64_t b = 0; b < call.num_batch; b++)
        for (int64_t h = 0; h < call.num_heads; h++)
            for (int64_t i = 0; i < call.num_queries; i++)
                for (int64_t j = 0; j < call.num_keys; j += TILE) {
                    float row[TILE];
                    std::fill(row, row + TILE, 1.0f);
                    drop_queries_row({call, b, h}, i, j, row, ~(uint64_t)0);
                    const size_t n = (size_t)std::min<int64_t>(TILE, call.num_keys - j);
                    memcpy(call.output.at<float>(b, h, i) + j, row, sizeof(float) * n);
                }
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
INLINE vec load_some(const float *p, const int64_t count) {
    if (count >= LANES) return load(p);
    vec x = {};
    for (int64_t i = 0; i < count; i++) x[i] = p[i];
    return x;
}

INLINE void store_some(float *p, vec x, const int64_t count) {
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
    vec squares = {};
#define STEP(k, count)                          \
    {                                           \
        const vec v = load_some(x + (k), count);     \
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
                          const bool gated) {
#define STEP(k, count)                                                                          \
    {                                                                                           \
        const vec v = load_some(in + (k), count);                                                    \
        vec y = (v * inv) * load_some(weight + (k), count);                                          \
        if (gated) y *= sigmoid_of(v * load_some(gate + (k), count));                                \
        store_some(out + (k), y, count);                                                             \
    }
    FOR_ROW(STEP)
#undef STEP
}

/* y = sigmoid(gate x) x inverse weight, inverse = 1 / sqrt(mean x^2 + eps), which the backward pass wants too; y may
   be x. */
void rms_norm_forward(const float *x, const float *weight, const float *gate, float *y, float *inverse,
                           int64_t rows, int64_t dim, double eps, int num_threads) {
#pragma omp parallel for num_threads(num_threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const float *in = x + r * dim;
        const float inv = inverse[r] = (float)(1.0 / sqrt(sum_of_squares(in, dim) / (double)dim + eps));
        if (gate) normalise_row(in, weight, gate, y + r * dim, inv, dim, true);
        else normalise_row(in, weight, gate, y + r * dim, inv, dim, false);
    }
}

/* One row of the backward pass; see below. */
INLINE void d_row(const float *dy, const float *in, const float *weight, const float *gate, float inv, float *out,
                  float *d_weight, float *d_gate, int64_t dim, const bool gated) {
    vec total = {};
#define STEP(k, count)                                                                          \
    {                                                                                           \
        const vec v = load_some(in + (k), count), w = load_some(weight + (k), count);                     \
        const vec g = gated ? load_some(gate + (k), count) : splat(0.0f);                            \
        const vec s = gated ? sigmoid_of(v * g) : splat(1.0f);                                  \
        const vec ds = load_some(dy + (k), count) * s; /* grad s */                                  \
        const vec u = ds * (v * inv);             /* grad s x inverse */                        \
        const vec t = u * w, open = t * (1.0f - s);                                             \
        total += t;                                                                             \
        store_some(d_weight + (k), load_some(d_weight + (k), count) + u, count);                          \
        if (gated) store_some(d_gate + (k), load_some(d_gate + (k), count) + open * v, count);            \
        store_some(out + (k), ds * w * inv + open * g, count);                                       \
    }
    FOR_ROW(STEP)
#undef STEP
    const float pull = inv * (sum_of(total) / (float)dim);
#define STEP(k, count) store_some(out + (k), load_some(out + (k), count) - (load_some(in + (k), count) * inv) * pull, count);
    FOR_ROW(STEP)
#undef STEP
}

/* With s = sigmoid(gate x), t = grad s x inverse weight:
     d_x = (grad s weight - x inverse mean(t)) inverse + t (1 - s) gate
     d_weight = sum of grad s x inverse,  d_gate = sum of t (1 - s) x
   The sums are taken in parts, whose number does not depend on that of the threads; partial is [parts][2][dim], zeroed
   by the caller, who adds them. */
void rms_norm_backward(const float *grad, const float *x, const float *weight, const float *gate,
                            const float *inverse, float *d_x, float *partial, int64_t rows, int64_t dim, int64_t parts,
                            int num_threads) {
#pragma omp parallel for num_threads(num_threads) schedule(static)
    for (int64_t part = 0; part < parts; part++) {
        float *d_weight = partial + part * 2 * dim, *d_gate = d_weight + dim;
        for (int64_t r = rows * part / parts; r < rows * (part + 1) / parts; r++) {
            const float *dy = grad + r * dim, *in = x + r * dim;
            float *out = d_x + r * dim;
            if (gate) d_row(dy, in, weight, gate, inverse[r], out, d_weight, d_gate, dim, true);
            else d_row(dy, in, weight, gate, inverse[r], out, d_weight, d_gate, dim, false);
        }
    }
}

/* ------------------------------------------------------------------ dropout on residual connections */

constexpr int64_t DROPOUT_BLOCK = 4096; /* numbers that share their keys; far fewer than a 32-bit counter can tell apart */

/* out = x + y / (1 - p) where y is kept, x where it is not; without x (NULL), 0 for it. The same seed keeps the same
   places, so this is the backward pass as well. */
void dropout_add(const float *x, const float *y, float *out, int64_t count, uint64_t seed, double p,
                      int num_threads) {
    const uint32_t limit = (uint32_t)(p * 4294967296.0);
    const float gain = (float)(1.0 / (1.0 - p));
    const int64_t blocks = (count + DROPOUT_BLOCK - 1) / DROPOUT_BLOCK;
#pragma omp parallel for num_threads(num_threads) schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
        const uint64_t keys = random_at(seed, (uint64_t)block);
        const uvec key = splat((uint32_t)keys), other = splat((uint32_t)(keys >> 32));
        const int64_t start = block * DROPOUT_BLOCK;
        const int64_t end = start + DROPOUT_BLOCK < count ? start + DROPOUT_BLOCK : count;
        for (int64_t k = start; k < end; k += LANES) {
            const int64_t left = end - k < LANES ? end - k : LANES;
            const ivec kept = (ivec)(random_lanes(counters((uint32_t)(k - start)), key, other) >= limit);
            vec sum = pick(kept, load_some(y + k, left) * gain, vec{});
            if (x) sum += load_some(x + k, left);
            store_some(out + k, sum, left);
        }
    }
}

} // namespace rela_native

#endif

#ifndef RELA_WITHOUT_TORCH

/* ------------------------------------------------------------------ the operators */

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace rela_native {
namespace {

using at::Tensor;
using std::optional;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/* What every operator of attention is given besides query, key and value. */
struct Options {
    optional<Tensor> thresholds, allowed, bias, seed;
    double scale, threshold;
    optional<int64_t> causal_offset;
    double dropout_p;
};

/* Numbers one after the other in a row, and really there: torch may leave out a minus sign, or all zeros of a
   gradient. */
Tensor with_rows(const Tensor &x) {
    const Tensor real = x._is_zerotensor() ? x.clone() : x.resolve_neg();
    return real.stride(-1) == 1 || real.size(-1) == 1 ? real : real.contiguous();
}

Strided strided(const Tensor &x) {
    Strided s;
    s.data = const_cast<void *>(x.const_data_ptr());
    int64_t *strides[] = {&s.batch, &s.head, &s.row, &s.col};
    for (int d = 0; d < 4; d++) *strides[d] = x.size(d) > 1 ? x.stride(d) : 0;
    return s;
}

Tensor heads_last(const Tensor &like, int64_t dim, at::ScalarType type) {
    return at::empty({like.size(0), like.size(2), like.size(1), dim}, like.options().dtype(type)).transpose(1, 2);
}

Call make_call(const Tensor &q, const Tensor &k, const Tensor &v, const Options &options, const Tensor &bias) {
    TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && k.size(1) > 0 && q.size(1) % k.size(1) == 0 &&
                    q.size(0) == k.size(0) && q.size(0) == v.size(0) && k.size(1) == v.size(1) &&
                    k.size(2) == v.size(2) && q.size(3) == k.size(3) && q.size(3) <= MAX_HEAD && v.size(3) <= MAX_HEAD &&
                    q.numel() > 0 && k.numel() > 0 && v.numel() > 0,
                "rela::relu_attention: expected query [B, H, Tq, d], key [B, H or fewer, Tk, d] and value with as many "
                "heads and rows as key, heads of at most ", MAX_HEAD, "; got ", q.sizes(), ", ", k.sizes(), ", ", v.sizes());
    TORCH_CHECK(q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type() &&
                    (q.scalar_type() == at::kFloat || q.scalar_type() == at::kBFloat16),
                "rela::relu_attention: expected float32 or bfloat16 for all of query, key and value, got ",
                q.scalar_type(), ", ", k.scalar_type(), ", ", v.scalar_type());
    Call call{};
    call.num_batch = q.size(0), call.num_heads = q.size(1), call.num_key_heads = k.size(1);
    call.num_queries = q.size(2), call.num_keys = k.size(2);
    call.key_dim = (int)q.size(3), call.value_dim = (int)v.size(3);
    call.half = q.scalar_type() == at::kBFloat16;
    call.query = strided(q), call.key = strided(k), call.value = strided(v);
    const auto check_mask = [&](const Tensor &mask, at::ScalarType type) {
        bool fits = mask.dim() == 4 && mask.scalar_type() == type;
        const int64_t full[] = {q.size(0), q.size(1), q.size(2), k.size(2)};
        for (int d = 0; fits && d < 4; d++) fits = mask.size(d) == 1 || mask.size(d) == full[d];
        TORCH_CHECK(fits, "rela::relu_attention: expected a mask of four dimensions that broadcasts to [B, H, Tq, Tk], "
                    "bool or float32, got ", mask.sizes(), " ", mask.scalar_type());
    };
    if (options.allowed) check_mask(*options.allowed, at::kBool), call.allowed = strided(*options.allowed);
    if (bias.defined()) check_mask(bias, at::kFloat), call.bias = strided(bias);
    if (options.thresholds) {
        const Tensor &t = *options.thresholds;
        TORCH_CHECK(t.numel() == q.size(1) && t.scalar_type() == at::kFloat && t.is_contiguous(),
                    "rela::relu_attention: expected one float32 threshold a head, got ", t.sizes());
        call.thresholds = t.const_data_ptr<float>();
    }
    call.is_causal = options.causal_offset.has_value();
    call.causal_offset = options.causal_offset.value_or(0);
    call.dropout_p = options.dropout_p;
    if (options.dropout_p > 0) {
        TORCH_CHECK(options.seed && options.seed->numel() == 1 && options.seed->scalar_type() == at::kLong,
                    "rela::relu_attention: expected a seed, one int64, for dropout");
        call.seed = (uint64_t)*options.seed->const_data_ptr<int64_t>();
    }
    call.scale = options.scale, call.threshold = options.threshold;
    call.num_threads = at::get_num_threads();
    return call;
}

Tensor as_float(const optional<Tensor> &bias) { return bias ? bias->to(at::kFloat).resolve_neg() : Tensor(); }

void check_memory(bool enough) { TORCH_CHECK(enough, "rela::relu_attention: no memory left for its scratch space"); }

enum class Also { NOTHING, WEIGHTS, SIGNS };

/* The output, and what is wanted besides. */
std::tuple<Tensor, Tensor> forward_with(const Tensor &query, const Tensor &key, const Tensor &value,
                                        const Options &options, const optional<Tensor> &shifts, Also wanted) {
    const Tensor q = with_rows(query), k = with_rows(key), v = with_rows(value), bias = as_float(options.bias);
    Call call = make_call(q, k, v, options, bias);
    Tensor output = heads_last(q, v.size(3), at::kFloat), also;
    call.output = strided(output);
    if (wanted == Also::WEIGHTS) {
        also = at::empty({q.size(0), q.size(1), q.size(2), k.size(2)}, q.options().dtype(at::kFloat));
        call.weights = strided(also);
    }
    if (wanted == Also::SIGNS) {
        also = at::empty({q.size(0), q.size(1), call.noted_tiles(), q.size(2)}, q.options().dtype(at::kLong));
        call.signs = (uint64_t *)also.mutable_data_ptr<int64_t>();
    }
    if (shifts) {
        TORCH_CHECK(shifts->is_contiguous() && shifts->numel() == 3 * q.size(1) * q.size(3) && k.size(1) == q.size(1) &&
                        v.size(3) == q.size(3) && shifts->scalar_type() == at::kFloat,
                    "rela::relu_attention: expected shifts [3, H, d], got ", shifts->sizes());
        for (int which = 0; which < 3; which++)
            call.shifts[which] = shifts->const_data_ptr<float>() + which * q.size(1) * q.size(3);
    }
    check_memory(relu_forward(call));
    return {output, also};
}

#define OPTIONS                                                                                              \
    const optional<Tensor> &thresholds, const optional<Tensor> &allowed, const optional<Tensor> &bias,       \
        const optional<Tensor> &seed, double scale, double threshold, optional<int64_t> causal_offset,       \
        double dropout_p
#define GIVEN {thresholds, allowed, bias, seed, scale, threshold, causal_offset, dropout_p}

Tensor relu_attention_cpu(const Tensor &query, const Tensor &key, const Tensor &value, OPTIONS) {
    return std::get<0>(forward_with(query, key, value, GIVEN, {}, Also::NOTHING));
}

/* With the signs of the weights, for the backward pass. */
std::tuple<Tensor, Tensor> relu_attention_noted_cpu(const Tensor &query, const Tensor &key, const Tensor &value,
                                                    OPTIONS) {
    return forward_with(query, key, value, GIVEN, {}, Also::SIGNS);
}

std::tuple<Tensor, Tensor> relu_attention_shown_cpu(const Tensor &query, const Tensor &key, const Tensor &value,
                                                    const optional<Tensor> &shifts, bool need_weights, OPTIONS) {
    const Also wanted = need_weights ? Also::WEIGHTS : Also::NOTHING;
    auto [output, weights] = forward_with(query, key, value, GIVEN, shifts, wanted);
    return {output, weights.defined() ? weights : at::empty({0}, output.options())};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> relu_attention_backward_cpu(const Tensor &grad, const Tensor &query,
                                                                       const Tensor &key, const Tensor &value,
                                                                       OPTIONS, const optional<Tensor> &signs) {
    const Tensor q = with_rows(query), k = with_rows(key), v = with_rows(value), g = with_rows(grad.to(at::kFloat));
    const Tensor float_bias = as_float(bias);
    Call call = make_call(q, k, v, GIVEN, float_bias);
    if (signs) {
        TORCH_CHECK(signs->scalar_type() == at::kLong && signs->is_contiguous() &&
                        signs->sizes() == at::IntArrayRef({q.size(0), q.size(1), call.noted_tiles(), q.size(2)}),
                    "rela::relu_attention_backward: expected the signs of relu_attention_noted, got ", signs->sizes());
        call.signs = (uint64_t *)const_cast<int64_t *>(signs->const_data_ptr<int64_t>());
    }
    Tensor d_query = heads_last(q, q.size(3), q.scalar_type()), d_key = heads_last(k, k.size(3), k.scalar_type()),
           d_value = heads_last(v, v.size(3), v.scalar_type());
    Tensor sums, d_threshold;
    if (thresholds) {
        sums = at::zeros({q.size(0), q.size(1)}, q.options().dtype(at::kDouble));
        call.d_thresholds = sums.mutable_data_ptr<double>();
    }
    call.grad = strided(g), call.d_query = strided(d_query), call.d_key = strided(d_key), call.d_value = strided(d_value);
    check_memory(relu_backward(call));
    d_threshold = thresholds ? sums.sum(0).to(at::kFloat).view(thresholds->sizes()) : at::empty({0}, g.options());
    return {d_query, d_key, d_value, d_threshold};
}

Tensor relu_attention_factors_cpu(const Tensor &query, const Tensor &key, const Tensor &seed, double dropout_p) {
    Tensor factors = at::empty({query.size(0), query.size(1), query.size(2), key.size(2)},
                               query.options().dtype(at::kFloat));
    const Options options = {{}, {}, {}, seed, 1.0, 0.0, {}, dropout_p};
    Call call = make_call(query, key, key, options, Tensor());
    call.output = strided(factors);
    dropout_factors(call);
    return factors;
}

template <typename F> auto operator_of(const char *name) {
    return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<F>();
}

Tensor attention_op(const Tensor &query, const Tensor &key, const Tensor &value, OPTIONS) {
    static const auto op = operator_of<decltype(relu_attention_cpu)>("rela::relu_attention");
    return op.call(query, key, value, thresholds, allowed, bias, seed, scale, threshold, causal_offset, dropout_p);
}

/* The gradients by formulas that autograd can follow once more, for second derivatives. */
variable_list formula_backward(const Tensor &grad, const Tensor &query, const Tensor &key, const Tensor &value,
                               const Options &o) {
    static const auto factors_of = operator_of<decltype(relu_attention_factors_cpu)>("rela::relu_attention_factors");
    const auto type = query.scalar_type();
    const int64_t group = query.size(1) / key.size(1);
    const auto repeated = [&](const Tensor &x) {
        const Tensor wide = x.to(at::kFloat);
        return group == 1 ? wide : wide.repeat_interleave(group, 1);
    };
    const auto gathered = [&](const Tensor &x) { return group == 1 ? x : x.unflatten(1, {key.size(1), group}).sum(2); };
    const Tensor q = query.to(at::kFloat), k = repeated(key), v = repeated(value);
    Tensor scores = q.matmul(k.transpose(-2, -1)) * o.scale;
    if (o.bias) scores = scores + *o.bias;
    scores = o.thresholds ? scores - o.thresholds->view({-1, 1, 1}) : scores - o.threshold;
    Tensor positive = scores.detach() > 0;
    if (o.allowed) positive = positive.logical_and(*o.allowed);
    if (o.causal_offset) positive = positive.tril(*o.causal_offset);
    Tensor factors = positive.to(at::kFloat);
    if (o.dropout_p > 0) factors = factors * factors_of.call(query, key, *o.seed, o.dropout_p);
    const Tensor weights = scores * factors;
    const Tensor d_scores = grad.matmul(v.transpose(-2, -1)) * factors;
    Tensor d_threshold;
    if (o.thresholds) d_threshold = -d_scores.sum({0, 2, 3}).view(o.thresholds->sizes());
    return {(d_scores.matmul(k) * o.scale).to(type), gathered(d_scores.transpose(-2, -1).matmul(q) * o.scale).to(type),
            gathered(weights.transpose(-2, -1).matmul(grad)).to(type), d_threshold};
}

/* Whether the signs are worth a tensor of their own: not in short calls. */
bool worth_noting(const Tensor &query, const Tensor &key) {
    return query.sym_size(2) * key.sym_size(2) >= TILE * TILE;
}

optional<Tensor> maybe(const Tensor &x) { return x.defined() ? optional<Tensor>(x) : std::nullopt; }

struct ReluAttention : torch::autograd::Function<ReluAttention> {
    static Tensor forward(AutogradContext *ctx, const Tensor &query, const Tensor &key, const Tensor &value, OPTIONS) {
        at::AutoDispatchBelowADInplaceOrView below;
        const auto some = [](const optional<Tensor> &x) { return x ? *x : Tensor(); };
        static const auto noted = operator_of<decltype(relu_attention_noted_cpu)>("rela::relu_attention_noted");
        Tensor output, signs;
        if (worth_noting(query, key))
            std::tie(output, signs) = noted.call(query, key, value, thresholds, allowed, bias, seed, scale, threshold,
                                                 causal_offset, dropout_p);
        else
            output = attention_op(query, key, value, thresholds, allowed, bias, seed, scale, threshold, causal_offset,
                                  dropout_p);
        ctx->save_for_backward({query, key, value, some(thresholds), some(allowed), some(bias), some(seed), signs});
        ctx->saved_data["numbers"] = std::vector<double>{scale, threshold, dropout_p};
        ctx->saved_data["offset"] = causal_offset;
        return output;
    }

    static variable_list backward(AutogradContext *ctx, variable_list grads) {
        const variable_list saved = ctx->get_saved_variables();
        const std::vector<double> numbers = ctx->saved_data["numbers"].toDoubleVector();
        const Options o = {maybe(saved[3]), maybe(saved[4]), maybe(saved[5]), maybe(saved[6]), numbers[0],
                           numbers[1], ctx->saved_data["offset"].toOptional<int64_t>(), numbers[2]};
        variable_list found(11);
        if (at::GradMode::is_enabled()) {
            const variable_list four = formula_backward(grads[0], saved[0], saved[1], saved[2], o);
            std::copy(four.begin(), four.end(), found.begin());
            return found;
        }
        static const auto op = operator_of<decltype(relu_attention_backward_cpu)>("rela::relu_attention_backward");
        std::tie(found[0], found[1], found[2], found[3]) =
            op.call(grads[0], saved[0], saved[1], saved[2], o.thresholds, o.allowed, o.bias, o.seed, o.scale, o.threshold,
                    o.causal_offset, o.dropout_p, maybe(saved[7]));
        if (!o.thresholds) found[3] = Tensor();
        return found;
    }
};

bool wants_gradient(const Tensor &x) { return x.defined() && x.requires_grad(); }

Tensor relu_attention_autograd(const Tensor &query, const Tensor &key, const Tensor &value, OPTIONS) {
    const bool wanted = wants_gradient(query) || wants_gradient(key) || wants_gradient(value) ||
                        (thresholds && wants_gradient(*thresholds));
    if (at::GradMode::is_enabled() && wanted)
        return ReluAttention::apply(query, key, value, thresholds, allowed, bias, seed, scale, threshold, causal_offset,
                                    dropout_p);
    at::AutoDispatchBelowADInplaceOrView below;
    return attention_op(query, key, value, thresholds, allowed, bias, seed, scale, threshold, causal_offset, dropout_p);
}

/* Without options, and with the checks that Python would make slower: short calls feel each argument and each look at a
   shape. */
Tensor relu_attention_plain(const Tensor &query, const Tensor &key, const Tensor &value, optional<double> scale) {
    TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && query.size(1) == key.size(1) && query.size(3) > 0 &&
                    query.scalar_type() == at::kFloat && (!scale || std::isfinite(*scale)),
                "rela::relu_attention_plain: expected float32 [B, H, T, d] with one head of keys for each of queries");
    return attention_op(query, key, value, {}, {}, {}, {}, scale.value_or(1.0 / std::sqrt((double)query.size(3))), 0.0, {},
                        0.0);
}

/* ------------------------------------------------------------------ norms */

int norm_threads(const Tensor &x) { return x.numel() < SMALL_WORK / 8 ? 1 : at::get_num_threads(); }

const float *address(const optional<Tensor> &x) { return x ? x->const_data_ptr<float>() : nullptr; }

void check_norm(const Tensor &x, const Tensor &weight, const optional<Tensor> &gate) {
    const auto fits = [&](const Tensor &t) {
        return t.scalar_type() == at::kFloat && t.dim() == 1 && t.size(0) == x.size(-1) && t.is_contiguous();
    };
    TORCH_CHECK(x.scalar_type() == at::kFloat && x.dim() > 0 && fits(weight) && (!gate || fits(*gate)),
                "rela::rms_norm: expected float32 x [..., d], weight [d] and gate [d], got ", x.sizes(), " and ",
                weight.sizes());
}

/* Forward, into `output`, which may be x itself. */
Tensor norm_into(const Tensor &x, const Tensor &weight, const optional<Tensor> &gate, double eps, Tensor &output) {
    check_norm(x, weight, gate);
    Tensor inverse = at::empty(x.sizes().slice(0, x.dim() - 1), x.options());
    const int64_t dim = x.size(-1);
    rms_norm_forward(x.const_data_ptr<float>(), weight.const_data_ptr<float>(), address(gate),
                     output.mutable_data_ptr<float>(), inverse.mutable_data_ptr<float>(), dim ? x.numel() / dim : 0, dim,
                     eps, norm_threads(x));
    return inverse;
}

std::tuple<Tensor, Tensor> rms_norm_cpu(const Tensor &x, const Tensor &weight, const optional<Tensor> &gate,
                                        double eps) {
    const Tensor in = with_rows(x).contiguous();
    Tensor output = at::empty(in.sizes(), in.options());
    const Tensor inverse = norm_into(in, weight.contiguous(), gate ? optional(gate->contiguous()) : gate, eps, output);
    return {output, inverse};
}

void rms_norm_inplace_cpu(Tensor &x, const Tensor &weight, const optional<Tensor> &gate, double eps) {
    TORCH_CHECK(x.is_contiguous(), "rela::rms_norm_: expected x to be contiguous");
    norm_into(x, weight.contiguous(), gate ? optional(gate->contiguous()) : gate, eps, x);
}

std::tuple<Tensor, Tensor, Tensor> rms_norm_backward_cpu(const Tensor &grad, const Tensor &x, const Tensor &weight,
                                                         const optional<Tensor> &gate, const Tensor &inverse) {
    const Tensor g = with_rows(grad).contiguous(), in = with_rows(x).contiguous(), w = weight.contiguous();
    const optional<Tensor> gates = gate ? optional(gate->contiguous()) : gate;
    check_norm(in, w, gates);
    const int64_t dim = in.size(-1), rows = dim ? in.numel() / dim : 0;
    const int64_t parts = in.numel() < SMALL_WORK / 8 ? 1 : std::min<int64_t>(std::max<int64_t>(rows / 64, 2), 32);
    Tensor d_x = at::empty(in.sizes(), in.options()), partial = at::zeros({parts, 2, dim}, in.options());
    rms_norm_backward(g.const_data_ptr<float>(), in.const_data_ptr<float>(), w.const_data_ptr<float>(), address(gates),
                      inverse.contiguous().const_data_ptr<float>(), d_x.mutable_data_ptr<float>(),
                      partial.mutable_data_ptr<float>(), rows, dim, parts, norm_threads(in));
    const Tensor sums = parts == 1 ? partial[0] : partial.sum(0);
    return {d_x, sums[0], sums[1]};
}

/* The formula itself, for second derivatives. */
variable_list norm_formula_backward(const Tensor &grad, const variable_list &saved, double eps) {
    const Tensor &x = saved[0], &weight = saved[1], &gate = saved[2];
    const Tensor inverse = (x.square().mean(-1, true) + eps).rsqrt(), unit = x * inverse;
    const Tensor s = gate.defined() ? (gate * x).sigmoid() : at::ones_like(x);
    const Tensor ds = grad * s, t = ds * unit * weight, open = t * (1 - s);
    const auto over_rows = [&](const Tensor &y) { return y.reshape({-1, x.size(-1)}).sum(0); };
    Tensor d_x = (ds * weight - unit * t.mean(-1, true)) * inverse;
    if (gate.defined()) d_x = d_x + open * gate;
    return {d_x, over_rows(ds * unit), gate.defined() ? over_rows(open * x) : Tensor(), Tensor()};
}

struct RmsNorm : torch::autograd::Function<RmsNorm> {
    static Tensor forward(AutogradContext *ctx, const Tensor &x, const Tensor &weight, const optional<Tensor> &gate,
                          double eps) {
        at::AutoDispatchBelowADInplaceOrView below;
        static const auto op = operator_of<decltype(rms_norm_cpu)>("rela::rms_norm_forward");
        auto [output, inverse] = op.call(x, weight, gate, eps);
        ctx->save_for_backward({x, weight, gate ? *gate : Tensor(), inverse});
        ctx->saved_data["eps"] = eps;
        return output;
    }

    static variable_list backward(AutogradContext *ctx, variable_list grads) {
        const variable_list saved = ctx->get_saved_variables();
        if (at::GradMode::is_enabled()) return norm_formula_backward(grads[0], saved, ctx->saved_data["eps"].toDouble());
        static const auto op = operator_of<decltype(rms_norm_backward_cpu)>("rela::rms_norm_backward");
        auto [d_x, d_weight, d_gate] = op.call(grads[0], saved[0], saved[1], maybe(saved[2]), saved[3]);
        return {d_x, d_weight, saved[2].defined() ? d_gate : Tensor(), Tensor()};
    }
};

Tensor rms_norm_autograd(const Tensor &x, const Tensor &weight, const optional<Tensor> &gate, double eps) {
    const bool wanted = wants_gradient(x) || wants_gradient(weight) || (gate && wants_gradient(*gate));
    if (at::GradMode::is_enabled() && wanted) return RmsNorm::apply(x, weight, gate, eps);
    at::AutoDispatchBelowADInplaceOrView below;
    static const auto op = operator_of<decltype(rms_norm_cpu)>("rela::rms_norm_forward");
    return std::get<0>(op.call(x, weight, gate, eps));
}

/* ------------------------------------------------------------------ residual dropout */

Tensor dropout_add_cpu(const optional<Tensor> &x, const Tensor &y, const Tensor &seed, double p) {
    const Tensor from = with_rows(y).contiguous();
    const optional<Tensor> base = x ? optional(with_rows(*x).contiguous()) : std::nullopt;
    TORCH_CHECK(from.scalar_type() == at::kFloat && seed.scalar_type() == at::kLong && seed.numel() == 1 && p < 1 &&
                    (!base || (base->sizes() == from.sizes() && base->scalar_type() == at::kFloat)),
                "rela::dropout_add: expected float32 x and y of one shape, p < 1 and a seed, got ", from.sizes());
    Tensor output = at::empty(from.sizes(), from.options());
    dropout_add(address(base), from.const_data_ptr<float>(), output.mutable_data_ptr<float>(), from.numel(),
                (uint64_t)*seed.const_data_ptr<int64_t>(), p, norm_threads(from));
    return output;
}

Tensor dropout_add_op(const optional<Tensor> &x, const Tensor &y, const Tensor &seed, double p) {
    static const auto op = operator_of<decltype(dropout_add_cpu)>("rela::dropout_add");
    return op.call(x, y, seed, p);
}

struct DropoutAdd : torch::autograd::Function<DropoutAdd> {
    static Tensor forward(AutogradContext *ctx, const optional<Tensor> &x, const Tensor &y, const Tensor &seed,
                          double p) {
        at::AutoDispatchBelowADInplaceOrView below;
        ctx->save_for_backward({seed});
        ctx->saved_data["p"] = p;
        ctx->saved_data["has_x"] = x.has_value();
        return dropout_add_op(x, y, seed, p);
    }

    /* Linear, with the same places dropped: through the operator itself, so that it can be derived any number of
       times. */
    static variable_list backward(AutogradContext *ctx, variable_list grads) {
        const Tensor d_y = dropout_add_op({}, grads[0], ctx->get_saved_variables()[0], ctx->saved_data["p"].toDouble());
        return {ctx->saved_data["has_x"].toBool() ? grads[0] : Tensor(), d_y, Tensor(), Tensor()};
    }
};

Tensor dropout_add_autograd(const optional<Tensor> &x, const Tensor &y, const Tensor &seed, double p) {
    if (at::GradMode::is_enabled() && (wants_gradient(y) || (x && wants_gradient(*x))))
        return DropoutAdd::apply(x, y, seed, p);
    at::AutoDispatchBelowADInplaceOrView below;
    return dropout_add_op(x, y, seed, p);
}

} // namespace
} // namespace rela_native

#define OPTION_TYPES                                                                                          \
    "Tensor? thresholds, Tensor? allowed, Tensor? bias, Tensor? seed, float scale, float threshold, "         \
    "int? causal_offset, float dropout_p"

TORCH_LIBRARY(rela, m) {
    m.def("relu_attention(Tensor query, Tensor key, Tensor value, " OPTION_TYPES ") -> Tensor");
    m.def("relu_attention_plain(Tensor query, Tensor key, Tensor value, float? scale) -> Tensor");
    m.def("relu_attention_noted(Tensor query, Tensor key, Tensor value, " OPTION_TYPES ") -> (Tensor, Tensor)");
    m.def("relu_attention_shown(Tensor query, Tensor key, Tensor value, Tensor? shifts, bool need_weights, " OPTION_TYPES
          ") -> (Tensor, Tensor)");
    m.def("relu_attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, " OPTION_TYPES
          ", Tensor? signs=None) -> (Tensor, Tensor, Tensor, Tensor)");
    m.def("relu_attention_factors(Tensor query, Tensor key, Tensor seed, float dropout_p) -> Tensor");
    m.def("rms_norm(Tensor x, Tensor weight, Tensor? gate, float eps) -> Tensor");
    m.def("rms_norm_(Tensor(a!) x, Tensor weight, Tensor? gate, float eps) -> ()");
    m.def("rms_norm_forward(Tensor x, Tensor weight, Tensor? gate, float eps) -> (Tensor, Tensor)");
    m.def("rms_norm_backward(Tensor grad, Tensor x, Tensor weight, Tensor? gate, Tensor inverse) -> "
          "(Tensor, Tensor, Tensor)");
    m.def("dropout_add(Tensor? x, Tensor y, Tensor seed, float p) -> Tensor");
}

TORCH_LIBRARY_IMPL(rela, CPU, m) {
    using namespace rela_native;
    m.impl("relu_attention", relu_attention_cpu);
    m.impl("relu_attention_noted", relu_attention_noted_cpu);
    m.impl("relu_attention_shown", relu_attention_shown_cpu);
    m.impl("relu_attention_backward", relu_attention_backward_cpu);
    m.impl("relu_attention_factors", relu_attention_factors_cpu);
    m.impl("rms_norm_", rms_norm_inplace_cpu);
    m.impl("rms_norm_forward", rms_norm_cpu);
    m.impl("rms_norm_backward", rms_norm_backward_cpu);
    m.impl("dropout_add", dropout_add_cpu);
}

TORCH_LIBRARY_IMPL(rela, Autograd, m) {
    using namespace rela_native;
    m.impl("relu_attention", relu_attention_autograd);
    m.impl("dropout_add", dropout_add_autograd);
}

TORCH_LIBRARY_IMPL(rela, CompositeImplicitAutograd, m) {
    m.impl("rms_norm", rela_native::rms_norm_autograd);
    m.impl("relu_attention_plain", rela_native::relu_attention_plain);
}

#endif
