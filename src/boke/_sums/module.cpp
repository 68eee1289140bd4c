// The Python module boke._native: observations in the layout of the hot loop, and a call that sums over them.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cells.hpp"
#include "kernel.hpp"
#include "local_gp.hpp"
#include "nearest.hpp"

namespace nb = nanobind;
using namespace boke;

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Flags = nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Result = nb::ndarray<nb::numpy, double>;

namespace {

constexpr std::size_t ALIGNMENT = LANES * sizeof(double);

// Doubles at an address that vector loads like; all of them 0 at first.
class Column {
  public:
    explicit Column(std::size_t n) : size_(n), data_(static_cast<double *>(::operator new(n * sizeof(double) + ALIGNMENT, std::align_val_t{ALIGNMENT}))) {
        std::fill(data_, data_ + n, 0.0);
    }
    ~Column() { ::operator delete(data_, std::align_val_t{ALIGNMENT}); }
    Column(const Column &) = delete;
    Column &operator=(const Column &) = delete;
    double *get() const { return data_; }
    std::size_t bytes() const { return size_ * sizeof(double); }

  private:
    std::size_t size_;
    double *data_;
};

struct Choice {
    Evaluate evaluate;
    Distances distances;
    Screen screen;
    Rise rise;
    const char *name;
};

std::vector<Choice> available() {
    std::vector<Choice> all;
#ifdef BOKE_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) all.push_back({evaluate_avx512, distances_avx512, screen_avx512, rise_avx512, "avx512"});
    if (__builtin_cpu_supports("avx2")) all.push_back({evaluate_avx2, distances_avx2, screen_avx2, rise_avx2, "avx2"});
#endif
    all.push_back({evaluate_baseline, distances_baseline, screen_baseline, rise_baseline, "baseline"});
    return all;
}

Choice pick(const std::string &name) {
    for (const Choice &choice : available())
        if (name.empty() || name == choice.name) return choice;
    throw std::invalid_argument("This machine has no instruction set '" + name + "'.");
}

Result array(double *data, std::initializer_list<std::size_t> shape, nb::handle owner) {
    return Result(data, shape.size(), shape.begin(), owner);
}

Result made(std::vector<double> &&values, std::initializer_list<std::size_t> shape) {
    auto *kept = new std::vector<double>(std::move(values));
    nb::capsule owner(kept, [](void *memory) noexcept { delete static_cast<std::vector<double> *>(memory); });
    return array(kept->data(), shape, owner);
}

// A point at a distance of `reach` bandwidths (d) from one of the centers (m, d), inside the unit cube. `which` in [0, 1)
// chooses the center and a column that moves; without `chance` (d) all columns move.
void move(const double *centers, std::size_t m, const double *which, const double *chance, const double *step, double reach,
          const double *bandwidth, std::size_t d, double *to) {
    const double *start = centers + static_cast<std::size_t>(which[0] * static_cast<double>(m)) * d;
    const std::size_t any = static_cast<std::size_t>(which[1] * static_cast<double>(d));
    const double share = 2.0 / static_cast<double>(d);
    double square = 0.0;
    for (std::size_t k = 0; k < d; ++k) {
        to[k] = chance && k != any && !(chance[k] < share) ? 0.0 : step[k];
        square += to[k] * to[k];
    }
    const double length = reach / std::sqrt(square);
    for (std::size_t k = 0; k < d; ++k) to[k] = std::min(std::max(start[k] + to[k] * (length * bandwidth[k]), 0.0), 1.0);
}

// The numbers of the `most` largest values, the largest first and equal ones by number.
std::vector<std::size_t> largest(const std::vector<double> &values, std::size_t most) {
    std::vector<double> some = values;
    std::vector<std::size_t> rows;
    if (most == 0) return rows;
    std::nth_element(some.begin(), some.begin() + (most - 1), some.end(), std::greater<double>());
    for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i] >= some[most - 1]) rows.push_back(i);
    std::stable_sort(rows.begin(), rows.end(), [&](std::size_t i, std::size_t j) { return values[i] > values[j]; });
    rows.resize(most);
    return rows;
}

