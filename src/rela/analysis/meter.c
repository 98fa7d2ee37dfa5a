/* Statistics of attention weights, float32, in one pass over them; sums in float64.

   A row is what one query gives to the keys that it may see. The rows of all heads of a query are looked at together,
   since diversity compares them; then the same again between units, which are words, and BOS or EOS. The weights that
   are not 0 are put side by side first, so that zeros cost next to nothing. Then every weight takes four lanes, one for
   each tau: the same instruction raises it to four powers, and sums over weights need no crossing of lanes.

   Compiled on the user's machine at first use; the vector width is the machine's own. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define LANES 16
#else
#define LANES 8
#endif

typedef float vec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))
#define TAUS 4
#define SAFE_POWER 60.0f /* e to the power of this, times the longest row, is far from too large for float32 */
#define LEAST 1e-37f     /* stands for what is less, where a logarithm is taken */
#define FAINT 1e-28f     /* a row of less mass than this has more to it than what is LEAST */

enum { NONZERO, NUL, MASS, ENTROPY, FIRST, LAST, UNIT_NONZERO, UNIT_NUL, BY_HEAD };
enum { LAYER_NONZERO, LAYER_NULL, PLACES, ROWS, UNIT_PLACES, UNIT_ROWS, BY_LAYER };

/* Units of all sentences, one after the other: unit u has the pieces pieces[starts[u] .. starts[u + 1]), and those of
   sentence b are units[b] .. units[b + 1]. */
typedef struct {
    const int64_t *units, *starts, *pieces;
} units_t;

typedef struct {
    int64_t num_batch, num_heads, num_queries, num_keys, batch_stride, head_stride, row_stride, is_causal;
    const float *weights;
    const int64_t *query_lengths, *key_lengths;
    units_t query_units, key_units;
    int64_t farthest, num_threads;
    const float *taus; /* TAUS of them; NULL: the weights are distributions */
    uint8_t *null;     /* [B, H, Tq] */
    /* of each thread: [H, BY_HEAD], [BY_LAYER], [H, 2 * farthest + 1], and [2, TAUS or 1] between pieces and units */
    double *by_head, *by_layer, *distances, *diversity;
} call_t;

INLINE vec splat(float x) { return x - (vec){0}; }
INLINE quad quad_of(float x) { return x - (quad){0}; }
INLINE vec pick(ivec mask, vec a, vec b) { return (vec)((mask & (ivec)a) | (~mask & (ivec)b)); }
INLINE vec larger(vec a, vec b) { return pick(a > b, a, b); }
INLINE vec at(const float *row, int64_t place) { return *(const vec *)(row + place); }
INLINE quad quad_at(const float *row, int64_t place) { return *(const quad *)(row + place); }
INLINE float above_zero(float x) { return x < 0 ? 0 : x; } /* rounding may take it below; NaN stays */

/* e**x for x up to 88; below -87 it is 0. Polynomial of Cephes. */
INLINE vec exp_of(vec x) {
    const ivec dead = x < splat(-87.0f);
    x = pick(dead, splat(0.0f), x);
    const vec shifted = x * 1.44269504088896341f + splat(12582912.0f); /* rounds to the nearest whole number */
    const vec n = shifted - splat(12582912.0f);
    x = x - n * 0.693359375f - n * -2.12194440e-4f;
    vec y = splat(1.9875691500e-4f);
    y = y * x + splat(1.3981999507e-3f);
    y = y * x + splat(8.3334519073e-3f);
    y = y * x + splat(4.1665795894e-2f);
    y = y * x + splat(1.6666665459e-1f);
    y = y * x + splat(5.0000001201e-1f);
    y = y * x * x + x + splat(1.0f);
    const ivec power = ((ivec)shifted + (127 - 0x4b400000)) << 23;
    return pick(dead, splat(0.0f), y * (vec)power);
}

