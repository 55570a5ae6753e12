#pragma once

#include <tensorbus/origin.hpp>  // as programs see it
