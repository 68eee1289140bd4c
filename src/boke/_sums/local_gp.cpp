// boke._native.LocalGP and boke._native.shaped for Python.
#include "local_gp.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

using namespace boke;

namespace {

// The model, radius, stretch and turn of boke.shape.
nb::tuple shaped_model(Matrix points, Vector y, Vector origin, std::optional<Vector> stretch, std::optional<Matrix> turn,
                       const Numbers &lengths, const Numbers &trends, const Numbers &noises, const std::vector<std::size_t> &start,
                       const Numbers &warps, const Numbers &earned, const Numbers &rule, std::size_t evaluations, std::size_t turns,
                       bool learns, const std::string &instructions) {
    const std::size_t n = points.shape(0), d = points.shape(1);
    if (n == 0 || d == 0 || y.shape(0) != n || origin.shape(0) != d || (stretch && stretch->shape(0) != d) ||
        (turn && (turn->shape(0) != d || turn->shape(1) != d)) || earned.size() != warps.size() || warps.empty() || rule.size() != 6)
        throw std::invalid_argument("Shapes do not agree.");
    const Grids grids{lengths, trends, noises, start, warps, earned};
    const Learning how = learning(rule, evaluations, turns, learns && d > 1);
    const Shape found = unlocked([&] {
        return kept_shaped(points.data(), n, d, y.data(), origin.data(), stretch ? stretch->data() : nullptr, turn ? turn->data() : nullptr,
                      grids, how, pick(instructions).gp);
    });
    nb::object axes = found.turn.empty() ? nb::none() : nb::cast(array(found.turn, {d, d}));
    return nb::make_tuple(std::const_pointer_cast<LocalGP>(found.model), found.radius, array(found.stretch, {d}), axes);
}

}  // namespace

void bind_local_gp(nb::module_ &m) {
    nb::class_<LocalGP>(m, "LocalGP")
        .def(nb::init<Matrix, Matrix, Vector, const Numbers &, const Numbers &, const Numbers &, const std::vector<std::size_t> &,
                      const std::string &>(),
             nb::arg("z"), nb::arg("y"), nb::arg("jacobian"), nb::arg("lengths"), nb::arg("trends"), nb::arg("noises"), nb::arg("start"),
             nb::arg("instructions") = "", nb::call_guard<nb::gil_scoped_release>())
        .def("predict", &LocalGP::predict)
        .def("log_ei", &LocalGP::log_ei)
        .def("log_ei_gradient", &LocalGP::log_ei_gradient)
        .def("climb", &LocalGP::climb, nb::arg("q"), nb::arg("best"), nb::arg("low"), nb::arg("high"), nb::arg("evaluations"),
             nb::arg("turn") = nb::none())
        .def("improvements", &LocalGP::improvements, nb::arg("x"), nb::arg("best"), nb::arg("origin"), nb::arg("scale"), nb::arg("turn").none(),
             nb::arg("low"), nb::arg("high"), nb::arg("count"), nb::arg("evaluations"))
        .def("draw", &LocalGP::draw)
        .def("stretch", &LocalGP::stretch)
        .def("axes", &LocalGP::axes)
        .def("stretched", &LocalGP::stretched)
        .def("metric_slopes", &LocalGP::metric_slopes)
        .def("fitted", &LocalGP::fitted)
        .def_prop_ro("at", [](const LocalGP &gp) { return gp.at(); })
        .def_prop_ro("Z", [](const LocalGP &gp) { return gp.z(); }, nb::rv_policy::automatic)
        .def_prop_ro("Y", [](const LocalGP &gp) { return gp.versions(); }, nb::rv_policy::automatic)
        .def_prop_ro("jacobian", [](const LocalGP &gp) { return gp.jacobians(); }, nb::rv_policy::automatic)
        .def_prop_ro("y", [](const LocalGP &gp) { return gp.y(); }, nb::rv_policy::automatic)
        .def_prop_ro("hyperparameters", &LocalGP::hyperparameters);
    m.def("shaped", shaped_model, nb::arg("points"), nb::arg("y"), nb::arg("origin"), nb::arg("stretch").none(), nb::arg("turn").none(),
          nb::arg("lengths"), nb::arg("trends"), nb::arg("noises"), nb::arg("start"), nb::arg("warps"), nb::arg("earned"), nb::arg("rule"),
          nb::arg("evaluations"), nb::arg("turns"), nb::arg("learns"), nb::arg("instructions") = "",
          "A model in coordinates of its own; boke.shape has its definition.");
}