/* ln x for normal x > 0. Polynomial of Cephes. */
INLINE vec log_of(vec x) {
    const ivec bits = (ivec)x;
    ivec exponent = (bits >> 23) - 126;
    vec m = (vec)((bits & 0x007fffff) | 0x3f000000); /* from 0.5 to 1 */
    const ivec low = m < splat(0.707106781186547524f);
    exponent += low; /* -1 where true */
    m = m + pick(low, m, splat(0.0f)) - splat(1.0f);
    const vec e = __builtin_convertvector(exponent, vec), z = m * m;
    vec y = splat(7.0376836292e-2f);
    y = y * m + splat(-1.1514610310e-1f);
    y = y * m + splat(1.1676998740e-1f);
    y = y * m + splat(-1.2420140846e-1f);
    y = y * m + splat(1.4249322787e-1f);
    y = y * m + splat(-1.6668057665e-1f);
    y = y * m + splat(2.0000714765e-1f);
    y = y * m + splat(-2.4999993993e-1f);
    y = y * m + splat(3.3333331174e-1f);
    y = y * m * z + e * -2.12194440e-4f - z * 0.5f;
    return m + y + e * 0.693359375f;
}

/* The first numbers of a row, each in as many lanes as there are taus. */
INLINE vec for_each_tau(const float *row) {
#if defined(__AVX512F__)
    const __m512i order = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return (vec)_mm512_permutexvar_ps(order, _mm512_castps128_ps512(_mm_loadu_ps(row)));
#else
    vec x;
    for (int i = 0; i < LANES; i++) x[i] = row[i / TAUS];
    return x;
#endif
}

/* Lanes 0, 4, 8, ... added up, and 1, 5, 9, ...: what belongs to each tau. */
INLINE quad fold(vec x) {
    float part[LANES];
    *(vec *)part = x;
    quad sum = quad_at(part, 0);
    for (int i = TAUS; i < LANES; i += TAUS) sum += quad_at(part, i);
    return sum;
}

INLINE float sum_of(quad x) { return (x[0] + x[2]) + (x[1] + x[3]); }

static int64_t larger_of(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t whole_vectors(int64_t size) { return (size + LANES - 1) / LANES * LANES; }

typedef struct {
    int64_t padded; /* room for a row */
    float *unit_rows;
    const float **rows; /* of all heads */
    /* Of all heads, one after the other, the weights that are not 0: their places, themselves, their logarithms; those
       of head h are from ends[h] to ends[h + 1]. For each of them and each tau its exponential, and that times the
       power. */
    int32_t *places;
    int64_t *ends;
    float *kept, *logs, *exponentials, *products;
    float *sums;                  /* for each place: of all heads' weights, or for each tau of their distributions */
    float *totals, *masses;       /* of each head; that of each tau, and that of all weights */
    int32_t *first, *next, *unit; /* the units of each piece, as lists of entries that count from 1; 0 ends one */
    int32_t *only;                /* the unit of a piece that has just one; of others, a place behind all units */
    int64_t num_others;           /* pieces with several units or none */
    int64_t num_alone;            /* so many of the first keys are units of one piece */
    /* Of each query between pieces, and behind them of one between units: how many weights of each head are not 0, and
       the diversity. */
    int32_t *counts;
    float *diversities;
} scratch_t;

static int make_scratch(scratch_t *s, const call_t *c) {
    int64_t longest = c->num_keys, entries = 0; /* of a row; of a sentence's list of units and pieces */
    for (int64_t b = 0; b < c->num_batch; b++) {
        const int64_t *units = c->key_units.units + b, *starts = c->key_units.starts;
        longest = larger_of(longest, units[1] - units[0]); /* pieces that straddle words may be fewer than words */
        entries = larger_of(entries, starts[units[1]] - starts[units[0]]);
    }
    const int64_t heads = c->num_heads, padded = whole_vectors(longest + 1), all = padded * heads;
    s->padded = padded;
    const int64_t for_rows = all * (3 + 2 * TAUS) + padded * TAUS, for_heads = whole_vectors(heads) * (TAUS + 1);
    s->unit_rows = calloc(1, sizeof(float) * (size_t)(for_rows + for_heads + (c->num_queries + 1) * TAUS));
    s->places = malloc(sizeof(int32_t) * (size_t)(all + 2 * padded + 2 * (entries + 1) + (c->num_queries + 1) * heads));
    s->ends = malloc(sizeof(int64_t) * (size_t)(heads + 1));
    s->rows = malloc(sizeof(float *) * (size_t)heads);
    s->kept = s->unit_rows + all;
    s->logs = s->kept + all;
    s->exponentials = s->logs + all;
    s->products = s->exponentials + all * TAUS;
    s->sums = s->products + all * TAUS;
    s->totals = s->sums + padded * TAUS;
    s->masses = s->totals + whole_vectors(heads) * TAUS;
    s->diversities = s->masses + whole_vectors(heads);
    s->first = s->places + all;
    s->only = s->first + padded;
    s->next = s->only + padded;
    s->unit = s->next + entries + 1;
    s->counts = s->unit + entries + 1;
    return !s->unit_rows || !s->places || !s->ends || !s->rows;
}

static void free_scratch(scratch_t *s) {
    free(s->unit_rows);
    free(s->places);
    free(s->ends);
    free(s->rows);
}

/* Puts the weights of all heads that are not 0 side by side, times `scale`. */
static void keep_nonzero(const call_t *c, scratch_t *s, int64_t size, float scale) {
    int64_t n = 0;
    s->ends[0] = 0;
    for (int64_t h = 0; h < c->num_heads; h++) {
        const float *row = s->rows[h];
#if defined(__AVX512F__)
        for (int64_t j = 0; j < size; j += LANES) {
            const __mmask16 valid = size - j < LANES ? (__mmask16)((1u << (size - j)) - 1) : (__mmask16)-1;
            const __m512 x = _mm512_maskz_loadu_ps(valid, row + j);
            const __mmask16 bits = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NEQ_UQ);
            const __m512i places = _mm512_add_epi32(
                _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), _mm512_set1_epi32((int)j));
            _mm512_mask_compressstoreu_ps(s->kept + n, bits, x);
            _mm512_mask_compressstoreu_epi32(s->places + n, bits, places);
            n += __builtin_popcount(bits);
        }
#else
        for (int64_t j = 0; j < size; j++) {
            s->kept[n] = row[j];
            s->places[n] = (int32_t)j;
            n += row[j] != 0;
        }
#endif
        s->ends[h + 1] = n;
    }
    for (int64_t k = n; k < whole_vectors(n); k++) s->kept[k] = 0;
    for (int64_t k = 0; k < n; k += LANES) {
        const vec x = at(s->kept, k) * scale;
        *(vec *)(s->kept + k) = x;
        const vec wrong = x * 0.0f; /* NaN if x is no number or infinite, else 0 */
        *(vec *)(s->logs + k) = log_of(larger(pick(x < splat(0.0f), -x, x), splat(LEAST))) + wrong;
    }
}