class Sums {
  public:
    Sums(int kernel, Matrix z, Matrix codes, Vector y, Vector w, Vector penalty, const std::string &instructions)
        : t_(z.shape(0)), p_(z.shape(1)), c_(codes.shape(1)), groups_((t_ + LANES - 1) / LANES),
          z_(groups_ * p_ * LANES), codes_(groups_ * c_ * LANES), y_(groups_ * LANES), w_(groups_ * LANES),
          penalty_(c_), kernel_(static_cast<Kernel>(kernel)), choice_(pick(instructions)) {
        if (kernel < GAUSSIAN || kernel > QUARTIC) throw std::invalid_argument("Unknown kernel.");
        if (codes.shape(0) != t_ || y.shape(0) != t_ || w.shape(0) != t_ || penalty.shape(0) != c_)
            throw std::invalid_argument("Shapes of the observations do not agree.");
        fill(z, p_, z_.get());
        fill(codes, c_, codes_.get());
        std::copy(y.data(), y.data() + t_, y_.get());
        std::copy(w.data(), w.data() + t_, w_.get());
        std::copy(penalty.data(), penalty.data() + c_, penalty_.get());
    }

    // (W, S, mean, log W), or with the gradients dW, dmean, dlog W behind them.
    nb::tuple evaluate(Matrix z, Matrix codes, bool gradient, bool leave_one_out, std::size_t threads) const {
        const std::size_t n = z.shape(0);
        if (z.shape(1) != p_ || codes.shape(0) != n || codes.shape(1) != c_)
            throw std::invalid_argument("Shapes of the queries do not agree with the observations.");
        const std::size_t width = n * (gradient ? 5 + 3 * p_ : 5);
        double *out = new double[std::max<std::size_t>(width, 1)];
        nb::capsule owner(out, [](void *memory) noexcept { delete[] static_cast<double *>(memory); });
        const Data data = this->data();
        {
            nb::gil_scoped_release unlocked;
            const std::size_t workers = std::clamp<std::size_t>(threads, 1, std::max<std::size_t>(n, 1));
            std::vector<std::thread> pool;
            for (std::size_t k = 1; k < workers; ++k)
                pool.emplace_back([&, k] { part(data, z.data(), codes.data(), out, n, gradient, leave_one_out, k, workers); });
            part(data, z.data(), codes.data(), out, n, gradient, leave_one_out, 0, workers);
            for (std::thread &thread : pool) thread.join();
        }
        auto column = [&](std::size_t k) { return array(out + k * n, {n}, owner); };
        auto matrix = [&](std::size_t k) { return array(out + 5 * n + k * n * p_, {n, p_}, owner); };
        if (!gradient) return nb::make_tuple(column(0), column(1), column(2), column(3));
        return nb::make_tuple(column(0), column(1), column(2), column(3), matrix(0), matrix(1), matrix(2));
    }

    // The best candidates for the maximum of m + beta (W + rho)^(-1/2), or of m alone, the best first, by values in single
    // precision. Candidates are `cube`, `extra` and points around `centers`, all (., p); see boke.argmax. All weights are 1.
    Result screen(Sums *silent, Matrix cube, Matrix extra, Matrix centers, Matrix which, Matrix chance, Matrix step,
                     Vector bandwidth, double beta, double rho, double rim, std::size_t rims, std::size_t few, double leash, std::size_t most) {
        const std::size_t n = which.shape(0), m = centers.shape(0), near = n - 2 * rims, total = cube.shape(0) + extra.shape(0) + n;
        for (const std::size_t width : {cube.shape(1), extra.shape(1), centers.shape(1), chance.shape(1), step.shape(1), bandwidth.shape(0)})
            if (width != p_) throw std::invalid_argument("Shapes do not agree.");
        if (which.shape(1) != 3 || step.shape(0) != n || chance.shape(0) != (n + 1) / 2 || 2 * rims > n || (n && !m) || c_ != 0 || (silent && silent->p_ != p_))
            throw std::invalid_argument("Shapes do not agree.");
        const Rough seen = rough(), hush = silent ? silent->rough() : Rough{0, p_, 0.0, nullptr};
        most = std::min(most, total);
        std::vector<double> x(total * p_), values(total), points(most * p_);
        {
            nb::gil_scoped_release unlocked;
            const Column work((p_ + std::max(seen.t, hush.t)) * LANES);
            const double decades = std::log(4.0 * leash);
            std::size_t made = 0, valued = 0;
            auto add = [&](const Matrix &rows) {
                std::copy(rows.data(), rows.data() + rows.size(), x.data() + made * p_);
                made += rows.shape(0);
            };
            auto around = [&](std::size_t first, std::size_t last, std::size_t among) {
                for (std::size_t i = first; i < last; ++i, ++made) {
                    const double u = which.data()[3 * i + 2];
                    const double reach = i < near ? 0.25 * std::exp(decades * u) : rim * (1.0 + 0.4 * u);
                    const double *drawn = (i - first) % 2 ? chance.data() + i / 2 * p_ : nullptr;
                    move(centers.data(), among, which.data() + 3 * i, drawn, step.data() + i * p_, reach, bandwidth.data(), p_, x.data() + made * p_);
                }
            };
            auto evaluate = [&] {
                choice_.screen(seen, hush, x.data() + valued * p_, made - valued, bandwidth.data(), beta, rho, values.data() + valued, work.get());
                valued = made;
            };
            add(cube);
            around(0, near, std::min(few, m));
            add(extra);
            around(near, near + rims, m);
            evaluate();
            if (rims) {
                const double *top = x.data() + (std::max_element(values.begin(), values.begin() + valued) - values.begin()) * p_;
                around(near + rims, n, nearest(centers.data(), m, top, bandwidth.data()) + 1);
                evaluate();
            }
            const std::vector<std::size_t> order = largest(values, most);
            for (std::size_t i = 0; i < most; ++i) std::copy_n(x.data() + order[i] * p_, p_, points.data() + i * p_);
        }
        return ::made(std::move(points), {most, p_});
    }

