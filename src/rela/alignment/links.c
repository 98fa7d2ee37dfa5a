/* Errors of word links, counted for all heads of a layer and for the mean over them, in both shifts and by both rules:
   what link_words_in_all_ways and a comparison with gold links give, in one pass over the weights. Sums in float64.

   Compiled on the user's machine at first use. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NORMAL, SHIFTED, SHIFTS };
enum { MERGED, ANY, RULES };
enum { LINKS, SURE, POSSIBLE, COUNTS };

/* Words of all sentences, one after the other: word w has the pieces pieces[starts[w] .. starts[w + 1]), and those of
   sentence b are words[b] .. words[b + 1]. */
typedef struct {
    const int64_t *words, *starts, *pieces;
} words_t;

typedef struct {
    int64_t num_batch, num_heads, num_rows, num_columns, batch_stride, head_stride, row_stride;
    const float *weights;
    const int64_t *source_lengths, *target_lengths; /* with EOS, and with BOS */
    words_t source, target;
    int64_t most_target_words, most_source_words, num_threads;
    const uint8_t *sure, *possible; /* [B, most target words, most source words] */
    int64_t *counts;                /* of each thread: [SHIFTS, RULES, H + 1, COUNTS] */
} call_t;

typedef struct {
    /* the words of each source piece, as lists of entries that count from 1; 0 ends one */
    int32_t *first, *next, *word;
    double *row;     /* of one query */
    double *columns; /* [queries, source words]: each row, summed over the pieces of words */
    double *sums;    /* of a target word's rows */
    int64_t *best;   /* of each row the piece with the largest weight above 0, the first of equal ones; -1: none */
    uint8_t *linked; /* whether a source word belongs to the target word, by the rule ANY; zeros between words */
} scratch_t;

static int make_scratch(scratch_t *s, const call_t *c) {
    const size_t words = (size_t)c->most_source_words + 1, rows = (size_t)c->num_rows + 1;
    s->row = malloc(sizeof(double) * ((size_t)c->num_columns + 1));
    s->columns = malloc(sizeof(double) * rows * words);
    s->sums = malloc(sizeof(double) * words);
    s->best = malloc(sizeof(int64_t) * rows);
    s->linked = calloc(words, 1);
    int64_t entries = 0; /* of a sentence */
    for (int64_t b = 0; b < c->num_batch; b++) {
        const int64_t found = c->source.starts[c->source.words[b + 1]] - c->source.starts[c->source.words[b]];
        entries = found > entries ? found : entries;
    }
    s->first = malloc(sizeof(int32_t) * (size_t)(c->num_columns + 2 * (entries + 1)));
    s->next = s->first + c->num_columns;
    s->word = s->next + entries + 1;
    return !s->row || !s->columns || !s->sums || !s->best || !s->linked || !s->first;
}

static void free_scratch(scratch_t *s) {
    free(s->row);
    free(s->columns);
    free(s->sums);
    free(s->best);
    free(s->linked);
    free(s->first);
}

/* The words of each source piece: nearly always one, but a piece may straddle two. */
static void list_words(const call_t *c, scratch_t *s, int64_t b) {
    const int64_t start = c->source.starts[c->source.words[b]];
    memset(s->first, 0, sizeof(int32_t) * (size_t)c->num_columns);
    for (int64_t w = c->source.words[b]; w < c->source.words[b + 1]; w++)
        for (int64_t k = c->source.starts[w]; k < c->source.starts[w + 1]; k++) {
            const int64_t entry = k - start + 1, piece = c->source.pieces[k];
            s->word[entry] = (int32_t)(w - c->source.words[b]);
            s->next[entry] = s->first[piece];
            s->first[piece] = (int32_t)entry;
        }
}

/* A row of head h, or the sum over heads, which is largest where the mean is. */
static void read_row(const call_t *c, scratch_t *s, int64_t b, int64_t h, int64_t q, int64_t size) {
    const float *from = c->weights + b * c->batch_stride + q * c->row_stride;
    if (h < c->num_heads) {
        from += h * c->head_stride;
        for (int64_t j = 0; j < size; j++) s->row[j] = from[j];
        return;
    }
    memset(s->row, 0, sizeof(double) * (size_t)size);
    for (int64_t i = 0; i < c->num_heads; i++, from += c->head_stride)
        for (int64_t j = 0; j < size; j++) s->row[j] += from[j];
}

