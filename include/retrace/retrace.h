// Retrace: gradient checkpointing for LibTorch.
//
//   auto y = retrace::checkpoint(block, x);                // wrap a piece, or
//   retrace::Session session(retrace::every(4));           // name a policy for the whole step
//   auto step = session.step();
//
// Gradients are those of the plain program, bit for bit; only the memory differs.
#pragma once

#include <retrace/cxx20.h>

#include <retrace/budget.h>
#include <retrace/checkpoint.h>
#include <retrace/errors.h>
#include <retrace/memory.h>
#include <retrace/module.h>
#include <retrace/names.h>
#include <retrace/policy.h>
#include <retrace/sequential.h>
#include <retrace/session.h>
#include <retrace/stats.h>