/* For the weights from `start` to `end` and every tau e to the power of weight ** tau - shift, and that times the
   exponent. Negative weights keep their sign. A few more may be written behind the end. */
static void raise(const call_t *c, scratch_t *s, int64_t start, int64_t end, quad shift) {
    const vec zero = {0};
    vec taus, shifts;
    for (int i = 0; i < LANES; i++) taus[i] = c->taus[i % TAUS], shifts[i] = shift[i % TAUS];
    for (int64_t k = start * TAUS; k < end * TAUS; k += LANES) {
        const vec x = for_each_tau(s->kept + k / TAUS), log = for_each_tau(s->logs + k / TAUS);
        vec power = exp_of(log * taus);
        power = pick(taus == splat(1.0f), x, pick(x < zero, -power, power)) - shifts;
        const vec e = exp_of(power);
        *(vec *)(s->exponentials + k) = e;
        *(vec *)(s->products + k) = e * power;
    }
}

/* The sums of the logarithms of all heads' totals, for each tau. */
static quad log_totals(const call_t *c, scratch_t *s) {
    vec sum = {0};
    const int64_t end = c->num_heads * TAUS;
    for (int64_t k = end; k < whole_vectors(end); k++) s->totals[k] = 1;
    for (int64_t k = 0; k < end; k += LANES) sum += log_of(at(s->totals, k));
    return fold(sum);
}

