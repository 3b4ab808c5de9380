// Every conformance kit: does what you plugged in keep the promises that its concept makes in prose?
//
//   const auto found = dflash::testing::check_model_conformance(model);
//   if (!found.passed()) { ... found.text() ... }
#pragma once

#include <dflash/testing/acceptance.hpp>
#include <dflash/testing/block_policy.hpp>
#include <dflash/testing/drafter.hpp>
#include <dflash/testing/model.hpp>
#include <dflash/testing/report.hpp>
#include <dflash/testing/sampler.hpp>
