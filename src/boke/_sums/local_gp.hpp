// boke._native.LocalGP: fit by a search over a grid, then predict, score and climb; and how it learns its coordinates.
#pragma once
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "choice.hpp"
#include "rotations.hpp"
#include "warp.hpp"

void bind_local_gp(nanobind::module_ &m);

namespace boke {

using Numbers = std::vector<double>;

// What a function returns that needs no GIL
template <class Function>
auto unlocked(Function &&function) {
    nb::gil_scoped_release released;
    return function();
}

constexpr double ENOUGH = 1e-6;  // of log EI: a climb ends when a step straight up gains less
constexpr std::size_t PROMISING = 3;  // evaluations after which an ascent that has not gained enough is given up,
constexpr std::size_t COLUMNS = 7;    // one less from so many columns on

inline Result array(const Numbers &values, std::initializer_list<std::size_t> shape) {
    std::size_t size = 1;
    for (std::size_t side : shape) size *= side;
    double *copy = new double[std::max<std::size_t>(size, 1)];
    std::copy_n(values.begin(), size, copy);
    nb::capsule owner(copy, [](void *memory) noexcept { delete[] static_cast<double *>(memory); });
    return boke::array(copy, shape, owner);
}

// BFGS on -f: s is the step, r the change of the gradient; vectors and rows of H are whole.
inline void update(const GPFunctions &run, std::size_t d, Numbers &H, const double *x, const Numbers &to, const Numbers &g,
            const Numbers &h, Numbers &s, Numbers &r, Numbers &Hr) {
    double sr = 0.0, rHr = 0.0;
    for (std::size_t i = 0; i < d; ++i) s[i] = to[i] - x[i], r[i] = g[i] - h[i], sr += s[i] * r[i];
    if (!(sr > 1e-14)) return;
    run.curve(H.data(), d, r.data(), Hr.data());
    for (std::size_t i = 0; i < d; ++i) rHr += r[i] * Hr[i], Hr[i] /= sr;
    run.bend(H.data(), d, s.data(), (1.0 + rHr / sr) / sr, Hr.data());
}

// Projected BFGS with backtracking: the local maximum of `value(x, slope, needed)` inside [low, high] from x (d), which moves
// there; ends when a step straight up gains less than `enough`, and is given up if it has not gained `least` after two or three
// evaluations. Slopes may be left out where the value does not make them `needed`: nobody will look at them.
template <typename Value>
double ascend(const GPFunctions &run, Value &&value, std::size_t d, double *x, const double *low, const double *high,
              std::size_t evaluations, double enough, double least = -INFINITY) {
    const std::size_t row = whole(d);
    Numbers g(row), p(row), trial(row), h(row), H(row * row), s(row), r(row), Hr(row);
    double f = value(x, g.data(), [](double) { return true; }), width = 0.0;
    for (std::size_t i = 0; i < d; ++i) width = std::max(width, high[i] - low[i]);
    const double start = f;
    const std::size_t promising = PROMISING - (d >= COLUMNS);
    bool fresh = true;
    for (std::size_t used = 1; used < evaluations;) {
        if (used >= promising && !(f >= start + least)) break;
        double norm = 0.0, along = 0.0;
        for (std::size_t i = 0; i < d; ++i) {
            if ((x[i] <= low[i] && g[i] < 0.0) || (x[i] >= high[i] && g[i] > 0.0)) h[i] = 0.0;
            else h[i] = g[i];
            norm = std::max(norm, std::abs(h[i]));
        }
        if (!(norm > 1e-10) || !std::isfinite(norm)) break;
        if (fresh) {
            std::fill(H.begin(), H.end(), 0.0);
            for (std::size_t i = 0; i < d; ++i) H[i * row + i] = 0.1 * width / norm;
        }
        run.curve(H.data(), d, h.data(), p.data());
        for (std::size_t i = 0; i < d; ++i) {
            if (h[i] == 0.0) p[i] = 0.0;
            along += p[i] * h[i];
        }
        if (!(along > 0.0)) {
            if (fresh) break;
            fresh = true;
            continue;
        }
        const double before = f;
        for (double step = 1.0; used < evaluations && step > 1e-5; step *= 0.25) {
            double rise = 0.0, move = 0.0;
            for (std::size_t i = 0; i < d; ++i) {
                trial[i] = std::min(std::max(x[i] + step * p[i], low[i]), high[i]);
                rise += (trial[i] - x[i]) * g[i];
                move = std::max(move, std::abs(trial[i] - x[i]));
            }
            if (move < 1e-12 * width) break;
            ++used;
            auto higher = [&](double there) { return there > f + 1e-4 * rise && there > f; };
            auto goes_on = [&](double there) {
                return higher(there) && used < evaluations && (used < promising || there >= start + least) && !(fresh && !(there > before + enough));
            };
            const double there = value(trial.data(), h.data(), goes_on);
            if (higher(there)) {
                if (!goes_on(there)) return std::copy_n(trial.begin(), d, x), there;
                update(run, d, H, x, trial, g, h, s, r, Hr);
                f = there;
                std::copy_n(trial.begin(), d, x);
                std::copy(h.begin(), h.end(), g.begin());
                break;
            }
        }
        const bool gained = f > before + enough;
        if (!gained && fresh) break;
        fresh = !gained;
    }
    return f;
}

// Memory that begins with a whole vector, not set to anything
class Room {
  public:
    explicit Room(std::size_t size) : size_(size), memory_(new double[size + LANES]) {}
    std::size_t size() const { return size_; }
    double *data() const {
        void *begin = memory_.get();
        std::size_t space = (size_ + LANES) * sizeof(double);
        return static_cast<double *>(std::align(LANES * sizeof(double), size_ * sizeof(double), begin, space));
    }

