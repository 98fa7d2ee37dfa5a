/* The decoder: a Transformer's beam search on the CPU, one native call a step.

   A step reads every weight once, so with few rows memory decides and with many the registers do. Weights are packed
   once for a model, in panels of some outputs whose rows of numbers follow each other as the product reads them; as
   float32, or as int8 with a scale for each output, multiplied with activations of 16 bits.

   Keys and values of decoded positions stay where they were written: a table says for each row in which row of each
   position its past lies, so choosing beams and dropping sentences copies only the table.

   Every sum runs in one order, whatever rows are beside it and however many threads there are: a sentence has the
   same translation, bit for bit, in any company.

   Compiled on the user's machine at first use by a C++ compiler, without its standard library; called by ctypes. */

#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__SSE2__) && !defined(PORTABLE) /* for tests: no instructions of any CPU in particular */
#include <immintrin.h>
#endif

#if defined(__AVX512BW__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif
#if defined(__AVX512BW__) || defined(__aarch64__)
#define REGISTERS 32
#else
#define REGISTERS 16
#endif
#define MOST_COLS (3 * LANES) /* outputs of a panel, at most */
#define BLOCK 64              /* rows that a panel is multiplied with before the next panel comes */
#define WIDE (24 * LANES)     /* words of the vocabulary whose scores are looked at together: whole panels */
#define AHEAD 2048            /* bytes of weights that are called for before they are needed */

/* Outputs of a panel, and rows of a register tile: an int8 product needs one register more for each pair of both. */
struct Float {
    typedef float input;
    typedef float weight;
    typedef float sum;
    enum { vectors = 3, cols = 3 * LANES, rows = REGISTERS == 32 ? 8 : 4, depth = 256 };
};
struct Int8 {
    typedef int16_t input;
    typedef int8_t weight;
    typedef int32_t sum;
    enum { vectors = REGISTERS == 32 ? 3 : 2, cols = vectors * LANES, rows = REGISTERS == 32 ? 8 : 6, depth = 1024 };
};

#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(LANES * 4)));
typedef int32_t ivec __attribute__((vector_size(LANES * 4)));
typedef int16_t svec __attribute__((vector_size(LANES * 2)));