/* The diversity of distributions softmax(weight ** tau) over `size` places. */
static void soften(const call_t *c, scratch_t *s, int64_t size, float *diversity) {
    const int64_t heads = c->num_heads, n = s->ends[heads];
    const float share = 1.0f / (float)heads;
    float greatest = 0;
    for (int64_t k = 0; k < n; k++) greatest = fabsf(s->kept[k]) > greatest ? fabsf(s->kept[k]) : greatest;
    const int is_safe = greatest <= SAFE_POWER;
    if (is_safe) raise(c, s, 0, n, (quad){0});
    memset(s->sums, 0, sizeof(float) * (size_t)(size * TAUS));
    quad base = {0}, powers = {0};
    int64_t nulls = 0;
    for (int64_t h = 0; h < heads; h++) {
        const int64_t start = s->ends[h], end = s->ends[h + 1];
        const int has_zeros = end - start < size;
        quad shift = {0}, of_zero = quad_of((float)has_zeros);
        if (start == end) {
            nulls++;
            *(quad *)(s->totals + h * TAUS) = quad_of(1.0f);
            continue;
        }
        if (!is_safe) {
            float top = has_zeros ? 0 : s->kept[start];
            for (int64_t k = start; k < end; k++) top = s->kept[k] > top ? s->kept[k] : top;
            for (int i = 0; i < TAUS; i++) {
                shift[i] = copysignf(powf(fabsf(top), c->taus[i]), top);
                of_zero[i] = has_zeros ? expf(-shift[i]) : 0;
            }
            raise(c, s, start, end, shift);
        }
        const quad zeros = of_zero * (float)(size - (end - start));
        quad total = zeros, mean = zeros * -shift;
        for (int64_t k = start; k < end; k++) {
            total += quad_at(s->exponentials, k * TAUS);
            mean += quad_at(s->products, k * TAUS);
        }
        const quad part = 1.0f / total;
        *(quad *)(s->totals + h * TAUS) = total;
        powers += mean * part;
        base += of_zero * part;
        for (int64_t k = start; k < end; k++)
            *(quad *)(s->sums + s->places[k] * TAUS) += (quad_at(s->exponentials, k * TAUS) - of_zero) * part;
    }
    vec bases, outer = {0};
    for (int i = 0; i < LANES; i++) bases[i] = base[i % TAUS];
    for (int64_t j = 0; j < size * TAUS; j += LANES) {
        vec p = larger((at(s->sums, j) + bases) * share, splat(0.0f));
        if (j + LANES > size * TAUS)
            for (int i = 0; i < LANES; i++) p[i] = j + i < size * TAUS ? p[i] : 0;
        outer -= p * log_of(larger(p, splat(LEAST)));
    }
    const float of_nulls = nulls ? -(float)nulls * share * logf((float)nulls * share) : 0;
    const quad found = fold(outer) + of_nulls - (log_totals(c, s) - powers) * share;
    for (int i = 0; i < TAUS; i++) diversity[i] = above_zero(found[i]);
}

/* The diversity of heads whose weights are distributions, with the sum of their entropies. */
static void compare(const call_t *c, scratch_t *s, int64_t size, float entropies, float *diversity) {
    const float share = 1.0f / (float)c->num_heads;
    vec outer = {0};
    memset(s->sums, 0, sizeof(float) * (size_t)whole_vectors(size));
    for (int64_t k = 0; k < s->ends[c->num_heads]; k++) s->sums[s->places[k]] += s->kept[k] * share;
    for (int64_t j = 0; j < size; j += LANES) {
        const vec p = at(s->sums, j);
        outer -= p * log_of(larger(p, splat(LEAST)));
    }
    diversity[0] = above_zero(sum_of(fold(outer)) - entropies * share);
}

/* The entropy of a row of next to no mass. */
static double faint_entropy(const scratch_t *s, int64_t start, int64_t end) {
    double mass = 0, entropy = 0;
    for (int64_t k = start; k < end; k++) mass += fabs((double)s->kept[k]);
    for (int64_t k = start; k < end; k++) entropy -= fabs(s->kept[k] / mass) * log(fabs(s->kept[k] / mass));
    return entropy;
}