  private:
    std::size_t size_;
    std::unique_ptr<double[]> memory_;
};

// Scratch of a thread, shared by all models: those of a batch are kept, and hold little. Good until the next call.
inline double *scratch(std::size_t size) {
    static thread_local Room room(0);
    if (room.size() < size) room = Room(size);
    return room.data();
}

// x (d) times a matrix (d, d)
inline void turned(const double *x, const double *turn, std::size_t d, double *to) {
    for (std::size_t k = 0; k < d; ++k) {
        to[k] = 0.0;
        for (std::size_t j = 0; j < d; ++j) to[k] += x[j] * turn[j * d + k];
    }
}

// The coordinates of a model; boke.frame has their definition.
struct Frame {
    const double *origin, *scale, *turn;
    std::size_t d;
    Numbers before = Numbers(d);

    void straight(const double *x, double *to) const {
        for (std::size_t k = 0; k < d; ++k) to[k] = (x[k] - origin[k]) / scale[k];
    }

    void z(const double *x, double *to) {
        if (!turn) return straight(x, to);
        straight(x, before.data());
        turned(before.data(), turn, d, to);
    }
};

// Points (n, d), versions of their values and log Jacobians of these.
struct Observations {
    std::size_t n, d;
    Numbers z, y, jacobian;
};

inline Observations observed(const Matrix &z, const Matrix &y, const Vector &jacobian) {
    const std::size_t n = z.shape(0), d = z.shape(1), versions = y.shape(0);
    if (n == 0 || y.shape(1) != n || versions == 0 || jacobian.shape(0) != versions)
        throw std::invalid_argument("Shapes of the observations do not agree.");
    return {n, d, Numbers(z.data(), z.data() + n * d), Numbers(y.data(), y.data() + versions * n),
            Numbers(jacobian.data(), jacobian.data() + versions)};
}

// How columns are stretched: the standard deviation of the factors' logarithms a priori and their bound; the rest as for
// `ascend`.
struct Stretching {
    double spread, most;
    std::size_t evaluations;
    double enough, least;
};

class LocalGP {
  public:
    LocalGP(Matrix z, Matrix y, Vector jacobian, const Numbers &lengths, const Numbers &trends, const Numbers &noises,
            const std::vector<std::size_t> &start, const std::string &instructions)
        : LocalGP(pick(instructions).gp, observed(z, y, jacobian), lengths, trends, noises, start) {}  // small: with the GIL