INLINE vec load(const float *p) {
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void store(float *p, vec v) { memcpy(p, &v, sizeof v); }
INLINE ivec load_int(const int32_t *p) {
    ivec v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void store_int(int32_t *p, ivec v) { memcpy(p, &v, sizeof v); }
INLINE vec splat(float x) { return x - (vec){}; }
INLINE vec pick(ivec mask, vec a, vec b) { return (vec)((mask & (ivec)a) | (~mask & (ivec)b)); }
#if LANES == 8
INLINE vec largest(vec a, vec b) { return (vec)_mm256_max_ps((__m256)a, (__m256)b); } /* b, if either is NaN */
#else
INLINE vec largest(vec a, vec b) { return pick(a > b, a, b); }
#endif
INLINE float largest_of(vec v) {
    float found = v[0];
    for (int i = 1; i < LANES; i++) found = v[i] > found ? v[i] : found;
    return found;
}
#if LANES == 8
INLINE float sum_of(vec v) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
INLINE bool any(ivec mask) { return _mm256_movemask_ps((__m256)mask) != 0; }
#else
INLINE float sum_of(vec v) {
    float total = 0;
    for (int i = 0; i < LANES; i++) total += v[i];
    return total;
}
INLINE bool any(ivec mask) {
    int32_t found = 0;
    for (int i = 0; i < LANES; i++) found |= mask[i];
    return found != 0;
}
#endif

/* Keeps a value in a register: compilers like to read it from memory again for each use. */
#if defined(__SSE2__)
#define HOLD(v) __asm__("" : "+x"(v))
#elif defined(__aarch64__)
#define HOLD(v) __asm__("" : "+w"(v))
#else
#define HOLD(v) (void)0
#endif

/* exp to within two units in the last place; what is below the smallest normal number becomes that. */
INLINE vec exp_of(vec x) {
    const vec low = splat(-87.3f), high = splat(88.7f);
    x = pick(x < low, low, x);
    x = pick(x > high, high, x);
    const vec magic = splat(12582912.0f); /* adding it rounds to a whole number */
    const vec shifted = x * 1.44269504088896341f + magic;
    const vec whole = shifted - magic;
    vec r = x - whole * 0.693359375f;
    r = r - whole * -2.12194440e-4f;
    vec y = splat(1.9875691500e-4f);
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * (r * r) + r + 1.0f;
    const ivec power = ((ivec)shifted - (ivec)magic) << 23;
    return (vec)((ivec)y + power);
}
INLINE float exp_one(float x) { return exp_of(splat(x))[0]; }
INLINE vec sigmoid_of(vec x) { return 1.0f / (1.0f + exp_of(-x)); }

/* ------------------------------------------------------------------ what python describes */

struct Matrix {
    int64_t outputs, inputs;
    const void *data;    /* packed */
    const float *scales; /* of int8 outputs */
    const float *bias;   /* or none */
};
struct Attention {
    Matrix in, out;
    int64_t map, norm;
    double scale, slope, eps, power;
    const float *thresholds, *weight, *bias, *gate;
};
struct LayerNorm {
    const float *weight, *bias;
    double eps;
};
struct Layer {
    Attention self, cross;
    Matrix memory; /* keys and values of the cross-attention */
    Matrix expand, contract;
    LayerNorm self_norm, cross_norm, feed_norm;
};
struct Model {
    int64_t dim, heads, hidden, is_int8, num_encoder, num_decoder;
    const Layer *encoder, *decoder;
    Matrix projection;
    const float *source_table, *target_table;
};
struct Job {
    int64_t batch, width, beam, min_length, threads, pad, bos, eos;
    const int64_t *source;  /* [batch][width] */
    const int64_t *longest; /* [batch]: steps at most */
    const float *positions; /* [as many as any position needs][dim] */
    float *logits;          /* [batch * beam][vocabulary] of the last step, if somebody wants to see them */
};

enum { SOFTMAX, RELU, RELU2, GELU, LEAKY, SIGMOID };
enum { NO_NORM, RMS_NORM, LAYER_NORM };

/* ------------------------------------------------------------------ packing */

INLINE int64_t cols_of(bool is_int8) { return is_int8 ? (int64_t)Int8::cols : (int64_t)Float::cols; }
INLINE int64_t panels_of(int64_t outputs, int64_t cols) { return (outputs + cols - 1) / cols; }
INLINE int64_t even(int64_t n) { return n + (n & 1); }

extern "C" void *rela_allocate(int64_t bytes) {
    const int64_t page = bytes >= (4 << 20) ? 2 << 20 : 64;
    void *found = aligned_alloc(page, (bytes + page - 1) / page * page);
#if defined(__linux__)
    if (found && page > 64) madvise(found, bytes, MADV_HUGEPAGE); /* streams of weights then cross few page borders */
#endif
    return found;
}
extern "C" void rela_release(void *memory) { free(memory); }

/* Bytes of a packed matrix. */
extern "C" int64_t rela_packed_bytes(int64_t outputs, int64_t inputs, int64_t is_int8) {
    const int64_t cols = cols_of(is_int8);
    return panels_of(outputs, cols) * cols * (is_int8 ? even(inputs) : inputs * 4);
}

extern "C" void rela_pack(const float *source, int64_t outputs, int64_t inputs, float *packed, int64_t threads) {
    const int64_t cols = Float::cols;
#pragma omp parallel for num_threads(threads)
    for (int64_t panel = 0; panel < panels_of(outputs, cols); panel++) {
        float *to = packed + panel * cols * inputs;
        for (int64_t j = 0; j < cols; j++) {
            const int64_t output = panel * cols + j;
            for (int64_t k = 0; k < inputs; k++) to[k * cols + j] = output < outputs ? source[output * inputs + k] : 0;
        }
    }
}

/* Pairs of inputs lie together: one instruction multiplies both and adds the products. */
extern "C" void rela_pack_int8(const float *source, int64_t outputs, int64_t inputs, int8_t *packed, float *scales,
                               int64_t threads) {
    const int64_t cols = Int8::cols, depth = even(inputs);
#pragma omp parallel for num_threads(threads)
    for (int64_t panel = 0; panel < panels_of(outputs, cols); panel++) {
        int8_t *to = packed + panel * cols * depth;
        memset(to, 0, cols * depth);
        for (int64_t j = 0; j < cols; j++) {
            const int64_t output = panel * cols + j;
            if (output >= outputs) {
                scales[output] = 0;
                continue;
            }
            const float *row = source + output * inputs;
            float most = 0;
            for (int64_t k = 0; k < inputs; k++) most = fabsf(row[k]) > most ? fabsf(row[k]) : most;
            scales[output] = most / 127;
            const float factor = most > 0 ? 127 / most : 0;
            for (int64_t k = 0; k < inputs; k++) to[(k / 2) * 2 * cols + 2 * j + k % 2] = (int8_t)lrintf(row[k] * factor);
        }
    }
}

/* Numbers here and there in the parameters: changes that torch does not count are seen by them. */
extern "C" double rela_sample(const int64_t *addresses, const int64_t *sizes, int64_t count) {
    double total = 0;
    for (int64_t i = 0; i < count; i++) {
        const float *values = (const float *)(intptr_t)addresses[i];
        const int64_t step = sizes[i] / 16 + 1;
        for (int64_t k = step / 2; k < sizes[i]; k += step) total = total * 1.0000001 + values[k];
    }
    return total;
}

/* ------------------------------------------------------------------ products */

/* Rows of activations; in int8 products their 16-bit form and its scales. */
struct Rows {
    float *values;
    int16_t *whole;
    float *scales;
    int64_t stride;
};

template <int N> INLINE void tile(Float, const float *x, int64_t stride, const float *w, int64_t depth, float *c, bool first) {
    enum { V = Float::vectors, C = Float::cols };
    vec acc[N][V];
    for (int i = 0; i < N; i++)
        for (int v = 0; v < V; v++) acc[i][v] = first ? (vec){} : load(c + i * C + v * LANES);
    for (int64_t k = 0; k < depth; k++, w += C) {
        if (N <= 4) __builtin_prefetch((const char *)w + AHEAD); /* few rows: memory decides */
        vec b[V];
        for (int v = 0; v < V; v++) {
            b[v] = load(w + v * LANES);
            HOLD(b[v]);
        }
        for (int i = 0; i < N; i++) {
            const vec a = splat(x[i * stride + k]);
            for (int v = 0; v < V; v++) acc[i][v] += a * b[v];
        }
    }
    for (int i = 0; i < N; i++)
        for (int v = 0; v < V; v++) store(c + i * C + v * LANES, acc[i][v]);
}

/* A sum, and LANES outputs, each with two int8 weights, times a pair of 16-bit activations. */
#if defined(__AVX512BW__)
typedef __m512i weights;
INLINE weights widen(const int8_t *p) { return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p)); }
#if defined(__AVX512VNNI__) /* one instruction for what takes two */
INLINE ivec add_pair(ivec sum, int32_t pair, weights w) {
    return (ivec)_mm512_dpwssd_epi32((__m512i)sum, _mm512_set1_epi32(pair), w);
}
#else
INLINE ivec add_pair(ivec sum, int32_t pair, weights w) {
    return sum + (ivec)_mm512_madd_epi16(_mm512_set1_epi32(pair), w);
}
#endif
#elif defined(__AVX2__)
typedef __m256i weights;
INLINE weights widen(const int8_t *p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p)); }
#if defined(__AVXVNNI__)
INLINE ivec add_pair(ivec sum, int32_t pair, weights w) {
    return (ivec)_mm256_dpwssd_avx_epi32((__m256i)sum, _mm256_set1_epi32(pair), w);
}
#else
INLINE ivec add_pair(ivec sum, int32_t pair, weights w) {
    return sum + (ivec)_mm256_madd_epi16(_mm256_set1_epi32(pair), w);
}
#endif
#elif defined(__SSE2__) && !defined(PORTABLE)
typedef __m128i weights;
INLINE weights widen(const int8_t *p) {
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)p);
    return _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
}
INLINE ivec add_pair(ivec sum, int32_t pair, weights w) { return sum + (ivec)_mm_madd_epi16(_mm_set1_epi32(pair), w); }
#else
struct weights {
    ivec first, second;
};
INLINE weights widen(const int8_t *p) {
    weights w;
    for (int j = 0; j < LANES; j++) {
        w.first[j] = p[2 * j];
        w.second[j] = p[2 * j + 1];
    }
    return w;
}
INLINE ivec add_pair(ivec sum, int32_t pair, weights w) {
    int16_t x[2];
    memcpy(x, &pair, 4);
    return sum + (w.first * (int32_t)x[0] + w.second * (int32_t)x[1]);
}
#endif