    // Projected gradient ascent of m + beta (W + rho)^(-1/2), or of m alone, from every row of x (n, p): points and values.
    nb::tuple polish(const Sums *silent, Matrix x, Vector bandwidth, Vector scale, double beta, double rho, std::size_t steps,
                     double leash) const {
        const std::size_t n = x.shape(0);
        if (x.shape(1) != p_ || bandwidth.shape(0) != p_ || scale.shape(0) != p_ || c_ != 0 || (silent && silent->p_ != p_))
            throw std::invalid_argument("Shapes do not agree.");
        std::vector<double> points(x.data(), x.data() + n * p_), values(n);
        {
            nb::gil_scoped_release unlocked;
            Climber climber{*this, silent, bandwidth.data(), scale.data(), beta, rho};
            for (std::size_t i = 0; i < n; ++i) values[i] = climber.climb(points.data() + i * p_, steps, leash);
        }
        return nb::make_tuple(made(std::move(points), {n, p_}), made(std::move(values), {n}));
    }

    std::size_t bytes() const { return z_.bytes() + codes_.bytes() + y_.bytes() + w_.bytes() + penalty_.bytes() + rough_.size() * sizeof(float); }

  private:
    Data data() const { return {kernel_, t_, groups_, p_, c_, z_.get(), codes_.get(), y_.get(), w_.get(), penalty_.get()}; }

    // One ascent at a time, with the memory that it needs.
    struct Climber {
        const Sums &seen;
        const Sums *silent;
        const double *bandwidth, *scale;
        double beta, rho;
        std::size_t p = seen.p_;
        Column work{rise_room(seen.groups_ + (silent ? silent->groups_ : 0))};
        Data data = seen.data(), hush = (silent ? silent : &seen)->data();
        std::vector<double> z = std::vector<double>(p);

        double value(const double *x, double *slope) {
            for (std::size_t k = 0; k < p; ++k) z[k] = x[k] / bandwidth[k];
            const double found = seen.choice_.rise(data, silent ? &hush : nullptr, z.data(), beta, rho, slope, work.get());
            for (std::size_t k = 0; k < p; ++k) slope[k] /= bandwidth[k];
            return found;
        }

        double climb(double *x, std::size_t steps, double leash) {
            const std::vector<double> start(x, x + p);
            std::vector<double> slope(p), there(p), trial(p);
            double best = value(x, slope.data()), length = 0.5;
            for (std::size_t step = 1; step < steps; ++step) {
                double square = 0.0, away = 0.0;
                for (std::size_t k = 0; k < p; ++k) {
                    const double up = slope[k] * scale[k];
                    trial[k] = (up < 0.0 ? x[k] <= 0.0 : x[k] >= 1.0) ? 0.0 : up;
                    square += trial[k] * trial[k];
                }
                const double norm = std::sqrt(square);
                if (!(norm > 1e-12 && length > 0.05)) break;
                for (std::size_t k = 0; k < p; ++k) {
                    trial[k] = std::clamp(x[k] + trial[k] * (length / norm) * scale[k], 0.0, 1.0);
                    const double moved = (trial[k] - start[k]) / (scale[k] > 0.0 ? scale[k] : 1.0);
                    away += moved * moved;
                }
                double found = best;
                const bool gain = away <= leash * leash && (found = value(trial.data(), there.data())) > best;
                if (gain) {
                    std::copy(trial.begin(), trial.end(), x);
                    slope.swap(there);
                    best = found;
                }
                length *= gain ? 1.5 : 0.35;
            }
            return best;
        }
    };

