/* Runs the meter on random weights, in memory that ends where it has to.

   Behind the weights comes a page that nobody may touch, and with GUARDED behind all that the meter allocates too:
   sanitizers do not see what vector instructions with masks do. What does not count is NaN, so that it would show. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE 4096

/* So many bytes, the last of them before a page that cannot be read or written; zeros. */
static void *guarded(size_t bytes) {
    const size_t room = (bytes + PAGE - 1) / PAGE * PAGE;
    char *base = mmap(NULL, room + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(base + room, PAGE, PROT_NONE)) abort();
    return base + room - bytes;
}

static void release(void *start, size_t bytes) {
    const size_t room = (bytes + PAGE - 1) / PAGE * PAGE;
    munmap((char *)start + bytes - room, room + PAGE);
}

#ifdef GUARDED
static void keep(void *start) { (void)start; } /* a few MiB in all, until the end */
#define malloc(bytes) guarded(bytes)
#define calloc(count, bytes) guarded((count) * (bytes))
#define free(start) keep(start)
#endif
#include "meter.c"
#ifdef GUARDED
#undef malloc
#undef calloc
#undef free
#endif

static uint64_t state = 1;

static int64_t draw(int64_t from, int64_t to) { /* to itself among them */
    state = state * 6364136223846793005u + 1442695040888963407u;
    return from + (int64_t)((state >> 33) % (uint64_t)(to - from + 1));
}

static float draw_weight(int style) {
    const float x = (float)draw(0, 1000) / 300.0f;
    return draw(0, 3) == 0 ? 0 : style == 0 ? x : style == 1 ? (draw(0, 1) ? x : -x) * 1e4f : x * 1e-40f;
}

/* Words of neighbouring pieces, of which one may be in two words, or every one in several; the last is of one piece. */
static units_t draw_units(int64_t batch, const int64_t *lengths) {
    int64_t *units = malloc(sizeof(int64_t) * (size_t)(batch + 1)), num_units = 0, num_pieces = 0;
    int64_t *starts = malloc(sizeof(int64_t) * 10000), *pieces = malloc(sizeof(int64_t) * 10000);
    units[0] = starts[0] = 0;
    for (int64_t b = 0; b < batch; b++) {
        const int64_t longest = draw(1, 4), copies = draw(0, 3) == 0 ? 3 : 1, straddles = draw(0, 1);
        for (int64_t first = 0; first < lengths[b];) {
            const int64_t limit = first + draw(1, longest), end = lengths[b] - 1;
            const int64_t last = first == end ? first + 1 : limit < end ? limit : end;
            for (int64_t copy = 0; copy < (first == end ? 1 : copies); copy++) {
                for (int64_t piece = first; piece < last; piece++) pieces[num_pieces++] = piece;
                starts[++num_units] = num_pieces;
            }
            first = straddles && last - first > 1 && last < end ? last - 1 : last;
        }
        units[b + 1] = num_units;
    }
    starts = realloc(starts, sizeof(int64_t) * (size_t)(num_units + 1));
    pieces = realloc(pieces, sizeof(int64_t) * (size_t)num_pieces);
    return (units_t){units, starts, pieces};
}

static void free_units(const units_t *u) {
    free((void *)u->units);
    free((void *)u->starts);
    free((void *)u->pieces);
}

/* 1 if a number is not finite, or if there is no memory. */
static int run_case(void) {
    static const int64_t head_counts[] = {1, 2, 3, 4, 5, 8, 16, 17};
    const int64_t batch = draw(1, 3), heads = head_counts[draw(0, 7)], causal = draw(0, 1), threads = draw(1, batch);
    const float taus[TAUS] = {1, 0.5f, 0.25f, 0.1f};
    int64_t queries[3], keys[3];
    for (int64_t b = 0; b < batch; b++) keys[b] = draw(1, 40), queries[b] = causal ? keys[b] : draw(1, 40);
    int64_t num_keys = 0, num_queries = 0;
    for (int64_t b = 0; b < batch; b++) {
        num_keys = larger_of(num_keys, keys[b]);
        num_queries = larger_of(num_queries, queries[b]);
    }
    keys[batch - 1] = num_keys, queries[batch - 1] = num_queries; /* its last weight is the last before the guard */

    const int64_t stride = num_keys + draw(0, 1) * 3, head_stride = stride * num_queries;
    const int64_t batch_stride = head_stride * heads;
    const size_t bytes = sizeof(float) * (size_t)(batch_stride * batch - (stride - num_keys));
    float *weights = guarded(bytes);
    const int style = (int)draw(0, 2);
    for (size_t i = 0; i < bytes / sizeof(float); i++) weights[i] = NAN;
    for (int64_t b = 0; b < batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t q = 0; q < queries[b]; q++) {
                const int is_null = draw(0, 4) == 0;
                for (int64_t k = 0; k < (causal ? q + 1 : keys[b]); k++)
                    weights[b * batch_stride + h * head_stride + q * stride + k] = is_null ? 0 : draw_weight(style);
            }
    const units_t key_units = draw_units(batch, keys);
    const units_t query_units = causal ? key_units : draw_units(batch, queries);
    const int64_t far = 10, kinds = 2 * TAUS, numbers = heads * (BY_HEAD + 2 * far + 1) + BY_LAYER + kinds;
    double *sums = calloc((size_t)(threads * numbers), sizeof(double));
    uint8_t *null = calloc((size_t)(batch * heads * num_queries), 1);
    call_t c = {.num_batch = batch, .num_heads = heads, .num_queries = num_queries, .num_keys = num_keys};
    c.batch_stride = batch_stride, c.head_stride = head_stride, c.row_stride = stride, c.is_causal = causal;
    c.weights = weights, c.query_lengths = queries, c.key_lengths = keys;
    c.query_units = query_units, c.key_units = key_units;
    c.farthest = far, c.num_threads = threads, c.taus = draw(0, 2) ? taus : NULL, c.null = null;
    c.by_head = sums;
    c.by_layer = c.by_head + threads * heads * BY_HEAD;
    c.distances = c.by_layer + threads * BY_LAYER;
    c.diversity = c.distances + threads * heads * (2 * far + 1);
    int failed = rela_measure(&c);
    for (int64_t i = 0; i < threads * numbers; i++) failed |= !isfinite(sums[i]);
    free(sums);
    free(null);
    free_units(&key_units);
    if (!causal) free_units(&query_units);
    release(weights, bytes);
    return failed;
}

int main(void) {
    for (int i = 0; i < 400; i++)
        if (run_case()) {
            fprintf(stderr, "case %d: a number that is not finite, or no memory\n", i);
            return 1;
        }
    return 0;
}