template <int N>
INLINE void tile(Int8, const int16_t *x, int64_t stride, const int8_t *w, int64_t depth, int32_t *c, bool first) {
    enum { V = Int8::vectors, C = Int8::cols };
    ivec acc[N][V];
    for (int i = 0; i < N; i++)
        for (int v = 0; v < V; v++) acc[i][v] = first ? (ivec){} : load_int(c + i * C + v * LANES);
    for (int64_t k = 0; k < depth; k += 2, w += 2 * C) {
        if (N <= 4) __builtin_prefetch((const char *)w + AHEAD);
        weights b[V];
        for (int v = 0; v < V; v++) b[v] = widen(w + v * 2 * LANES);
        for (int i = 0; i < N; i++) {
            int32_t pair;
            memcpy(&pair, x + i * stride + k, 4);
            for (int v = 0; v < V; v++) acc[i][v] = add_pair(acc[i][v], pair, b[v]);
        }
    }
    for (int i = 0; i < N; i++)
        for (int v = 0; v < V; v++) store_int(c + i * C + v * LANES, acc[i][v]);
}

/* The rows that are left, by the largest tile that fits; before each, a part of what comes next is called for. */
template <class T, int N> struct Tiles {
    static void run(const typename T::input *x, int64_t stride, int64_t rows, const typename T::weight *w, int64_t depth,
                    typename T::sum *c, bool first, const char *&coming, int64_t part) {
        for (; rows >= N; rows -= N, x += N * stride, c += N * T::cols) {
            for (const char *end = coming + part; coming < end; coming += 64) __builtin_prefetch(coming, 0, 2);
            tile<N>(T(), x, stride, w, depth, c, first);
        }
        if (rows) Tiles<T, N - 1>::run(x, stride, rows, w, depth, c, first, coming, part);
    }
};
template <class T> struct Tiles<T, 0> {
    static void run(const typename T::input *, int64_t, int64_t, const typename T::weight *, int64_t, typename T::sum *, bool,
                    const char *&, int64_t) {}
};

/* One panel times up to BLOCK rows: a part of it that stays in the first-level cache, and all rows, then the next part.
   Meanwhile the panel behind it comes near. */
template <class T>
static void panel_product(const typename T::input *x, int64_t stride, int64_t rows, const typename T::weight *panel,
                          int64_t inputs, typename T::sum *c) {
    const bool is_tile = rows <= T::rows;
    const int64_t chunk = is_tile ? inputs : (int64_t)T::depth, size = inputs * T::cols * (int64_t)sizeof *panel;
    const int64_t times = (rows + T::rows - 1) / T::rows * ((inputs + chunk - 1) / chunk);
    const char *coming = (const char *)panel + size;
    for (int64_t start = 0; start < inputs; start += chunk)
        Tiles<T, T::rows>::run(x + start, stride, rows, panel + start * T::cols,
                               inputs - start < chunk ? inputs - start : chunk, c, start == 0, coming,
                               is_tile ? 0 : size / times);
}

/* One panel of a matrix times some rows, with scales and bias, to out[rows][outputs]; c is scratch. */
static void outputs_of(const Matrix &m, bool is_int8, const Rows &x, int64_t begin, int64_t rows, int64_t panel,
                       float *out, int64_t stride, bool relu, float *c) {
    const int64_t cols = cols_of(is_int8), first = panel * cols;
    const int64_t outputs = m.outputs - first < cols ? m.outputs - first : cols;
    const bool is_whole = outputs == cols;
    float bias[MOST_COLS] = {0};
    if (m.bias) memcpy(bias, m.bias + first, outputs * sizeof(float));
    int32_t *sums = (int32_t *)c;
    if (is_int8) {
        const int64_t inputs = even(m.inputs);
        const int8_t *w = (const int8_t *)m.data + first * inputs;
        panel_product<Int8>(x.whole + begin * x.stride, x.stride, rows, w, inputs, sums);
    } else {
        const float *w = (const float *)m.data + first * m.inputs;
        panel_product<Float>(x.values + begin * x.stride, x.stride, rows, w, m.inputs, c);
    }
    for (int64_t i = 0; i < rows; i++) {
        float last[MOST_COLS], *to = is_whole ? out + i * stride : last;
        for (int64_t v = 0; v < cols; v += LANES) {
            vec y = load(c + i * cols + v);
            if (is_int8) {
                const vec sum = __builtin_convertvector(load_int(sums + i * cols + v), vec);
                y = sum * (load(m.scales + first + v) * x.scales[begin + i]);
            }
            y += load(bias + v);
            store(to + v, relu ? pick(y < 0.0f, (vec){}, y) : y); /* NaN stays */
        }
        if (!is_whole) memcpy(out + i * stride, last, outputs * sizeof(float));
    }
}

/* How far the pieces of one thread's share of a product have been taken. */
struct Queue {
    int64_t next;
    char padding[56];
};

/* A thread of a call; `queue` belongs to the product that it has come to, one for each thread. */
struct Worker {
    int64_t me, team;
    Queue *queue;
    float *scratch, *scores;
};

/* The next of `count` pieces of work, or -1: first those of an own share, since neighbours write to the same cache
   lines, then what the slower ones have left. */
INLINE int64_t next_of(const Worker &worker, const Queue *queue, int64_t count) {
    for (int64_t i = 0; i < worker.team; i++) {
        const int64_t whose = (worker.me + i) % worker.team;
        const int64_t begin = count * whose / worker.team, end = count * (whose + 1) / worker.team;
        const int64_t taken = __atomic_fetch_add((int64_t *)&queue[whose].next, 1, __ATOMIC_RELAXED);
        if (begin + taken < end) return begin + taken;
    }
    return -1;
}

/* This thread's share of out[rows][outputs] = x m^T + bias. */
static void product(const Matrix &m, bool is_int8, const Rows &x, int64_t rows, float *out, int64_t stride, bool relu,
                    Worker &worker) {
    const int64_t cols = cols_of(is_int8), panels = panels_of(m.outputs, cols);
    const int64_t blocks = (rows + BLOCK - 1) / BLOCK;
    const Queue *queue = worker.queue;
    worker.queue += worker.team;
    for (int64_t task; (task = next_of(worker, queue, panels * blocks)) >= 0;) {
        const int64_t panel = task / blocks, begin = task % blocks * BLOCK;
        outputs_of(m, is_int8, x, begin, rows - begin < BLOCK ? rows - begin : BLOCK, panel,
                   out + begin * stride + panel * cols, stride, relu, worker.scratch);
    }
}