    // The number of the first of the nearest centers.
    std::size_t nearest(const double *centers, std::size_t m, const double *x, const double *bandwidth) const {
        std::size_t best = 0;
        double least = HUGE_VAL;
        for (std::size_t i = 0; i < m; ++i) {
            double square = 0.0;
            for (std::size_t k = 0; k < p_; ++k) {
                const double away = (centers[i * p_ + k] - x[k]) / bandwidth[k];
                square += away * away;
            }
            if (square < least) least = square, best = i;
        }
        return best;
    }

    // Single precision, made when it is first asked for.
    Rough rough() {
        const auto ends = std::minmax_element(y_.get(), y_.get() + t_);
        const double middle = t_ ? 0.5 * *ends.first + 0.5 * *ends.second : 0.0;
        if (rough_.empty()) {
            rough_.resize(t_ * (p_ + 1));
            float *to = rough_.data();
            for (std::size_t i = 0; i < t_; ++i) {
                for (std::size_t k = 0; k < p_; ++k) *to++ = static_cast<float>(z_.get()[((i / LANES) * p_ + k) * LANES + i % LANES]);
                *to++ = static_cast<float>(y_.get()[i] - middle);
            }
        }
        return {t_, p_, middle, rough_.data()};
    }

    // The queries of worker k: a contiguous share, so that every sum is the same whatever the number of workers.
    void part(const Data &data, const double *z, const double *codes, double *out, std::size_t n, bool gradient,
              bool leave_one_out, std::size_t k, std::size_t workers) const {
        const std::size_t first = n * k / workers, last = n * (k + 1) / workers;
        const Column scratch(gradient ? 2 * p_ * LANES : 0);
        double *slopes = gradient ? out + 5 * n + first * p_ : nullptr;
        choice_.evaluate(data, Queries{last - first, z + first * p_, codes + first * c_,
                                       leave_one_out ? static_cast<std::ptrdiff_t>(first) : -1, out + first,
                                       out + n + first, out + 2 * n + first, out + 3 * n + first, out + 4 * n + first,
                                       slopes, slopes ? slopes + n * p_ : nullptr, slopes ? slopes + 2 * n * p_ : nullptr,
                                       scratch.get()});
    }

    void fill(const Matrix &from, std::size_t columns, double *to) const {
        const double *rows = from.data();
        for (std::size_t i = 0; i < t_; ++i)
            for (std::size_t k = 0; k < columns; ++k)
                to[((i / LANES) * columns + k) * LANES + i % LANES] = rows[i * columns + k];
    }

    std::size_t t_, p_, c_, groups_;
    Column z_, codes_, y_, w_, penalty_;
    std::vector<float> rough_;
    Kernel kernel_;
    Choice choice_;
};

nb::ndarray<nb::numpy, std::uint64_t> row_keys(Matrix rows, nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig> multipliers) {
    const std::size_t n = rows.shape(0), d = rows.shape(1);
    if (multipliers.shape(0) != d) throw std::invalid_argument("There must be a multiplier for each column.");
    auto *keys = new std::uint64_t[std::max<std::size_t>(n, 1)];
    nb::capsule owner(keys, [](void *memory) noexcept { delete[] static_cast<std::uint64_t *>(memory); });
    for (std::size_t i = 0; i < n; ++i) {
        std::uint64_t mixed = 0;
        for (std::size_t j = 0; j < d; ++j) {
            const double value = rows.data()[i * d + j] + 0.0;  // -0.0 becomes 0.0
            std::uint64_t bits;
            std::memcpy(&bits, &value, sizeof bits);
            mixed += (bits ^ (bits >> 29)) * multipliers.data()[j];
        }
        mixed = (mixed ^ (mixed >> 32)) * 0x9E3779B97F4A7C15u;
        keys[i] = mixed ^ (mixed >> 29);
    }
    return {keys, {n}, owner};
}

