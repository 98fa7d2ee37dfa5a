/* The kernels on many shapes, masks and densities, for sanitizers and valgrind: every buffer here is as large as the
   tensors say and no larger, and every result is compared with plain loops. */

#include "native.cpp"

#include <cstdio>
#include <random>
#include <vector>

using namespace rela_native;

static std::mt19937 generator(1);

static std::vector<float> numbers(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> x((size_t)count);
    for (float &y : x) y = normal(generator);
    return x;
}

struct Case {
    int64_t batch, heads, key_heads, tq, tk;
    int kd, vd;
    double threshold, dropout;
    bool causal, bias, thresholds;
    int mask; /* 0 none, 1 by key, 2 by place */
};

/* Contiguous [B, T, H, d] seen as [B, H, T, d], as the projections leave it. */
static Strided heads_last(std::vector<float> &x, int64_t heads, int64_t rows, int dim) {
    Strided s;
    s.data = x.data(), s.batch = heads * rows * dim, s.head = dim, s.row = heads * dim, s.col = 1;
    return s;
}

static double run_with(const Case &c, bool noted) {
    auto q = numbers(c.batch * c.heads * c.tq * c.kd), k = numbers(c.batch * c.key_heads * c.tk * c.kd);
    auto v = numbers(c.batch * c.key_heads * c.tk * c.vd), grad = numbers(c.batch * c.heads * c.tq * c.vd);
    std::vector<float> out(grad.size()), dq(q.size()), dk(k.size()), dv(v.size()), thresholds((size_t)c.heads);
    std::vector<float> weights((size_t)(c.batch * c.heads * c.tq * c.tk)), factors(weights.size());
    std::vector<double> d_thresholds((size_t)(c.batch * c.heads));
    const int64_t places = c.mask == 2 ? c.tq : 1;
    std::vector<uint8_t> allowed((size_t)(c.batch * places * c.tk));
    for (auto &x : allowed) x = generator() % 4 != 0;
    auto bias = numbers(c.tq * c.tk);
    std::fill(thresholds.begin(), thresholds.end(), (float)c.threshold);

    Call call{};
    call.num_batch = c.batch, call.num_heads = c.heads, call.num_key_heads = c.key_heads;
    call.num_queries = c.tq, call.num_keys = c.tk, call.key_dim = c.kd, call.value_dim = c.vd;
    call.query = heads_last(q, c.heads, c.tq, c.kd), call.key = heads_last(k, c.key_heads, c.tk, c.kd);
    call.value = heads_last(v, c.key_heads, c.tk, c.vd), call.output = heads_last(out, c.heads, c.tq, c.vd);
    call.grad = heads_last(grad, c.heads, c.tq, c.vd), call.d_query = heads_last(dq, c.heads, c.tq, c.kd);
    call.d_key = heads_last(dk, c.key_heads, c.tk, c.kd), call.d_value = heads_last(dv, c.key_heads, c.tk, c.vd);
    call.weights.data = weights.data(), call.weights.batch = c.heads * c.tq * c.tk, call.weights.head = c.tq * c.tk;
    call.weights.row = c.tk, call.weights.col = 1;
    if (c.mask) call.allowed.data = allowed.data(), call.allowed.batch = places * c.tk, call.allowed.col = 1;
    if (c.mask == 2) call.allowed.row = c.tk;
    if (c.bias) call.bias.data = bias.data(), call.bias.row = c.tk, call.bias.col = 1;
    if (c.thresholds) call.thresholds = thresholds.data();
    call.threshold = c.thresholds ? 0.0 : c.threshold;
    call.is_causal = c.causal, call.scale = 1 / std::sqrt((double)c.kd);
    call.seed = 12345, call.dropout_p = c.dropout, call.num_threads = 2;
    std::vector<uint64_t> signs(noted ? (size_t)(c.batch * c.heads * call.noted_tiles() * c.tq) : 0);
    if (noted) call.signs = signs.data();
    if (!relu_forward(call)) return 1e9;
    call.weights.data = nullptr;
    call.d_thresholds = d_thresholds.data();
    if (!relu_backward(call)) return 1e9;
    Call shown = call;
    shown.output.data = factors.data(), shown.output.batch = c.heads * c.tq * c.tk, shown.output.head = c.tq * c.tk;
    shown.output.row = c.tk, shown.output.col = 1;
    if (c.dropout > 0) dropout_factors(shown);
    else std::fill(factors.begin(), factors.end(), 1.0f);

    std::vector<double> edq(q.size()), edk(k.size()), edv(v.size());
    double worst = 0;
    const int64_t group = c.heads / c.key_heads;
    for (int64_t b = 0; b < c.batch; b++)
        for (int64_t h = 0; h < c.heads; h++) {
            const int64_t g = h / group;
            for (int64_t i = 0; i < c.tq; i++) {
                const float *qi = q.data() + ((b * c.tq + i) * c.heads + h) * c.kd;
                const float *di = grad.data() + ((b * c.tq + i) * c.heads + h) * c.vd;
                std::vector<double> sum((size_t)c.vd);
                for (int64_t j = 0; j < c.tk; j++) {
                    const float *kj = k.data() + ((b * c.tk + j) * c.key_heads + g) * c.kd;
                    const float *vj = v.data() + ((b * c.tk + j) * c.key_heads + g) * c.vd;
                    const size_t place = (size_t)(((b * c.heads + h) * c.tq + i) * c.tk + j);
                    double s = 0, dp = 0;
                    for (int x = 0; x < c.kd; x++) s += (double)qi[x] * kj[x];
                    s = s * call.scale - c.threshold + (c.bias ? bias[(size_t)(i * c.tk + j)] : 0.0f);
                    const bool seen = (!c.causal || j <= i) &&
                                      (!c.mask || allowed[(size_t)((b * places + (c.mask == 2 ? i : 0)) * c.tk + j)]);
                    /* the kernel's own sign near zero: a score there may round to either side */
                    const bool positive = std::fabs(s) < 1e-5 ? weights[place] > 0 : s > 0 && seen;
                    const double w = positive ? std::max(s, 0.0) : 0.0, f = factors[place];
                    worst = std::max(worst, std::fabs(w - weights[place]));
                    for (int x = 0; x < c.vd; x++) sum[(size_t)x] += w * f * vj[x], dp += (double)di[x] * vj[x];
                    const double ds = positive ? dp * f : 0.0;
                    for (int x = 0; x < c.kd; x++) {
                        edq[(size_t)(qi - q.data() + x)] += ds * call.scale * kj[x];
                        edk[(size_t)(kj - k.data() + x)] += ds * call.scale * qi[x];
                    }
                    for (int x = 0; x < c.vd; x++) edv[(size_t)(vj - v.data() + x)] += w * f * di[x];
                }
                for (int x = 0; x < c.vd; x++)
                    worst = std::max(worst, std::fabs(sum[(size_t)x] - out[(size_t)(di - grad.data() + x)]));
            }
        }
    for (size_t x = 0; x < q.size(); x++) worst = std::max(worst, std::fabs(edq[x] - dq[x]));
    for (size_t x = 0; x < k.size(); x++) worst = std::max(worst, std::fabs(edk[x] - dk[x]));
    for (size_t x = 0; x < v.size(); x++) worst = std::max(worst, std::fabs(edv[x] - dv[x]));
    return worst;
}