/* The statistics of each head, added to `head` if there is one; returns the sum of the entropies of their weights. */
static float measure_heads(const call_t *c, scratch_t *s, int64_t size, double *head) {
    float entropies = 0;
    for (int64_t h = 0; h < c->num_heads; h++) {
        const int64_t start = s->ends[h], end = s->ends[h + 1];
        float mass = 0, entropy = 0;
        for (int64_t k = start; k < end; k++) {
            const float x = fabsf(s->kept[k]);
            mass += x;
            entropy -= x * s->logs[k];
        }
        entropies += entropy;
        s->masses[h] = mass < FAINT ? 1 : mass; /* of the logarithm 0 */
        if (!head || start == end) continue;
        double *to = head + h * BY_HEAD;
        to[MASS] += mass;
        to[ENTROPY] += mass < FAINT ? faint_entropy(s, start, end) : entropy / mass;
        to[FIRST] += fabsf(s->rows[h][0]);
        to[LAST] += fabsf(s->rows[h][size - 1]);
    }
    if (!head) return entropies;
    for (int64_t h = 0; h < c->num_heads; h += LANES) { /* the room behind the last head is there, and not read */
        const vec logs = log_of(at(s->masses, h));
        for (int64_t i = 0; i < LANES && h + i < c->num_heads; i++) head[(h + i) * BY_HEAD + ENTROPY] += logs[i];
    }
    return entropies;
}

/* The rows of all heads of the query q, of `size` places, times `scale`; with `head`, each head's statistics too. */
static void measure(const call_t *c, scratch_t *s, int64_t q, int64_t size, float scale, double *head) {
    keep_nonzero(c, s, size, scale);
    for (int64_t h = 0; h < c->num_heads; h++) s->counts[q * c->num_heads + h] = (int32_t)(s->ends[h + 1] - s->ends[h]);
    const float entropies = head || !c->taus ? measure_heads(c, s, size, head) : 0;
    if (c->taus)
        soften(c, s, size, s->diversities + q * TAUS);
    else
        compare(c, s, size, entropies, s->diversities + q * TAUS);
}

/* How many places have a weight of any head. */
static int64_t count_any(const call_t *c, scratch_t *s, int64_t size) {
    int64_t count = 0;
    memset(s->sums, 0, sizeof(float) * (size_t)size);
    for (int64_t k = 0; k < s->ends[c->num_heads]; k++) s->sums[s->places[k]] += s->kept[k];
    for (int64_t j = 0; j < size; j++) count += s->sums[j] != 0;
    return count;
}

static void add_diversity(const call_t *c, const scratch_t *s, int64_t q, double *diversity) {
    for (int i = 0; i < (c->taus ? TAUS : 1); i++) diversity[i] += s->diversities[q * TAUS + i];
}

static void between_pieces(const call_t *c, scratch_t *s, int64_t b, double *head, double *layer, double *distances,
                           double *diversity) {
    const float *weights = c->weights + b * c->batch_stride;
    const int64_t far = c->farthest;
    for (int64_t q = 0; q < c->query_lengths[b]; q++) {
        const int64_t size = c->is_causal ? q + 1 : c->key_lengths[b];
        for (int64_t h = 0; h < c->num_heads; h++) s->rows[h] = weights + h * c->head_stride + q * c->row_stride;
        measure(c, s, q, size, 1, head);
        add_diversity(c, s, q, diversity);
        for (int64_t h = 0; h < c->num_heads; h++) {
            const int64_t start = s->ends[h], end = s->ends[h + 1];
            double *to = distances + h * (2 * far + 1);
            head[h * BY_HEAD + NONZERO] += (double)(end - start);
            head[h * BY_HEAD + NUL] += start == end;
            c->null[(b * c->num_heads + h) * c->num_queries + q] = start == end;
            for (int64_t k = start; k < end; k++) {
                const int64_t distance = s->places[k] - q;
                to[(distance < -far ? -far : distance > far ? far : distance) + far] += fabsf(s->kept[k]);
            }
        }
        const int64_t any = count_any(c, s, size);
        layer[LAYER_NONZERO] += (double)any;
        layer[LAYER_NULL] += any == 0;
        layer[PLACES] += (double)size;
        layer[ROWS] += 1;
    }
}

/* For each key the list of its units: nearly always one, but a piece may straddle two words. And how many keys from the
   first on are one unit each. */
