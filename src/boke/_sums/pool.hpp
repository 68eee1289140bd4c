#pragma once
#include <nanobind/nanobind.h>
void bind_pool(nanobind::module_ &m);
