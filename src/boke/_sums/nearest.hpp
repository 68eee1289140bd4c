// The nearest of many points by a coarse copy of them: one byte for each number. boke.around has its definition.
#pragma once
#include <nanobind/nanobind.h>

void bind_nearest(nanobind::module_ &m);