/* The 16-bit form of a row: as fine as the sum of all products in 32 bits allows. */
static void make_whole(const Rows &x, int64_t row, int64_t size) {
    const float *values = x.values + row * x.stride;
    int16_t *whole = x.whole + row * x.stride;
    int64_t limit = INT32_MAX / (127 * size);
    limit = limit > 32767 ? 32767 : limit < 1 ? 1 : limit;
    vec most = {}, odd = {};
    int64_t k = 0;
    for (; k + LANES <= size; k += LANES) {
        const vec v = load(values + k);
        most = largest(largest(v, -v), most);
        odd += v * 0.0f; /* NaN if any is not finite */
    }
    float greatest = largest_of(most), bad = sum_of(odd);
    for (; k < size; k++) {
        greatest = fabsf(values[k]) > greatest ? fabsf(values[k]) : greatest;
        bad += values[k] * 0.0f;
    }
    const float factor = greatest > 0 ? limit / greatest : 0;
    const bool fits = bad == 0 && isfinite(factor);
    x.scales[row] = fits ? greatest / limit : bad == 0 ? 0 : NAN;
    const float used = fits ? factor : 0;
    const vec magic = splat(12582912.0f);
    for (k = 0; k + LANES <= size; k += LANES) {
        const ivec rounded = (ivec)(load(values + k) * used + magic) - (ivec)magic;
        const svec narrow = __builtin_convertvector(bad == 0 ? rounded : (ivec){}, svec);
        memcpy(whole + k, &narrow, sizeof narrow);
    }
    for (; k < size; k++) whole[k] = bad == 0 ? (int16_t)lrintf(values[k] * used) : 0;
    if (size & 1) whole[size] = 0;
}

/* ------------------------------------------------------------------ norms */

static float mean_of(const float *x, int64_t size) {
    vec total[4] = {};
    int64_t k = 0;
    for (; k + 4 * LANES <= size; k += 4 * LANES)
        for (int j = 0; j < 4; j++) total[j] += load(x + k + j * LANES);
    float sum = sum_of((total[0] + total[1]) + (total[2] + total[3]));
    for (; k < size; k++) sum += x[k];
    return sum / size;
}
static float mean_square(const float *x, int64_t size, float centre, float factor) {
    vec total[4] = {}; /* several, since each addition waits for the one before */
    int64_t k = 0;
    for (; k + 4 * LANES <= size; k += 4 * LANES)
        for (int j = 0; j < 4; j++) {
            const vec v = (load(x + k + j * LANES) - centre) * factor;
            total[j] += v * v;
        }
    float sum = sum_of((total[0] + total[1]) + (total[2] + total[3]));
    for (; k < size; k++) sum += (x[k] - centre) * factor * ((x[k] - centre) * factor);
    return sum / size;
}

/* x = norm(x + y) */
static void add_and_norm(const LayerNorm &norm, float *x, const float *y, int64_t size) {
    for (int64_t k = 0; k < size; k++) x[k] += y[k];
    const float mean = mean_of(x, size);
    const float factor = 1.0f / sqrtf(mean_square(x, size, mean, 1.0f) + (float)norm.eps);
    for (int64_t k = 0; k < size; k++) x[k] = (x[k] - mean) * factor * norm.weight[k] + norm.bias[k];
}

/* The largest distance to the mean, at least 1. */
static float largest_distance(const float *x, int64_t size, float mean) {
    vec most[2] = {splat(1.0f), splat(1.0f)};
    int64_t k = 0;
    for (; k + 2 * LANES <= size; k += 2 * LANES)
        for (int j = 0; j < 2; j++) {
            const vec v = load(x + k + j * LANES) - mean;
            most[j] = largest(largest(v, -v), most[j]);
        }
    float found = largest_of(largest(most[0], most[1]));
    for (; k < size; k++) found = fabsf(x[k] - mean) > found ? fabsf(x[k] - mean) : found;
    return found;
}

/* The norm over concatenated heads: rela.attention.norms. Large rows are scaled down before they are squared. */
static void norm_heads(const Attention &a, float *x, int64_t size) {
    if (a.norm == NO_NORM) return;
    const float mean = a.norm == LAYER_NORM ? mean_of(x, size) : 0.0f;
    const float small = 1.0f / largest_distance(x, size, mean);
    const float unit = small / sqrtf(mean_square(x, size, mean, small) + (float)a.eps * small * small);
    int64_t k = 0;
    for (; k + LANES <= size; k += LANES) {
        const vec v = load(x + k);
        vec y = (v - mean) * unit * load(a.weight + k);
        if (a.bias) y += load(a.bias + k);
        if (a.gate) y *= sigmoid_of(load(a.gate + k) * v);
        store(x + k, y);
    }
    for (; k < size; k++) {
        float y = (x[k] - mean) * unit * a.weight[k];
        if (a.bias) y += a.bias[k];
        if (a.gate) y *= sigmoid_of(splat(a.gate[k] * x[k]))[0];
        x[k] = y;
    }
}

/* ------------------------------------------------------------------ attention */

/* Sizes of heads are known to the compiler, if they are among the usual ones; else SIZE is 0. */
template <int SIZE> INLINE float dot(const float *a, const float *b, int64_t given) {
    const int64_t size = SIZE ? SIZE : given;
    vec even_sum = {}, odd_sum = {};
    int64_t k = 0;
    for (; k + 2 * LANES <= size; k += 2 * LANES) {
        even_sum += load(a + k) * load(b + k);
        odd_sum += load(a + k + LANES) * load(b + k + LANES);
    }
    for (; k + LANES <= size; k += LANES) even_sum += load(a + k) * load(b + k);
    float total = sum_of(even_sum + odd_sum);
    for (; k < size; k++) total += a[k] * b[k];
    return total;
}