    LocalGP(const GPFunctions &run, Observations &&of, const Numbers &lengths, const Numbers &trends, const Numbers &noises,
            const std::vector<std::size_t> &start)
        : run_(run), n_(of.n), d_(of.d), stride_(whole(n_)), z_(std::move(of.z)), y_(std::move(of.y)),
          jacobian_(std::move(of.jacobian)), lengths_(lengths), trends_(trends), noises_(noises), at_(start),
          memory_((d_ + whole(d_) + side_width(n_, jacobian_.size()) + 2 * stride_ + 2) * stride_) {
        if (at_.size() != 3 || at_[0] >= lengths.size() || at_[1] >= trends.size() || at_[2] >= noises.size())
            throw std::invalid_argument("The search must start on the grid.");
        const std::size_t square = stride_ * stride_, width = whole(n_ + jacobian_.size()), factor = stride_ * width;
        const std::size_t matrices = lengths_.size() * square;
        filled_.reset(new bool[lengths_.size()]());
        double *kept = memory_.data(), *rest = scratch(2 * square + matrices + 2 * factor + stride_);
        auto take = [](double *&next, std::size_t size) { return std::exchange(next, next + size); };
        gp_ = GP{n_, d_, stride_, width, z_.data(), y_.data(), jacobian_.data(), jacobian_.size(), 0,
                 take(kept, d_ * stride_), take(kept, stride_ * whole(d_)), take(kept, stride_),
                 take(kept, stride_ * side_width(n_, jacobian_.size())), take(rest, square), take(rest, square),
                 take(rest, matrices),
                 filled_.get(), take(rest, factor), take(rest, stride_),
                 take(kept, square), take(kept, square), take(kept, stride_), 0.0, 0.0, 0.0, 0.0, 0.0};
        spare_ = take(rest, factor);
        run_.prepare(gp_);
        const double unit = median_unit();
        for (double &length : lengths_) length *= unit;
        search();
        relative_length_ = lengths[at_[0]];
    }

    nb::tuple predict(Matrix q) const {
        check(q);
        const std::size_t m = q.shape(0);
        Numbers mean(whole(m)), sd(whole(m));
        run_.predict(gp_, q.data(), m, mean.data(), sd.data(), scratch(predict_room(gp_)));
        return nb::make_tuple(array(mean, {m}), array(sd, {m}));
    }

    Result log_ei(Matrix q, double best) const {
        check(q);
        const std::size_t m = q.shape(0);
        Numbers mean(whole(m)), sd(whole(m));
        {
            nb::gil_scoped_release unlocked;
            run_.predict(gp_, q.data(), m, mean.data(), sd.data(), scratch(predict_room(gp_)));
            run_.log_eis(mean.data(), sd.data(), m, best, mean.data());
        }
        return array(mean, {m});
    }

    nb::tuple log_ei_gradient(Matrix q, double best) const {
        check(q);
        Numbers values(q.shape(0)), slopes(q.shape(0) * d_);
        double *work = scratch(log_ei_room(gp_));
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = run_.log_ei(gp_, q.data() + i * d_, best, slopes.data() + i * d_, work);
        return nb::make_tuple(array(values, {values.size()}), array(slopes, {values.size(), d_}));
    }

