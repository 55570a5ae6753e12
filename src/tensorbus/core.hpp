#pragma once

// Includes all of the core, for tensorbus._core and the benchmarks. Programs include
// <tensorbus/tensorbus.hpp>, which calls the same classes through the C interface.
#include <tensorbus/values/dtype.hpp>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/message.hpp>
#include <tensorbus/values/message_type.hpp>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/stats.hpp>
#include <tensorbus/values/value.hpp>

#include "tensorbus/bus/ipc.hpp"
#include "tensorbus/bus/listing.hpp"
#include "tensorbus/bus/participant.hpp"
#include "tensorbus/bus/publish/loan.hpp"
#include "tensorbus/bus/publisher.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tensorbus/bus/share.hpp"
#include "tensorbus/bus/share/handle.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/bus/subscriber.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/tensor/layout.hpp"