static void list_units(const call_t *c, scratch_t *s, int64_t b) {
    const units_t *u = &c->key_units;
    const int64_t start = u->starts[u->units[b]];
    memset(s->first, 0, sizeof(int32_t) * (size_t)s->padded);
    for (int64_t unit = u->units[b + 1] - 1; unit >= u->units[b]; unit--)
        for (int64_t k = u->starts[unit + 1] - 1; k >= u->starts[unit]; k--) {
            const int64_t entry = k - start + 1;
            s->unit[entry] = (int32_t)(unit - u->units[b]);
            s->next[entry] = s->first[u->pieces[k]];
            s->first[u->pieces[k]] = (int32_t)entry;
        }
    const int64_t num_units = u->units[b + 1] - u->units[b], *starts = u->starts + u->units[b];
    s->num_others = 0;
    for (int64_t j = 0; j < c->key_lengths[b]; j++) {
        const int is_one = s->first[j] && !s->next[s->first[j]];
        s->only[j] = is_one ? s->unit[s->first[j]] : (int32_t)num_units;
        s->num_others += !is_one;
    }
    int64_t i = 0;
    while (i < num_units && starts[i + 1] - starts[i] == 1 && u->pieces[start + i] == i) i++;
    s->num_alone = i;
}

/* The rows of all heads between units: sums over the queries first .. end. */
static void merge_rows(const call_t *c, scratch_t *s, int64_t b, const int64_t *first, const int64_t *end) {
    const int64_t num_columns = c->key_units.units[b + 1] - c->key_units.units[b];
    for (int64_t h = 0; h < c->num_heads; h++) {
        float *row = s->unit_rows + h * s->padded;
        memset(row, 0, sizeof(float) * (size_t)(num_columns + 1));
        for (const int64_t *q = first; q < end; q++) {
            const float *from = c->weights + b * c->batch_stride + h * c->head_stride + *q * c->row_stride;
            const int64_t num_seen = c->is_causal ? *q + 1 : c->key_lengths[b];
            for (int64_t j = 0; j < num_seen; j++) row[s->only[j]] += from[j];
            for (int64_t j = 0; s->num_others && j < num_seen; j++)
                if (s->only[j] == num_columns)
                    for (int32_t e = s->first[j]; e; e = s->next[e]) row[s->unit[e]] += from[j];
        }
        s->rows[h] = row;
    }
}

static void between_units(const call_t *c, scratch_t *s, int64_t b, double *head, double *layer, double *diversity) {
    const units_t *rows = &c->query_units, *columns = &c->key_units;
    list_units(c, s, b);
    for (int64_t u = rows->units[b]; u < rows->units[b + 1]; u++) {
        const int64_t *first = rows->pieces + rows->starts[u], *end = rows->pieces + rows->starts[u + 1];
        const int64_t size = c->is_causal ? u - rows->units[b] + 1 : columns->units[b + 1] - columns->units[b];
        /* The last key is a unit of its own: if all units that are seen have one piece each, no key is left out. */
        const int is_row_of_pieces = end - first == 1 && size <= s->num_alone;
        const int64_t q = is_row_of_pieces ? *first : c->num_queries;
        if (!is_row_of_pieces) {
            merge_rows(c, s, b, first, end);
            measure(c, s, q, size, 1.0f / (float)(end - first), NULL);
        }
        add_diversity(c, s, q, diversity);
        for (int64_t h = 0; h < c->num_heads; h++) {
            const int32_t count = s->counts[q * c->num_heads + h];
            head[h * BY_HEAD + UNIT_NONZERO] += count;
            head[h * BY_HEAD + UNIT_NUL] += count == 0;
        }
        layer[UNIT_PLACES] += (double)size;
        layer[UNIT_ROWS] += 1;
    }
}

/* 0, or 1 if there is no memory. */
int rela_measure(const call_t *c) {
    const int64_t taus = c->taus ? TAUS : 1, bins = 2 * c->farthest + 1;
    int failed = 0;
#pragma omp parallel num_threads((int)c->num_threads) reduction(| : failed)
    {
        scratch_t s;
        failed |= make_scratch(&s, c);
#pragma omp for schedule(static)
        for (int64_t t = 0; t < c->num_threads; t++) { /* a share for each thread: sums are the same each time */
            if (failed) continue;
            double *head = c->by_head + t * c->num_heads * BY_HEAD, *layer = c->by_layer + t * BY_LAYER;
            double *distances = c->distances + t * c->num_heads * bins, *diversity = c->diversity + t * 2 * taus;
            for (int64_t b = t; b < c->num_batch; b += c->num_threads) {
                between_pieces(c, &s, b, head, layer, distances, diversity);
                between_units(c, &s, b, head, layer, diversity + taus);
            }
        }
        free_scratch(&s);
    }
    return failed;
}