Result shifted(nb::ndarray<const std::uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> points,
               nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> shift) {
    const std::size_t n = points.shape(0), d = points.shape(1);
    if (shift.shape(0) != d) throw std::invalid_argument("Shapes do not agree.");
    std::vector<double> result(n * d);
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t k = 0; k < d; ++k)
            result[i * d + k] = (static_cast<double>(points.data()[i * d + k] ^ shift.data()[k]) + 0.5) * 0x1p-32;
    return made(std::move(result), {n, d});
}

Result uniform(nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> numbers, std::uint64_t salt) {
    std::vector<double> result(numbers.shape(0));
    for (std::size_t i = 0; i < result.size(); ++i) {
        std::uint64_t mixed = (static_cast<std::uint64_t>(numbers.data()[i]) ^ salt) * 0x9E3779B97F4A7C15u;
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
        mixed ^= mixed >> 31;
        result[i] = static_cast<double>(mixed >> 11) * 0x1p-53;
    }
    const std::size_t n = result.size();
    return made(std::move(result), {n});
}

// Squared distances (n, m) of rows from others, or the largest of their differences.
Result distances(Matrix x, Matrix others, bool largest, const std::string &instructions) {
    const std::size_t n = x.shape(0), m = others.shape(0), d = x.shape(1);
    if (others.shape(1) != d) throw std::invalid_argument("Shapes do not agree.");
    std::vector<double> result(n * m), work(d * LANES);
    {
        nb::gil_scoped_release unlocked;
        pick(instructions).distances(x.data(), n, others.data(), m, d, largest, result.data(), work.data());
    }
    return made(std::move(result), {n, m});
}

using Numbers = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;

template <double (*function)(double)>
Result each(Numbers x) {
    auto *values = new std::vector<double>(x.data(), x.data() + x.size());
    nb::capsule owner(values, [](void *memory) noexcept { delete static_cast<std::vector<double> *>(memory); });
    for (double &value : *values) value = function(value);
    std::vector<std::size_t> shape(x.ndim());
    for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = x.shape(i);
    return Result(values->data(), shape.size(), shape.data(), owner);
}

// Corners (k, 2) of all cells and the sites (k) that they belong to.
nb::tuple voronoi(Matrix sites, Flags wanted, double width, double height) {
    if (sites.shape(1) != 2 || wanted.shape(0) != sites.shape(0)) throw std::invalid_argument("Sites must lie in a plane.");
    const std::vector<Corner> found = cells(sites.data(), sites.shape(0), wanted.data(), width, height);
    const std::size_t k = found.size();
    std::vector<double> corners(2 * k);
    auto *owners = new std::int64_t[std::max<std::size_t>(k, 1)];
    nb::capsule owner(owners, [](void *memory) noexcept { delete[] static_cast<std::int64_t *>(memory); });
    for (std::size_t i = 0; i < k; ++i) {
        corners[2 * i] = found[i].x, corners[2 * i + 1] = found[i].y;
        owners[i] = static_cast<std::int64_t>(found[i].site);
    }
    return nb::make_tuple(made(std::move(corners), {k, 2}), nb::ndarray<nb::numpy, std::int64_t>(owners, {k}, owner));
}

// (side, at, second) of boke.region.Search; the rule: start, grow, shrink, settled, largest and smallest side
nb::tuple replay(Flags successes, Vector values, Flags aside, std::size_t patience, const std::vector<double> &rule) {
    const std::size_t n = successes.shape(0);
    if (values.shape(0) != n || aside.shape(0) != n || rule.size() != 6) throw std::invalid_argument("Shapes do not agree.");
    const double start = rule[0], grow = rule[1], shrink = rule[2], settled = rule[3], largest = rule[4], smallest = rule[5];
    double side = start, second = 0.0;
    std::size_t failures = 0;
    std::int64_t at = -1;
    for (std::size_t i = 0; i < n; ++i) {
        const bool success = successes.data()[i];
        if (aside.data()[i] && side < settled) {
            if (success) {
                side = start, failures = 0, at = -1;
            } else if (at < 0) {
                at = static_cast<std::int64_t>(i), second = start;
            } else if (values.data()[i] > values.data()[at]) {
                at = static_cast<std::int64_t>(i), second = std::min(largest, second * grow);
            } else {
                second *= shrink;
                if (second < settled) at = -1;
            }
        } else if (success) {
            side = std::min(largest, side * grow), failures = 0;
        } else if (++failures >= patience) {
            side *= shrink, failures = 0;
            if (side < smallest) side = start;
        }
    }
    return nb::make_tuple(side, at, second);
}