    // The tops of log EI that are reached from the rows of q inside [low, high], and their values; with `turn` (d, d) the
    // model is of q times it.
    nb::tuple climb(Matrix q, double best, Vector low, Vector high, std::size_t evaluations, std::optional<Matrix> turn) const {
        check(q);
        check_box(low, high, turn);
        const std::size_t m = q.shape(0);
        Numbers tops(q.data(), q.data() + m * d_), values(m);
        {
            nb::gil_scoped_release unlocked;
            Slope slope{*this, best, turn ? turn->data() : nullptr};
            for (std::size_t i = 0; i < m; ++i)
                values[i] = ascend(run_, slope, d_, tops.data() + i * d_, low.data(), high.data(), evaluations, ENOUGH);
        }
        return nb::make_tuple(array(tops, {m, d_}), array(values, {m}));
    }

    // Where the best `count` of the candidates x (m, d) climb to inside [low, high], these candidates, and log EI at all of
    // them. The model is of (x - origin) / scale, times `turn` if there is one.
    nb::tuple improvements(Matrix x, double best, Vector origin, Vector scale, std::optional<Matrix> turn, Vector low, Vector high,
                           std::size_t count, std::size_t evaluations) const {
        check(x);
        check_box(low, high, turn);
        if (origin.shape(0) != d_ || scale.shape(0) != d_) throw std::invalid_argument("Shapes of the frame do not agree.");
        count = std::min(count, x.shape(0));
        Numbers points, values;
        {
            nb::gil_scoped_release unlocked;
            Frame frame{origin.data(), scale.data(), turn ? turn->data() : nullptr, d_};
            improve(x.data(), x.shape(0), best, frame, low.data(), high.data(), count, evaluations, points, values);
        }
        return nb::make_tuple(array(points, {2 * count, d_}), array(values, {2 * count}));
    }

