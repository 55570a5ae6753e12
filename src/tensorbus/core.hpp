#pragma once

// All of the core that stands above it: for tensorbus._core and the benchmarks. Programs include
// <tensorbus/tensorbus.hpp>, which calls the same through the C interface.
#include "tensorbus/bus/handle.hpp"
#include "tensorbus/bus/listing.hpp"
#include "tensorbus/bus/loan.hpp"
#include "tensorbus/bus/message.hpp"
#include "tensorbus/bus/options.hpp"
#include "tensorbus/bus/participant.hpp"
#include "tensorbus/bus/publisher.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tensorbus/bus/sample.hpp"
#include "tensorbus/bus/share.hpp"
#include "tensorbus/bus/subscriber.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/tensor/dtype.hpp"
#include "tensorbus/tensor/layout.hpp"
#include "tensorbus/tensor/message_type.hpp"
#include "tensorbus/tensor/value.hpp"