// The first `count` rows, passing over those that are not farther than `gap` from a chosen one.
std::vector<std::size_t> spread(Matrix rows, double gap, std::size_t count) {
    const std::size_t n = rows.shape(0), d = rows.shape(1);
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < n && chosen.size() < count; ++i) {
        bool far = true;
        for (const std::size_t j : chosen) {
            double square = 0.0;
            for (std::size_t k = 0; k < d; ++k) {
                const double away = rows.data()[j * d + k] - rows.data()[i * d + k];
                square += away * away;
            }
            far = far && square > gap * gap;
        }
        if (far) chosen.push_back(i);
    }
    return chosen;
}

using Codes = nb::ndarray<const std::uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Flags = nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::ndarray<nb::numpy, std::int64_t> nearest_rows(const std::vector<Codes> &copy, Bytes query, Flags alive, std::size_t k, double slack,
                                                  bool largest) {
    std::vector<Piece> pieces;
    std::size_t room = 0;
    for (const Codes &codes : copy) {
        if (codes.shape(1) < query.shape(0) || codes.shape(2) != BLOCK) throw std::invalid_argument("Shapes do not agree.");
        pieces.push_back({codes.data(), codes.shape(0), codes.shape(1)});
        room += codes.shape(0) * BLOCK;
    }
    if (alive.shape(0) > room || k == 0) throw std::invalid_argument("There are not so many points.");
    auto *rows = new std::vector<std::int64_t>(
        nearest(pieces, alive.shape(0), query.data(), query.shape(0), alive.data(), k, slack, largest));
    nb::capsule owner(rows, [](void *memory) noexcept { delete static_cast<std::vector<std::int64_t> *>(memory); });
    return {rows->data(), {rows->size()}, owner};
}

// The eigenvectors of a symmetric matrix (d, d), as columns.
Result eigenvectors(Matrix matrix) {
    const std::size_t d = matrix.shape(0);
    if (matrix.shape(1) != d) throw std::invalid_argument("The matrix must be square.");
    std::vector<double> A(matrix.data(), matrix.data() + d * d), V(d * d, 0.0);
    double small = 0.0;
    for (std::size_t i = 0; i < d; ++i) V[i * d + i] = 1.0;
    for (const double entry : A) small = std::max(small, 1e-15 * std::abs(entry));
    auto rotate = [](double &a, double &b, double cos, double sin) {
        const double first = a * cos + b * -sin;
        b = a * sin + b * cos;
        a = first;
    };
    bool large = true;
    for (int round = 0; large && round < 20; ++round) {
        large = false;
        for (std::size_t i = 0; i < d; ++i)
            for (std::size_t j = i + 1; j < d; ++j) {
                if (!(std::abs(A[i * d + j]) > small)) continue;
                large = true;
                const double cot = (A[j * d + j] - A[i * d + i]) / (2.0 * A[i * d + j]);
                const double tan = std::copysign(1.0, cot) / (std::abs(cot) + std::hypot(1.0, cot));
                const double cos = 1.0 / std::hypot(1.0, tan), sin = tan * cos;
                for (std::size_t k = 0; k < d; ++k) rotate(A[k * d + i], A[k * d + j], cos, sin);
                for (std::size_t k = 0; k < d; ++k) rotate(A[i * d + k], A[j * d + k], cos, sin);
                for (std::size_t k = 0; k < d; ++k) rotate(V[k * d + i], V[k * d + j], cos, sin);
            }
    }
    return made(std::move(V), {d, d});
}

