// What a policy sees of a history, by loops over its columns; boke.keys, boke.data and boke.history define it.
#include "data.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "arrays.hpp"

using namespace boke;

namespace {

template <class T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Keys = Column<std::uint64_t>;
using Numbers = Column<std::int64_t>;

// An array in the making, which takes no GIL; its values are not set.
template <class T>
class Fresh {
  public:
    explicit Fresh(std::size_t n = 0) : values_(new T[n]) {}
    T *begin() { return values_.get(); }
    T &operator[](std::size_t i) { return values_[i]; }

    nb::ndarray<nb::numpy, T> array(std::initializer_list<std::size_t> shape) {
        nb::capsule owner(values_.get(), [](void *memory) noexcept { delete[] static_cast<T *>(memory); });
        return {values_.release(), shape, owner};
    }

  private:
    std::unique_ptr<T[]> values_;
};

// Hashes

std::uint64_t part(double value, std::uint64_t multiplier) {
    value += 0.0;  // -0.0 becomes 0.0
    std::uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return (bits ^ (bits >> 29)) * multiplier;
}

std::uint64_t parts(const double *row, std::size_t d, const std::uint64_t *multipliers) {
    std::uint64_t sum = 0;
    for (std::size_t j = 0; j < d; ++j) sum += part(row[j], multipliers[j]);
    return sum;
}

std::uint64_t key_of(std::uint64_t parts) {
    const std::uint64_t mixed = (parts ^ (parts >> 32)) * 0x9E3779B97F4A7C15u;
    return mixed ^ (mixed >> 29);
}

nb::ndarray<nb::numpy, std::uint64_t> row_keys(Matrix rows, Keys multipliers) {
    const std::size_t n = rows.shape(0), d = rows.shape(1);
    if (multipliers.shape(0) != d) throw std::invalid_argument("There must be a multiplier for each column.");
    Fresh<std::uint64_t> keys(n);
    {
        nb::gil_scoped_release unlocked;
        for (std::size_t i = 0; i < n; ++i) keys[i] = key_of(parts(rows.data() + i * d, d, multipliers.data()));
    }
    return keys.array({n});
}

// Whether any of the keys is in one of the sorted runs.
bool anywhere(const std::vector<Keys> &runs, Keys keys) {
    for (const Keys &run : runs)
        for (std::size_t i = 0; i < keys.shape(0); ++i)
            if (std::binary_search(run.data(), run.data() + run.shape(0), keys.data()[i])) return true;
    return false;
}

nb::ndarray<nb::numpy, double> uniforms(Numbers numbers, std::uint64_t salt) {
    const std::size_t n = numbers.shape(0);
    Fresh<double> result(n);
    for (std::size_t i = 0; i < n; ++i) result[i] = uniform(numbers.data()[i], salt);
    return result.array({n});
}

// Four 64-bit numbers from 32-bit words of entropy, as np.random.SeedSequence makes them.
nb::ndarray<nb::numpy, std::uint64_t> seeded(const std::vector<std::uint32_t> &entropy) {
    constexpr std::size_t POOL = 4;
    std::uint32_t constant = 0x43b0d7e5u, pool[POOL];
    auto hash = [&constant](std::uint32_t value, std::uint32_t multiplier) {
        value ^= constant;
        constant *= multiplier;
        value *= constant;
        return value ^ (value >> 16);
    };
    auto mix = [&](std::uint32_t &into, std::uint32_t value) {
        const std::uint32_t mixed = 0xca01f9ddu * into - 0x4973f715u * hash(value, 0x931e8875u);
        into = mixed ^ (mixed >> 16);
    };
    for (std::size_t i = 0; i < POOL; ++i) pool[i] = hash(i < entropy.size() ? entropy[i] : 0, 0x931e8875u);
    for (std::size_t from = 0; from < POOL; ++from)
        for (std::size_t to = 0; to < POOL; ++to)
            if (from != to) mix(pool[to], pool[from]);
    for (std::size_t from = POOL; from < entropy.size(); ++from)
        for (std::uint32_t &to : pool) mix(to, entropy[from]);
    constant = 0x8b51f9ddu;
    Fresh<std::uint64_t> state(POOL);
    for (std::size_t i = 0; i < POOL; ++i) {
        const std::uint64_t low = hash(pool[2 * i % POOL], 0x58f38dedu), high = hash(pool[(2 * i + 1) % POOL], 0x58f38dedu);
        state[i] = low | high << 32;
    }
    return state.array({POOL});
}

nb::ndarray<nb::numpy, bool> drawn(Numbers numbers, std::int64_t first, std::uint64_t salt, double least) {
    const std::size_t n = numbers.shape(0);
    const Lot lot{first, salt, least};
    Fresh<bool> chosen(n);
    for (std::size_t i = 0; i < n; ++i) chosen[i] = lot.has(numbers.data()[i]);
    return chosen.array({n});
}

// Points

constexpr std::size_t FEW = 4;  // rows that are compared with all points rather than looked up

// Rows by their keys, to be found again: an open table with room for four times as many.
class Table {
  public:
    Table(const Matrix &rows, const std::uint64_t *multipliers) : rows_(rows.data()), d_(rows.shape(1)), multipliers_(multipliers) {
        std::size_t size = 1;
        while (size < 4 * rows.shape(0)) size *= 2;
        mask_ = size - 1;
        slots_.resize(size, Slot{0, NONE});
        for (std::size_t i = 0; i < rows.shape(0); ++i) {
            const std::uint64_t key = key_of(parts(rows_ + i * d_, d_, multipliers_));
            std::size_t at = key & mask_;
            while (slots_[at].row != NONE) at = (at + 1) & mask_;
            slots_[at] = {key, i};
        }
    }