    void improve(const double *x, std::size_t m, double best, Frame &frame, const double *low, const double *high, std::size_t count,
                 std::size_t evaluations, Numbers &points, Numbers &values) const {
        points.resize(2 * count * d_), values.resize(2 * count);
        Numbers z(m * d_), mean(whole(m)), sd(whole(m)), bottom(d_), ceiling(d_);
        for (std::size_t i = 0; i < m; ++i) frame.z(x + i * d_, z.data() + i * d_);
        run_.predict(gp_, z.data(), m, mean.data(), sd.data(), scratch(predict_room(gp_)));
        run_.log_eis(mean.data(), sd.data(), m, best, mean.data());
        std::vector<std::size_t> order(m);
        std::iota(order.begin(), order.end(), 0);
        std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](std::size_t i, std::size_t j) {
            return mean[i] > mean[j] || (!(mean[i] < mean[j]) && i < j);
        });
        frame.straight(low, bottom.data());
        frame.straight(high, ceiling.data());
        Slope slope{*this, best, frame.turn};
        for (std::size_t i = 0; i < count; ++i) {
            const double *from = x + order[i] * d_;
            double *top = points.data() + i * d_;
            frame.straight(from, top);
            values[i] = ascend(run_, slope, d_, top, bottom.data(), ceiling.data(), evaluations, ENOUGH);
            for (std::size_t k = 0; k < d_; ++k) top[k] = std::min(std::max(frame.origin[k] + frame.scale[k] * top[k], low[k]), high[k]);
            std::copy_n(from, d_, points.data() + (count + i) * d_);
            values[count + i] = mean[order[i]];
        }
    }

    // Logarithms of the columns' factors that the likelihood prefers, and how much it gains; their prior is normal.
    nb::tuple stretch(double spread, double most, std::size_t evaluations, double enough, double least) const {
        Numbers by(d_, 0.0);
        const double gain = unlocked([&] { return preferred({spread, most, evaluations, enough, least}, by); });
        return nb::make_tuple(array(by, {d_}), gain);
    }

    // The same for axes of their own, the eigenvectors of the slopes in the metric, as columns: these first.
    nb::tuple axes(double spread, double most, std::size_t evaluations, double enough, double least) const {
        Numbers axes, by(d_, 0.0);
        const double gain = unlocked([&] { return preferred_axes({spread, most, evaluations, enough, least}, metric(), axes, by); });
        return nb::make_tuple(array(axes, {d_, d_}), array(by, {d_}), gain);
    }

    // The likelihood, less its Jacobian, with stretched columns, and its slopes.
    nb::tuple stretched(Vector by) const {
        if (by.shape(0) != d_) throw std::invalid_argument("There must be a factor for each column.");
        Numbers slope(d_);
        double *work = scratch(stretched_room(gp_));
        const double value = run_.stretched(gp_, by.data(), work);
        if (std::isfinite(value)) run_.stretched_slopes(gp_, slope.data(), nullptr, work);
        return nb::make_tuple(value, array(slope, {d_}));
    }

    // The slopes of the likelihood in the entries of a matrix (d, d) that the columns are multiplied with, at the identity.
    Result metric_slopes() const { return array(metric(), {d_, d_}); }

    // A function drawn from the posterior, at the rows of q, from as many standard normal numbers.
    Result draw(Matrix q, Vector normal) const {
        check(q);
        const std::size_t m = q.shape(0);
        if (normal.shape(0) != m) throw std::invalid_argument("As many normal numbers as points are needed.");
        Numbers values(m);
        {
            nb::gil_scoped_release unlocked;
            run_.draw(gp_, q.data(), m, normal.data(), values.data(), scratch(draw_room(gp_, m)));
        }
        return array(values, {m});
    }

    // The posterior mean at the observations: y - noise * alpha, as K alpha = y.
    Result fitted() const {
        Numbers mean(n_);
        for (std::size_t i = 0; i < n_; ++i) {
            double square = 0.0;
            for (std::size_t k = 0; k < d_; ++k) square += z_[i * d_ + k] * z_[i * d_ + k];
            const double own = gp_.noise * (1.0 + gp_.trend) + 1e-10 * (1.0 + gp_.trend * (1.0 + square) * (1.0 + square));
            mean[i] = y_[gp_.version * n_ + i] - own * gp_.alpha[i];
        }
        return array(mean, {n_});
    }

    nb::tuple hyperparameters() const {
        return nb::make_tuple(gp_.length, gp_.trend, gp_.noise, gp_.variance, gp_.likelihood, gp_.version);
    }

    nb::tuple at() const { return nb::make_tuple(at_[0], at_[1], at_[2]); }
    Result z() const { return array(z_, {n_, d_}); }
    Result versions() const { return array(y_, {jacobian_.size(), n_}); }
    Result jacobians() const { return array(jacobian_, {jacobian_.size()}); }
    Result y() const { return array(Numbers(y_.data() + gp_.version * n_, y_.data() + (gp_.version + 1) * n_), {n_}); }

    const std::vector<std::size_t> &grid_point() const { return at_; }
    double noise() const { return gp_.noise; }
    const double *values() const { return y_.data() + gp_.version * n_; }  // of the version in use
    std::size_t size() const { return n_; }

    // From zeros `by` become what the likelihood prefers, which gains so much. The slopes in the metric, if they are known,
    // save an evaluation.
    double preferred(const Stretching &how, Numbers &by, const Numbers &metric = {}) const {
        Numbers slopes(metric.empty() ? 0 : d_);
        for (std::size_t k = 0; k < slopes.size(); ++k) slopes[k] = metric[k * d_ + k];
        return preferred(gp_, how, by, std::move(slopes));
    }

    // The same along axes of their own, which are found first.
    double preferred_axes(const Stretching &how, const Numbers &metric, Numbers &axes, Numbers &by) const {
        Axes found = eigenvectors(metric, d_);
        axes = std::move(found.vectors);
        Numbers row(d_), columns(d_ * stride_, 0.0);
        for (std::size_t i = 0; i < n_; ++i) {
            turned(z_.data() + i * d_, axes.data(), d_, row.data());
            for (std::size_t k = 0; k < d_; ++k) columns[k * stride_ + i] = row[k];
        }
        GP there = gp_;  // distances are the same, so this is the same model
        there.by_column = columns.data();
        return preferred(there, how, by, std::move(found.values));
    }

    // The slopes (d, d) of the likelihood in a matrix that the columns are multiplied with
    Numbers metric() const {
        Numbers by(d_, 0.0), slope(d_), metric(d_ * d_);
        double *work = scratch(stretched_room(gp_));
        run_.stretched(gp_, by.data(), work);
        run_.stretched_slopes(gp_, slope.data(), metric.data(), work);
        return metric;
    }

  private:
    // `first` are the slopes at zeros, where they are known.
    double preferred(const GP &gp, const Stretching &how, Numbers &by, Numbers first) const {
        const Numbers low(d_, -how.most), high(d_, how.most);
        const double variance = how.spread * how.spread, start = gp_.likelihood - jacobian_[gp_.version];
        double *work = scratch(stretched_room(gp));
        auto value = [&](const double *x, double *slope, auto needed) {
            if (!first.empty()) {
                std::copy(first.begin(), first.end(), slope);
                first.clear();
                return start;
            }
            double f = run_.stretched(gp, x, work);
            for (std::size_t k = 0; k < d_; ++k) f -= 0.5 * x[k] * x[k] / variance;
            if (!needed(f)) return f;
            run_.stretched_slopes(gp, slope, nullptr, work);
            for (std::size_t k = 0; k < d_; ++k) slope[k] -= x[k] / variance;
            return f;
        };
        return ascend(run_, value, d_, by.data(), low.data(), high.data(), how.evaluations, how.enough, how.least) - start;
    }

    double median_unit() {
        const double median = n_ > 1 ? std::sqrt(run_.median_distance(gp_)) : 1.0;
        return median > 1e-12 ? median : 1.0;
    }

    // From the start, along one axis of the grid after the other, as long as the likelihood grows.
    void search() {
        const Grid grid{lengths_.data(), trends_.data(), noises_.data(), lengths_.size(), trends_.size(), noises_.size()};
        const std::size_t sizes[3] = {lengths_.size(), trends_.size(), noises_.size()};
        Numbers known(sizes[0] * sizes[1] * sizes[2], std::numeric_limits<double>::quiet_NaN());
        auto value = [&](const std::vector<std::size_t> &p) {
            double &v = known[(p[0] * sizes[1] + p[1]) * sizes[2] + p[2]];
            if (std::isnan(v)) v = run_.likelihood(gp_, grid, p[0], p[1], p[2]);
            return v;
        };
        // The factor of the best point so far is kept aside, and all that belongs to it.
        GP kept;
        auto keep = [&] {
            kept = gp_;
            std::swap(gp_.factor, spare_);
        };
        value(at_), keep();
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t axis = 0; axis < 3; ++axis)
                for (int step : {-1, 1})
                    for (auto next = at_; (step < 0 ? next[axis] > 0 : next[axis] + 1 < sizes[axis]);) {
                        next[axis] += static_cast<std::size_t>(step);
                        if (!(value(next) > kept.likelihood + 1e-9)) break;
                        keep(), at_ = next, moved = true;
                    }
        }
        while (std::isinf(kept.likelihood) && at_[2] + 1 < sizes[2]) ++at_[2], value(at_), keep();
        if (std::isinf(kept.likelihood)) throw std::runtime_error("No matrix of the grid is positive definite.");
        gp_ = kept;
        run_.finish(gp_);
    }

    // log EI and its slope at a point before the turn
    struct Slope {
        const LocalGP &model;
        double best;
        const double *turn;
        double *work = scratch(log_ei_room(model.gp_));
        Numbers there = Numbers(model.d_), steep = Numbers(model.d_);

        template <typename Needed>
        double operator()(const double *x, double *slope, Needed) {
            if (!turn) return model.run_.log_ei(model.gp_, x, best, slope, work);
            const std::size_t d = model.d_;
            turned(x, turn, d, there.data());
            const double f = model.run_.log_ei(model.gp_, there.data(), best, steep.data(), work);
            for (std::size_t j = 0; j < d; ++j) {
                slope[j] = 0.0;
                for (std::size_t k = 0; k < d; ++k) slope[j] += turn[j * d + k] * steep[k];
            }
            return f;
        }
    };

    void check_box(const Vector &low, const Vector &high, const std::optional<Matrix> &turn) const {
        if (turn && (turn->shape(0) != d_ || turn->shape(1) != d_)) throw std::invalid_argument("A turn has a row and a column for each column.");
        if (low.shape(0) != d_ || high.shape(0) != d_) throw std::invalid_argument("Shapes of the box do not agree.");
    }

    void check(const Matrix &q) const {
        if (q.shape(1) != d_) throw std::invalid_argument("Shapes of the queries do not agree with the observations.");
    }

    GPFunctions run_;
    std::size_t n_, d_, stride_;
    Numbers z_, y_, jacobian_, lengths_, trends_, noises_;
    double relative_length_;  // in units of the median distance
    std::vector<std::size_t> at_;
    Room memory_;
    std::unique_ptr<bool[]> filled_;
    GP gp_;          // after the search only z, what is made of it, the inverse and alpha are its own
    double *spare_;  // another factor
};