/* Scores of one head to weights: rela.attention.maps, where every key is allowed. */
static void map_scores(const Attention &a, float threshold, float *s, int64_t n) {
    if (a.map == SOFTMAX) {
        vec highest = splat(-INFINITY), sums = {};
        int64_t p = 0;
        for (; p + LANES <= n; p += LANES) highest = largest(load(s + p), highest);
        float most = largest_of(highest), total;
        for (; p < n; p++) most = s[p] > most ? s[p] : most;
        for (p = 0; p + LANES <= n; p += LANES) {
            const vec e = exp_of(load(s + p) - most);
            sums += e;
            store(s + p, e);
        }
        total = sum_of(sums);
        for (; p < n; p++) total += s[p] = exp_one(s[p] - most);
        for (p = 0; p < n; p++) s[p] /= total;
        return;
    }
    int64_t p = 0;
    if (a.map == RELU)
        for (; p + LANES <= n; p += LANES) {
            const vec x = load(s + p) - threshold;
            store(s + p, pick(x <= 0.0f, (vec){}, x)); /* NaN stays */
        }
    for (; p < n; p++) {
        const float x = s[p] - threshold;
        switch (a.map) {
        case RELU: s[p] = x <= 0 ? 0 : x; break;
        case RELU2: s[p] = x <= 0 ? 0 : x * x; break;
        case GELU: s[p] = 0.5f * x * erfcf(-x * (float)M_SQRT1_2); break;
        case LEAKY: s[p] = x <= 0 ? x * (float)a.slope : x; break;
        default: s[p] = 1 / (1 + expf(-x));
        }
    }
    if (a.power != 0) {
        const float factor = (float)pow(n > 1 ? (double)n : 1.0, -a.power);
        for (int64_t p = 0; p < n; p++) s[p] *= factor;
    }
}

/* The sum of some values, times their weights. */
template <int SIZE, class Key>
INLINE void add_values(const float *weights, const int32_t *places, int64_t count, Key value, float *out, int64_t size) {
    if (SIZE) {
        vec acc[SIZE / LANES + 1] = {};
        for (int64_t i = 0; i < count; i++) {
            const float *v = value(places[i]), weight = weights[places[i]];
            for (int j = 0; j < SIZE / LANES; j++) acc[j] += weight * load(v + j * LANES);
        }
        for (int j = 0; j < SIZE / LANES; j++) store(out + j * LANES, acc[j]);
        return;
    }
    memset(out, 0, size * sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        const float *v = value(places[i]), weight = weights[places[i]];
        for (int64_t k = 0; k < size; k++) out[k] += weight * v[k];
    }
}

/* One query to n keys, all heads. `key(p)` is where the keys of position p begin; its values follow dim numbers on.
   Weights of zero are left out: most of a rectified attention's are. Scratch: n * (heads + 1) numbers. */
template <int SIZE, class Key>
INLINE void attend_by(const Attention &a, int64_t heads, int64_t dim, const float *query, int64_t n, Key key,
                      float *scores, float *out) {
    const int64_t size = SIZE ? SIZE : dim / heads;
    const float scale = (float)a.scale;
    int32_t *places = (int32_t *)(scores + heads * n);
    for (int64_t p = 0; p < n; p++) {
        const float *k = key(p);
        for (int64_t h = 0; h < heads; h++) scores[h * n + p] = dot<SIZE>(query + h * size, k + h * size, size) * scale;
    }
    for (int64_t h = 0; h < heads; h++) {
        float *weights = scores + h * n;
        map_scores(a, a.thresholds[h], weights, n);
        int64_t count = 0;
        for (int64_t p = 0; p < n; p++) {
            places[count] = (int32_t)p;
            count += weights[p] != 0;
        }
        add_values<SIZE>(weights, places, count, [=](int64_t p) { return key(p) + dim + h * size; }, out + h * size, size);
    }
    norm_heads(a, out, dim);
}

template <class Key>
static void attend(const Attention &a, int64_t heads, int64_t dim, const float *query, int64_t n, Key key, float *scores,
                   float *out) {
    switch (dim / heads) {
    case 32: return attend_by<32>(a, heads, dim, query, n, key, scores, out);
    case 64: return attend_by<64>(a, heads, dim, query, n, key, scores, out);
    default: return attend_by<0>(a, heads, dim, query, n, key, scores, out);
    }
}

/* ------------------------------------------------------------------ a search */

struct Found {
    int64_t sentence, length, is_finished;
    double log_probability;
};

struct Search {
    const Model *model;
    Job job;
    int64_t num_tokens, most_rows, most_steps, most_keys, position, rows, per_sentence, num_alive, best_count, num_found;
    bool has_nan;
    int64_t *starts;                        /* [batch + 1]: where a sentence's tokens begin */
    int64_t *sentences, *counts;            /* [batch]: which are alive; how many hypotheses each has */
    float *memory;                          /* [layer][token][keys, values] */
    float *past;                            /* [layer][position][row][keys, values] */
    int32_t *table, *next_table;            /* [row][position]: in which row a past lies */
    int32_t *tokens, *origins;              /* [position][row]: what was decoded, and after which row of the last */
    double *scores, *next_scores;           /* [row] */
    Rows x, hidden;
    float *wide, *plain, *scratch;
    Queue *queues;
    double *normalisers;                    /* [row] */
    int64_t wide_stride, scratch_size, num_queues;
    float *top_values, *group_most, *group_sums; /* best of each thread and row; sums of exp of each group and row */
    int32_t *top_words;
    double *candidates;
    int32_t *candidate_rows, *candidate_words;
    Found *found;                           /* [batch * beam] */
    int32_t *pieces;                        /* [batch * beam][steps] */
    void *parts[48];
    int num_parts;
};

template <class T> static bool take(Search *s, T *&pointer, int64_t count) {
    pointer = (T *)rela_allocate((count > 0 ? count : 1) * (int64_t)sizeof(T) + 64);
    if (pointer) s->parts[s->num_parts++] = pointer;
    return pointer != nullptr;
}

extern "C" void rela_search_end(Search *s) {
    if (!s) return;
    for (int i = 0; i < s->num_parts; i++) free(s->parts[i]);
    free(s);
}

static void end_rows(const Search *s, const Rows &x, int64_t row, int64_t size) {
    if (s->model->is_int8) make_whole(x, row, size);
}

struct Share {
    int64_t begin, end;
};
INLINE Share share(int64_t count, const Worker &worker) {
    return {count * worker.me / worker.team, count * (worker.me + 1) / worker.team};
}
INLINE Worker worker_of(const Search *s) {
    const int64_t me = omp_get_thread_num();
    float *scratch = s->scratch + me * s->scratch_size;
    return {me, omp_get_num_threads(), s->queues, scratch, scratch + BLOCK * MOST_COLS};
}

static void embed(const Search *s, const float *table, int64_t id, int64_t position, float *x) {
    const int64_t dim = s->model->dim;
    const float root = (float)sqrt((double)dim), *from = table + id * dim, *where = s->job.positions + position * dim;
    for (int64_t k = 0; k < dim; k++) x[k] = from[k] * root + where[k];
}

