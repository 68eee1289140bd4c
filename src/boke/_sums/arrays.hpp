// NumPy arrays in and out.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <initializer_list>
#include <utility>
#include <vector>

namespace boke {

namespace nb = nanobind;

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Flags = nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Result = nb::ndarray<nb::numpy, double>;

inline Result array(double *data, std::initializer_list<std::size_t> shape, nb::handle owner) {
    return Result(data, shape.size(), shape.begin(), owner);
}

inline Result made(std::vector<double> &&values, std::initializer_list<std::size_t> shape) {
    auto *kept = new std::vector<double>(std::move(values));
    nb::capsule owner(kept, [](void *memory) noexcept { delete static_cast<std::vector<double> *>(memory); });
    return array(kept->data(), shape, owner);
}

}  // namespace boke
