#pragma once

#include <tensorbus/message.hpp>  // as programs see it

#include "tensorbus/tensor/layout.hpp"