/* x = norm(x + out(values)), for values that are in x's 16-bit form too. */
static void close_sublayer(Search *s, const Matrix &out, const Rows &values, const LayerNorm &norm, int64_t rows,
                           Worker &worker) {
    const int64_t dim = s->model->dim;
    product(out, s->model->is_int8, values, rows, s->plain, s->x.stride, false, worker);
#pragma omp barrier
    const Share mine = share(rows, worker);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        add_and_norm(norm, s->x.values + i * s->x.stride, s->plain + i * s->x.stride, dim);
        end_rows(s, s->x, i, dim);
    }
#pragma omp barrier
}

static void feed_forward(Search *s, const Layer &layer, int64_t rows, Worker &worker) {
    const Model &m = *s->model;
    product(layer.expand, m.is_int8, s->x, rows, s->hidden.values, s->hidden.stride, true, worker);
#pragma omp barrier
    if (m.is_int8) {
        const Share mine = share(rows, worker);
        for (int64_t i = mine.begin; i < mine.end; i++) make_whole(s->hidden, i, m.hidden);
#pragma omp barrier
    }
    close_sublayer(s, layer.contract, s->hidden, layer.feed_norm, rows, worker);
}

/* Attended rows, until the output projection has read them: x keeps the residual, and lends its 16-bit form. */
static Rows attended_rows(const Search *s) {
    Rows rows = s->x;
    rows.values = s->hidden.values; /* idle between feed-forwards, and at least as wide: see rela_search_begin */
    return rows;
}

static void encode(Search *s, const int64_t *ids, const int64_t *places, Worker worker) {
    const Model &m = *s->model;
    const int64_t dim = m.dim, n = s->num_tokens, stride = s->wide_stride;
    float *scores = worker.scores;
    const Share mine = share(n, worker);
    const Rows attended = attended_rows(s);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        embed(s, m.source_table, ids[i], places[i], s->x.values + i * s->x.stride);
        end_rows(s, s->x, i, dim);
    }
#pragma omp barrier
    for (int64_t l = 0; l < m.num_encoder; l++) {
        const Layer &layer = m.encoder[l];
        product(layer.self.in, m.is_int8, s->x, n, s->wide, stride, false, worker);
#pragma omp barrier
        int64_t sentence = 0;
        for (int64_t i = mine.begin; i < mine.end; i++) {
            while (s->starts[sentence + 1] <= i) sentence++;
            const float *first = s->wide + s->starts[sentence] * stride + dim;
            attend(layer.self, m.heads, dim, s->wide + i * stride, s->starts[sentence + 1] - s->starts[sentence],
                   [=](int64_t p) { return first + p * stride; }, scores, attended.values + i * attended.stride);
            end_rows(s, attended, i, dim);
        }
#pragma omp barrier
        close_sublayer(s, layer.self.out, attended, layer.self_norm, n, worker);
        feed_forward(s, layer, n, worker);
    }
    for (int64_t l = 0; l < m.num_decoder; l++)
        product(m.decoder[l].memory, m.is_int8, s->x, n, s->memory + l * n * 2 * dim, 2 * dim, false, worker);
}

/* Log-sum-exp parts and the best words of some rows, out of the scores of one group of words. */
static void look_at(Search *s, int64_t group, int64_t begin, int64_t rows, float *scores, int64_t me) {
    const Job &job = s->job;
    const int64_t vocabulary = s->model->projection.outputs, first = group * WIDE;
    const int64_t count = vocabulary - first < WIDE ? vocabulary - first : WIDE;
    for (int64_t i = 0; i < rows; i++) {
        float *row = scores + i * WIDE;
        const int64_t at = begin + i;
        for (int64_t k = count; k < WIDE; k++) row[k] = -INFINITY;
        if (job.logits) memcpy(job.logits + at * vocabulary + first, row, count * sizeof(float));
        vec most = load(row);
        for (int64_t k = LANES; k < WIDE; k += LANES) most = largest(load(row + k), most);
        const float greatest = largest_of(most);
        vec sums = {};
        for (int64_t k = 0; k < count; k += LANES) {
            const vec e = exp_of(load(row + k) - greatest);
            const vec inside = splat(-INFINITY);
            sums += pick(load(row + k) == inside, (vec){}, e);
        }
        s->group_most[group * s->most_rows + at] = greatest;
        s->group_sums[group * s->most_rows + at] = sum_of(sums);
        if (group == 0) {
            row[job.pad] = row[job.bos] = -INFINITY;
            if (s->position + 1 < job.min_length) row[job.eos] = -INFINITY;
        }
        const int64_t best = s->best_count;
        float *values = s->top_values + (me * s->most_rows + at) * best;
        int32_t *words = s->top_words + (me * s->most_rows + at) * best;
        for (int64_t k = 0; k < WIDE; k += LANES) {
            const vec v = load(row + k);
            if (!any(v > values[best - 1])) continue;
            for (int j = 0; j < LANES; j++) {
                const float value = row[k + j];
                if (!(value > values[best - 1])) continue;
                int64_t place = best - 1;
                for (; place > 0 && value > values[place - 1]; place--) {
                    values[place] = values[place - 1];
                    words[place] = words[place - 1];
                }
                values[place] = value;
                words[place] = (int32_t)(first + k + j);
            }
        }
    }
}

/* The normaliser of a row: groups in their order, whoever made them. */
static double log_sum(const Search *s, int64_t row, int64_t groups) {
    float most = -INFINITY;
    for (int64_t g = 0; g < groups; g++) {
        const float value = s->group_most[g * s->most_rows + row];
        most = value > most ? value : most;
    }
    double total = 0;
    for (int64_t g = 0; g < groups; g++)
        total += s->group_sums[g * s->most_rows + row] * (double)exp_one(s->group_most[g * s->most_rows + row] - most);
    return log(total) + most;
}

static void project(Search *s, Worker &worker) {
    const Model &m = *s->model;
    const int64_t rows = s->rows, groups = (m.projection.outputs + WIDE - 1) / WIDE;
    const int64_t cols = cols_of(m.is_int8), panels = panels_of(m.projection.outputs, cols), each = WIDE / cols;
    float *scores = worker.scores;
    for (int64_t i = 0; i < rows * s->best_count; i++)
        s->top_values[worker.me * s->most_rows * s->best_count + i] = -INFINITY;
    for (int64_t group; (group = next_of(worker, worker.queue, groups)) >= 0;)
        for (int64_t begin = 0; begin < rows; begin += BLOCK) {
            const int64_t count = rows - begin < BLOCK ? rows - begin : BLOCK;
            for (int64_t j = 0; j < each && group * each + j < panels; j++)
                outputs_of(m.projection, m.is_int8, s->x, begin, count, group * each + j, scores + j * cols, WIDE, false,
                           worker.scratch);
            look_at(s, group, begin, count, scores, worker.me);
        }
#pragma omp barrier
    const Share mine = share(rows, worker);
    for (int64_t i = mine.begin; i < mine.end; i++) s->normalisers[i] = log_sum(s, i, groups);
}