// y (n) is finite and below 1e150; lengths may be infinite.
nb::tuple warped(Vector y, const std::vector<double> &lengths) {
    const std::size_t n = y.shape(0), versions = lengths.size();
    if (n == 0) throw std::invalid_argument("There are no values.");
    std::vector<double> ordered(y.data(), y.data() + n), bent(versions * n), jacobian(versions);
    std::sort(ordered.begin(), ordered.end());
    const double middle = ordered[n / 2], top = ordered[n - 1];
    const double high = ordered[std::min(static_cast<std::size_t>(0.9 * static_cast<double>(n)), n - 1)];
    double unit = std::max(high - middle, 1e-6 * (top - middle));
    unit = unit > 0.0 ? unit : 1.0;
    for (std::size_t v = 0; v < versions; ++v) {
        double *row = bent.data() + v * n, slope = 0.0, mean = 0.0, square = 0.0;
        for (std::size_t i = 0; i < n; ++i) {
            const double r = std::max(y.data()[i] - middle, -1e8 * unit) / unit;
            const double bend = r < 0.0 ? std::log1p(-r / lengths[v]) : 0.0;
            row[i] = bend > 0.0 ? -lengths[v] * bend : r;
            slope -= bend;
            mean += row[i];
        }
        mean /= static_cast<double>(n);
        for (std::size_t i = 0; i < n; ++i) square += (row[i] - mean) * (row[i] - mean);
        const double spread = std::sqrt(square / static_cast<double>(n)), sd = spread > 0.0 ? spread : 1.0;
        for (std::size_t i = 0; i < n; ++i) row[i] = (row[i] - mean) / sd;
        jacobian[v] = slope - static_cast<double>(n) * std::log(sd);
    }
    return nb::make_tuple(made(std::move(bent), {versions, n}), made(std::move(jacobian), {versions}));
}

}  // namespace

NB_MODULE(_native, m) {
    m.doc() = "Compiled kernel sums; boke.sums has their definition.";
    nb::class_<Sums>(m, "Sums")
        .def(nb::init<int, Matrix, Matrix, Vector, Vector, Vector, const std::string &>(), nb::arg("kernel"), nb::arg("z"),
             nb::arg("codes"), nb::arg("y"), nb::arg("w"), nb::arg("penalty"), nb::arg("instructions") = "")
        .def("__call__", &Sums::evaluate, nb::arg("z"), nb::arg("codes"), nb::arg("gradient") = false,
             nb::arg("leave_one_out") = false, nb::arg("threads") = 1)
        .def("screen", &Sums::screen, nb::arg("silent").none(), nb::arg("cube"), nb::arg("extra"), nb::arg("centers"), nb::arg("which"),
             nb::arg("chance"), nb::arg("step"), nb::arg("bandwidth"), nb::arg("beta"), nb::arg("rho"), nb::arg("rim"), nb::arg("rims"),
             nb::arg("few"), nb::arg("leash"), nb::arg("most"), "The best of some candidates; boke.argmax has their definition.")
        .def("polish", &Sums::polish, nb::arg("silent").none(), nb::arg("x"), nb::arg("bandwidth"), nb::arg("scale"), nb::arg("beta"),
             nb::arg("rho"), nb::arg("steps"), nb::arg("leash"), "Ascent of IKR-UCB; boke.argmax has its definition.")
        .def_prop_ro("bytes", &Sums::bytes);
    bind_local_gp(m);
    m.def("row_keys", row_keys, "A 64-bit hash of every row; boke.keys has its definition.");
    m.def("uniform", uniform, "Hashed numbers in [0, 1); boke.keys has their definition.");
    m.def("shifted", shifted, "Sobol points moved by a digital shift; boke.quasirandom has their definition.");
    m.def("warped", warped, "Versions of the values and their log Jacobians; boke.warp has their definition.");
    m.def("distances", distances, nb::arg("x"), nb::arg("others"), nb::arg("largest") = false, nb::arg("instructions") = "",
          "Squared distances, or largest differences; boke.elementary has their definition.");
    m.def("exp", each<std::exp>, "exp of the C library.");
    m.def("log", each<std::log>, "log of the C library.");
    m.def("cells", voronoi, "Corners of the Voronoi cells of a plane; boke.fill has their definition.");
    m.def("replay", replay, "How far a search has come after some outcomes; boke.region has its definition.");
    m.def("spread", spread, "The first rows that are apart from each other; boke.argmax has their definition.");
    m.def("nearest", nearest_rows, "Rows with the nearest among them by a coarse copy; boke.around has its definition.");
    m.def("eigenvectors", eigenvectors, "Those of a symmetric matrix; boke.rotations has their definition.");
    m.def("instruction_sets", [] {
        nb::list names;
        for (const Choice &choice : available()) names.append(choice.name);
        return names;
    }, "Names of the instruction sets that this machine can use, the preferred one first.");
}