/* Of all rows of a sentence the best piece, and the weights of the source's words. */
static void read_rows(const call_t *c, scratch_t *s, int64_t b, int64_t h) {
    const int64_t size = c->source_lengths[b] - 1; /* EOS is no word */
    const int64_t first = c->source.words[b], num_words = c->source.words[b + 1] - first;
    const int64_t *starts = c->source.starts + first, *pieces = c->source.pieces;
    for (int64_t q = 0; q < c->target_lengths[b]; q++) {
        read_row(c, s, b, h, q, size);
        double top = 0;
        s->best[q] = -1;
        for (int64_t j = 0; j < size; j++)
            if (s->row[j] > top) top = s->row[j], s->best[q] = j;
        for (int64_t w = 0; w < num_words; w++) {
            double sum = 0;
            for (int64_t k = starts[w]; k < starts[w + 1]; k++) sum += s->row[pieces[k]];
            s->columns[q * num_words + w] = sum;
        }
    }
}

/* The source word with the largest sum over rows, if that is above 0, the first of equal ones; else -1. */
static int64_t merged_link(scratch_t *s, int64_t num_words, const int64_t *rows, int64_t num_rows, int64_t shift) {
    if (num_rows == 0) return -1;
    const double *sums = s->columns + (rows[0] + shift) * num_words;
    if (num_rows > 1) {
        memcpy(s->sums, sums, sizeof(double) * (size_t)num_words);
        sums = s->sums;
        for (int64_t i = 1; i < num_rows; i++) {
            const double *row = s->columns + (rows[i] + shift) * num_words;
            for (int64_t w = 0; w < num_words; w++) s->sums[w] += row[w];
        }
    }
    int64_t best = -1;
    double top = 0;
    for (int64_t w = 0; w < num_words; w++)
        if (sums[w] > top) top = sums[w], best = w;
    return best;
}

static void count(int64_t *to, const uint8_t *sure, const uint8_t *possible, int64_t word) {
    to[LINKS]++;
    to[SURE] += sure[word];
    to[POSSIBLE] += possible[word];
}

static void count_sentence(const call_t *c, scratch_t *s, int64_t b, int64_t h, int64_t *counts) {
    const int64_t num_words = c->source.words[b + 1] - c->source.words[b], first = c->target.words[b];
    read_rows(c, s, b, h);
    for (int64_t word = first; word < c->target.words[b + 1]; word++) {
        const int64_t *rows = c->target.pieces + c->target.starts[word];
        const int64_t num_rows = c->target.starts[word + 1] - c->target.starts[word];
        const int64_t place = (b * c->most_target_words + word - first) * c->most_source_words;
        const uint8_t *sure = c->sure + place, *possible = c->possible + place;
        for (int64_t shift = 0; shift < SHIFTS; shift++) {
            int64_t *to = counts + (shift * RULES * (c->num_heads + 1) + h) * COUNTS;
            const int64_t link = merged_link(s, num_words, rows, num_rows, shift);
            if (link >= 0) count(to, sure, possible, link);
            to += ANY * (c->num_heads + 1) * COUNTS;
            for (int64_t i = 0; i < num_rows; i++) {
                const int64_t best = s->best[rows[i] + shift];
                for (int32_t e = best < 0 ? 0 : s->first[best]; e; e = s->next[e]) {
                    if (!s->linked[s->word[e]]) count(to, sure, possible, s->word[e]);
                    s->linked[s->word[e]] = 1;
                }
            }
            for (int64_t i = 0; i < num_rows; i++) { /* and none is linked again */
                const int64_t best = s->best[rows[i] + shift];
                for (int32_t e = best < 0 ? 0 : s->first[best]; e; e = s->next[e]) s->linked[s->word[e]] = 0;
            }
        }
    }
}

/* 0, or 1 if there is no memory. */
int rela_count_links(const call_t *c) {
    int failed = 0;
#pragma omp parallel num_threads((int)c->num_threads) reduction(| : failed)
    {
        scratch_t s;
        failed |= make_scratch(&s, c);
#pragma omp for schedule(static)
        for (int64_t t = 0; t < c->num_threads; t++) {
            if (failed) continue;
            int64_t *counts = c->counts + t * SHIFTS * RULES * (c->num_heads + 1) * COUNTS;
            for (int64_t b = t; b < c->num_batch; b += c->num_threads) {
                list_words(c, &s, b);
                for (int64_t h = 0; h <= c->num_heads; h++) count_sentence(c, &s, b, h, counts);
            }
        }
        free_scratch(&s);
    }
    return failed;
}