static void decode(Search *s, Worker worker) {
    const Model &m = *s->model;
    const int64_t dim = m.dim, n = s->rows, stride = s->wide_stride, t = s->position, most_rows = s->most_rows;
    float *scores = worker.scores;
    const Share mine = share(n, worker);
    const Rows attended = attended_rows(s);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        embed(s, m.target_table, s->tokens[t * most_rows + i], t, s->x.values + i * s->x.stride);
        end_rows(s, s->x, i, dim);
    }
#pragma omp barrier
    for (int64_t l = 0; l < m.num_decoder; l++) {
        const Layer &layer = m.decoder[l];
        float *past = s->past + l * s->most_steps * most_rows * 2 * dim;
        product(layer.self.in, m.is_int8, s->x, n, s->wide, stride, false, worker);
#pragma omp barrier
        for (int64_t i = mine.begin; i < mine.end; i++) {
            int32_t *lies = s->table + i * s->most_steps;
            lies[t] = (int32_t)i;
            memcpy(past + (t * most_rows + i) * 2 * dim, s->wide + i * stride + dim, 2 * dim * sizeof(float));
            attend(layer.self, m.heads, dim, s->wide + i * stride, t + 1,
                   [=](int64_t p) { return (const float *)past + (p * most_rows + lies[p]) * 2 * dim; }, scores,
                   attended.values + i * attended.stride);
            end_rows(s, attended, i, dim);
        }
#pragma omp barrier
        close_sublayer(s, layer.self.out, attended, layer.self_norm, n, worker);
        product(layer.cross.in, m.is_int8, s->x, n, s->wide, stride, false, worker);
#pragma omp barrier
        const float *memory = s->memory + l * s->num_tokens * 2 * dim;
        for (int64_t i = mine.begin; i < mine.end; i++) {
            const int64_t sentence = s->sentences[i / s->per_sentence], start = s->starts[sentence];
            attend(layer.cross, m.heads, dim, s->wide + i * stride, s->starts[sentence + 1] - start,
                   [=](int64_t p) { return memory + (start + p) * 2 * dim; }, scores,
                   attended.values + i * attended.stride);
            end_rows(s, attended, i, dim);
        }
#pragma omp barrier
        close_sublayer(s, layer.cross.out, attended, layer.cross_norm, n, worker);
        feed_forward(s, layer, n, worker);
    }
    project(s, worker);
}

/* A hypothesis: the tokens that lead to a row of a position, and, if it did not end there, one more. */
static void keep(Search *s, int64_t sentence, int64_t position, int64_t row, int32_t last, double log_probability,
                 bool is_finished) {
    Found *found = s->found + s->num_found;
    int32_t *pieces = s->pieces + s->num_found * s->most_steps;
    int64_t end = position;
    if (!is_finished) pieces[end++] = last;
    found->length = end;
    for (int64_t p = position; p > 0; p--) {
        pieces[p - 1] = s->tokens[p * s->most_rows + row];
        row = s->origins[p * s->most_rows + row];
    }
    found->sentence = sentence;
    found->is_finished = is_finished;
    found->log_probability = log_probability;
    s->num_found++;
    s->counts[sentence]++;
}

/* The best 2 * beam continuations of a sentence, best first; of equals, the earlier. */
static int64_t gather_candidates(Search *s, int64_t first_row, int64_t team) {
    const int64_t most = 2 * s->job.beam;
    int64_t count = 0;
    for (int64_t r = 0; r < s->per_sentence; r++) {
        const int64_t row = first_row + r;
        if (isnan(s->normalisers[row])) s->has_nan = true;
        const double base = s->scores[row] - s->normalisers[row];
        if (!(base > -INFINITY)) continue;
        int64_t taken = 0;
        int64_t next[256]; /* where each thread's list stands */
        memset(next, 0, team * sizeof next[0]);
        for (; taken < s->best_count; taken++) { /* a merge of sorted lists */
            int64_t from = -1;
            float value = -INFINITY;
            int32_t word = 0;
            for (int64_t who = 0; who < team; who++) {
                if (next[who] >= s->best_count) continue;
                const int64_t at = (who * s->most_rows + row) * s->best_count + next[who];
                const float its = s->top_values[at];
                if (its > value || (its == value && from >= 0 && s->top_words[at] < word))
                    value = its, word = s->top_words[at], from = who;
            }
            if (from < 0) break;
            next[from]++;
            const double total = base + value;
            int64_t place = count < most ? count++ : most;
            if (place == most && !(total > s->candidates[--place])) break; /* nor will those after it */
            for (; place > 0 && total > s->candidates[place - 1]; place--) {
                s->candidates[place] = s->candidates[place - 1];
                s->candidate_rows[place] = s->candidate_rows[place - 1];
                s->candidate_words[place] = s->candidate_words[place - 1];
            }
            s->candidates[place] = total;
            s->candidate_rows[place] = (int32_t)row;
            s->candidate_words[place] = word;
        }
    }
    return count;
}

