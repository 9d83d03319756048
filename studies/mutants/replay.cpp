// Replays recorded inputs on a design and on each of its mutants, up to the first difference.
//
// Arguments: numbers of mutants as first,last or a list; then for every run of the design a file of
// rows and the kind of each output. A line a mutant and run that shows a difference is printed:
// "mutant run row kind", where kind is 0 for a result that is wrong and 1 for anything else.
#include "Vtop.h"
#include "pins.h"
#include "verilated.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

static int chosen = 0;
extern "C" int selected_mutant() { return chosen; }

using Row = std::vector<uint32_t>;
enum Kind { IGNORED = -1, RESULT = 0, CONTROL = 1, PAYLOAD = 2 };

struct Output {
    int offset, words, kind, valid;
};

static std::vector<uint32_t> read_rows(const char* name) {
    FILE* file = std::fopen(name, "rb");
    if (!file) std::exit(2);
    std::fseek(file, 0, SEEK_END);
    std::vector<uint32_t> words(std::ftell(file) / 4);
    std::rewind(file);
    if (std::fread(words.data(), 4, words.size(), file) != words.size()) std::exit(2);
    std::fclose(file);
    return words;
}

template <typename See>
static void replay(const std::vector<uint32_t>& inputs, See see) {
    VerilatedContext context;
    const auto top = std::make_unique<Vtop>(&context);
    const size_t rows = inputs.size() / IN_WORDS;
    uint32_t outputs[OUT_WORDS];
#if CLOCKED
    top->clk = 0;
#endif
    for (size_t row = 0; row < rows; ++row) {
        put(*top, &inputs[row * IN_WORDS]);
        top->eval();
        take(*top, outputs);
        if (!see(row, outputs)) break;
#if CLOCKED
        top->clk = 1;
        top->eval();
        top->clk = 0;
#endif
    }
}

int main(int count, char** arguments) {
    std::vector<int> mutants;
    for (char* next = arguments[1]; *next;) {
        mutants.push_back(std::strtol(next, &next, 10));
        if (*next) ++next;
    }
    std::vector<bool> found(1 << 16);
    for (int run = 0; 2 + 2 * run + 1 < count; ++run) {
        const std::vector<uint32_t> inputs = read_rows(arguments[2 + 2 * run]);
        std::vector<Output> kinds OUTPUTS_TABLE;
        const char* kind = arguments[3 + 2 * run];
        for (Output& output : kinds) {
            char* end;
            output.kind = std::strtol(kind, &end, 10);
            output.valid = std::strtol(end + 1, &end, 10);
            kind = *end ? end + 1 : end;
        }
        const size_t rows = inputs.size() / IN_WORDS;
        std::vector<uint32_t> right(rows * OUT_WORDS);
        chosen = 0;
        replay(inputs, [&](size_t row, const uint32_t* outputs) {
            std::memcpy(&right[row * OUT_WORDS], outputs, sizeof(uint32_t) * OUT_WORDS);
            return true;
        });
        // Before the end of the first reset nobody looks.
        size_t start = 0;
        if (RESET >= 0) {
            while (start < rows && !inputs[start * IN_WORDS + RESET]) ++start;
            if (start > 8) start = 0;
            while (start < rows && inputs[start * IN_WORDS + RESET]) ++start;
        }
        for (int mutant : mutants) {
            if (found[mutant]) continue;
            chosen = mutant;
            replay(inputs, [&](size_t row, const uint32_t* outputs) {
                const uint32_t* known = &right[row * OUT_WORDS];
                if (row < start || !std::memcmp(known, outputs, sizeof(uint32_t) * OUT_WORDS))
                    return true;
                bool control = false, wrong = false;
                for (const Output& output : kinds) {
                    if (!std::memcmp(known + output.offset, outputs + output.offset,
                                     sizeof(uint32_t) * output.words))
                        continue;
                    if (output.kind == RESULT) wrong = true;
                    if (output.kind == CONTROL) control = true;
                    if (output.kind == PAYLOAD && (known[output.valid] & 1)) wrong = true;
                }
                if (!control && !wrong) return true;
                std::printf("%d %d %zu %d\n", mutant, run, row, control ? 1 : 0);
                std::fflush(stdout);
                if (!control) found[mutant] = true;
                return false;
            });
        }
    }
    return 0;
}