// How a model learns its coordinates; boke.shape has the meaning of all of these.
struct Learning {
    double spread, most, enough, worth, turn_worth, sure;
    std::size_t evaluations, turns;
    bool at_all;
};

inline Learning learning(const Numbers &rule, std::size_t evaluations, std::size_t turns, bool at_all) {
    return {rule.at(0), rule.at(1), rule.at(2), rule.at(3), rule.at(4), rule.at(5), evaluations, turns, at_all};
}

// Where the search for hyperparameters may go, and the versions of the values: see boke.gp and boke.warp.
struct Grids {
    Numbers lengths, trends, noises;
    std::vector<std::size_t> start;
    Numbers warps, earned;
};

// A model and the frame that it is in; the turn is empty where there is none.
struct Shape {
    std::shared_ptr<const LocalGP> model;
    double radius;
    Numbers stretch, turn;
};

// A model of the values y (n) of points (n, d) around an origin, in coordinates that begin with the stretch (d) and turn
// (d, d) given, if any, and learn their own; boke.shape has its definition. `first` is the model before it has learned
// anything, if it is known.
inline Shape shaped(const double *points, std::size_t n, std::size_t d, const double *y, const double *origin, const double *stretch,
                    const double *turn, const Grids &grids, const Learning &how, const GPFunctions &run,
                    std::shared_ptr<const LocalGP> first = nullptr) {
    const double columns = static_cast<double>(d), worth = how.worth * (columns + 2.0);
    const Stretching stretching{how.spread, how.most, how.evaluations, how.enough, 0.5 * worth};

    double square = 0.0;
    for (std::size_t i = 0; i < n * d; ++i) {
        const double away = points[i] - origin[i % d];
        square += away * away;
    }
    const double length = std::sqrt(square / static_cast<double>(n)), radius = length == 0.0 ? 1.0 : length;
    Numbers factors(d, 1.0), scale(d), axes, z(n * d);
    if (stretch) factors.assign(stretch, stretch + d);
    if (turn) axes.assign(turn, turn + d * d);
    for (std::size_t k = 0; k < d; ++k) scale[k] = radius / factors[k];
    Frame frame{origin, scale.data(), axes.empty() ? nullptr : axes.data(), d};
    for (std::size_t i = 0; i < n; ++i) frame.z(points + i * d, z.data() + i * d);

    const Warped versions = warped(Numbers(y, y + n), grids.warps, grids.earned);
    auto fit = [&](const std::vector<std::size_t> &from) {
        return std::make_shared<const LocalGP>(run, Observations{n, d, z, versions.y, versions.jacobian}, grids.lengths, grids.trends,
                                         grids.noises, from);
    };
    std::shared_ptr<const LocalGP> model = first ? std::move(first) : fit(grids.start);
    auto turning = [&] { return how.turns > 0 && model->noise() < how.sure; };
    for (std::size_t rounds = !how.at_all ? 0 : turning() ? how.turns : 1; rounds > 0; --rounds) {
        Numbers by(d, 0.0), its_axes, along(d, 0.0), next(d * d);
        const Numbers metric = turning() ? model->metric() : Numbers();
        const double gain = model->preferred(stretching, by, metric), enough = std::max(gain + how.turn_worth * columns, worth);
        if (turning() && model->preferred_axes(stretching, metric, its_axes, along) > enough) {
            for (std::size_t i = 0; i < d * d; ++i) its_axes[i] *= std::exp(along[i % d]);
            for (std::size_t i = 0; i < d && !axes.empty(); ++i) turned(axes.data() + i * d, its_axes.data(), d, next.data() + i * d);
            axes = axes.empty() ? its_axes : next;
            Numbers before(d);
            for (std::size_t i = 0; i < n; ++i) {
                std::copy_n(z.data() + i * d, d, before.data());
                turned(before.data(), its_axes.data(), d, z.data() + i * d);
            }
        } else if (gain > worth) {
            for (double &factor : by) factor = std::exp(factor);
            for (std::size_t i = 0; i < n * d; ++i) z[i] *= by[i % d];
            for (std::size_t i = 0; i < d && axes.empty(); ++i) factors[i] *= by[i];
            for (std::size_t i = 0; i < axes.size(); ++i) axes[i] *= by[i % d];
        } else {
            break;
        }
        model = fit(model->grid_point());
    }
    return {std::move(model), radius, std::move(factors), std::move(axes)};
}