/* From scores of words to the rows of the next step. */
static void choose(Search *s, int64_t team) {
    const Job &job = s->job;
    const int64_t beam = job.beam, t = s->position, most_rows = s->most_rows;
    int64_t staying = 0;
    for (int64_t a = 0; a < s->num_alive; a++) {
        const int64_t sentence = s->sentences[a];
        const int64_t count = gather_candidates(s, a * s->per_sentence, team);
        for (int64_t c = 0; c < count && c < beam; c++)
            if (s->candidate_words[c] == job.eos && s->counts[sentence] < beam)
                keep(s, sentence, t, s->candidate_rows[c], 0, s->candidates[c], true);
        if (s->counts[sentence] >= beam) continue;
        const bool is_last = t + 1 >= job.longest[sentence];
        int64_t going = 0;
        for (int64_t c = 0; c < count && going < beam; c++) {
            if (s->candidate_words[c] == job.eos) continue;
            if (is_last) {
                if (s->counts[sentence] < beam)
                    keep(s, sentence, t, s->candidate_rows[c], s->candidate_words[c], s->candidates[c], false);
            } else {
                const int64_t row = staying * beam + going;
                s->next_scores[row] = s->candidates[c];
                s->origins[(t + 1) * most_rows + row] = s->candidate_rows[c];
                s->tokens[(t + 1) * most_rows + row] = s->candidate_words[c];
            }
            going++;
        }
        if (is_last || going == 0) continue;
        for (; going < beam; going++) { /* a row that goes nowhere */
            const int64_t row = staying * beam + going;
            s->next_scores[row] = -INFINITY;
            s->origins[(t + 1) * most_rows + row] = (int32_t)(a * s->per_sentence);
            s->tokens[(t + 1) * most_rows + row] = (int32_t)job.eos;
        }
        s->sentences[staying++] = sentence;
    }
    s->num_alive = staying;
    s->per_sentence = beam;
    s->rows = staying * beam;
    s->position = t + 1;
    for (int64_t row = 0; row < s->rows; row++) {
        const int32_t origin = s->origins[(t + 1) * most_rows + row];
        memcpy(s->next_table + row * s->most_steps, s->table + origin * s->most_steps, (t + 1) * sizeof(int32_t));
    }
    int32_t *table = s->table;
    s->table = s->next_table, s->next_table = table;
    double *scores = s->scores;
    s->scores = s->next_scores, s->next_scores = scores;
}

/* One more token for every row. How many sentences are left; -1: a probability is no number. */
extern "C" int64_t rela_search_step(Search *s) {
    int64_t size = 1;
    memset(s->queues, 0, s->num_queues * sizeof(Queue));
#pragma omp parallel num_threads(s->job.threads)
    {
        const Worker worker = worker_of(s);
        if (worker.me == 0) size = worker.team;
        decode(s, worker);
    }
    choose(s, size);
    return s->has_nan ? -1 : s->num_alive;
}

/* Encodes the sources. NULL: too little memory. */
extern "C" Search *rela_search_begin(const Model *model, const Job *job) {
    Search *s = (Search *)calloc(1, sizeof(Search));
    if (!s) return nullptr;
    s->model = model, s->job = *job;
    const int64_t batch = job->batch, beam = job->beam, dim = model->dim, threads = job->threads;
    int64_t *ids = nullptr, *places = nullptr;
    bool ok = take(s, s->starts, batch + 1) && take(s, s->sentences, batch) && take(s, s->counts, batch) &&
              take(s, ids, batch * job->width) && take(s, places, batch * job->width);
    if (!ok) {
        rela_search_end(s);
        return nullptr;
    }
    int64_t n = 0;
    for (int64_t b = 0; b < batch; b++) {
        s->starts[b] = n;
        s->sentences[b] = b, s->counts[b] = 0;
        for (int64_t p = 0; p < job->width; p++)
            if (job->source[b * job->width + p] != job->pad) ids[n] = job->source[b * job->width + p], places[n++] = p;
        if (n - s->starts[b] > s->most_keys) s->most_keys = n - s->starts[b];
        if (job->longest[b] > s->most_steps) s->most_steps = job->longest[b];
    }
    s->starts[batch] = n;
    s->num_tokens = n;
    s->most_rows = batch * beam;
    const int64_t steps = s->most_steps + 1, rows = s->most_rows, both = n > rows ? n : rows;
    s->most_steps = steps;
    if (steps > s->most_keys) s->most_keys = steps;
    const int64_t vocabulary = model->projection.outputs, groups = (vocabulary + WIDE - 1) / WIDE;
    s->best_count = beam + 1 < vocabulary ? beam + 1 : vocabulary;
    const int64_t widest = model->hidden > dim ? model->hidden : dim;
    s->x.stride = even(dim) + 16; /* rows a power of two apart would share cache lines */
    s->hidden.stride = even(widest) + 16;
    s->wide_stride = 3 * dim + 16;
    const int64_t looks = BLOCK * WIDE, weights = (model->heads + 1) * s->most_keys;
    s->scratch_size = BLOCK * MOST_COLS + (looks > weights ? looks : weights) + 64;
    s->num_queues = threads * 8 * (model->num_encoder + model->num_decoder + 1); /* a layer has fewer products */
    ok = take(s, s->queues, s->num_queues) && take(s, s->normalisers, rows) && take(s, s->memory, model->num_decoder * n * 2 * dim) &&
         take(s, s->past, model->num_decoder * steps * rows * 2 * dim) && take(s, s->table, rows * steps) &&
         take(s, s->next_table, rows * steps) && take(s, s->tokens, (steps + 1) * rows) &&
         take(s, s->origins, (steps + 1) * rows) && take(s, s->scores, rows) && take(s, s->next_scores, rows) &&
         take(s, s->x.values, both * s->x.stride) && take(s, s->x.scales, both) &&
         take(s, s->hidden.values, both * s->hidden.stride) && take(s, s->hidden.scales, both) &&
         take(s, s->wide, both * s->wide_stride) && take(s, s->plain, both * s->x.stride) &&
         take(s, s->scratch, threads * s->scratch_size) && take(s, s->top_values, threads * rows * s->best_count) &&
         take(s, s->top_words, threads * rows * s->best_count) && take(s, s->group_most, groups * rows) &&
         take(s, s->group_sums, groups * rows) && take(s, s->candidates, 2 * beam + 1) &&
         take(s, s->candidate_rows, 2 * beam + 1) && take(s, s->candidate_words, 2 * beam + 1) &&
         take(s, s->found, batch * beam) && take(s, s->pieces, batch * beam * steps);
    if (model->is_int8) {
        ok = ok && take(s, s->x.whole, both * s->x.stride) && take(s, s->hidden.whole, both * s->hidden.stride);
    }
    if (!ok) {
        rela_search_end(s);
        return nullptr;
    }
    s->num_alive = batch, s->per_sentence = 1, s->rows = batch; /* at first a sentence's beams would be all alike */
    for (int64_t b = 0; b < batch; b++) s->scores[b] = 0, s->tokens[b] = (int32_t)job->bos;
    memset(s->queues, 0, s->num_queues * sizeof(Queue));
#pragma omp parallel num_threads(threads)
    encode(s, ids, places, worker_of(s));
    return s;
}

/* All hypotheses up to now, and their pieces, `stride` apart. */
extern "C" int64_t rela_search_found(const Search *s, const Found **found, const int32_t **pieces, int64_t *stride) {
    *found = s->found, *pieces = s->pieces, *stride = s->most_steps;
    return s->num_found;
}