    // Mark the rows that are equal to one of the points.
    void mark(const Matrix &points, Fresh<bool> &found) const {
        const double *point = points.data();
        for (std::size_t j = 0; j < points.shape(0); ++j, point += d_) {
            const std::uint64_t key = key_of(parts(point, d_, multipliers_));
            for (std::size_t at = key & mask_; slots_[at].row != NONE; at = (at + 1) & mask_) {
                const Slot &slot = slots_[at];
                if (slot.key == key && std::equal(point, point + d_, rows_ + slot.row * d_)) found[slot.row] = true;
            }
        }
    }

  private:
    static constexpr std::size_t NONE = std::numeric_limits<std::size_t>::max();
    struct Slot {
        std::uint64_t key;
        std::size_t row;
    };
    const double *rows_;
    std::size_t d_, mask_;
    const std::uint64_t *multipliers_;
    std::vector<Slot> slots_;
};

// The same for a few rows: sooner done than keys of all points.
void mark_few(const Matrix &rows, const Matrix &points, Fresh<bool> &found) {
    const std::size_t d = rows.shape(1);
    const double *point = points.data(), *end = point + points.shape(0) * d;
    for (; point != end; point += d)
        for (std::size_t i = 0; i < rows.shape(0); ++i) {
            const double *row = rows.data() + i * d;
            if (*row == *point && std::equal(row, row + d, point)) found[i] = true;
        }
}

// Which of the rows are among the points or the others.
nb::ndarray<nb::numpy, bool> among(Matrix rows, Matrix points, Matrix others, Keys multipliers) {
    const std::size_t n = rows.shape(0), d = rows.shape(1);
    if (points.shape(1) != d || others.shape(1) != d || multipliers.shape(0) != d) throw std::invalid_argument("Shapes do not agree.");
    Fresh<bool> found(n);
    std::fill(found.begin(), found.begin() + n, false);
    {
        nb::gil_scoped_release unlocked;
        if (n <= FEW && d > 0) {
            mark_few(rows, points, found);
            mark_few(rows, others, found);
        } else {
            const Table table(rows, multipliers.data());
            table.mark(points, found);
            table.mark(others, found);
        }
    }
    return found.array({n});
}

// Rows of the k points nearest to x (d), nearest first.
nb::ndarray<nb::numpy, std::int64_t> closest(Matrix points, Vector x, std::size_t k) {
    const std::size_t n = points.shape(0), d = points.shape(1);
    if (x.shape(0) != d) throw std::invalid_argument("Shapes do not agree.");
    Fresh<std::int64_t> rows(std::min(n, k));
    {
        nb::gil_scoped_release unlocked;
        std::int64_t *to = rows.begin();
        for (const Near &one : nearest(points.data(), n, d, x.data(), k)) *to++ = one.row;
    }
    return rows.array({std::min(n, k)});
}

// The k points nearest to x (d), nearest first, and their values y (n).
nb::tuple neighbours(Matrix points, Vector y, Vector x, std::size_t k) {
    const std::size_t n = points.shape(0), d = points.shape(1), some = std::min(n, k);
    if (x.shape(0) != d || y.shape(0) != n) throw std::invalid_argument("Shapes do not agree.");
    Fresh<double> near(some * d), values(some);
    {
        nb::gil_scoped_release unlocked;
        double *to = near.begin(), *value = values.begin();
        for (const Near &one : nearest(points.data(), n, d, x.data(), k)) {
            to = std::copy_n(points.data() + static_cast<std::size_t>(one.row) * d, d, to);
            *value++ = y.data()[one.row];
        }
    }
    return nb::make_tuple(near.array({some, d}), values.array({some}));
}

// The pairs i < j of rows whose largest difference is below the limit.
nb::tuple pairs(Matrix points, double limit) {
    const std::size_t n = points.shape(0), d = points.shape(1);
    std::vector<std::int64_t> first, second;
    {
        nb::gil_scoped_release unlocked;
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = i + 1; j < n; ++j) {
                const double *a = points.data() + i * d, *b = points.data() + j * d;
                std::size_t k = 0;
                while (k < d && std::abs(a[k] - b[k]) < limit) ++k;
                if (k == d) first.push_back(static_cast<std::int64_t>(i)), second.push_back(static_cast<std::int64_t>(j));
            }
    }
    auto array = [](const std::vector<std::int64_t> &rows) {
        Fresh<std::int64_t> copy(rows.size());
        std::copy(rows.begin(), rows.end(), copy.begin());
        return copy.array({rows.size()});
    };
    return nb::make_tuple(array(first), array(second));
}

