// A design with mutants, one of which is chosen while it begins.
#pragma once
#include "Vtop.h"
#include "verilated.h"

#include <memory>

static int chosen = 0;
extern "C" int selected_mutant(int module) { return chosen >> 8 == module ? chosen & 255 : 0; }

// Modules that are compiled by themselves are deleted by `final` alone.
struct End {
    void operator()(Vtop* top) const {
        top->final();
        delete top;
    }
};
using Design = std::unique_ptr<Vtop, End>;
