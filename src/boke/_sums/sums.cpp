// boke._native.Sums: observations in the layout of the hot loop, and calls that sum over them, screen and climb.
#include "sums.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "arrays.hpp"
#include "choice.hpp"
#include "kernel.hpp"

using namespace boke;

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
    Sums(int kernel, Matrix z, Matrix codes, Vector y, std::optional<Vector> w, Vector penalty, const std::string &instructions)
        : t_(z.shape(0)), p_(z.shape(1)), c_(codes.shape(1)), groups_((t_ + LANES - 1) / LANES),
          z_(groups_ * p_ * LANES), codes_(groups_ * c_ * LANES), y_(groups_ * LANES), w_(groups_ * LANES),
          penalty_(c_), kernel_(static_cast<Kernel>(kernel)), choice_(pick(instructions)) {
        if (kernel < GAUSSIAN || kernel > QUARTIC) throw std::invalid_argument("Unknown kernel.");
        if (codes.shape(0) != t_ || y.shape(0) != t_ || (w && w->shape(0) != t_) || penalty.shape(0) != c_)
            throw std::invalid_argument("Shapes of the observations do not agree.");
        fill(z, p_, z_.get());
        fill(codes, c_, codes_.get());
        std::copy(y.data(), y.data() + t_, y_.get());
        if (w) std::copy(w->data(), w->data() + t_, w_.get());
        else std::fill(w_.get(), w_.get() + t_, 1.0);
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
        // an observation is not farther than the center that a candidate was made around
        std::vector<double> x(total * p_), near_by(total, HUGE_VAL), values(total), points(most * p_);
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
                    near_by[made] = reach * reach;
                    move(centers.data(), among, which.data() + 3 * i, drawn, step.data() + i * p_, reach, bandwidth.data(), p_, x.data() + made * p_);
                }
            };
            auto evaluate = [&] {
                choice_.screen(seen, hush, x.data() + valued * p_, near_by.data() + valued, made - valued, bandwidth.data(), beta, rho, values.data() + valued, work.get());
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
        return boke::made(std::move(points), {most, p_});
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

        // `nearest`: see Rise
        double value(const double *x, double &nearest, double *slope) {
            for (std::size_t k = 0; k < p; ++k) z[k] = x[k] / bandwidth[k];
            const double found = seen.choice_.rise(data, silent ? &hush : nullptr, z.data(), beta, rho, &nearest, slope, work.get());
            for (std::size_t k = 0; k < p; ++k) slope[k] /= bandwidth[k];
            return found;
        }

        double climb(double *x, std::size_t steps, double leash) {
            const std::vector<double> start(x, x + p);
            std::vector<double> slope(p), there(p), trial(p);
            double nearest = HUGE_VAL, best = value(x, nearest, slope.data()), length = 0.5;
            for (std::size_t step = 1; step < steps; ++step) {
                double square = 0.0, away = 0.0, stride = 0.0;
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
                    stride += (trial[k] - x[k]) * (trial[k] - x[k]) / (bandwidth[k] * bandwidth[k]);
                }
                const double reach = std::sqrt(nearest) + std::sqrt(stride);
                double found = best, closest = reach * reach * (1.0 + 1e-9) + 1e-9;  // rounding included
                const bool gain = away <= leash * leash && (found = value(trial.data(), closest, there.data())) > best;
                if (gain) {
                    nearest = closest;
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

}  // namespace

void bind_sums(nb::module_ &m) {
    nb::class_<Sums>(m, "Sums")
        .def(nb::init<int, Matrix, Matrix, Vector, std::optional<Vector>, Vector, const std::string &>(), nb::arg("kernel"), nb::arg("z"),
             nb::arg("codes"), nb::arg("y"), nb::arg("w").none(), nb::arg("penalty"), nb::arg("instructions") = "")
        .def("__call__", &Sums::evaluate, nb::arg("z"), nb::arg("codes"), nb::arg("gradient") = false,
             nb::arg("leave_one_out") = false, nb::arg("threads") = 1)
        .def("screen", &Sums::screen, nb::arg("silent").none(), nb::arg("cube"), nb::arg("extra"), nb::arg("centers"), nb::arg("which"),
             nb::arg("chance"), nb::arg("step"), nb::arg("bandwidth"), nb::arg("beta"), nb::arg("rho"), nb::arg("rim"), nb::arg("rims"),
             nb::arg("few"), nb::arg("leash"), nb::arg("most"), "The best of some candidates; boke.argmax has their definition.")
        .def("polish", &Sums::polish, nb::arg("silent").none(), nb::arg("x"), nb::arg("bandwidth"), nb::arg("scale"), nb::arg("beta"),
             nb::arg("rho"), nb::arg("steps"), nb::arg("leash"), "Ascent of IKR-UCB; boke.argmax has its definition.")
        .def_prop_ro("bytes", &Sums::bytes);
}