/* With the signs noted for the backward pass, and without. */
static double run(const Case &c) { return std::max(run_with(c, false), run_with(c, true)); }

static double run_norm(int64_t rows, int64_t dim, bool gated) {
    auto x = numbers(rows * dim), weight = numbers(dim), gate = numbers(dim), grad = numbers(rows * dim);
    std::vector<float> y(x.size()), inverse((size_t)rows), dx(x.size()), partial((size_t)(2 * 2 * dim));
    const float *g = gated ? gate.data() : nullptr;
    rms_norm_forward(x.data(), weight.data(), g, y.data(), inverse.data(), rows, dim, 1e-6, 2);
    rms_norm_backward(grad.data(), x.data(), weight.data(), g, inverse.data(), dx.data(), partial.data(), rows, dim, 2, 2);
    double worst = 0;
    for (int64_t r = 0; r < rows; r++) {
        double squares = 0;
        for (int64_t d = 0; d < dim; d++) squares += (double)x[(size_t)(r * dim + d)] * x[(size_t)(r * dim + d)];
        for (int64_t d = 0; d < dim; d++) {
            const double value = x[(size_t)(r * dim + d)];
            const double open = gated ? 1 / (1 + std::exp(-value * gate[(size_t)d])) : 1;
            const double expected = open * value * weight[(size_t)d] / std::sqrt(squares / (double)dim + 1e-6);
            worst = std::max(worst, std::fabs(expected - y[(size_t)(r * dim + d)]));
        }
    }
    return worst;
}

int main() {
    double worst = 0;
    const int64_t sizes[][2] = {{1, 1}, {3, 2}, {17, 5}, {64, 64}, {65, 63}, {130, 200}, {1, 300}, {600, 70}};
    const int dims[][2] = {{1, 1}, {5, 9}, {64, 64}, {33, 16}, {128, 128}, {96, 40}};
    const double thresholds[] = {0.0, 1.0, -3.0, 5.0};
    int cases = 0;
    for (const auto &size : sizes)
        for (const auto &dim : dims)
            for (const double threshold : thresholds) {
                const int kind = cases++;
                if (size[0] * size[1] > 5000 && kind % 3) continue;
                const Case c = {1 + kind % 2, 2, kind % 5 == 0 ? 1 : 2, size[0], size[1], dim[0], dim[1], threshold,
                                kind % 4 == 1 ? 0.3 : 0.0, kind % 3 == 1, kind % 7 == 2, kind % 2 == 1, kind % 3};
                worst = std::max(worst, run(c));
            }
    worst = std::max(worst, run({1, 1, 1, 70, 1100, 16, 16, 0.5, 0.1, false, false, true, 0})); /* keys in parts */
    worst = std::max(worst, run({1, 1, 1, 40, NOTED_KEYS + 100, 8, 8, 1.5, 0.1, false, false, true, 0})); /* some noted */
    for (const int64_t dim : {1, 7, 8, 64, 100})
        for (const int64_t rows : {1, 5, 33})
            worst = std::max({worst, run_norm(rows, dim, true), run_norm(rows, dim, false)});
    std::vector<float> x = numbers(10001), y = numbers(10001), out(10001);
    dropout_add(x.data(), y.data(), out.data(), 10001, 7, 0.5, 2);
    dropout_add(nullptr, y.data(), out.data(), 10001, 7, 0.5, 2);
    std::printf("%d cases, greatest difference %g\n", cases, worst);
    return worst < 2e-3 ? 0 : 1;
}