// Outcomes

// (numbers, which beat all before, values) of the asked trials of a lot from `since` on.
nb::tuple outcomes(Numbers numbers, Vector y, std::optional<Flags> asked, std::int64_t since, std::int64_t first,
                   std::uint64_t salt, double least) {
    const std::size_t n = numbers.shape(0);
    if (y.shape(0) != n || (asked && asked->shape(0) != n)) throw std::invalid_argument("Shapes do not agree.");
    const Lot lot{std::max(first, since), salt, least};
    Outcomes found;
    {
        nb::gil_scoped_release unlocked;
        found = outcomes_of(numbers.data(), y.data(), asked ? asked->data() : nullptr, n, lot);
    }
    const std::size_t m = found.numbers.size();
    Fresh<std::int64_t> which(m);
    Fresh<bool> successes(m);
    Fresh<double> values(m);
    std::copy(found.numbers.begin(), found.numbers.end(), which.begin());
    std::copy(found.successes.begin(), found.successes.end(), successes.begin());
    std::copy(found.values.begin(), found.values.end(), values.begin());
    return nb::make_tuple(which.array({m}), successes.array({m}), values.array({m}));
}

// Data

enum State : std::uint8_t { PENDING, COMPLETE, FAILED, REMOVED, KNOWN };  // as boke.history has them, and one more

constexpr std::int64_t LONGEST = std::int64_t{1} << 62;  // arrivals that none is later than, as boke.history has it

bool is_told(std::uint8_t state) { return state == COMPLETE || state == FAILED; }

struct Columns {
    std::size_t n;
    const std::uint8_t *state;
    const std::int64_t *told_at, *asked_at;
    const bool *remembered;  // null: all of them
};

// What the trials are for one that is asked after so many arrivals; what counts no more is as good as removed.
std::vector<std::uint8_t> states_then(const Columns &trials, std::int64_t arrivals, std::size_t horizon,
                                      std::size_t patience) {
    const std::size_t n = trials.n, start = n - std::min(n, horizon);
    std::vector<std::uint8_t> state(trials.state, trials.state + n);
    for (std::size_t i = 0; arrivals < LONGEST && i < n; ++i)
        if (is_told(state[i]) && trials.told_at[i] >= arrivals) state[i] = PENDING;
    std::size_t oldest = std::find(state.begin(), state.end(), PENDING) == state.end() ? start : n;  // as a rule there is none
    for (std::size_t out = 0, back = 0; oldest > start; --oldest) {
        const std::size_t i = oldest - 1;
        out += state[i] == PENDING;
        back += is_told(state[i]) && trials.asked_at[i] >= 0;
        if (state[i] == PENDING && back > patience * out) break;
    }
    std::replace(state.begin(), state.begin() + oldest, std::uint8_t{PENDING}, std::uint8_t{REMOVED});
    for (std::size_t i = 0; trials.remembered && i < n; ++i)
        if (!trials.remembered[i]) state[i] = REMOVED;
    return state;
}

struct Row {
    std::uint64_t key;
    std::int64_t number;
    bool operator<(const Row &other) const { return key != other.key ? key < other.key : number < other.number; }
};

// Puts other rows in order between rows that are in order; there is room for them.
void merge(std::uint64_t *keys, std::int64_t *numbers, std::size_t n, const std::vector<Row> &others) {
    std::size_t to = n + others.size();
    for (auto other = others.rbegin(); other != others.rend(); ++other) {
        for (; n > 0 && *other < Row{keys[n - 1], numbers[n - 1]}; --n) {
            --to;
            keys[to] = keys[n - 1], numbers[to] = numbers[n - 1];
        }
        --to;
        keys[to] = other->key, numbers[to] = other->number;
    }
}

// Points of some rows, one after the other.
Fresh<double> gathered(const double *x, std::size_t d, const std::int64_t *numbers, std::size_t n) {
    Fresh<double> points(n * d);
    double *to = points.begin();
    for (std::size_t i = 0; i < n; ++i) to = std::copy_n(x + static_cast<std::size_t>(numbers[i]) * d, d, to);
    return points;
}