// The same, but the last few of this thread are kept, with all that they were made of: the next suggestion, or the next of
// a batch, often begins with one of them.
inline Shape kept_shaped(const double *points, std::size_t n, std::size_t d, const double *y, const double *origin, const double *stretch,
                         const double *turn, const Grids &grids, const Learning &how, const GPFunctions &run) {
    constexpr std::size_t KEPT = 12;
    struct Kept {
        Numbers from;
        Shape shape;
    };
    static thread_local std::vector<Kept> kept(KEPT);
    static thread_local std::size_t next = 0;
    Numbers from{static_cast<double>(n), static_cast<double>(d), stretch ? 1.0 : 0.0, turn ? 1.0 : 0.0};
    auto add = [&](const auto &numbers) {
        from.push_back(static_cast<double>(numbers.size()));
        from.insert(from.end(), numbers.begin(), numbers.end());
    };
    for (const Numbers *numbers : {&grids.lengths, &grids.trends, &grids.noises, &grids.warps, &grids.earned}) add(*numbers);
    add(grids.start);
    add(Numbers{how.spread, how.most, how.enough, how.worth, how.turn_worth, how.sure, static_cast<double>(how.evaluations),
                static_cast<double>(how.turns), how.at_all ? 1.0 : 0.0});
    from.insert(from.end(), points, points + n * d);
    from.insert(from.end(), y, y + n);
    from.insert(from.end(), origin, origin + d);
    if (stretch) from.insert(from.end(), stretch, stretch + d);
    if (turn) from.insert(from.end(), turn, turn + d * d);
    for (const Kept &one : kept)
        if (one.from == from) return one.shape;
    std::shared_ptr<const LocalGP> first;
    if (how.at_all) {
        Learning nothing = how;
        nothing.turns = 0, nothing.at_all = false;
        first = kept_shaped(points, n, d, y, origin, stretch, turn, grids, nothing, run).model;
    }
    Shape shape = shaped(points, n, d, y, origin, stretch, turn, grids, how, run, std::move(first));
    kept[next] = {std::move(from), shape}, next = (next + 1) % KEPT;
    return shape;
}

}  // namespace boke
