// A design with mutants, one of which is chosen while it begins; or instead what each mutant of a
// module would change is seen.
#pragma once
#include "Vtop.h"
#include "verilated.h"

#include <cstdint>
#include <memory>

static const int ALL = 255;  // in place of a mutant's number: none is chosen, all are watched
static int chosen = 0;
static uint32_t seen = 0;  // a bit for each mutant
static bool is_watched = false;  // if not, nothing is known
extern "C" int selected_mutant(int module) { return chosen >> 8 == module ? chosen & 255 : 0; }
extern "C" void see_mutants(int changes) {
    seen |= changes;
    is_watched = true;
}

// Watch all mutants of a module, of which one is given: which of them would change anything?
static void see_all(int mutant) {
    chosen = mutant | ALL;
    seen = 0;
    is_watched = false;
}
static bool was_seen(int mutant) { return !is_watched || seen >> (mutant & 255) & 1; }

// Modules that are compiled by themselves are deleted by `final` alone.
struct End {
    void operator()(Vtop* top) const {
        top->final();
        delete top;
    }
};
using Design = std::unique_ptr<Vtop, End>;