// (X, y, silent, numbers, asked, keys, whether y is finite); y are the values as they were told, times the sign.
nb::tuple collected(Matrix x, Vector told, Column<std::uint8_t> state, Numbers told_at, Numbers asked_at, std::size_t n,
                    std::int64_t arrivals, std::optional<Flags> remembered, double sign, bool discourage,
                    Keys known_keys, Numbers known, Keys multipliers, Keys place_multipliers, std::size_t horizon,
                    std::size_t patience) {
    const std::size_t d = x.shape(1);
    for (const std::size_t length : {x.shape(0), told.shape(0), state.shape(0), told_at.shape(0), asked_at.shape(0)})
        if (length < n) throw std::invalid_argument("There are not so many trials.");
    if ((remembered && remembered->shape(0) != n) || known_keys.shape(0) != known.shape(0) ||
        multipliers.shape(0) != d + 1 || place_multipliers.shape(0) != d)
        throw std::invalid_argument("Shapes do not agree.");
    Fresh<std::uint64_t> keys(n);
    Fresh<std::int64_t> numbers(n);
    Fresh<bool> asked(n);
    Fresh<double> y(n), X, S;
    std::vector<Row> fresh, silent;
    std::size_t t = 0;
    bool finite = true;
    {
        nb::gil_scoped_release unlocked;
        const bool *in_mind = remembered ? remembered->data() : nullptr;
        std::vector<std::uint8_t> then =
            states_then({n, state.data(), told_at.data(), asked_at.data(), in_mind}, arrivals, horizon, patience);
        const bool worst = discourage && std::find(then.begin(), then.end(), COMPLETE) != then.end();
        auto counts = [&](std::size_t i) { return then[i] == COMPLETE || (worst && then[i] == FAILED); };
        auto place = [&](std::size_t i, const Keys &by) { return parts(x.data() + i * d, d, by.data()); };
        auto key = [&](std::size_t i) {
            const double value = sign * told.data()[i];  // of nans there is one: its bits are part of the key
            const double one = std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
            return key_of(place(i, multipliers) + part(one, multipliers.data()[d]));
        };
        for (std::size_t i = 0; i < known.shape(0); ++i) {
            const std::int64_t row = known.data()[i];
            if (static_cast<std::size_t>(row) >= n || !counts(static_cast<std::size_t>(row))) continue;
            keys[t] = known_keys.data()[i], numbers[t] = row, ++t;
            then[static_cast<std::size_t>(row)] = KNOWN;
        }
        for (std::size_t i = 0; i < n; ++i) {
            if (then[i] == KNOWN || then[i] == REMOVED) continue;
            if (counts(i)) fresh.push_back({key(i), static_cast<std::int64_t>(i)});
            else silent.push_back({key_of(place(i, place_multipliers)), static_cast<std::int64_t>(i)});
        }
        std::sort(fresh.begin(), fresh.end());
        std::sort(silent.begin(), silent.end());
        merge(keys.begin(), numbers.begin(), t, fresh);
        t += fresh.size();
        X = gathered(x.data(), d, numbers.begin(), t);
        std::vector<std::int64_t> rows;
        for (const Row &one : silent) rows.push_back(one.number);
        S = gathered(x.data(), d, rows.data(), rows.size());
        for (std::size_t i = 0; i < t; ++i) {
            const auto row = static_cast<std::size_t>(numbers[i]);
            y[i] = sign * told.data()[row];
            finite &= std::isfinite(y[i]);
            asked[i] = asked_at.data()[row] >= 0;
        }
    }
    return nb::make_tuple(X.array({t, d}), y.array({t}), S.array({silent.size(), d}), numbers.array({t}),
                          asked.array({t}), keys.array({t}), finite);
}

}  // namespace

void bind_data(nb::module_ &m) {
    m.def("row_keys", row_keys, "A 64-bit hash of every row; boke.keys has its definition.");
    m.def("anywhere", anywhere, "Whether any of some keys is known; boke.keys has its definition.");
    m.def("uniform", uniforms, "Hashed numbers in [0, 1); boke.keys has their definition.");
    m.def("drawn", drawn, "Which trials are of a lot; boke.keys has its definition.");
    m.def("seeded", seeded, "The first state of a generator; np.random.SeedSequence has its definition.");
    m.def("among", among, "Which rows are known; boke.keys has its definition.");
    m.def("closest", closest, "The rows nearest to a point; boke.data has their definition.");
    m.def("neighbours", neighbours, "The points nearest to a point, with their values; boke.data has their definition.");
    m.def("pairs", pairs, "Rows that are close to each other; boke.probe has their definition.");
    m.def("outcomes", outcomes, "What came of the trials of a lot; boke.data has its definition.");
    m.def("collected", collected, "What a policy sees of a history; boke.history has its definition.");
}
